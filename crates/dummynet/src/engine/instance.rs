//! One instance of a scheduler: queues, and the link that they share.
//!
//! # Invariants
//! 1. `due_ns` is when the link is free, if a packet waits; otherwise [`NEVER`].
//! 2. An instance has an event at or before `due_ns`, unless that is [`NEVER`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use slipring_model::aqm::{Departure, Entry, MultiQueue};

use super::counters::{DropCause, Totals};
use super::flows::{Flow, Flows};
use super::link::{Line, Link};
use super::pool::{Chain, Held, Pool};
use super::sink::Sink;
use super::{Event, Outgoing};
use crate::flow::FlowId;

/// No time.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Instance<H> {
    /// The scheduler it is of.
    pub(crate) sched: u32,
    pub(crate) id: FlowId,
    pub(crate) hash: u64,
    pub(crate) line: Line,
    pub(crate) due_ns: u64,
    /// When its event is; [`NEVER`]: it has none.
    pub(crate) event_ns: u64,
    /// When a packet came last.
    pub(crate) last_ns: u64,
    pub(crate) totals: Totals,
    /// What waited when the scheduler changed; it goes first.
    pub(crate) leftover: Chain,
    pub(crate) queues: Queues<H>,
    /// New packets find it.
    pub(crate) is_listed: bool,
}

/// The queues of an instance.
#[derive(Clone, Debug)]
pub(crate) enum Queues<H> {
    /// One.
    Fifo(Flow),
    /// One for each flow.
    Flows(Box<Flows>),
    /// Those of flow queueing.
    Fair(Box<Fair<H>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Fair<H> {
    /// Of handles and rules.
    pub(crate) multi: MultiQueue<(H, u32)>,
    /// For the losses of the flowset.
    pub(crate) gate: Option<Box<super::gate::Gate>>,
}

impl<H: Copy> Instance<H> {
    /// Packets and bytes that wait.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let (packets, bytes) = match &self.queues {
            Queues::Fifo(flow) => (flow.chain.packets().into(), flow.chain.bytes()),
            Queues::Flows(flows) => flows.waiting(),
            Queues::Fair(fair) => (fair.multi.packets(), fair.multi.bytes()),
        };
        (packets + u64::from(self.leftover.packets()), bytes + self.leftover.bytes())
    }

    /// Whether nothing waits and the link is free.
    #[inline]
    pub(crate) fn is_free(&self, now_ns: u64) -> bool {
        self.due_ns == NEVER && self.line.free_ns() <= now_ns
    }

    /// Whether no packet waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let is_empty = match &self.queues {
            Queues::Fifo(flow) => flow.chain.is_empty(),
            Queues::Flows(flows) => flows.is_empty(),
            Queues::Fair(fair) => fair.multi.packets() == 0,
        };
        is_empty && self.leftover.is_empty()
    }

    /// Sends what the link has been free for by `now_ns`, each packet at its own time.
    pub(crate) fn serve(
        &mut self,
        now_ns: u64,
        link: &Link,
        pool: &mut Pool<H>,
        out: &mut impl FnMut(u64, Outgoing<H>),
        sink: &mut Sink<'_, H, impl FnMut(Event<H>)>,
    ) {
        while self.due_ns <= now_ns {
            let at_ns = self.due_ns;
            let Some(held) = self.pop(at_ns, pool, sink) else {
                self.due_ns = NEVER;
                return;
            };
            sink.sent();
            self.send(at_ns, &held, link, out);
            self.due_ns = if self.is_empty() { NEVER } else { self.line.free_ns().max(at_ns) };
        }
    }

    /// Puts a packet on the link, which is free.
    #[inline]
    pub(crate) fn send(
        &mut self,
        at_ns: u64,
        held: &Held<H>,
        link: &Link,
        out: &mut impl FnMut(u64, Outgoing<H>),
    ) {
        let sent = link.send(&mut self.line, at_ns, held.len);
        let Held { handle, rule, .. } = *held;
        out(sent.out_ns, Outgoing { handle, rule, lost: sent.lost });
    }

    fn pop(
        &mut self,
        now_ns: u64,
        pool: &mut Pool<H>,
        sink: &mut Sink<'_, H, impl FnMut(Event<H>)>,
    ) -> Option<Held<H>> {
        if !self.leftover.is_empty() {
            return pool.pop(&mut self.leftover);
        }
        let hits = sink.hits();
        let held = match &mut self.queues {
            Queues::Fifo(flow) => flow.pop(now_ns, pool, sink),
            Queues::Flows(flows) => flows.pop(now_ns, pool, sink),
            Queues::Fair(fair) => fair.pop(now_ns, sink),
        };
        self.totals.drops += sink.hits() - hits;
        held
    }

    /// Takes all packets out, in the order in which the scheduler would have sent them.
    pub(crate) fn drain(
        &mut self,
        now_ns: u64,
        pool: &mut Pool<H>,
        sink: &mut Sink<'_, H, impl FnMut(Event<H>)>,
    ) -> Vec<Held<H>> {
        let mut all: Vec<_> = core::iter::from_fn(|| pool.pop(&mut self.leftover)).collect();
        match &mut self.queues {
            Queues::Fifo(flow) => all.extend(core::iter::from_fn(|| pool.pop(&mut flow.chain))),
            Queues::Flows(flows) => {
                // Algorithms that drop on the way out are not asked: nothing leaves yet.
                flows.iter_mut().for_each(|flow| flow.gate = None);
                all.extend(core::iter::from_fn(|| flows.pop(now_ns, pool, sink)));
            }
            Queues::Fair(fair) => {
                for departure in fair.multi.drain() {
                    all.push(held(&departure, sink));
                }
            }
        }
        all
    }
}

impl<H: Copy> Fair<H> {
    fn pop(
        &mut self,
        now_ns: u64,
        sink: &mut Sink<'_, H, impl FnMut(Event<H>)>,
    ) -> Option<Held<H>> {
        let lost = &mut |entry: Entry<(H, u32)>, _| {
            sink.lose(entry.handle.0, now_ns, DropCause::Aqm);
        };
        let departure = self.multi.dequeue(now_ns, lost)?;
        Some(held(&departure, sink))
    }
}

/// The packet of a departure, marked if it is to be.
#[inline]
fn held<H: Copy>(
    departure: &Departure<(H, u32)>,
    sink: &mut Sink<'_, H, impl FnMut(Event<H>)>,
) -> Held<H> {
    let Entry { handle: (handle, rule), len, arrival_ns, ecn, .. } = departure.entry;
    if departure.mark {
        sink.mark(handle);
    }
    Held { handle, rule, len, ecn, arrival_ns }
}
