//! The loop of a thread that moves frames between ports, whatever happens to them on the way.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use slipring_port::{Nanos, Queue, RunError, WaitSet, WaitStrategy, Waiter, now};

use crate::workers::{WorkerTask, WorkersStop};

/// A sleep that nothing ends is ended anyway, to look at everything again.
pub const MAX_SLEEP: Duration = Duration::from_millis(500);
/// How often the drop counts that the kernel keeps are fetched.
const STATS_PERIOD_NS: Nanos = 500_000_000;

/// What one thread has to move.
pub trait PollLoop: WaitSet {
    /// The queues that it waits for.
    fn queues(&self) -> Vec<&dyn Queue>;

    /// Moves one burst of each queue; how many slots or frames that were.
    ///
    /// # Errors
    /// A port that is lost.
    fn step(&mut self) -> Result<u32, RunError>;

    /// Whether no more frames will come, and those that came are on their way.
    fn is_finished(&mut self) -> bool;

    /// What also ends a wait, by becoming readable; [`Self::step`] sees to it.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Gets ready to wait; how long at most.
    fn before_wait(&mut self) -> Duration {
        MAX_SLEEP
    }

    /// Fetches the drop counts that the kernel keeps.
    fn update_stats(&mut self);

    /// Lets frames that wait or are on their way leave, for a bounded time.
    ///
    /// # Errors
    /// A port that is lost.
    fn drain(&mut self) -> Result<(), RunError>;
}

/// The task of a thread that moves frames until it is told to stop, or captures were read
/// through. `command` is whose errors they are.
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
