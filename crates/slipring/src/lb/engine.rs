//! The frame processing of `slipring lb`. Each thread has some queues of the input, and one queue
//! of each output.
//!
//! Every frame goes to each group. All groups but the last get copies. The last group gets the
//! frame's own buffer, if both rings are in one region. A full output delays no other output: its
//! frames wait in the backlog, or are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipring_balance::{Backlog, FlowSplitter, OutputSpread};
use slipring_datapath::environment::Clock;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::slots::bytes;
use slipring_datapath::worker::FrameProcessor;
use slipring_port::RunError;

/// Counters of one thread for one output.
#[derive(Debug, Default)]
pub(super) struct SharedOutputStats {
    pub(super) forwarded: AtomicU64,
    pub(super) forwarded_bytes: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) waiting: AtomicU64,
}

/// Counters of one thread.
#[derive(Debug, Default)]
pub(super) struct SharedLbStats {
    pub(super) received: AtomicU64,
    pub(super) non_ip: AtomicU64,
    pub(super) free_bufs: AtomicU64,
    /// Outputs of all groups, in the order of the groups.
    pub(super) outputs: Vec<SharedOutputStats>,
}

fn add(counter: &AtomicU64, amount: u64) {
    // Only this thread writes the counter, so a load and a store are enough.
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

/// The indices of a group's outputs among all outputs, and how flows are distributed over them.
#[derive(Debug, Clone)]
pub(super) struct GroupOutputs {
    pub(super) first: usize,
    pub(super) spread: Arc<OutputSpread>,
}

/// Distributes the frames of one thread. The worker's queues are one of each output, followed by
/// the thread's queues of the input.
pub(super) struct LbProcessor {
    pub(super) groups: Vec<GroupOutputs>,
    pub(super) splitter: FlowSplitter,
    pub(super) backlog: Backlog,
    /// Maximum slots received at a time; values below 64 count as 64.
    pub(super) batch: u32,
    pub(super) stats: Arc<SharedLbStats>,
    pub(super) scratch: Vec<u8>,
}

impl LbProcessor {
    /// Sends frames that wait in the backlog; returns their number.
    fn send_backlog(&mut self, outputs: &mut [WorkerQueue]) -> u32 {
        if self.backlog.waiting() == 0 {
            return 0;
        }
        let mut sent = 0;
        for (output, (queue, stats)) in outputs.iter_mut().zip(&self.stats.outputs).enumerate() {
            while let Some(frame) = self.backlog.front(output) {
                if !queue.copy_frame(frame) {
                    break;
                }
                forwarded(stats, frame.len());
                self.backlog.pop(output);
                sent += 1;
            }
        }
        sent
    }

    fn output_count(&self) -> usize {
        self.stats.outputs.len()
    }
}

impl FrameProcessor for LbProcessor {
    /// Distributes the frames of one input; returns the number of their slots.
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, _: &impl Clock) -> u32 {
        let Self { groups, splitter, backlog, batch, stats, scratch } = self;
        let (outputs, inputs) = queues.split_at_mut(stats.outputs.len());
        let (mut received, mut non_ip) = (0, 0);
        let source = &mut inputs[input - outputs.len()];
        let taken = source.take_frames(*batch, |rx, at, slots| {
            let frame = bytes(rx, at, slots, scratch);
            let (flow, len) = (splitter.split(frame), frame.len());
            received += 1;
            non_ip += u64::from(!flow.is_ip);
            for (i, group) in groups.iter().enumerate() {
                let output = group.first + group.spread.output(flow.hash);
                let may_swap = i + 1 == groups.len();
                let is_behind = backlog.waiting_for(output) > 0;
                if !is_behind && outputs[output].forward_frame(rx, at, slots, may_swap) {
                    forwarded(&stats.outputs[output], len);
                } else if let Some(loser) = backlog.push(output, bytes(rx, at, slots, scratch)) {
                    add(&stats.outputs[loser].dropped, 1);
                }
            }
            true
        });
        add(&stats.received, received);
        add(&stats.non_ip, non_ip);
        taken
    }

    /// Sends frames that wait in the backlog; returns their number.
    fn before_inputs(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> u32 {
        self.send_backlog(queues)
    }

    fn after_inputs(&mut self, queues: &mut WorkerQueues, _: &impl Clock) {
        if self.backlog.waiting() == 0 {
            return;
        }
        for (output, queue) in queues[..self.output_count()].iter_mut().enumerate() {
            if self.backlog.waiting_for(output) > 0 {
                queue.await_room();
            }
        }
    }

    /// Returns whether no more frames will come, and all received frames were forwarded.
    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool {
        queues.are_all_exhausted() && self.backlog.waiting() == 0
    }

    fn drain(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> Result<bool, RunError> {
        self.send_backlog(queues);
        Ok(self.backlog.waiting() == 0)
    }

    fn publish(&mut self) {
        self.stats.free_bufs.store(self.backlog.free() as u64, Ordering::Relaxed);
        for (output, stats) in self.stats.outputs.iter().enumerate() {
            stats.waiting.store(self.backlog.waiting_for(output) as u64, Ordering::Relaxed);
        }
    }
}

fn forwarded(stats: &SharedOutputStats, len: usize) {
    add(&stats.forwarded, 1);
    add(&stats.forwarded_bytes, len as u64);
}
