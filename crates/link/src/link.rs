//! One link in one direction: its stages, and the events between them.
//!
//! A frame enters by [`Link::arrive`] and goes as far as it can at that time. Held frames, queued
//! frames and delayed copies continue in [`Link::settle`]. Frames that reached the far end leave by
//! [`Link::deliver_due`] or [`Link::hop_due`].
//!
//! A link that only applies a constant delay and keeps the order is *plain*: whole batches pass
//! [`Link::arrive_all`] at the cost of a copy.

use crate::burst::Burst;
use crate::carrier::{
    Carrier, ExitId, FrameArrival, InFlightFrame, LinkDropCause, LinkFrame, LinkId,
};
use crate::counters::{LinkCounters, PacketCounts};
use crate::egress::{self, EgressStages};
use crate::frame_id::{FirstFrameNumbers, FrameId, FrameIdMapper};
use crate::ingress::{self, IngressStages};
use crate::output::{LineDeparture, LinkOutput, SendOutcome};
use crate::server::{LineServer, ServedFrame};
use crate::sink::LinkSink;
use crate::spec::{LinkSpec, LinkTarget};
use crate::streams::LinkStreams;

use alloc::boxed::Box;

mod fast_path;
pub(crate) use fast_path::BatchScratch;

/// A time that is never reached: the time of an event that never happens.
const NEVER_NS: u64 = u64::MAX;

// Aligned to cache lines: there are many links, and each access to a link usually misses the cache.
#[repr(align(64))]
pub(crate) struct Link {
    id: LinkId,
    pub(crate) to: LinkTarget,
    input: PacketCounts,
    output: PacketCounts,
    /// All counters but input and output. Boxed, because plain links do not use them and there are
    /// many links.
    counters: Box<LinkCounters>,
    /// The constant delay of a plain link, in ns; [`NEVER_NS`] if the link is not plain.
    plain_delay_ns: u64,
    /// Whether frames are delivered as soon as their release time is decided, before that time.
    early_delivery: bool,
    /// Whether every stage is payload-agnostic, see [`fast_path`].
    payload_agnostic: bool,
    /// Time of the next event inside the link; [`NEVER_NS`] if there is none.
    next_internal_ns: u64,
    ingress: Option<Box<IngressStages>>,
    server: Option<Box<LineServer>>,
    egress: Option<Box<EgressStages>>,
    far_end: LinkOutput,
}

impl Link {
    /// Builds a link. `key` identifies this link in the frame ids on the links after it, see
    /// [`FrameId::entered_by`]; `None` if no link follows.
    pub(crate) fn new(
        id: LinkId,
        spec: &LinkSpec,
        to: LinkTarget,
        key: Option<u32>,
        seed: u64,
        start_ns: u64,
    ) -> Self {
        let streams = LinkStreams { seed, link: &spec.name, next: FirstFrameNumbers::default() };
        let onward = key.map(|key| FrameIdMapper { key, copies: streams.draws("copies") });
        let make_front = || Box::new(IngressStages::new(spec, &streams, start_ns));
        let make_server = || Box::new(LineServer::new(spec, &streams, start_ns));
        let make_back = || Box::new(EgressStages::new(spec, &streams, start_ns));
        let mut link = Self {
            id,
            to,
            input: PacketCounts::default(),
            output: PacketCounts::default(),
            counters: Box::default(),
            plain_delay_ns: NEVER_NS,
            early_delivery: false,
            payload_agnostic: false,
            next_internal_ns: NEVER_NS,
            ingress: ingress::is_needed(spec).then(make_front),
            server: spec.has_line().then(make_server),
            egress: egress::is_needed(spec).then(make_back),
            far_end: LinkOutput::new(spec, &streams, start_ns, onward),
        };
        link.update_plain();
        link
    }

