//! Lets the caller sleep outside of the waiter: in a poll of the waiter's descriptor and others.

use super::{WaitSet, Waiter, poll_queues};
use crate::clock::Nanos;
use crate::error::RunError;

/// The result of [`Waiter::arm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArmResult {
    /// A queue has what the caller waits for, or has just ended: do not sleep.
    Ready,
    /// Nothing is ready: the caller may sleep until this time ([`crate::now`]); `None` for no
    /// limit.
    Until(Option<Nanos>),
}

impl Waiter {
    /// Syncs, and prepares for a sleep of the caller until this waiter's descriptor becomes
    /// readable. The caller must call [`Self::disarm`] next, whatever this returns. `queues` are
    /// those of [`Self::new`].
    ///
    /// # Errors
    /// The [`RunError`] of a queue's sync or of epoll.
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

    /// Ends the sleep that [`Self::arm`] prepared, and syncs. Returns whether a queue has what the
    /// caller waits for, or has just ended.
    ///
    /// # Errors
    /// Same as for [`Self::arm`].
    pub fn disarm(&mut self, queues: &mut (impl WaitSet + ?Sized)) -> Result<bool, RunError> {
        queues.each(&mut |queue, _| {
            queue.after_sleep();
            Ok(())
        })?;
        self.unwatch_edges(queues)?;
        poll_queues(queues)
    }
}
