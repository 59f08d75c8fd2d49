//! The loop of `slipring dedup`.
//!
//! One thread serves all queues, since copies of a frame may arrive on different ones. A frame
//! leaves on the queue with the number of its input queue. All frames of a batch have the same
//! arrival time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use slipring_dedup::{Dedup, DedupVerdict};
use slipring_port::{Interest, Nanos, Queue, RunError, Visit, WaitSet, now};

use super::report::SharedDedupStats;
use slipring_datapath::poll_loop::{MAX_SLEEP, PollLoop};
use slipring_datapath::slots::{BatchedTxQueue, bytes, slots_of, whole_frames};

/// Maximum time for frames to leave at the end.
const DRAIN_TIMEOUT_NS: Nanos = 100_000_000;

/// Returns two words that no other process knows.
pub(super) fn secret() -> [u64; 2] {
    [0, 1].map(|_| slipring_ring::secret_word())
}

/// How frames are forwarded.
#[derive(Debug, Clone, Copy)]
pub(super) struct DedupOptions {
    /// Maximum slots moved at a time.
    pub(super) burst: u32,
    /// Whether to exchange buffers if both rings are in one region.
    pub(super) may_swap: bool,
    /// Whether frames wait until they leave the window.
    pub(super) hold: bool,
}

/// All queues of both ports, and the window.
pub(super) struct DedupWorker {
    inputs: Vec<Box<dyn Queue>>,
    outputs: Vec<BatchedTxQueue>,
    dedup: Dedup,
    options: DedupOptions,
    /// Hold mode: the output of each frame in the window, oldest first.
    window_outputs: VecDeque<usize>,
    /// For each input, whether a frame waits there for its output.
    blocked: Vec<bool>,
    stats: Arc<SharedDedupStats>,
    scratch: Vec<u8>,
}

impl DedupWorker {
    pub(super) fn new(
        inputs: Vec<Box<dyn Queue>>,
        outputs: Vec<Box<dyn Queue>>,
        dedup: Dedup,
        options: DedupOptions,
        stats: Arc<SharedDedupStats>,
    ) -> Self {
        let blocked = vec![false; inputs.len()];
        let outputs = outputs.into_iter().map(BatchedTxQueue::new).collect();
        let (window_outputs, scratch) = (VecDeque::new(), Vec::new());
        Self { inputs, outputs, dedup, options, window_outputs, blocked, stats, scratch }
    }

    /// Checks the frames of one input; returns the number of their slots.
    fn process_input(&mut self, input: usize, time: Nanos) -> u32 {
        let output = input % self.outputs.len();
        let rx = self.inputs[input].rings().rx;
        let end = whole_frames(rx, self.options.burst);
        let mut at = 0;
        self.blocked[input] = false;
        while at < end {
            let slots = slots_of(rx, at, end);
            if !self.options.hold && !self.outputs[output].has_room(slots) {
                self.blocked[input] = true;
                break;
            }
            let frame = bytes(rx, at, slots, &mut self.scratch);
            let mut verdict = self.dedup.offer(time, frame);
            while verdict == DedupVerdict::Full
                && send_oldest(&mut self.dedup, &mut self.window_outputs, &mut self.outputs)
            {
                verdict = self.dedup.offer(time, frame);
            }
            match verdict {
                DedupVerdict::Duplicate => {}
                DedupVerdict::Fresh if self.options.hold => self.window_outputs.push_back(output),
                DedupVerdict::Fresh => {
                    let taken =
                        self.outputs[output].forward_frame(rx, at, slots, self.options.may_swap);
                    debug_assert!(taken, "there was room");
                }
                DedupVerdict::Full => {
                    self.blocked[input] = true;
                    break;
                }
            }
            at += slots;
        }
        rx.advance(at);
        at
    }

    /// Hold mode: sends the frames that have left the window; returns their number.
    fn send_due(&mut self, time: Nanos) -> u32 {
        let mut sent = 0;
        while self.options.hold
            && self.dedup.due(time).is_some()
            && send_oldest(&mut self.dedup, &mut self.window_outputs, &mut self.outputs)
        {
            sent += 1;
        }
        sent
    }
}

impl PollLoop for DedupWorker {
    fn queues(&self) -> Vec<&dyn Queue> {
        let outputs = self.outputs.iter().map(|output| &output.queue);
        self.inputs.iter().chain(outputs).map(AsRef::as_ref).collect()
    }

    /// Forwards one burst of each queue; returns the number of slots processed and frames sent.
    fn step(&mut self) -> Result<u32, RunError> {
        self.outputs.iter_mut().try_for_each(BatchedTxQueue::reclaim)?;
        let mut moved = self.send_due(now());
        for input in 0..self.inputs.len() {
            self.inputs[input].rx_sync()?;
            moved += self.process_input(input, now());
        }
        self.outputs.iter_mut().try_for_each(BatchedTxQueue::flush)?;
        self.stats.publish(&self.dedup);
        Ok(moved)
    }

    /// Returns the time until the oldest frame leaves the window, in hold mode.
    fn before_wait(&mut self) -> Duration {
        let due_ns = if self.options.hold { self.dedup.due_ns() } else { None };
        let until = due_ns.map(|due| Duration::from_nanos(due.saturating_sub(now())));
        until.map_or(MAX_SLEEP, |time| time.min(MAX_SLEEP))
    }

    /// Whether no more frames will come, and all received frames were forwarded.
    fn is_finished(&mut self) -> bool {
        let ended = self.inputs.iter_mut().all(|q| q.ended() && q.rings().rx.avail() == 0);
        ended && (!self.options.hold || self.dedup.is_empty())
    }

    /// Waits, for a bounded time, until held and queued frames have left.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + DRAIN_TIMEOUT_NS;
        loop {
            while self.options.hold
                && send_oldest(&mut self.dedup, &mut self.window_outputs, &mut self.outputs)
            {
            }
            self.outputs.iter_mut().try_for_each(BatchedTxQueue::flush)?;
            let all_left = self.window_outputs.is_empty()
                && self.outputs.iter_mut().all(BatchedTxQueue::is_idle);
            if all_left || now() >= until {
                break;
            }
        }
        self.update_stats();
        self.stats.publish(&self.dedup);
        Ok(())
    }

    fn update_stats(&mut self) {
        let outputs = self.outputs.iter_mut().map(|output| &mut output.queue);
        self.inputs.iter_mut().chain(outputs).for_each(|queue| queue.update_stats());
    }
}

/// Sends the oldest frame in the window; returns false if there is none, or no room.
fn send_oldest(
    dedup: &mut Dedup,
    held: &mut VecDeque<usize>,
    outputs: &mut [BatchedTxQueue],
) -> bool {
    let (Some(frame), Some(&output)) = (dedup.oldest(), held.front()) else { return false };
    if !outputs[output].copy_frame(frame) {
        return false;
    }
    dedup.release();
    held.pop_front();
    true
}

impl WaitSet for DedupWorker {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        let late = self.options.hold && self.dedup.due(now()).is_some();
        let waits_for_room = late || self.blocked.contains(&true);
        for (queue, &blocked) in self.inputs.iter_mut().zip(&self.blocked) {
            visit(&mut **queue, if blocked { Interest::NONE } else { Interest::RX })?;
        }
        let room = if waits_for_room { Interest::TX } else { Interest::NONE };
        self.outputs.iter_mut().try_for_each(|output| visit(&mut *output.queue, room))
    }
}
