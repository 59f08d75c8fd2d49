//! Counts the frames that a worker had received, and that it has not taken when it ends.
//!
//! Before the end, programs leave everything to the kernel, and workers have a second for what they
//! had received. So this is for workers that were too slow, or that have lost a port.
//!
//! The sockets' frames are counted here. What pipes contain is the sum of
//! [`in_pipes`](super::WorkerTotals::in_pipes) over all workers when all have ended: another worker
//! may still put frames into a pipe after this one has ended.

use slipring_datapath::queues::WorkerQueues;
use slipring_ring::RxRing;

use super::RouteWorker;

/// How often a socket is read at most: its ring and the kernel's together do not hold more.
const MAX_SYNCS: usize = 16;

impl RouteWorker {
    /// Takes and counts the frames of all sockets that programs hand frames to.
    pub(super) fn count_unread(&mut self, queues: &mut WorkerQueues) {
        for (input, port) in self.ports.of_queue.iter().enumerate() {
            let Some(unread) = port.and_then(|it| self.totals.unread.get_mut(usize::from(it.0)))
            else {
                continue;
            };
            for _ in 0..MAX_SYNCS {
                // A lost port has no frames.
                if !queues[input].receive().unwrap_or_default() {
                    break;
                }
                let count = |_: &mut RxRing, _, _| {
                    *unread += 1;
                    true
                };
                queues[input].take_frames(u32::MAX, count);
            }
        }
    }
}
