//! Flow queueing: FQ-CoDel (RFC 8290) and FQ-PIE.
//!
//! Packets are sorted by a hash of their flow into queues, each with a separate instance of the
//! algorithm. Queues are served by deficit round robin. A queue that was empty is served first for
//! one quantum, so that sparse flows (DNS, the first packets of a page) need not wait for bulk
//! traffic.
//!
//! ```text
//!            hash    +--- queue + CoDel ---+    new --> served first, for one quantum
//!   arrival -------> +--- queue + CoDel ---+    old --> served in turns
//!                    +--- queue + CoDel ---+
//! ```
//!
//! # Invariants
//! 1. A queue with packets is in exactly one of the lists `new` and `old`.
//! 2. After a packet was enqueued, the limits hold; the excess is dropped from the head of the
//!    queue with the most bytes.
//! 3. A queue's state is allocated when its first packet arrives, so a link that few flows use
//!    needs little memory: 4 bytes for each of `flows`, and these states.

use alloc::vec;
use alloc::vec::Vec;

use super::longest::LongestQueue;
use super::packet::{Aqm, AqmArrival, AqmDeparture, AqmDropCause, DequeuedPacket, QueuedPacket};
use super::packet::{AqmQueueView, AqmVerdict};
use super::param;
use super::slab::{PacketSlab, SlabPacket, SlabQueue};
use super::{CoDel, CoDelSpec};
use super::{Pie, PieSpec};
use crate::{ParameterError, Stream};

/// CoDel for each flow (RFC 8290).
pub type FqCoDel<H> = FairQueue<H, CoDel>;

/// PIE for each flow.
pub type FqPie<H> = FairQueue<H, Pie>;

/// Parameters of flow queueing. The defaults are those of RFC 8290 and of dummynet; that of
/// `limit_bytes` is Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairSpec {
    /// Number of queues that flows are hashed to; default 1024.
    pub flows: u32,
    /// Bytes that a queue may send per turn; default 1514.
    pub quantum: u32,
    /// Maximum number of packets in all queues together; default 10240.
    pub limit_packets: u32,
    /// Maximum number of bytes in all queues together; default 32 MiB.
    pub limit_bytes: u64,
    /// Maximum number of packets in a batch of drops from the longest queue, made when a limit is
    /// exceeded; default 64. A batch ends early when it has halved the bytes of the queue.
    pub drop_batch: u32,
}

impl Default for FairSpec {
    fn default() -> Self {
        Self {
            flows: 1024,
            quantum: 1514,
            limit_packets: 10_240,
            limit_bytes: 32 << 20,
            drop_batch: 64,
        }
    }
}

