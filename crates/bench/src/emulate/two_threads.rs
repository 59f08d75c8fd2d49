//! The two threads of `--pipeline` at full load in one direction. As the floor, one thread copies
//! every frame into a queue, and another thread copies it out.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Duration;

use slipring_cli::Failure;
use slipring_port::{Port, RunError, now};

use super::setup::{DEFAULT_LAG_FRAMES, DELAY_NS, in_flight, plan, run, wire};
use super::{floor, ports};
use crate::measure::{BenchError, BenchReading, BenchTally, FEEDER_CPU, PROGRAM_CPU, on_cpu, pin};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use slipring_emulation::{BurstLimit, Emulator, RealtimeOptions};

const FLOOR_NAME: &str = "copy in, copy out by two";

/// Returns the row for frames of `N` bytes. The goal is at most `bound` times the floor's time per
/// packet.
pub(super) fn row<const N: usize>(bound: f64) -> BenchRow {
    let lag = Rc::new(Cell::new(DEFAULT_LAG_FRAMES));
    let floor_lag = lag.clone();
    let title = format!("emulate, 20 ms, 2 threads, {N} B");
    BenchRow::new(format!("emulate-2t-{N}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || full_load::<N>(lag))
        .with(ContenderRole::Floor, FLOOR_NAME, move || {
            Ok(Box::new(move |time| {
                floor::two_threads::<N>(floor_lag.get(), time).map(BenchReading::from)
            }))
        })
        .goal(GoalMetric::RatioTo(FLOOR_NAME), 1.0 / bound)
}

fn full_load<const N: usize>(lag: Rc<Cell<usize>>) -> Result<BenchRound, BenchError> {
    Ok(Box::new(move |time| {
        let [mut input, mut output] = halves(ports::pair(N as u16)?)?;
        let stop = AtomicBool::new(false);
        let tally = scope(|scope| {
            let feeding = scope.spawn(|| {
                pin(FEEDER_CPU);
                while !stop.load(Ordering::Relaxed) {
                    input.turn(now)?;
                }
                Ok::<_, RunError>(())
            });
            let tally = on_cpu(PROGRAM_CPU, || -> Result<BenchTally, BenchError> {
                run(&mut output, Duration::from_nanos(3 * DELAY_NS))?;
                run(&mut output, time)
            });
            stop.store(true, Ordering::Relaxed);
            feeding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            tally
        })?;
        lag.set(in_flight(&tally) as usize);
        Ok(tally.into())
    }))
}

fn halves(ports: Vec<Port>) -> Result<[Emulator<()>; 2], BenchError> {
    let ports = <[Port; 2]>::try_from(ports)
        .map_err(|ports| BenchError::Failed(format!("there are {} ports", ports.len())))?;
    let options = RealtimeOptions {
        burst: BurstLimit { frames: 64, ..BurstLimit::default() },
        ..RealtimeOptions::default()
    };
    Emulator::pair(ports, &plan(wire), &options, (), now()).map_err(|failure| match failure {
        Failure::Error(error) => BenchError::Failed(error.to_string()),
        Failure::ReaderLeft => BenchError::Failed("nobody reads".into()),
    })
}