    /// Switches to another specification; the caller has performed all events up to `at_ns`.
    /// Frames, random streams and the state of unchanged stages are kept. `entered` lists the keys
    /// of the links that begin at an entry of the network, in ascending order, each with the number
    /// of frames that have entered the network by that link.
    pub(crate) fn change(
        &mut self,
        (old, new): (&LinkSpec, &LinkSpec),
        seed: u64,
        entered: &[(u32, u64)],
        at_ns: u64,
        carrier: &mut impl Carrier,
    ) {
        let next = FirstFrameNumbers { local: self.input.packets, by_link: entered.to_vec() };
        let streams = LinkStreams { seed, link: &new.name, next };
        self.far_end.split_bursts(self.plain_delay_ns, carrier);
        match &mut self.ingress {
            Some(front) => front.change(old, new, &streams, at_ns),
            None if ingress::is_needed(new) => {
                self.ingress = Some(Box::new(IngressStages::new(new, &streams, at_ns)));
            }
            None => {}
        }
        let counters = &mut self.counters;
        match &mut self.server {
            Some(server) => {
                let mut sink = LinkSink { carrier, counters, link: self.id };
                server.change(old, new, &streams, at_ns, &mut sink);
            }
            None if new.has_line() => {
                self.server = Some(Box::new(LineServer::new(new, &streams, at_ns)));
            }
            None => {}
        }
        match &mut self.egress {
            Some(back) => back.change(old, new, &streams, at_ns),
            None if egress::is_needed(new) => {
                self.egress = Some(Box::new(EgressStages::new(new, &streams, at_ns)));
            }
            None => {}
        }
        self.far_end.change(old, new, streams.next, at_ns);
        self.update_plain();
        self.update_next_internal();
    }

    pub(crate) fn set_early(&mut self, early: bool) {
        self.early_delivery = early && matches!(self.to, LinkTarget::Exit(_));
    }

    fn update_plain(&mut self) {
        let stages = self.ingress.is_some() || self.server.is_some() || self.egress.is_some();
        let delay_ns = self.far_end.plain_delay_ns().filter(|_| !stages);
        self.plain_delay_ns = delay_ns.unwrap_or(NEVER_NS);
        self.payload_agnostic = self.is_payload_agnostic();
    }

