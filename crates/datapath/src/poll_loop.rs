//! The loop of a thread that moves frames between ports.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use slipring_port::{Nanos, Queue, RunError, WaitSet, WaitStrategy, Waiter, now};

use crate::workers::{WorkerTask, WorkersStop};

/// Longest sleep; after it, everything is checked again.
pub const MAX_SLEEP: Duration = Duration::from_millis(500);
/// Interval for reading the drop counts that the kernel keeps.
const STATS_PERIOD_NS: Nanos = 500_000_000;

/// The work of one thread.
pub trait PollLoop: WaitSet {
    /// Returns the queues that it waits for.
    fn queues(&self) -> Vec<&dyn Queue>;

    /// Moves one burst of each queue; returns the number of slots or frames.
    ///
    /// # Errors
    /// If a port is lost.
    fn step(&mut self) -> Result<u32, RunError>;

    /// Whether no more frames will come, and all received frames were processed.
    fn is_finished(&mut self) -> bool;

    /// Returns a descriptor that also ends a wait when readable; [`Self::step`] must handle it.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Prepares for a wait; returns its maximum length.
    fn before_wait(&mut self) -> Duration {
        MAX_SLEEP
    }

    /// Reads the drop counts that the kernel keeps.
    fn update_stats(&mut self);

    /// Waits, for a bounded time, until waiting and queued frames have left.
    ///
    /// # Errors
    /// If a port is lost.
    fn drain(&mut self) -> Result<(), RunError>;
}

/// Creates the task of a thread that moves frames until it must stop, or until captures have been
/// read completely. Errors name `command`.
pub fn task(
    command: &'static str,
    mut mover: impl PollLoop + Send + 'static,
    patience: WaitStrategy,
) -> WorkerTask {
    Box::new(move |stop| run(command, &mut mover, patience, stop))
}

fn run(
    command: &'static str,
    mover: &mut impl PollLoop,
    patience: WaitStrategy,
    stop: &WorkersStop,
) -> Result<(), RunError> {
    let failed = |error| RunError::system(command, "wait for frames", error);
    let mut waiter = Waiter::new(mover.queues(), patience).map_err(failed)?;
    waiter.add_fd(stop.doorbell.as_fd()).map_err(failed)?;
    mover.wake_fd().map_or(Ok(()), |bell| waiter.add_fd(bell)).map_err(failed)?;
    let mut next_stats = 0;
    while !stop.is_set() && !mover.is_finished() {
        let longest = mover.before_wait();
        waiter.wait(mover, Some(longest))?;
        while mover.step()? > 0 && !stop.is_set() {}
        if now() >= next_stats {
            mover.update_stats();
            next_stats = now() + STATS_PERIOD_NS;
        }
    }
    mover.drain()
}
