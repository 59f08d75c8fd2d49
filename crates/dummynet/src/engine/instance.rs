//! One instance of a scheduler: its queues and the link that they share.
//!
//! # Invariants
//! 1. If a packet waits, `due_ns` is the time at which the link can send a packet. If `due_ns` is
//!    [`NEVER_NS`], no packet waits.
//! 2. If `due_ns` is not [`NEVER_NS`], the instance has an event at `due_ns` or earlier.

use alloc::boxed::Box;
use alloc::vec::Vec;

use slipring_model::aqm::{DequeuedPacket, MultiQueue, QueuedPacket};

use super::counters::{FlowTotals, ShaperDropCause};
use super::event::{DelayedPacket, ShaperEvent};
use super::flows::{FlowQueue, FlowQueues};
use super::link::{PipeLink, PipeLinkState};
use super::pool::{PacketChain, PacketPool, PooledPacket};
use super::sink::EventSink;
use crate::flow::ShaperFlowId;

/// Stands for a time that is never reached.
pub(crate) const NEVER_NS: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct SchedInstance<H> {
    /// Index of the scheduler to which the instance belongs.
    pub(crate) sched: u32,
    pub(crate) id: ShaperFlowId,
    pub(crate) hash: u64,
    pub(crate) line: PipeLinkState,
    pub(crate) due_ns: u64,
    /// Time at which the instance's event is due, in ns; [`NEVER_NS`] if it has none.
    pub(crate) event_ns: u64,
    /// Time at which the instance's last packet arrived, in ns.
    pub(crate) last_ns: u64,
    pub(crate) totals: FlowTotals,
    /// Packets that were waiting when the scheduler was changed. They leave before all other
    /// packets.
    pub(crate) leftover: PacketChain,
    pub(crate) queues: InstanceQueues<H>,
    /// Whether new packets can use the instance. If not, only its waiting packets leave.
    pub(crate) is_listed: bool,
}

/// The queues of an instance.
#[derive(Clone, Debug)]
pub(crate) enum InstanceQueues<H> {
    /// A single queue for all packets of the instance.
    Fifo(FlowQueue),
    /// One queue for each flow.
    Flows(Box<FlowQueues>),
    /// The queues of FQ-CoDel or FQ-PIE. Unlike other queues, they store their packets themselves.
    Fair(Box<FairQueues<H>>),
}

#[derive(Clone, Debug)]
pub(crate) struct FairQueues<H> {
    /// The queues. The handle of a stored packet consists of the caller's handle and the packet's
    /// rule.
    pub(crate) multi: MultiQueue<(H, u32)>,
    /// The state of the flowset's random losses (`plr`); `None` if they need no state.
    pub(crate) admission: Option<Box<super::admission::AdmissionState>>,
}

