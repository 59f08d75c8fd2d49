//! A queue that outlives its interface, with a gate that a takeover closes.
//!
//! Deleting one interface must not end the forwarding between the others. The routes of a deleted
//! interface go with it, so its queue is idle from then on.

use std::sync::Arc;

use slipring_port::{
    Interest, Nanos, Queue, QueueCounters, QueueRings, RunCause, RunError, WaitFds,
};

use super::gate::GateWatch;

/// A queue that does nothing any more after its interface was deleted.
pub(super) struct SurvivingQueue {
    queue: Box<dyn Queue>,
    /// The gate that a takeover closes; `None` for a queue that is not handed over.
    gate: Option<GateWatch>,
    is_gone: bool,
}

impl SurvivingQueue {
    pub(super) fn new(queue: Box<dyn Queue>, gate: Option<GateWatch>) -> Self {
        Self { queue, gate, is_gone: false }
    }

    fn survive(&mut self, synced: Result<(), RunError>) -> Result<(), RunError> {
        match synced {
            Err(RunError { cause: RunCause::Vanished, .. }) => {
                self.is_gone = true;
                Ok(())
            }
            synced => synced,
        }
    }
}

impl Queue for SurvivingQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        self.queue.rings()
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        if self.is_gone {
            return Ok(());
        }
        let synced = self.queue.tx_sync();
        self.survive(synced)
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let Self { queue, gate, is_gone } = self;
        if *is_gone || gate.as_mut().is_some_and(|gate| !gate.admits(&mut **queue)) {
            return Ok(());
        }
        let synced = self.queue.rx_sync();
        self.survive(synced)
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        self.queue.wait_fds()
    }

    fn deadline(&self) -> Option<Nanos> {
        if self.is_gone { None } else { self.queue.deadline() }
    }

    fn is_link_down(&self) -> bool {
        self.is_gone || self.queue.is_link_down()
    }

    fn before_sleep(&mut self, interest: Interest) {
        self.queue.before_sleep(interest);
    }

    fn after_sleep(&mut self) {
        self.queue.after_sleep();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.queue.counters()
    }

    fn unsent(&mut self) -> u64 {
        self.queue.unsent()
    }

    fn update_stats(&mut self) {
        if !self.is_gone && self.gate.as_ref().is_none_or(GateWatch::is_open) {
            self.queue.update_stats();
        }
    }

    fn catch_up(&mut self) {
        self.queue.catch_up();
    }
}