    /// Whether the link is plain: it only applies a constant delay and keeps the order, and never
    /// had stages before the delay. Then frames can go straight to [`Self::arrive_all`].
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain_delay_ns != NEVER_NS
    }

    /// Takes a burst into a plain link. Returns `false` without an effect if its frames have to be
    /// pushed one by one.
    #[inline]
    pub(crate) fn arrive_burst(&mut self, burst: Burst) -> bool {
        // A single frame takes less memory as an [`InFlightFrame`] than as a burst.
        let alone = burst.packets == 1 && !self.far_end.has_bursts();
        if alone || self.early_delivery || !matches!(self.to, LinkTarget::Exit(_)) {
            return false;
        }
        let sent = self.far_end.send_burst(burst, self.plain_delay_ns);
        if sent {
            self.input += burst.counts();
        }
        sent
    }

    /// Takes frames into a [plain](Self::is_plain) link.
    #[inline]
    pub(crate) fn arrive_all(&mut self, frames: &[FrameArrival], carrier: &mut impl Carrier) {
        let delay_ns = self.plain_delay_ns;
        if self.far_end.has_bursts() {
            self.far_end.split_bursts(delay_ns, carrier);
        }
        // After a change to a shorter delay, these frames may be due before an earlier frame. The
        // order policy then decides about each of them.
        if frames.first().is_some_and(|first| self.far_end.is_late(first.arrival_ns, delay_ns)) {
            return frames.iter().for_each(|&frame| self.arrive(frame, carrier));
        }
        let bytes = frames.iter().map(|frame| u64::from(frame.len)).sum();
        self.input += PacketCounts { packets: frames.len() as u64, bytes };
        let flights = frames.iter().map(|frame| InFlightFrame {
            release_ns: frame.arrival_ns.saturating_add(delay_ns),
            handle: frame.handle,
            len: frame.len,
        });
        if self.may_deliver_early() {
            for flight in flights {
                let flight = self.far_end.pass(flight);
                self.deliver(flight, carrier);
            }
        } else {
            self.far_end.send_all(flights);
        }
    }

    /// Number of frames that have entered the link.
    pub(crate) const fn entered(&self) -> u64 {
        self.input.packets
    }

    /// Takes a frame that enters the network by this link. The caller has performed all earlier
    /// events ([`Self::settle`]).
    #[inline(always)]
    pub(crate) fn arrive(&mut self, frame: FrameArrival, carrier: &mut impl Carrier) {
        let id = FrameId::entered(self.input.packets);
        self.arrive_as(frame.with_id(id), carrier);
    }

    /// Takes a frame that already has its id. The caller has performed all earlier events
    /// ([`Self::settle`]).
    #[inline(always)]
    pub(crate) fn arrive_as(&mut self, frame: LinkFrame, carrier: &mut impl Carrier) {
        self.input.count(frame.len);
        if let Some(front) = &mut self.ingress {
            let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
            if front.pass(frame, &mut sink).is_none() {
                return self.update_next_internal();
            }
        }
        self.enter(frame, carrier);
        self.update_next_internal();
    }

    /// Updates the time of the next event inside the link.
    #[inline(always)]
    fn update_next_internal(&mut self) {
        let front = self.ingress.as_ref().map_or(NEVER_NS, |front| front.next_ns());
        let server = self.server.as_ref().map_or(NEVER_NS, |server| server.next_ns());
        let back = self.egress.as_ref().map_or(NEVER_NS, |back| back.next_ns());
        self.next_internal_ns = front.min(server).min(back);
    }

    /// Time of the next event; `None` if there is none.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let outside = self.far_end.next_ns(self.plain_delay_ns).unwrap_or(u64::MAX);
        let next_ns = outside.min(self.next_internal_ns);
        (next_ns != u64::MAX).then_some(next_ns)
    }

    /// Performs the events inside the link up to `now_ns`, in order of time. At equal times the
    /// line comes first, so that an arriving frame finds the queue space that the line freed.
    #[inline]
    pub(crate) fn settle(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        while self.next_internal_ns <= now_ns && self.next_internal_ns != NEVER_NS {
            self.step(self.next_internal_ns, carrier);
            self.update_next_internal();
        }
    }

    #[inline]
    fn step(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        if let Some(server) = &mut self.server
            && server.next_ns() == now_ns
        {
            let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
            if let Some(served) = server.serve(&mut sink) {
                self.depart(served, carrier);
            }
        } else if let Some(copy) = self.egress.as_mut().and_then(|back| back.release(now_ns)) {
            self.propagate(copy, carrier);
        } else if let Some(frame) = self.ingress.as_mut().and_then(|front| front.release(now_ns)) {
            self.enter(frame, carrier);
        }
    }

    /// Moves a frame to the queue, or past the queue if the link has no line or the frame need not
    /// wait.
    #[inline(always)]
    fn enter(&mut self, frame: LinkFrame, carrier: &mut impl Carrier) {
        let Some(server) = &mut self.server else {
            let LinkFrame { arrival_ns, handle, len, id } = frame;
            let (start_ns, base_ns) = (arrival_ns, arrival_ns);
            let departed = LineDeparture { handle, len, start_ns, base_ns, id, copy: 0 };
            return self
                .depart(ServedFrame { departed, end_ns: arrival_ns, lost_to: None }, carrier);
        };
        let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
        if server.is_idle(frame.arrival_ns) {
            if let Some(served) = server.bypass(frame, &mut sink) {
                self.depart(served, carrier);
            }
            return;
        }
        server.enqueue(frame, &mut sink);
        while let Some(now_ns) = self.server.as_ref().map(|server| server.next_ns())
            && now_ns <= frame.arrival_ns
        {
            self.step(now_ns, carrier);
        }
    }

    /// Moves a frame from the line to the egress stages.
    #[inline(always)]
    fn depart(&mut self, served: ServedFrame, carrier: &mut impl Carrier) {
        let ServedFrame { departed, end_ns, lost_to } = served;
        let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
        if let Some(cause) = lost_to {
            return sink.lose(departed.as_frame(), end_ns, cause);
        }
        let Some(back) = &mut self.egress else { return self.propagate(departed, carrier) };
        if !back.pass(departed, end_ns, &mut sink) {
            return;
        }
        let copies = back.copies(departed.id);
        self.propagate_with_copies(departed, copies, carrier);
    }

    #[inline]
    fn propagate_with_copies(
        &mut self,
        frame: LineDeparture,
        copies: u32,
        carrier: &mut impl Carrier,
    ) {
        // Copies are made before the frame is sent, because a delivered frame belongs to the
        // caller.
        let mut made = alloc::vec::Vec::new();
        for number in 1..=copies {
            let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
            if let Some(back) = &mut self.egress {
                made.extend(back.copy(frame, number, &mut sink));
            }
        }
        self.propagate(frame, carrier);
        for copy in made {
            self.propagate(copy, carrier);
        }
    }

    /// Sends a frame towards the far end.
    #[inline(always)]
    fn propagate(&mut self, frame: LineDeparture, carrier: &mut impl Carrier) {
        match self.far_end.judge(frame, carrier) {
            SendOutcome::Overtook => {
                let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
                sink.lose(frame.as_frame(), frame.base_ns, LinkDropCause::Order);
            }
            SendOutcome::Unanswered => {
                let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
                sink.lose(frame.as_frame(), frame.base_ns, LinkDropCause::Model);
            }
            SendOutcome::Released { flight, clamped } => {
                if clamped {
                    self.counters.clamped.count(flight.len);
                }
                if flight.release_ns != NEVER_NS && self.may_deliver_early() {
                    self.deliver(flight, carrier);
                } else {
                    if self.far_end.has_bursts() {
                        self.far_end.split_bursts(self.plain_delay_ns, carrier);
                    }
                    self.far_end.send(flight, frame.id, frame.copy);
                }
            }
        }
    }

    /// Removes the next frame that has reached the node at the far end by `now_ns`; `None` if there
    /// is none.
    #[inline]
    pub(crate) fn hop_due(&mut self, now_ns: u64, carrier: &mut impl Carrier) -> Option<LinkFrame> {
        let (flight, id) = self.far_end.hop_due(now_ns)?;
        self.output.count(flight.len);
        carrier.on_hop(self.id, &flight);
        Some(flight.to_arrival().with_id(id))
    }

    /// Delivers the frames that have reached the exit by `now_ns`; with early delivery, all frames
    /// in flight if they are in order.
    #[inline]
    pub(crate) fn deliver_due(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        let LinkTarget::Exit(exit) = self.to else { return };
        let early = self.early_delivery && self.far_end.in_order();
        let until_ns = if early { NEVER_NS - 1 } else { now_ns };
        let Self { far_end, output, id, plain_delay_ns, .. } = self;
        let exit = ExitId(exit as u16);
        far_end.take_due(until_ns, |flights| {
            let bytes = flights.iter().map(|flight| u64::from(flight.len)).sum();
            *output += PacketCounts { packets: flights.len() as u64, bytes };
            carrier.deliver_all(exit, *id, flights);
        });
        while let Some(burst) = far_end.pop_burst(until_ns, *plain_delay_ns, carrier) {
            *output += burst.counts();
            carrier.deliver_burst(exit, *id, *plain_delay_ns, burst);
        }
    }

    #[inline]
    fn may_deliver_early(&self) -> bool {
        self.early_delivery && self.far_end.in_order() && self.far_end.len() == 0
    }

    #[inline]
    fn deliver(&mut self, flight: InFlightFrame, carrier: &mut impl Carrier) {
        let LinkTarget::Exit(exit) = self.to else { return };
        self.output.count(flight.len);
        carrier.deliver(flight.to_delivery(ExitId(exit as u16), self.id));
    }

    pub(crate) fn counters(&self) -> LinkCounters {
        let (input, output) = (self.input, self.output);
        let mut counters = LinkCounters { input, output, ..*self.counters };
        let front = self.ingress.as_ref().map_or(0, |front| front.held());
        let server = self.server.as_ref().map_or(0, |server| server.waiting());
        let back = self.egress.as_ref().map_or(0, |back| back.held());
        let gone = counters.output + counters.drops.total();
        let bytes = (counters.input + counters.copies).bytes - gone.bytes;
        counters.in_flight =
            PacketCounts { packets: front + server + back + self.far_end.len(), bytes };
        counters
    }
}
