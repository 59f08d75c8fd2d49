//! The frame processing of `slipring bridge`.

use slipring_datapath::environment::Clock;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::worker::{FrameProcessor, Worker};
use slipring_port::Queue;
use slipring_ring::{RxRing, TxRing};

/// How frames pass from ring to ring: [`slipring_ring::forward`] or [`slipring_ring::copy`].
pub(crate) type ForwardFn = fn(&mut RxRing, &mut TxRing, u32) -> u32;

/// Forwards the frames of each queue of a worker to another queue, or back to the same queue.
pub(crate) struct BridgeProcessor {
    /// For each input, the queue to which its frames go.
    outputs: Vec<usize>,
    /// Maximum slots moved at a time.
    burst: u32,
    /// The function that moves frames: by exchanging buffers, or by copying.
    forward: ForwardFn,
}

/// Creates the worker of one thread. It forwards in both directions: from queue `i` of one side to
/// queue `i` of the other side, modulo the number of queues there. If `right` is empty, frames of
/// the left side are sent back on their queue.
pub(crate) fn worker(
    left: Vec<Box<dyn Queue>>,
    right: Vec<Box<dyn Queue>>,
    burst: u32,
    forward: ForwardFn,
) -> Worker<BridgeProcessor> {
    let (lefts, rights) = (left.len(), right.len());
    let outputs = match rights {
        0 => (0..lefts).collect(),
        _ => {
            let targets = (0..lefts).map(|i| lefts + i % rights);
            targets.chain((0..rights).map(|i| i % lefts)).collect()
        }
    };
    let queues = left.into_iter().chain(right).map(WorkerQueue::input);
    Worker::new(BridgeProcessor { outputs, burst, forward }, WorkerQueues::new(queues))
}

impl FrameProcessor for BridgeProcessor {
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, _: &impl Clock) -> u32 {
        let output = self.outputs[input];
        let (rx, tx) = queues.ring_pair(input, output);
        let moved = (self.forward)(rx, tx, self.burst);
        if rx.avail() > 0 && tx.avail() == 0 {
            queues[input].block();
            queues[output].await_room();
        }
        moved
    }

    /// Returns whether a queue has ended, as at the end of a capture, and all its frames were
    /// forwarded.
    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool {
        queues.is_any_exhausted()
    }
}
