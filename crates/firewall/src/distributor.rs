//! Distributes frames among the threads that check them, and sends what they pass.
//!
//! ```text
//!   port 1 --> hash of both addresses --> pipe to thread 1, 2, … --> Worker --> pipe back --> port 2
//! ```
//!
//! # Design decisions
//! - **One thread per address pair.** All frames between two addresses, in both directions, go to
//!   one thread. A fragment has no ports, so only then do `reass`, the states of fragmented flows
//!   and ICMP behave as with one thread.
//! - **Back-pressure.** If the pipe of a thread is full, the frame stays in the ring of its port
//!   and delays those after it, as with one thread.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_balance::OutputSpread;
use slipring_datapath::poll_loop::PollLoop;
use slipring_datapath::slots::{BatchedTxQueue, slots_of, whole_frames};
use slipring_port::{Interest, Nanos, Queue, RunError, Visit, WaitSet, now};
use slipring_wire::assigned::IpProto;
use slipring_wire::flow::{FlowEndpoint, FlowKind};
use slipring_wire::{FlowHasher, FlowKey};

use crate::cross_thread::CrossThreadState;
use crate::task_queue::TaskQueue;
use crate::worker::ForwardingOptions;

/// How long frames may take to leave at the end.
const DRAIN_TIMEOUT_NS: Nanos = 100_000_000;

/// The queues of one port.
pub(crate) type PortQueues = Vec<Box<dyn Queue>>;

/// A port, and a pipe to each thread.
struct DistributorPort {
    queues: Vec<BatchedTxQueue>,
    worker_pipes: Vec<BatchedTxQueue>,
    /// A frame waits in a queue for room in a pipe.
    waits_for_pipe: bool,
    /// A frame waits in a pipe for room in a queue.
    waits_for_queue: bool,
}

/// Maps the frames between two hosts to a thread.
#[derive(Clone)]
pub(crate) struct FlowDistribution {
    hasher: FlowHasher,
    spread: OutputSpread,
}

impl FlowDistribution {
    /// Distributes among `threads` threads. Without `secret`, the mapping cannot be predicted.
    pub(crate) fn new(secret: [u64; 2], threads: u16) -> Self {
        let hasher = FlowHasher::new(secret).symmetric();
        Self { hasher, spread: OutputSpread::even(threads) }
    }

    /// Returns the index of the thread for a frame.
    pub(crate) fn thread_of(&self, frame: &[u8]) -> usize {
        self.thread_by(self.hasher.hash(&host_pair_key(frame)))
    }

    fn thread_by(&self, hash: u64) -> usize {
        self.spread.output(hash)
    }
}

/// Distributes received frames to the worker threads and collects what they pass (software RSS).
pub(crate) struct Distributor {
    ports: Vec<DistributorPort>,
    distribution: FlowDistribution,
    forwarding: ForwardingOptions,
    common: Arc<CrossThreadState>,
    task_queues: Vec<Arc<TaskQueue>>,
}

impl Distributor {
    /// Creates a distributor. Each port comes with its queues and its pipes to the threads;
    /// `task_queues` are those of the threads.
    pub(crate) fn new(
        ports: Vec<(PortQueues, PortQueues)>,
        secret: [u64; 2],
        forwarding: ForwardingOptions,
        common: Arc<CrossThreadState>,
        task_queues: Vec<Arc<TaskQueue>>,
    ) -> Self {
        let outboxes = |queues: PortQueues| queues.into_iter().map(BatchedTxQueue::new).collect();
        let side = |(queues, hands)| DistributorPort {
            queues: outboxes(queues),
            worker_pipes: outboxes(hands),
            waits_for_pipe: false,
            waits_for_queue: false,
        };
        Self {
            ports: ports.into_iter().map(side).collect(),
            distribution: FlowDistribution::new(secret, task_queues.len() as u16),
            forwarding,
            common,
            task_queues,
        }
    }

    /// Sends what the threads have passed. Returns the number of slots.
    fn collect(&mut self) -> Result<u32, RunError> {
        let mut moved = 0;
        for side in &mut self.ports {
            moved += side.collect(self.forwarding)?;
        }
        Ok(moved)
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.tx_queues().try_for_each(BatchedTxQueue::flush)
    }

    fn tx_queues(&mut self) -> impl Iterator<Item = &mut BatchedTxQueue> {
        self.ports.iter_mut().flat_map(|side| side.queues.iter_mut().chain(&mut side.worker_pipes))
    }

    /// Returns whether the threads have finished and all their frames are taken.
    fn is_drained(&mut self) -> bool {
        // Read this before the last look at the pipes: what finished threads sent is then visible.
        let all_done = self.common.finished_workers() == self.task_queues.len() as u64;
        let is_read = |outbox: &mut BatchedTxQueue| {
            outbox.queue.rx_sync().is_err() || outbox.queue.rings().rx.avail() == 0
        };
        all_done && self.ports.iter_mut().flat_map(|side| &mut side.worker_pipes).all(is_read)
    }
}

