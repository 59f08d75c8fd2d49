//! Waiting in a loop of the caller's own, with the waiter's descriptor among others.

use super::{WaitSet, Waiter, poll_queues};
use crate::clock::Nanos;
use crate::error::RunError;

/// The result of [`Waiter::arm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArmResult {
    /// A queue satisfies its interest, or has just ended: do not sleep.
    Ready,
    /// Nothing is ready: sleep, but no longer than until this time of [`crate::now`].
    Until(Option<Nanos>),
}

impl Waiter {
    /// Syncs, and prepares for a sleep by the caller until this waiter's descriptor becomes
    /// readable. [`Self::disarm`] must follow, whatever this returns. `queues` are those of
    /// [`Self::new`].
    ///
    /// # Errors
    /// [`RunError`] of a queue's sync.
    pub fn arm(&mut self, queues: &mut (impl WaitSet + ?Sized)) -> Result<ArmResult, RunError> {
        self.register(queues)?;
        queues.each(&mut |queue, interest| {
            queue.before_sleep(interest);
            Ok(())
        })?;
        if poll_queues(queues)? {
            return Ok(ArmResult::Ready);
        }
        Ok(ArmResult::Until(self.sleeps_until(queues, None)))
    }

    /// Ends the sleep that [`Self::arm`] prepared, and syncs. Returns whether a queue satisfies its
    /// interest.
    ///
    /// # Errors
    /// Same as [`Self::arm`].
    pub fn disarm(&mut self, queues: &mut (impl WaitSet + ?Sized)) -> Result<bool, RunError> {
        queues.each(&mut |queue, _| {
            queue.after_sleep();
            Ok(())
        })?;
        self.unwatch_edges(queues)?;
        poll_queues(queues)
    }
}
