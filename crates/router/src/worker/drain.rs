//! Tells when a worker to which no more frames are given has processed those that it had got.
//!
//! A turn that begins after the last frame was given looks at all queues. If it finds none, all were
//! processed.

use std::sync::mpsc::SyncSender;

/// The threads that wait for that turn.
#[derive(Debug, Default)]
pub(super) struct WorkerDrain(Vec<SyncSender<()>>);

impl WorkerDrain {
    /// Notes a waiting thread: called between two turns.
    pub(super) fn wait(&mut self, waiter: SyncSender<()>) {
        self.0.push(waiter);
    }

    /// Notes a turn, and whether it found nothing to do although it might take frames.
    pub(super) fn note_turn(&mut self, is_drained: bool) {
        if is_drained {
            for waiter in self.0.drain(..) {
                // A thread that does not wait any more needs no answer.
                let _ = waiter.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_waiting_thread_is_told_after_the_first_turn_without_frames() {
        let (sender, drained) = sync_channel(1);
        let mut drain = WorkerDrain::default();
        drain.note_turn(true);
        drain.wait(sender);
        drain.note_turn(false);
        assert!(drained.try_recv().is_err());
        drain.note_turn(true);
        assert_eq!(drained.try_recv(), Ok(()));
    }
}
