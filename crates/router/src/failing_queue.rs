//! A queue for tests, whose interface is lost after some syncs.

use std::sync::Arc;

use slipring_port::{Queue, QueueCounters, QueueRings, RunCause, RunError, WaitFds};

/// A queue that passes some syncs on, and fails all later ones.
pub(super) struct FailingQueue {
    queue: Box<dyn Queue>,
    syncs_left: u32,
    cause: fn() -> RunCause,
}

impl FailingQueue {
    /// Wraps a queue, which then fails after `syncs` syncs, in either direction, for this cause.
    pub(super) fn new(queue: Box<dyn Queue>, syncs: u32, cause: fn() -> RunCause) -> Self {
        Self { queue, syncs_left: syncs, cause }
    }

    fn sync(&mut self, sync: fn(&mut dyn Queue) -> Result<(), RunError>) -> Result<(), RunError> {
        let Some(left) = self.syncs_left.checked_sub(1) else {
            return Err(RunError { port: "r0".into(), cause: (self.cause)() });
        };
        self.syncs_left = left;
        sync(&mut *self.queue)
    }
}

impl Queue for FailingQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        self.queue.rings()
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.sync(|queue| queue.tx_sync())
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.sync(|queue| queue.rx_sync())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds::default()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.queue.counters()
    }
}
