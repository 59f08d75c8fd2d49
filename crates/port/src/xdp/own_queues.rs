//! The queues to which this process has bound AF_XDP sockets. Many kernels do not list these
//! sockets.

use std::sync::{Mutex, PoisonError};

use super::bound::BoundQueue;
use super::device_key::DeviceKey;

/// One element for each socket.
static QUEUES: Mutex<Vec<(DeviceKey, u32)>> = Mutex::new(Vec::new());

/// The registration of a bound socket, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct OwnQueue(DeviceKey, u32);

impl OwnQueue {
    /// Registers a socket that is bound to a queue of this thread's network namespace.
    pub(super) fn register(BoundQueue { ifindex, queue }: BoundQueue) -> Self {
        let device = DeviceKey::of(ifindex);
        QUEUES.lock().unwrap_or_else(PoisonError::into_inner).push((device, queue));
        Self(device, queue)
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = queues.iter().position(|it| *it == (self.0, self.1)) {
            queues.swap_remove(at);
        }
    }
}

/// Returns whether a socket of this process is bound to a queue of this thread's network namespace.
pub(super) fn contains(BoundQueue { ifindex, queue }: BoundQueue) -> bool {
    let wanted = (DeviceKey::of(ifindex), queue);
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner).contains(&wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_this_process_s_until_its_last_socket_is_closed() {
        // No interface has this index.
        let queue = |queue| BoundQueue { ifindex: u32::MAX, queue };
        let first = OwnQueue::register(queue(3));
        let second = OwnQueue::register(queue(3));
        assert!(contains(queue(3)) && !contains(queue(4)));
        drop(first);
        assert!(contains(queue(3)));
        drop(second);
        assert!(!contains(queue(3)));
    }
}
