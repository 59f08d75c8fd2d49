//! The loop of `slipring lb`: one thread, queues of the input, and one queue of each output.
//!
//! Every frame goes to each group. All groups but the last get copies; the last one gets the
//! frame's own buffer if both rings are in one region. A full output delays no other output: its
//! frames wait in the backlog, or are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipring_balance::{Backlog, FlowSplitter, OutputSpread};
use slipring_port::{Interest, Nanos, Queue, RunError, Visit, WaitSet, now};

use slipring_datapath::poll_loop::PollLoop;
use slipring_datapath::slots::{BatchedTxQueue, bytes, slots_of, whole_frames};

/// Maximum time for frames to leave at the end.
const DRAIN_TIMEOUT_NS: Nanos = 100_000_000;

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
    /// Outputs of all groups, one group after the other.
    pub(super) outputs: Vec<SharedOutputStats>,
}

fn add(counter: &AtomicU64, amount: u64) {
    // Only one thread writes, so a load and a store are enough.
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

/// The outputs of one group among all outputs, and how flows are spread over them.
#[derive(Debug, Clone)]
pub(super) struct GroupOutputs {
    pub(super) first: usize,
    pub(super) spread: Arc<OutputSpread>,
}

/// The worker of one thread.
pub(super) struct LbWorker {
    pub(super) inputs: Vec<Box<dyn Queue>>,
    pub(super) outputs: Vec<BatchedTxQueue>,
    pub(super) groups: Vec<GroupOutputs>,
    pub(super) splitter: FlowSplitter,
    pub(super) backlog: Backlog,
    /// Maximum slots received at a time.
    pub(super) batch: u32,
    pub(super) stats: Arc<SharedLbStats>,
    pub(super) scratch: Vec<u8>,
}

impl LbWorker {
    /// Sends waiting frames; returns their number.
    fn send_backlog(&mut self) -> u32 {
        if self.backlog.waiting() == 0 {
            return 0;
        }
        let mut sent = 0;
        for (output, (outbox, board)) in
            self.outputs.iter_mut().zip(&self.stats.outputs).enumerate()
        {
            while let Some(frame) = self.backlog.front(output) {
                if !outbox.copy_frame(frame) {
                    break;
                }
                forwarded(board, frame.len());
                self.backlog.pop(output);
                sent += 1;
            }
        }
        sent
    }

    /// Spreads the frames of one input; returns the number of their slots.
    fn spread(&mut self, input: usize) -> u32 {
        let Self {
            inputs,
            outputs,
            groups: shares,
            splitter,
            backlog,
            batch,
            stats: board,
            scratch,
        } = self;
        let rx = inputs[input].rings().rx;
        let end = whole_frames(rx, *batch);
        let (mut at, mut received, mut non_ip) = (0, 0, 0);
        while at < end {
            let slots = slots_of(rx, at, end);
            let frame = bytes(rx, at, slots, scratch);
            let (flow, len) = (splitter.split(frame), frame.len());
            received += 1;
            non_ip += u64::from(!flow.is_ip);
            for (i, share) in shares.iter().enumerate() {
                let output = share.first + share.spread.output(flow.hash);
                let may_swap = i + 1 == shares.len();
                let is_behind = backlog.waiting_for(output) > 0;
                if !is_behind && outputs[output].forward_frame(rx, at, slots, may_swap) {
                    forwarded(&board.outputs[output], len);
                } else if let Some(loser) = backlog.push(output, bytes(rx, at, slots, scratch)) {
                    add(&board.outputs[loser].dropped, 1);
                }
            }
            at += slots;
        }
        rx.advance(at);
        add(&board.received, received);
        add(&board.non_ip, non_ip);
        at
    }

    fn publish(&self) {
        self.stats.free_bufs.store(self.backlog.free() as u64, Ordering::Relaxed);
        for (output, board) in self.stats.outputs.iter().enumerate() {
            board.waiting.store(self.backlog.waiting_for(output) as u64, Ordering::Relaxed);
        }
    }
}

impl PollLoop for LbWorker {
    fn queues(&self) -> Vec<&dyn Queue> {
        let outputs = self.outputs.iter().map(|output| &output.queue);
        self.inputs.iter().chain(outputs).map(AsRef::as_ref).collect()
    }

    /// Spreads one batch of each queue; returns the number of slots and frames moved.
    fn step(&mut self) -> Result<u32, RunError> {
        self.outputs.iter_mut().try_for_each(BatchedTxQueue::reclaim)?;
        let mut moved = self.send_backlog();
        for input in 0..self.inputs.len() {
            self.inputs[input].rx_sync()?;
            moved += self.spread(input);
        }
        self.outputs.iter_mut().try_for_each(BatchedTxQueue::flush)?;
        self.publish();
        Ok(moved)
    }

    /// Whether no more frames will come, and all received frames were forwarded.
    fn is_finished(&mut self) -> bool {
        let ended = self.inputs.iter_mut().all(|q| q.ended() && q.rings().rx.avail() == 0);
        ended && self.backlog.waiting() == 0
    }

    /// Waits, for a bounded time, until waiting and queued frames have left.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + DRAIN_TIMEOUT_NS;
        loop {
            self.send_backlog();
            self.outputs.iter_mut().try_for_each(BatchedTxQueue::flush)?;
            let all_left =
                self.backlog.waiting() == 0 && self.outputs.iter_mut().all(BatchedTxQueue::is_idle);
            if all_left || now() >= until {
                break;
            }
        }
        self.update_stats();
        self.publish();
        Ok(())
    }

    fn update_stats(&mut self) {
        let outputs = self.outputs.iter_mut().map(|output| &mut output.queue);
        self.inputs.iter_mut().chain(outputs).for_each(|queue| queue.update_stats());
    }
}

fn forwarded(board: &SharedOutputStats, len: usize) {
    add(&board.forwarded, 1);
    add(&board.forwarded_bytes, len as u64);
}

impl WaitSet for LbWorker {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        self.inputs.iter_mut().try_for_each(|queue| visit(&mut **queue, Interest::RX))?;
        for (output, outbox) in self.outputs.iter_mut().enumerate() {
            let waits = self.backlog.waiting_for(output) > 0;
            visit(&mut *outbox.queue, if waits { Interest::TX } else { Interest::NONE })?;
        }
        Ok(())
    }
}