impl DistributorPort {
    /// Distributes the frames of a queue. Returns the number of slots.
    fn distribute(
        &mut self,
        queue: usize,
        dealing: &FlowDistribution,
        manner: ForwardingOptions,
    ) -> Result<u32, RunError> {
        let Self { queues, worker_pipes: hands, waits_for_pipe: is_held, .. } = self;
        let source = &mut queues[queue].queue;
        source.rx_sync()?;
        let rx = source.rings().rx;
        let end = whole_frames(rx, manner.burst);
        let mut at = 0;
        while at < end {
            let slots = slots_of(rx, at, end);
            // The first slot holds the headers.
            let frame = rx.frame(at);
            let thread =
                frame.map_or_else(|| dealing.thread_by(0), |frame| dealing.thread_of(frame.bytes));
            if !hands[thread].forward_frame(rx, at, slots, manner.may_swap) {
                *is_held = true;
                break;
            }
            at += slots;
        }
        rx.advance(at);
        Ok(at)
    }

    /// Sends what the threads have passed to this port. Returns the number of slots.
    fn collect(&mut self, manner: ForwardingOptions) -> Result<u32, RunError> {
        let Self { queues, worker_pipes: hands, waits_for_queue: is_full, .. } = self;
        let (mut moved, count) = (0, queues.len());
        for (thread, hand) in hands.iter_mut().enumerate() {
            hand.queue.rx_sync()?;
            let rx = hand.queue.rings().rx;
            let (end, mut at) = (whole_frames(rx, manner.burst), 0);
            while at < end {
                let slots = slots_of(rx, at, end);
                if !queues[thread % count].forward_frame(rx, at, slots, manner.may_swap) {
                    *is_full = true;
                    break;
                }
                at += slots;
            }
            rx.advance(at);
            moved += at;
        }
        Ok(moved)
    }
}

/// Returns a key that all frames between two hosts share.
fn host_pair_key(frame: &[u8]) -> FlowKey {
    let key = FlowKey::of(frame);
    let host = |end: FlowEndpoint| FlowEndpoint { port: 0, ..end };
    let any = IpProto(0);
    let kind = match key.kind {
        FlowKind::V4(_) => FlowKind::V4(any),
        FlowKind::V6(_) => FlowKind::V6(any),
        link @ FlowKind::Link(_) => link,
    };
    FlowKey { kind, vlans: 0, src: host(key.src), dst: host(key.dst) }
}

impl PollLoop for Distributor {
    fn queues(&self) -> Vec<&dyn Queue> {
        let boxes = self.ports.iter().flat_map(|side| side.queues.iter().chain(&side.worker_pipes));
        boxes.map(|outbox| outbox.queue.as_ref()).collect()
    }

    fn step(&mut self) -> Result<u32, RunError> {
        self.common.acknowledge();
        if !self.common.has_begun() {
            return Ok(0);
        }
        self.tx_queues().try_for_each(BatchedTxQueue::reclaim)?;
        for side in &mut self.ports {
            (side.waits_for_pipe, side.waits_for_queue) = (false, false);
        }
        let mut moved = self.collect()?;
        let Self { ports: sides, distribution: dealing, forwarding: manner, .. } = self;
        for side in sides {
            for queue in 0..side.queues.len() {
                moved += side.distribute(queue, dealing, *manner)?;
            }
        }
        self.flush()?;
        Ok(moved)
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.common.wake_fd())
    }

    /// Returns whether a port has ended and all received frames have left.
    fn is_finished(&mut self) -> bool {
        if !self.common.has_input_ended() {
            let mut queues = self.ports.iter_mut().flat_map(|side| &mut side.queues);
            if !queues.any(|outbox| outbox.queue.ended() && outbox.queue.rings().rx.avail() == 0) {
                return false;
            }
            self.common.end_input();
            self.task_queues.iter().for_each(|mail| mail.push(Box::new(|_, _, _| ())));
        }
        self.is_drained()
    }

    fn update_stats(&mut self) {
        self.tx_queues().for_each(|outbox| outbox.queue.update_stats());
    }

    /// Sends what the threads still pass, for a bounded time.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + DRAIN_TIMEOUT_NS;
        loop {
            self.collect()?;
            self.flush()?;
            let has_all = self.is_drained();
            let mut queues = self.ports.iter_mut().flat_map(|side| &mut side.queues);
            if (has_all && queues.all(BatchedTxQueue::is_idle)) || now() >= until {
                break;
            }
        }
        self.update_stats();
        Ok(())
    }
}

impl WaitSet for Distributor {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        let has_begun = self.common.has_begun();
        for side in &mut self.ports {
            let queue =
                Interest { rx: !side.waits_for_pipe && has_begun, tx: side.waits_for_queue };
            let hand = Interest { rx: !side.waits_for_queue, tx: side.waits_for_pipe };
            side.queues.iter_mut().try_for_each(|outbox| visit(&mut *outbox.queue, queue))?;
            side.worker_pipes.iter_mut().try_for_each(|outbox| visit(&mut *outbox.queue, hand))?;
        }
        Ok(())
    }
}
