//! How late frames are. A million frames per second pass through pipes, and the emulator spins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use slipring_core::Host;
use slipring_port::{Nanos, OpenOptions, Port, RunError, now};

use super::setup::{DELAY_NS, emulator, plan, wire};
use crate::measure::{BenchError, BenchReading, FEEDER_CPU, PROGRAM_CPU, on_cpu, pin};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

/// Time between two frames, in ns: a million frames per second.
const SEND_INTERVAL_NS: Nanos = 1_000;
const FRAME_BYTES: usize = 64;
/// Position of the timestamp, which follows the Ethernet header.
const STAMP_BYTES: std::ops::Range<usize> = 14..22;

/// Returns one row per quantile.
pub(super) fn rows() -> Vec<BenchRow> {
    let row = |word: &'static str, quantile: f64, bound: f64| {
        let title = format!("emulate, delay error at 1 Mpps, spinning, {word}");
        BenchRow::new(format!("emulate-error-{word}"), title, RowUnit::Nanos)
            .with(ContenderRole::Ours, "slipring", move || round(quantile))
            .with(ContenderRole::Floor, "this machine's timer", move || {
                Ok(Box::new(move |time| Ok(timer(quantile, time))))
            })
            .goal(GoalMetric::Value, bound)
    };
    vec![row("median", 0.5, 200.0), row("p99", 0.99, 5_000.0)]
}

fn round(quantile: f64) -> Result<BenchRound, BenchError> {
    Ok(Box::new(move |time| {
        let names = ["netmap:l{0", "netmap:l}0", "netmap:r{0", "netmap:r}0"];
        let names = names.map(slipring_core::parse).into_iter().collect::<Result<Vec<_>, _>>()?;
        let ports = Host::new().open_all(&names, &OpenOptions::default())?;
        let [mut left, near, far, mut right] = <[Port; 4]>::try_from(ports)
            .map_err(|_| BenchError::Failed("a wrong number of ports".into()))?;
        let mut emulator = emulator(&plan(wire), vec![near, far])?;
        let stop = AtomicBool::new(false);
        let ages = std::thread::scope(|scope| {
            let emulating = scope.spawn(|| {
                pin(PROGRAM_CPU);
                while !stop.load(Ordering::Relaxed) {
                    emulator.turn(now)?;
                }
                Ok::<_, RunError>(())
            });
            let ages = on_cpu(FEEDER_CPU, || feed(&mut left, &mut right, time));
            stop.store(true, Ordering::Relaxed);
            emulating.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<_, BenchError>(ages?)
        })?;
        reading(ages, quantile, &emulator.errors()[0])
    }))
}

/// Combines the lateness that the emulator counts with the lateness at the other end. The latter
/// also contains the time in two pipes and in the thread that sends and receives.
fn reading(
    mut ages: Vec<Nanos>,
    quantile: f64,
    error: &slipring_emulation::Histogram,
) -> Result<BenchReading, BenchError> {
    ages.sort_unstable();
    let Some(least) = ages.first() else {
        return Err(BenchError::Failed("nothing arrived".into()));
    };
    if *least < DELAY_NS {
        return Err(BenchError::Failed(format!("a frame came {} ns early", DELAY_NS - least)));
    }
    let seen = ages[(ages.len() as f64 * quantile) as usize % ages.len()] - DELAY_NS;
    let extra = vec![("seen by the receiver", seen as f64)];
    Ok(BenchReading { value: error.quantile(quantile) as f64, per_cpu_second: None, extra })
}

/// Sends a frame every microsecond on the left, and receives on the right. Returns the ages of the
/// received frames.
fn feed(left: &mut Port, right: &mut Port, time: Duration) -> Result<Vec<Nanos>, RunError> {
    let (left, right) = (&mut left.queues[0], &mut right.queues[0]);
    let mut ages = Vec::with_capacity(time.as_micros() as usize * 2);
    let start = now();
    let until = start + time.as_nanos() as Nanos;
    let mut next = start;
    loop {
        let time = now();
        if time >= until + DELAY_NS {
            return Ok(ages);
        }
        if time >= next && time < until {
            next = next.max(time - 50 * SEND_INTERVAL_NS) + SEND_INTERVAL_NS;
            left.rings().tx.fill(1, |buf| {
                buf[..FRAME_BYTES].fill(0);
                buf[STAMP_BYTES].copy_from_slice(&now().to_ne_bytes());
                FRAME_BYTES
            });
            left.tx_sync()?;
        }
        right.rx_sync()?;
        for frame in right.rings().rx.batch(64).frames() {
            if let Some(stamp) = frame.bytes.get(STAMP_BYTES).and_then(|bytes| bytes.first_chunk())
            {
                ages.push(now() - Nanos::from_ne_bytes(*stamp));
            }
        }
    }
}

/// Measures how late a thread that reads the clock without pause notices that a point in time has
/// come, for points that are 1 µs apart. Returns this quantile of the lateness.
fn timer(quantile: f64, time: Duration) -> BenchReading {
    let mut late = on_cpu(PROGRAM_CPU, || {
        let start = now();
        let until = start + time.as_nanos() as Nanos;
        let (mut late, mut next) = (Vec::with_capacity(time.as_micros() as usize + 1), start);
        loop {
            let time = now();
            if time >= until {
                return late;
            }
            while next <= time {
                late.push(time - next);
                next += SEND_INTERVAL_NS;
            }
        }
    });
    late.sort_unstable();
    let at = (late.len() as f64 * quantile) as usize;
    BenchReading::of(late.get(at).copied().unwrap_or(0) as f64)
}
