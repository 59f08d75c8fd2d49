//! Reports when a worker that gets no more frames has processed all frames that it had received, or
//! when what it has sent has also left.
//!
//! An iteration of its loop (a turn) looks at all queues. If a turn that begins after the last
//! frame came moves no frame, all were processed: sent, given to the kernel, dropped, or held for a
//! neighbour or in a pipe of the rules. Sent frames have left when the kernel has taken all frames
//! out of the tx rings.

use std::sync::Weak;
use std::sync::mpsc::SyncSender;

use slipring_port::Nanos;

/// Time between two attempts to send frames for which a device has no space.
const RETRY_PERIOD_NS: Nanos = 1_000_000;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainGoal {
    /// The worker has processed all frames that it had received.
    Processed,
    /// The kernel has also taken all frames that the worker has sent.
    Sent,
}

/// The threads that wait until the worker is drained. The `Weak` of a thread that has given up
/// waiting is dangling.
#[derive(Debug, Default)]
pub(crate) struct WorkerDrain(Vec<(DrainGoal, SyncSender<()>, Weak<()>)>);

impl WorkerDrain {
    /// Adds a waiting thread. Called between two turns.
    pub(crate) fn wait(&mut self, goal: DrainGoal, waiter: SyncSender<()>, waits: Weak<()>) {
        self.0.push((goal, waiter, waits));
    }

    /// When the worker must try again to send; `None` if no thread waits for that.
    pub(crate) fn next_ns(&self, turn_start: Nanos) -> Option<Nanos> {
        let is_awaited = self.0.iter().any(|(goal, ..)| *goal == DrainGoal::Sent);
        is_awaited.then_some(turn_start + RETRY_PERIOD_NS)
    }

    /// Whether no thread waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records a turn: whether it found no frames although it was allowed to take some, and whether
    /// the tx rings were empty, too. Forgets threads that no longer wait.
    pub(crate) fn note_turn(&mut self, is_processed: bool, is_sent: bool) {
        self.0.retain(|(goal, waiter, waits)| {
            let is_reached = is_processed && (is_sent || *goal == DrainGoal::Processed);
            if is_reached {
                // This fails if the thread no longer waits. It needs no answer then.
                let _ = waiter.try_send(());
            }
            !is_reached && waits.strong_count() > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_waiting_thread_is_told_after_the_first_turn_without_frames() {
        let ((sender, drained), waits) = (sync_channel(1), Arc::new(()));
        let mut drain = WorkerDrain::default();
        drain.note_turn(true, true);
        drain.wait(DrainGoal::Processed, sender, Arc::downgrade(&waits));
        drain.note_turn(false, true);
        assert!(drained.try_recv().is_err());
        drain.note_turn(true, false);
        assert_eq!(drained.try_recv(), Ok(()));
        assert!(drain.is_empty());
    }

    #[test]
    fn a_thread_that_waits_for_sent_frames_is_told_when_the_rings_are_empty() {
        let ((sender, drained), waits) = (sync_channel(1), Arc::new(()));
        let mut drain = WorkerDrain::default();
        drain.wait(DrainGoal::Sent, sender, Arc::downgrade(&waits));
        assert_eq!(drain.next_ns(5), Some(5 + RETRY_PERIOD_NS));
        for (is_processed, is_sent) in [(true, false), (false, true)] {
            drain.note_turn(is_processed, is_sent);
            assert!(drained.try_recv().is_err());
        }
        drain.note_turn(true, true);
        assert_eq!((drained.try_recv(), drain.next_ns(5)), (Ok(()), None));
    }
    #[test]
    fn a_thread_that_has_given_up_waiting_no_longer_wakes_the_worker() {
        let ((sender, _), waits) = (sync_channel(1), Arc::new(()));
        let mut drain = WorkerDrain::default();
        drain.wait(DrainGoal::Sent, sender, Arc::downgrade(&waits));
        drain.note_turn(true, false);
        assert_eq!(drain.next_ns(5), Some(5 + RETRY_PERIOD_NS));
        drop(waits);
        drain.note_turn(true, false);
        assert!(drain.is_empty() && drain.next_ns(5).is_none());
    }
}
