//! Measures the cost of the checks in the loops of the safe ring API: a pipe of the same size is
//! also driven by loops over raw pointers. Both sync by the safe API.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slipring_ring::raw::{RawFrame, RawReader, RawWriter, pipe};

use super::frame;
use super::measure::{
    BenchError, BenchReading, BenchTally, FEEDER_CPU, PROGRAM_CPU, on_cpu, pin, tally, thread_cpu,
};
use super::pipe_ends::{ReadMode, SLOTS_PER_RING, two_threads};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const CONTENDER_NAME: &str = "raw pointers";

/// The row for one batch size.
pub(crate) fn row(batch: u32) -> BenchRow {
    let title = format!("safe API beside raw, 2 threads, 64 B, batch {batch}");
    BenchRow::new(format!("raw-{batch}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || two_threads::<64>(ReadMode::Swap, batch))
        .with(ContenderRole::Floor, CONTENDER_NAME, move || round(batch))
        .goal(GoalMetric::RatioTo(CONTENDER_NAME), 0.97)
}

fn round(batch: u32) -> Result<BenchRound, BenchError> {
    Ok(Box::new(move |time| {
        let (mut writer, mut reader) = pipe(SLOTS_PER_RING)?;
        let (mut written, mut read) = (0, 0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let writing = scope.spawn(|| write(&mut writer, batch, &mut written, &stop));
            let tally = on_cpu(PROGRAM_CPU, || check(&mut reader, batch, &mut read, time));
            stop.store(true, Ordering::Relaxed);
            let cpu = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let tally = tally?;
            Ok(BenchReading::from(BenchTally { cpu: tally.cpu + cpu, ..tally }))
        })
    }))
}

#[inline(never)]
fn write(
    writer: &mut RawWriter,
    batch: u32,
    next: &mut u64,
    stop: &AtomicBool,
) -> Result<u64, BenchError> {
    pin(FEEDER_CPU);
    let cpu = thread_cpu();
    while !stop.load(Ordering::Relaxed) {
        let mut sequence = *next;
        let filled = writer.step(batch, || {
            let frame: RawFrame = std::array::from_fn(|i| sequence.wrapping_add(i as u64));
            sequence += 1;
            frame
        })?;
        *next = sequence;
        if filled == 0 {
            spin_loop();
        }
    }
    Ok(thread_cpu() - cpu)
}

#[inline(never)]
fn check(
    reader: &mut RawReader,
    batch: u32,
    next: &mut u64,
    time: Duration,
) -> Result<BenchTally, BenchError> {
    tally(time, || {
        let (mut sequence, mut right) = (*next, true);
        let count = reader.step(batch, |frame| {
            right &= frame::sums_to(&frame, sequence);
            sequence += 1;
        })?;
        *next = sequence;
        match (right, count) {
            (false, _) => {
                return Err(BenchError::Failed("a frame is lost, doubled or damaged".into()));
            }
            (true, 0) => spin_loop(),
            _ => {}
        }
        Ok(u64::from(count))
    })
}