impl<H: Copy> SchedInstance<H> {
    /// Returns the number of waiting packets and the number of their bytes.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let (packets, bytes) = match &self.queues {
            InstanceQueues::Fifo(flow) => (flow.chain.packets().into(), flow.chain.bytes()),
            InstanceQueues::Flows(flows) => flows.waiting(),
            InstanceQueues::Fair(fair) => (fair.multi.packets(), fair.multi.bytes()),
        };
        (packets + u64::from(self.leftover.packets()), bytes + self.leftover.bytes())
    }

    /// Returns whether no packet waits and the link is free.
    #[inline]
    pub(crate) fn is_free(&self, now_ns: u64) -> bool {
        self.due_ns == NEVER_NS && self.line.free_ns() <= now_ns
    }

    /// Returns whether no packet waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let is_empty = match &self.queues {
            InstanceQueues::Fifo(flow) => flow.chain.is_empty(),
            InstanceQueues::Flows(flows) => flows.is_empty(),
            InstanceQueues::Fair(fair) => fair.multi.packets() == 0,
        };
        is_empty && self.leftover.is_empty()
    }

    /// Sends waiting packets until the link is busy beyond `now_ns`. Each packet is sent at the
    /// time at which the link becomes free.
    pub(crate) fn serve(
        &mut self,
        now_ns: u64,
        link: &PipeLink,
        pool: &mut PacketPool<H>,
        out: &mut impl FnMut(u64, DelayedPacket<H>),
        sink: &mut EventSink<'_, H, impl FnMut(ShaperEvent<H>)>,
    ) {
        while self.due_ns <= now_ns {
            let at_ns = self.due_ns;
            let Some(held) = self.pop(at_ns, pool, sink) else {
                self.due_ns = NEVER_NS;
                return;
            };
            sink.sent();
            self.send(at_ns, &held, link, out);
            self.due_ns = if self.is_empty() { NEVER_NS } else { self.line.free_ns().max(at_ns) };
        }
    }

    /// Puts a packet on the link, which must be free.
    #[inline]
    pub(crate) fn send(
        &mut self,
        at_ns: u64,
        held: &PooledPacket<H>,
        link: &PipeLink,
        out: &mut impl FnMut(u64, DelayedPacket<H>),
    ) {
        let sent = link.send(&mut self.line, at_ns, held.len);
        let PooledPacket { handle, rule, .. } = *held;
        out(sent.out_ns, DelayedPacket { handle, rule, lost: sent.lost });
    }

    fn pop(
        &mut self,
        now_ns: u64,
        pool: &mut PacketPool<H>,
        sink: &mut EventSink<'_, H, impl FnMut(ShaperEvent<H>)>,
    ) -> Option<PooledPacket<H>> {
        if !self.leftover.is_empty() {
            return pool.pop(&mut self.leftover);
        }
        let hits = sink.hits();
        let held = match &mut self.queues {
            InstanceQueues::Fifo(flow) => flow.pop(now_ns, pool, sink),
            InstanceQueues::Flows(flows) => flows.pop(now_ns, pool, sink),
            InstanceQueues::Fair(fair) => fair.pop(now_ns, sink),
        };
        self.totals.drops += sink.hits() - hits;
        held
    }

    /// Removes and returns all packets, in the order in which the scheduler would have sent them;
    /// with FQ-CoDel and FQ-PIE, in the order of their arrival.
    pub(crate) fn drain(
        &mut self,
        now_ns: u64,
        pool: &mut PacketPool<H>,
        sink: &mut EventSink<'_, H, impl FnMut(ShaperEvent<H>)>,
    ) -> Vec<PooledPacket<H>> {
        let mut all: Vec<_> = core::iter::from_fn(|| pool.pop(&mut self.leftover)).collect();
        match &mut self.queues {
            InstanceQueues::Fifo(flow) => {
                all.extend(core::iter::from_fn(|| pool.pop(&mut flow.chain)))
            }
            InstanceQueues::Flows(flows) => {
                // Some AQM algorithms drop packets when they are taken from a queue. AQM is turned
                // off here, because these packets do not leave yet.
                flows.iter_mut().for_each(|flow| flow.admission = None);
                all.extend(core::iter::from_fn(|| flows.pop(now_ns, pool, sink)));
            }
            InstanceQueues::Fair(fair) => {
                for departure in fair.multi.drain() {
                    all.push(pooled_packet(&departure, sink));
                }
            }
        }
        all
    }
}

impl<H: Copy> FairQueues<H> {
    fn pop(
        &mut self,
        now_ns: u64,
        sink: &mut EventSink<'_, H, impl FnMut(ShaperEvent<H>)>,
    ) -> Option<PooledPacket<H>> {
        let lost = &mut |entry: QueuedPacket<(H, u32)>, _| {
            sink.lose(entry.handle.0, now_ns, ShaperDropCause::Aqm);
        };
        let departure = self.multi.dequeue(now_ns, lost)?;
        Some(pooled_packet(&departure, sink))
    }
}

/// Converts a packet that flow queueing has taken from its queue to the form in which other queues
/// store packets. Reports a mark if the packet must be marked.
#[inline]
fn pooled_packet<H: Copy>(
    departure: &DequeuedPacket<(H, u32)>,
    sink: &mut EventSink<'_, H, impl FnMut(ShaperEvent<H>)>,
) -> PooledPacket<H> {
    let QueuedPacket { handle: (handle, rule), len, arrival_ns, ecn, .. } = departure.entry;
    if departure.mark {
        sink.mark(handle);
    }
    PooledPacket { handle, rule, len, ecn, arrival_ns }
}
