//! The queues of one scheduler instance. A queue is found by its flow, is served by the scheduler,
//! and is removed when it is idle.
//!
//! # Invariants
//! 1. A queue that is in `index` is in use. A queue that is neither in `index` nor in `free` gets
//!    no new packets and is removed once it is empty.
//! 2. `scheduler` contains exactly the queues that are not in `free`, and knows which of them have
//!    packets.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashTable;
use slipring_model::aqm::AqmVerdict;

use super::admission::AdmissionState;
use super::counters::{FlowTotals, ShaperDropCause};
use super::pool::{PacketChain, PacketPool, PooledPacket};
use super::sink::EventSink;
use crate::flow::ShaperFlowId;
use crate::sched::{FlowScheduler, QueueShare};

/// The queue of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowQueue {
    pub(crate) chain: PacketChain,
    pub(crate) admission: Option<Box<AdmissionState>>,
    pub(crate) totals: FlowTotals,
    /// Time at which the queue's last packet arrived, in ns.
    pub(crate) last_ns: u64,
    /// Index of the flowset that the queue belongs to.
    pub(crate) flowset: u32,
    pub(crate) state: FlowQueueState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FlowQueueState {
    #[default]
    Free,
    Used,
    Draining,
}

#[derive(Clone, Debug)]
pub(crate) struct FlowQueues {
    pub(crate) scheduler: FlowScheduler,
    flows: Vec<FlowQueue>,
    /// The masked flow and the hash of each queue. Separate from `flows`, because sending packets
    /// does not need them.
    names: Vec<(ShaperFlowId, u64)>,
    index: HashTable<u32>,
    free: Vec<u32>,
    /// The position in `flows` at which the search for idle queues continues.
    sweep_position: usize,
    /// Number of packets in all queues.
    queued: u32,
}

impl FlowQueue {
    /// Removes and returns the first packet of the queue that the AQM does not drop.
    #[inline]
    pub(crate) fn pop<H: Copy>(
        &mut self,
        now_ns: u64,
        pool: &mut PacketPool<H>,
        sink: &mut EventSink<'_, H, impl FnMut(super::ShaperEvent<H>)>,
    ) -> Option<PooledPacket<H>> {
        loop {
            let held = pool.pop(&mut self.chain)?;
            let Some(gate) = &mut self.admission else { return Some(held) };
            match gate.dequeue(now_ns, &held, self.chain.view()) {
                AqmVerdict::Keep => return Some(held),
                AqmVerdict::Mark => {
                    sink.mark(held.handle);
                    return Some(held);
                }
                AqmVerdict::Drop => {
                    self.totals.drops += 1;
                    sink.lose(held.handle, now_ns, ShaperDropCause::Aqm);
                }
            }
        }
    }
}

impl FlowQueues {
    pub(crate) fn new(scheduler: FlowScheduler) -> Self {
        Self {
            scheduler,
            flows: Vec::new(),
            names: Vec::new(),
            index: HashTable::new(),
            free: Vec::new(),
            sweep_position: 0,
            queued: 0,
        }
    }

    #[inline]
    pub(crate) fn find(&self, flowset: u32, id: &ShaperFlowId, hash: u64) -> Option<u32> {
        let is_it = |&at: &u32| {
            self.flows[at as usize].flowset == flowset && self.names[at as usize].0 == *id
        };
        self.index.find(hash, is_it).copied()
    }

    /// Creates a queue and returns its index.
    pub(crate) fn make(
        &mut self,
        flow: FlowQueue,
        id: ShaperFlowId,
        hash: u64,
        share: QueueShare,
    ) -> u32 {
        let flow = FlowQueue { state: FlowQueueState::Used, ..flow };
        let at = if let Some(at) = self.free.pop() {
            self.flows[at as usize] = flow;
            self.names[at as usize] = (id, hash);
            at
        } else {
            self.flows.push(flow);
            self.names.push((id, hash));
            self.flows.len() as u32 - 1
        };
        self.scheduler.set(at, share);
        let names = &self.names;
        self.index.insert_unique(hash, at, |&other| names[other as usize].1);
        at
    }

    #[inline]
    pub(crate) fn flow(&mut self, at: u32) -> &mut FlowQueue {
        &mut self.flows[at as usize]
    }

    /// Adds an admitted packet to its queue.
    #[inline]
    pub(crate) fn push<H: Copy>(
        &mut self,
        at: u32,
        held: PooledPacket<H>,
        pool: &mut PacketPool<H>,
    ) {
        let flow = &mut self.flows[at as usize];
        let was_empty = flow.chain.is_empty();
        pool.push(&mut flow.chain, held);
        self.queued += 1;
        if was_empty {
            self.scheduler.arrive(at, held.len);
        }
    }

