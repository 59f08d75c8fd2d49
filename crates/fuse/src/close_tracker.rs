//! Files that are being closed. A program's `close` returns before the server learns of it. So the
//! next bind of the program could find that the port which it has just closed is still busy.
//! Therefore a request waits until earlier closes of the same user have completed.
//!
//! How long a close takes depends on what it frees, for example a list of a hundred thousand
//! buffers, or an interface. Closes run in a separate blocking pool, so they block no worker. A
//! close never waits for a client, so waiting for it always ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// All closes that are in progress.
#[derive(Debug, Default)]
pub(crate) struct CloseTracker {
    pending: Mutex<PendingCloses>,
    changed: Condvar,
}

/// The user of each close that is in progress, by the number of the close.
#[derive(Debug, Default)]
struct PendingCloses {
    users: BTreeMap<u64, u32>,
    /// The number of the next close.
    next_number: u64,
}

/// A close that is in progress. Dropping this value means that the close is done.
#[derive(Debug)]
pub(crate) struct PendingClose {
    tracker: Arc<CloseTracker>,
    number: u64,
}

impl CloseTracker {
    /// Records that a close of user `uid` begins.
    pub(crate) fn begin(self: &Arc<Self>, uid: u32) -> PendingClose {
        let mut under_way = self.lock();
        let number = under_way.next_number;
        under_way.next_number += 1;
        under_way.users.insert(number, uid);
        PendingClose { tracker: self.clone(), number }
    }

    /// Waits until the closes of user `uid` that have already begun are done.
    pub(crate) fn wait(&self, uid: u32) {
        self.wait_while(|user| user == uid);
    }

    /// Waits until all closes that have already begun are done, of all users.
    pub(crate) fn wait_for_all(&self) {
        self.wait_while(|_| true);
    }

    fn wait_while(&self, meant: impl Fn(u32) -> bool) {
        let under_way = self.lock();
        let next = under_way.next_number;
        let busy = |now: &mut PendingCloses| now.users.range(..next).any(|(_, &user)| meant(user));
        drop(self.changed.wait_while(under_way, busy).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, PendingCloses> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingClose {
    fn drop(&mut self) {
        self.tracker.lock().users.remove(&self.number);
        self.tracker.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, channel};

    use super::*;

    #[test]
    fn a_request_waits_for_earlier_closes_of_its_user_and_for_no_other() {
        let closing = Arc::<CloseTracker>::default();
        let (first, second) = (closing.begin(1), closing.begin(1));
        closing.wait(2);
        let (done, is_done) = channel();
        let waiting = closing.clone();
        let thread = std::thread::spawn(move || {
            waiting.wait(1);
            done.send(()).unwrap();
        });
        drop(second);
        assert_eq!(is_done.try_recv(), Err(TryRecvError::Empty));
        drop(first);
        is_done.recv().unwrap();
        thread.join().unwrap();
        closing.wait(1);
    }

    #[test]
    fn a_close_that_begins_later_is_not_waited_for() {
        let closing = Arc::<CloseTracker>::default();
        let first = closing.begin(1);
        let (begun, has_begun) = channel();
        let waiting = closing.clone();
        let thread = std::thread::spawn(move || {
            // The predicate is called for the first time when the wait has begun, so this message
            // confirms that the wait has begun.
            waiting.wait_while(|_| begun.send(()).is_ok());
        });
        has_begun.recv().unwrap();
        let _later = closing.begin(1);
        drop(first);
        thread.join().unwrap();
    }
}
