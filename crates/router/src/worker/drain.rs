//! Reports when a worker that gets no more frames has processed all frames that it had.
//!
//! An iteration of its loop (a turn) that begins after the last frame was given checks all queues.
//! If all are empty, all frames were processed.

use std::sync::mpsc::SyncSender;

/// The threads that wait until the worker is drained.
#[derive(Debug, Default)]
pub(super) struct WorkerDrain(Vec<SyncSender<()>>);

impl WorkerDrain {
    /// Adds a waiting thread. Called between two turns.
    pub(super) fn wait(&mut self, waiter: SyncSender<()>) {
        self.0.push(waiter);
    }

    /// Records a turn, and whether it found no frames although it was allowed to take some.
    pub(super) fn note_turn(&mut self, is_drained: bool) {
        if is_drained {
            for waiter in self.0.drain(..) {
                // This fails if the thread no longer waits. It needs no answer then.
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