    /// Removes and returns the packet that the scheduler sends next.
    #[inline]
    pub(crate) fn pop<H: Copy>(
        &mut self,
        now_ns: u64,
        pool: &mut PacketPool<H>,
        sink: &mut EventSink<'_, H, impl FnMut(super::ShaperEvent<H>)>,
    ) -> Option<PooledPacket<H>> {
        loop {
            let at = self.scheduler.next()?;
            let flow = &mut self.flows[at as usize];
            let before = flow.chain.packets();
            let held = flow.pop(now_ns, pool, sink);
            self.queued -= before - flow.chain.packets();
            let next = pool.first_len(&flow.chain);
            let is_drained = next.is_none() && flow.state == FlowQueueState::Draining;
            self.scheduler.sent(at, held.map_or(0, |held| held.len), next);
            if is_drained {
                self.free_flow(at);
            }
            if held.is_some() {
                return held;
            }
        }
    }

    /// Checks two queues, and removes those that are empty and have got no packet for `idle_ns`.
    /// This must be called before each creation of a queue. This bounds the number of queues to
    /// about twice the number of those that are not idle.
    pub(crate) fn expire_some(&mut self, now_ns: u64, idle_ns: u64) {
        for _ in 0..2 {
            if self.flows.is_empty() {
                return;
            }
            self.sweep_position = (self.sweep_position + 1) % self.flows.len();
            self.expire(self.sweep_position as u32, now_ns, idle_ns);
        }
    }

    /// Removes all queues that are empty and have got no packet for `idle_ns`.
    pub(crate) fn expire_all(&mut self, now_ns: u64, idle_ns: u64) {
        for at in 0..self.flows.len() as u32 {
            self.expire(at, now_ns, idle_ns);
        }
    }

    fn expire(&mut self, at: u32, now_ns: u64, idle_ns: u64) {
        let flow = &self.flows[at as usize];
        let is_idle = flow.chain.is_empty() && now_ns.saturating_sub(flow.last_ns) >= idle_ns;
        if is_idle && flow.state != FlowQueueState::Free {
            self.free_flow(at);
        }
    }

    /// Takes the queues of a flowset out of use: their packets still leave, but new packets go to
    /// new queues.
    pub(crate) fn retire(&mut self, flowset: u32) {
        for at in 0..self.flows.len() as u32 {
            let flow = &mut self.flows[at as usize];
            if flow.flowset != flowset || flow.state != FlowQueueState::Used {
                continue;
            }
            if flow.chain.is_empty() {
                self.free_flow(at);
            } else {
                flow.state = FlowQueueState::Draining;
                self.unlist(at);
            }
        }
    }

    /// Removes the queues of a flowset, and passes all their packets to `lost`.
    pub(crate) fn remove<H: Copy>(
        &mut self,
        flowset: u32,
        pool: &mut PacketPool<H>,
        lost: &mut impl FnMut(PooledPacket<H>),
    ) {
        for at in 0..self.flows.len() as u32 {
            let flow = &mut self.flows[at as usize];
            if flow.flowset == flowset && flow.state != FlowQueueState::Free {
                self.queued -= flow.chain.packets();
                while let Some(held) = pool.pop(&mut flow.chain) {
                    lost(held);
                }
                self.free_flow(at);
            }
        }
    }

    fn free_flow(&mut self, at: u32) {
        self.scheduler.remove(at);
        self.unlist(at);
        self.flows[at as usize] = FlowQueue::default();
        self.free.push(at);
    }

    fn unlist(&mut self, at: u32) {
        let hash = self.names[at as usize].1;
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
    }

    /// Sets the share of the link that each queue of a flowset gets.
    pub(crate) fn share(&mut self, flowset: u32, share: QueueShare) {
        for at in 0..self.flows.len() as u32 {
            let flow = &self.flows[at as usize];
            if flow.flowset == flowset && flow.state != FlowQueueState::Free {
                self.scheduler.set(at, share);
            }
        }
    }

    /// Iterates over the queues in use, with the masked flow and the hash of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&FlowQueue, &ShaperFlowId, u64)> {
        let used =
            |(flow, _): &(&FlowQueue, &(ShaperFlowId, u64))| flow.state == FlowQueueState::Used;
        let named = self.flows.iter().zip(&self.names).filter(used);
        named.map(|(flow, (id, hash))| (flow, id, *hash))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut FlowQueue> {
        self.flows.iter_mut().filter(|flow| flow.state != FlowQueueState::Free)
    }

    /// Returns whether no packet waits in any queue.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Returns the number of waiting packets and the number of their bytes.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let add = |(packets, bytes), flow: &FlowQueue| {
            (packets + u64::from(flow.chain.packets()), bytes + flow.chain.bytes())
        };
        self.flows.iter().fold((0, 0), add)
    }

    /// Returns the number of queues that are not in `free`.
    pub(crate) fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }
}
