//! The frame processing of `slipring dedup`.
//!
//! One thread serves all queues, since copies of a frame may arrive on different queues. A frame
//! leaves on the output queue that has the number of its input queue, modulo the number of output
//! queues. All frames of a batch count as having arrived at the same time.

use std::collections::VecDeque;
use std::sync::Arc;

use slipring_datapath::environment::Clock;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::slots::bytes;
use slipring_datapath::worker::{FrameProcessor, Worker};
use slipring_dedup::{Dedup, DedupVerdict};
use slipring_port::{Nanos, Queue, RunError};

use super::report::SharedDedupStats;

/// Returns two random words. They are the key of the hash of frames, so that senders cannot predict
/// the hash.
pub(super) fn secret() -> [u64; 2] {
    [0, 1].map(|_| slipring_ring::secret_word())
}

/// How frames are forwarded.
#[derive(Debug, Clone, Copy)]
pub(super) struct DedupOptions {
    /// Maximum slots moved at a time; values below 64 count as 64.
    pub(super) burst: u32,
    /// Whether to exchange buffers if both rings are in one region.
    pub(super) may_swap: bool,
    /// Hold mode: whether frames wait until they leave the window.
    pub(super) hold: bool,
}

/// Drops duplicates by means of a window of recent frames. The worker's queues are those of the
/// output, followed by those of the inputs.
pub(super) struct DedupProcessor {
    /// Number of output queues, which come first among the worker's queues.
    outputs: usize,
    dedup: Dedup,
    options: DedupOptions,
    /// Hold mode: the index of the output queue of each frame in the window, oldest first.
    window_outputs: VecDeque<usize>,
    /// Hold mode: whether the oldest frame is due, but the output ring has no space for it.
    is_late: bool,
    stats: Arc<SharedDedupStats>,
    scratch: Vec<u8>,
}

/// Creates the worker of the run.
pub(super) fn worker(
    inputs: Vec<Box<dyn Queue>>,
    outputs: Vec<Box<dyn Queue>>,
    dedup: Dedup,
    options: DedupOptions,
    stats: Arc<SharedDedupStats>,
) -> Worker<DedupProcessor> {
    let processor = DedupProcessor {
        outputs: outputs.len(),
        dedup,
        options,
        window_outputs: VecDeque::new(),
        is_late: false,
        stats,
        scratch: Vec::new(),
    };
    let outputs = outputs.into_iter().map(WorkerQueue::output);
    let inputs = inputs.into_iter().map(WorkerQueue::input);
    Worker::new(processor, WorkerQueues::new(outputs.chain(inputs)))
}

impl DedupProcessor {
    /// Hold mode: sends the frames that have left the window; returns their number.
    fn send_due(&mut self, outputs: &mut [WorkerQueue], time: Nanos) -> u32 {
        let mut sent = 0;
        self.is_late = false;
        while self.dedup.due(time).is_some() {
            if !send_oldest(&mut self.dedup, &mut self.window_outputs, outputs) {
                self.is_late = true;
                break;
            }
            sent += 1;
        }
        sent
    }
}

impl FrameProcessor for DedupProcessor {
    /// Takes frames of one input. Drops duplicates; forwards the others or, in hold mode, keeps
    /// them in the window. Returns the number of slots that were taken.
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, clock: &impl Clock) -> u32 {
        let Self { dedup, options, window_outputs, scratch, .. } = self;
        let time = clock.now();
        let (outputs, inputs) = queues.split_at_mut(self.outputs);
        let input = input - outputs.len();
        let output = input % outputs.len();
        inputs[input].take_frames(options.burst, |rx, at, slots| {
            if !options.hold && !outputs[output].has_room(slots) {
                outputs[output].await_room();
                return false;
            }
            let frame = bytes(rx, at, slots, scratch);
            let mut verdict = dedup.offer(time, frame);
            while verdict == DedupVerdict::Full && send_oldest(dedup, window_outputs, outputs) {
                verdict = dedup.offer(time, frame);
            }
            match verdict {
                DedupVerdict::Duplicate => {}
                DedupVerdict::Fresh if options.hold => window_outputs.push_back(output),
                DedupVerdict::Fresh => {
                    let taken = outputs[output].forward_frame(rx, at, slots, options.may_swap);
                    debug_assert!(taken, "there was room");
                }
                DedupVerdict::Full => return false,
            }
            true
        })
    }

    fn before_inputs(&mut self, queues: &mut WorkerQueues, clock: &impl Clock) -> u32 {
        if self.options.hold { self.send_due(queues, clock.now()) } else { 0 }
    }

    /// In hold mode, returns when the oldest frame leaves the window. Returns `None` if that frame
    /// is already due and waits for space in its output ring.
    fn next_due(&self) -> Option<Nanos> {
        if self.options.hold && !self.is_late { self.dedup.due_ns() } else { None }
    }

    /// Returns whether no more frames will come, and all received frames were forwarded.
    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool {
        queues.are_all_exhausted() && (!self.options.hold || self.dedup.is_empty())
    }

    fn drain(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> Result<bool, RunError> {
        while self.options.hold && send_oldest(&mut self.dedup, &mut self.window_outputs, queues) {}
        Ok(self.window_outputs.is_empty())
    }

    fn publish(&mut self) {
        self.stats.publish(&self.dedup);
    }
}

/// Sends the oldest frame in the window. Returns false if the window is empty or the output ring
/// has no space. If there is no space, the next wait ends when the ring has space again.
fn send_oldest(
    dedup: &mut Dedup,
    window_outputs: &mut VecDeque<usize>,
    outputs: &mut [WorkerQueue],
) -> bool {
    let (Some(frame), Some(&output)) = (dedup.oldest(), window_outputs.front()) else {
        return false;
    };
    if !outputs[output].copy_frame(frame) {
        outputs[output].await_room();
        return false;
    }
    dedup.release();
    window_outputs.pop_front();
    true
}
