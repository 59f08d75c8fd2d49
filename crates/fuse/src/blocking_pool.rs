//! Performs calls that may wait for a client. Each user has a few threads, which are started when
//! needed.
//!
//! A client may pass an address whose page never arrives. The thread that performs the call is then
//! blocked. Enough such calls block all threads of one user, and so all calls of this user in this
//! pool. Calls of other users are not affected.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Maximum number of calls of one user that run at the same time.
const MAX_THREADS_PER_USER: usize = 8;

type BlockingCall = Box<dyn FnOnce() + Send>;

/// The threads and queued calls of all users.
#[derive(Default)]
pub(crate) struct BlockingPool {
    users: Mutex<HashMap<u32, UserCalls>>,
}

#[derive(Default)]
struct UserCalls {
    busy: usize,
    waiting: VecDeque<BlockingCall>,
}

impl std::fmt::Debug for BlockingPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingPool").finish_non_exhaustive()
    }
}

impl BlockingPool {
    /// Queues `call`, to be run by one of this user's threads after the user's earlier calls have
    /// started. Starts a thread unless the user already has the maximum number.
    pub(crate) fn submit(self: &Arc<Self>, uid: u32, call: impl FnOnce() + Send + 'static) {
        let mut users = self.lock();
        let queue = users.entry(uid).or_default();
        queue.waiting.push_back(Box::new(call));
        if queue.busy == MAX_THREADS_PER_USER {
            return;
        }
        queue.busy += 1;
        drop(users);
        let pool = self.clone();
        let spawned =
            thread::Builder::new().name("fuse-blocking".into()).spawn(move || pool.work(uid));
        if spawned.is_err() {
            // If no thread can be started, this thread runs the queued calls.
            self.work(uid);
        }
    }

    /// Runs the user's queued calls until none is left.
    fn work(&self, uid: u32) {
        while let Some(call) = self.next(uid) {
            call();
        }
    }

    fn next(&self, uid: u32) -> Option<BlockingCall> {
        let mut users = self.lock();
        let queue = users.get_mut(&uid)?;
        let call = queue.waiting.pop_front();
        if call.is_none() {
            queue.busy -= 1;
            if queue.busy == 0 {
                users.remove(&uid);
            }
        }
        call
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, UserCalls>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_user_whose_calls_hang_delays_only_himself() {
        let pool = Arc::<BlockingPool>::default();
        let (hanging, done) = (Arc::new(Mutex::new(())), channel());
        let held = hanging.lock().unwrap();
        for _ in 0..2 * MAX_THREADS_PER_USER {
            let hanging = hanging.clone();
            let done = done.0.clone();
            pool.submit(1, move || {
                drop(hanging.lock());
                done.send(1).unwrap();
            });
        }
        let other = done.0.clone();
        pool.submit(2, move || other.send(2).unwrap());
        assert_eq!(done.1.recv(), Ok(2));
        drop(held);
        assert_eq!(
            done.1.iter().take(2 * MAX_THREADS_PER_USER).sum::<usize>(),
            2 * MAX_THREADS_PER_USER
        );
    }
}
