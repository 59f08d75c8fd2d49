//! The floor of every call to another process: two threads on one CPU that wake each other in turn.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::measure::{PROGRAM_CPU, Reading, Why, on_cpu, pin, tally};
use super::row::Bout;

/// What it is called in the table.
pub(super) const NAME: &str = "eventfds, one CPU";

/// Nanoseconds from asking to being answered.
pub(super) fn round_trip() -> Result<Bout, Why> {
    let bells = [bell()?, bell()?];
    Ok(Box::new(move |time| measure(&bells, time)))
}

fn bell() -> Result<OwnedFd, Why> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}

fn measure([ask, answer]: &[OwnedFd; 2], time: Duration) -> Result<Reading, Why> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(PROGRAM_CPU);
            while hear(ask).is_ok() && !done.load(Ordering::Relaxed) && ring(answer).is_ok() {}
        });
        let asked = on_cpu(PROGRAM_CPU, || tally(time, || ring(ask).and_then(|()| hear(answer))));
        done.store(true, Ordering::Relaxed);
        ring(ask)?;
        let tally = asked?;
        Ok(Reading::of(tally.wall as f64 / tally.packets.max(1) as f64))
    })
}

fn ring(bell: &OwnedFd) -> Result<(), Why> {
    rustix::io::write(bell, &1u64.to_ne_bytes())?;
    Ok(())
}

fn hear(bell: &OwnedFd) -> Result<u64, Why> {
    rustix::io::read(bell, &mut [0; 8])?;
    Ok(1)
}
