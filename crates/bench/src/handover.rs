//! The floor of every call to another process: the least that any implementation must do. Two
//! threads on one CPU wake each other in turn.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::measure::{BenchError, BenchReading, PROGRAM_CPU, on_cpu, pin, tally};
use super::row::BenchRound;

/// The name of this floor in the table.
pub(super) const FLOOR_NAME: &str = "eventfds, one CPU";

/// Measures the nanoseconds from a request to its reply.
pub(super) fn round_trip() -> Result<BenchRound, BenchError> {
    let bells = [new_eventfd()?, new_eventfd()?];
    Ok(Box::new(move |time| measure(&bells, time)))
}

fn new_eventfd() -> Result<OwnedFd, BenchError> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}

fn measure([ask, answer]: &[OwnedFd; 2], time: Duration) -> Result<BenchReading, BenchError> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(PROGRAM_CPU);
            while wait_signal(ask).is_ok()
                && !done.load(Ordering::Relaxed)
                && signal(answer).is_ok()
            {}
        });
        let asked =
            on_cpu(PROGRAM_CPU, || tally(time, || signal(ask).and_then(|()| wait_signal(answer))));
        done.store(true, Ordering::Relaxed);
        signal(ask)?;
        let tally = asked?;
        Ok(BenchReading::of(tally.wall as f64 / tally.packets.max(1) as f64))
    })
}

fn signal(bell: &OwnedFd) -> Result<(), BenchError> {
    rustix::io::write(bell, &1u64.to_ne_bytes())?;
    Ok(())
}

fn wait_signal(bell: &OwnedFd) -> Result<u64, BenchError> {
    rustix::io::read(bell, &mut [0; 8])?;
    Ok(1)
}