impl FairSpec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ParameterError`] names the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let within = |value: u32, max, name, must_be| {
            param::check((1..=max).contains(&value), name, f64::from(value), must_be)
        };
        within(self.flows, MAX_FLOWS, "flows", "from 1 to 65536")?;
        within(self.quantum, MAX_QUANTUM, "quantum", "from 1 byte to 1 MiB")?;
        within(self.drop_batch, u32::MAX, "drop_batch", "at least 1 packet")?;
        param::packets("limit_packets", self.limit_packets)?;
        param::bytes("limit_bytes", self.limit_bytes)
    }
}

const MAX_FLOWS: u32 = 1 << 16;
const MAX_QUANTUM: u32 = 1 << 20;
/// Means "no flow", at the end of a list or for a hash value without a queue.
const NO_FLOW: u32 = u32::MAX;

/// Queues with one [`Aqm`] each, served in turns.
#[derive(Clone, Debug)]
pub struct FairQueue<H, A> {
    spec: FairSpec,
    /// The initial state of the algorithm of a new queue.
    template: A,
    /// Index of the queue of each hash value, or [`NO_FLOW`].
    table: Vec<u32>,
    flows: Vec<FairFlow<A>>,
    new: FlowList,
    old: FlowList,
    store: PacketSlab<H>,
    total: AqmQueueView,
    /// Finds the longest queue; `None` until a limit is exceeded for the first time, or for the
    /// first time after a drain.
    longest: Option<LongestQueue>,
}

#[derive(Clone, Debug)]
struct FairFlow<A> {
    queue: SlabQueue,
    aqm: A,
    /// Bytes that the queue may still send in this turn.
    deficit: i64,
    /// Index of the next flow in the list that contains this flow.
    next: u32,
    is_listed: bool,
}

/// A list of flows, linked through [`FairFlow::next`].
#[derive(Clone, Debug)]
struct FlowList {
    head: u32,
    tail: u32,
}

impl<H> FqCoDel<H> {
    /// Makes empty queues, with CoDel for each flow.
    ///
    /// # Errors
    /// [`ParameterError`] if a parameter is out of range.
    pub fn new(spec: &FairSpec, codel: &CoDelSpec) -> Result<Self, ParameterError> {
        Self::with_aqm(spec, CoDel::new(codel)?)
    }

    /// Changes the parameters. Packets and the state of the queues stay, but a new number of queues
    /// redistributes the packets to new queues with fresh state. New limits apply when the next
    /// packet is enqueued.
    ///
    /// # Errors
    /// [`ParameterError`] if a parameter is out of range; nothing changes then.
    pub fn retune(&mut self, spec: &FairSpec, codel: &CoDelSpec) -> Result<(), ParameterError> {
        let fresh = CoDel::new(codel)?;
        self.reshape(spec, fresh)?;
        self.flows.iter_mut().try_for_each(|flow| flow.aqm.retune(codel))
    }
}

impl<H> FqPie<H> {
    /// Makes empty queues, with PIE for each flow.
    ///
    /// # Errors
    /// [`ParameterError`] if a parameter is out of range.
    pub fn new(spec: &FairSpec, pie: &PieSpec) -> Result<Self, ParameterError> {
        Self::with_aqm(spec, Pie::new(pie)?)
    }

    /// Changes the parameters, as [`FqCoDel::retune`] does.
    ///
    /// # Errors
    /// [`ParameterError`] if a parameter is out of range; nothing changes then.
    pub fn retune(&mut self, spec: &FairSpec, pie: &PieSpec) -> Result<(), ParameterError> {
        let fresh = Pie::new(pie)?;
        self.reshape(spec, fresh)?;
        self.flows.iter_mut().try_for_each(|flow| flow.aqm.retune(pie))
    }
}

impl<H, A: Aqm + Clone> FairQueue<H, A> {
    /// Makes empty queues; the algorithm of each queue starts as a copy of `fresh`.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range.
    pub fn with_aqm(spec: &FairSpec, fresh: A) -> Result<Self, ParameterError> {
        spec.validate()?;
        Ok(Self {
            spec: *spec,
            template: fresh,
            table: vec![NO_FLOW; spec.flows as usize],
            flows: Vec::new(),
            new: FlowList::EMPTY,
            old: FlowList::EMPTY,
            store: PacketSlab::new(),
            total: AqmQueueView::default(),
            longest: None,
        })
    }

    /// Returns the number of packets in all queues.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.total.packets
    }

    /// Returns the number of bytes in all queues.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.total.bytes
    }

    /// Returns the parameters in force: those of the constructor, or of the last successful
    /// `retune`.
    #[must_use]
    pub const fn spec(&self) -> &FairSpec {
        &self.spec
    }

    /// Enqueues `entry` at `now_ns`. Packets dropped by the limits or the algorithm, which may
    /// include `entry`, go to `lost`.
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        entry: QueuedPacket<H>,
        random: &mut Stream,
        lost: &mut impl FnMut(QueuedPacket<H>, AqmDropCause),
    ) {
        let index = self.flow_of(entry.flow);
        let flow = &mut self.flows[index as usize];
        let arriving = AqmArrival { now_ns, len: entry.len, queue: flow.queue.view() };
        let verdict = flow.aqm.admit(&arriving, || entry.ecn.is_capable(), random);
        if verdict == AqmVerdict::Drop {
            return lost(entry, AqmDropCause::Aqm);
        }
        self.append(index, SlabPacket { entry, mark: verdict == AqmVerdict::Mark });
        self.drop_from_longest(lost);
    }

    /// Dequeues the packet that leaves at `now_ns`; `None` if no packet is left. Packets that the
    /// algorithm drops before it go to `lost`.
    pub fn dequeue(
        &mut self,
        now_ns: u64,
        lost: &mut impl FnMut(QueuedPacket<H>, AqmDropCause),
    ) -> Option<DequeuedPacket<H>> {
        loop {
            let index = self.next_turn()?;
            let Some(SlabPacket { entry, mark }) = self.pop(index) else {
                self.end_turn(index);
                continue;
            };
            let flow = &mut self.flows[index as usize];
            let leaving = AqmDeparture {
                now_ns,
                len: entry.len,
                sojourn_ns: now_ns.saturating_sub(entry.arrival_ns),
                queue: flow.queue.view(),
            };
            let verdict = flow.aqm.dequeue(&leaving, || entry.ecn.is_capable());
            if verdict == AqmVerdict::Drop {
                lost(entry, AqmDropCause::Aqm);
                continue;
            }
            flow.deficit -= i64::from(entry.len);
            return Some(DequeuedPacket { entry, mark: mark || verdict == AqmVerdict::Mark });
        }
    }

    /// Empties the queues and returns the packets in order of arrival.
    pub fn drain(&mut self) -> Vec<DequeuedPacket<H>> {
        let mut drained = Vec::with_capacity(self.total.packets as usize);
        for flow in &mut self.flows {
            while let Some(SlabPacket { entry, mark }) = self.store.pop(&mut flow.queue) {
                drained.push(DequeuedPacket { entry, mark });
            }
        }
        self.total = AqmQueueView::default();
        self.longest = None;
        drained.sort_by_key(|departure| departure.entry.arrival_ns);
        drained
    }

    /// Appends an admitted packet to its queue. A queue that is in neither `new` nor `old` gets a
    /// deficit of one quantum and joins the end of `new`.
    fn append(&mut self, index: u32, queued: SlabPacket<H>) {
        let flow = &mut self.flows[index as usize];
        self.total.packets += 1;
        self.total.bytes += u64::from(queued.entry.len);
        self.store.push(&mut flow.queue, queued);
        if let Some(longest) = &mut self.longest {
            longest.set(index, flow.queue.length());
        }
        if !flow.is_listed {
            flow.is_listed = true;
            flow.deficit = i64::from(self.spec.quantum);
            self.new.push(&mut self.flows, index);
        }
    }

    /// Removes the first packet of a queue.
    #[inline]
    fn pop(&mut self, index: u32) -> Option<SlabPacket<H>> {
        let chain = &mut self.flows[index as usize].queue;
        let queued = self.store.pop(chain)?;
        self.total.packets -= 1;
        self.total.bytes -= u64::from(queued.entry.len);
        if let Some(longest) = &mut self.longest {
            longest.set(index, chain.length());
        }
        Some(queued)
    }

    /// Applies new parameters; `fresh` is the initial algorithm of new queues.
    fn reshape(&mut self, spec: &FairSpec, fresh: A) -> Result<(), ParameterError> {
        if spec.flows == self.spec.flows {
            spec.validate()?;
            self.template = fresh;
        } else {
            let reshaped = Self::with_aqm(spec, fresh)?;
            let drained = self.drain();
            *self = reshaped;
            for DequeuedPacket { entry, mark } in drained {
                let index = self.flow_of(entry.flow);
                self.append(index, SlabPacket { entry, mark });
            }
        }
        self.spec = *spec;
        Ok(())
    }

    /// The index of the queue for a flow hash. The queue is allocated on first use.
    fn flow_of(&mut self, hash: u32) -> u32 {
        let slot = (u64::from(hash) * self.table.len() as u64) >> 32;
        let index = &mut self.table[slot as usize];
        if *index == NO_FLOW {
            *index = self.flows.len() as u32;
            let aqm = self.template.clone();
            let chain = SlabQueue::default();
            self.flows.push(FairFlow {
                queue: chain,
                aqm,
                deficit: 0,
                next: NO_FLOW,
                is_listed: false,
            });
        }
        *index
    }

    /// Returns the index of the queue to serve next. Before that, each queue at the head that has
    /// no deficit left gets another quantum and moves to the end of `old`.
    fn next_turn(&mut self) -> Option<u32> {
        loop {
            let turns = if self.new.head == NO_FLOW { &mut self.old } else { &mut self.new };
            let index = turns.head;
            let flow = self.flows.get_mut(index as usize)?;
            if flow.deficit > 0 {
                return Some(index);
            }
            flow.deficit += i64::from(self.spec.quantum);
            turns.pop(&mut self.flows);
            self.old.push(&mut self.flows, index);
        }
    }

    /// Removes an empty queue from its list. A queue in `new` first moves to `old` and is removed
    /// later. Otherwise a flow that sends one packet at a time would count as new for ever (RFC
    /// 8290, section 4.2).
    fn end_turn(&mut self, index: u32) {
        if self.new.head == index {
            self.new.pop(&mut self.flows);
            self.old.push(&mut self.flows, index);
        } else {
            self.old.pop(&mut self.flows);
            self.flows[index as usize].is_listed = false;
        }
    }

    /// Drops packets from the head of the longest queue, in batches, until the limits hold. For
    /// each batch, determines the longest queue again.
    fn drop_from_longest(&mut self, lost: &mut impl FnMut(QueuedPacket<H>, AqmDropCause)) {
        while self.total.packets > u64::from(self.spec.limit_packets)
            || self.total.bytes > self.spec.limit_bytes
        {
            let lengths = self.flows.iter().map(|flow| flow.queue.length());
            let index = self.longest.get_or_insert_with(|| LongestQueue::new(lengths)).first();
            let keep_bytes = self.flows[index as usize].queue.bytes() / 2;
            for _ in 0..self.spec.drop_batch {
                let Some(SlabPacket { entry, .. }) = self.pop(index) else { break };
                lost(entry, AqmDropCause::Limit);
                if self.flows[index as usize].queue.bytes() <= keep_bytes {
                    break;
                }
            }
        }
    }
}

impl FlowList {
    const EMPTY: Self = Self { head: NO_FLOW, tail: NO_FLOW };

    fn push<A>(&mut self, flows: &mut [FairFlow<A>], index: u32) {
        flows[index as usize].next = NO_FLOW;
        match self.tail {
            NO_FLOW => self.head = index,
            tail => flows[tail as usize].next = index,
        }
        self.tail = index;
    }

    fn pop<A>(&mut self, flows: &mut [FairFlow<A>]) {
        let Some(flow) = flows.get(self.head as usize) else { return };
        self.head = flow.next;
        if self.head == NO_FLOW {
            self.tail = NO_FLOW;
        }
    }
}

#[cfg(test)]
mod tests;
