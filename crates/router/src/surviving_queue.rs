//! A queue that outlives its interface, with a gate that a takeover closes.
//!
//! Deleting one interface must not end the forwarding between the others. The routes of a deleted
//! interface go with it, so its queue is idle from then on. What has not left its tx ring is
//! counted immediately, and no thread waits for it.

use std::sync::Arc;

use slipring_port::{
    DropCause, Interest, Nanos, Queue, QueueCounters, QueueRings, RunCause, RunError, WaitFds,
};

use crate::queue_gate::GateWatch;

/// A queue that does nothing any more after its interface was deleted.
pub(crate) struct SurvivingQueue {
    queue: Box<dyn Queue>,
    /// The gate that a takeover closes; `None` for a queue that is not handed over.
    gate: Option<GateWatch>,
    is_gone: bool,
    /// Packets in the tx ring of a deleted interface that were counted as unsent.
    counted: u64,
}

impl SurvivingQueue {
    pub(crate) fn new(queue: Box<dyn Queue>, gate: Option<GateWatch>) -> Self {
        Self { queue, gate, is_gone: false, counted: 0 }
    }

    fn survive(&mut self, synced: Result<(), RunError>) -> Result<(), RunError> {
        match synced {
            Err(RunError { cause: RunCause::Vanished, .. }) => {
                self.is_gone = true;
                self.count_unsent();
                Ok(())
            }
            synced => synced,
        }
    }

    /// Counts the packets that can no longer leave, each once.
    fn count_unsent(&mut self) {
        let unsent = self.unsent();
        self.counted += unsent;
        self.queue.counters().dropped(DropCause::TxUnsent, unsent);
    }
}

impl Queue for SurvivingQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        self.queue.rings()
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        if self.is_gone {
            // Packets may have been on their way to the ring when the interface was deleted, so
            // they are counted here, too.
            self.count_unsent();
            return Ok(());
        }
        let synced = self.queue.tx_sync();
        self.survive(synced)
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let Self { queue, gate, is_gone, .. } = self;
        // The gate is looked at first: a takeover waits for this also at a deleted interface.
        let is_closed = gate.as_mut().is_some_and(|gate| !gate.admits(&mut **queue));
        if is_closed || *is_gone {
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

    /// A deleted interface has ended, so that a wait leaves its descriptor alone: it reports an
    /// error for ever.
    fn ended(&self) -> bool {
        self.is_gone || self.queue.ended()
    }

    fn is_link_down(&self) -> bool {
        self.is_gone || self.queue.is_link_down()
    }

    fn is_gone(&self) -> bool {
        self.is_gone
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
        self.queue.unsent().saturating_sub(self.counted)
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

#[cfg(test)]
mod tests {
    use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
    use slipring_datapath::virtual_time::VirtualTime;

    use super::*;
    use crate::failing_queue::FailingQueue;

    #[test]
    fn what_a_deleted_interface_has_not_sent_is_counted_once_and_keeps_no_thread_waiting() {
        let [port] = VirtualTime::until(Nanos::MAX).ports::<1>(64);
        let queue = FailingQueue::new(port.queue, 0, || RunCause::Vanished);
        let counters = queue.counters().clone();
        let unsent = || {
            let counts = counters.snapshot();
            let unsent = counts.drops().filter(|(cause, _)| *cause == DropCause::TxUnsent);
            unsent.map(|(_, count)| count).sum::<u64>()
        };
        let queue = SurvivingQueue::new(Box::new(queue), None);
        let mut queues = WorkerQueues::new([WorkerQueue::input(Box::new(queue))]);
        assert!(queues[0].copy_frame(&[1; 60]) && queues[0].copy_frame(&[2; 60]));
        assert!(!queues.is_idle());
        queues.flush().unwrap();
        assert!(queues.is_idle());
        assert_eq!(unsent(), 2);
        assert!(queues[0].copy_frame(&[3; 60]));
        queues.flush().unwrap();
        queues.flush().unwrap();
        assert!(queues.is_idle());
        assert_eq!(unsent(), 3);
        queues.count_unsent();
        assert_eq!(unsent(), 3);
    }

    #[test]
    fn a_deleted_interface_has_ended() {
        let [port] = VirtualTime::until(Nanos::MAX).ports::<1>(64);
        let queue = FailingQueue::new(port.queue, 0, || RunCause::Vanished);
        let mut queue = SurvivingQueue::new(Box::new(queue), None);
        assert!(!queue.ended());
        queue.rx_sync().unwrap();
        assert!(queue.ended() && queue.is_link_down());
    }
}
