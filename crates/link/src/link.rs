//! One link in one direction: its stages, and the events between them.
//!
//! A frame comes in by [`Link::arrive`] and is taken as far as it goes at that moment. What waits
//! for time (held frames, the line, late copies) goes on in [`Link::settle`]; what has travelled
//! to the end comes out of [`Link::deliver_due`] or [`Link::hop_due`].
//!
//! A link that only delays, always as long and in order, is *plain*: whole batches go through
//! [`Link::arrive_all`] at the cost of a copy.

use crate::back::{self, Back};
use crate::carrier::{Arrival, Carrier, Cause, ExitId, Flight, Frame, LinkId};
use crate::counters::{Counters, Tally};
use crate::frame_id::{FirstNumbers, FrameId, Onward};
use crate::front::{self, Front};
use crate::output::{Departed, Output, Sent};
use crate::server::{Served, Server};
use crate::sink::Sink;
use crate::spec::{LinkSpec, Target};
use crate::streams::Streams;
use crate::train::Train;

use alloc::boxed::Box;

mod blind;
pub(crate) use blind::Room;

/// The release of a frame that a line never lets through.
const NEVER: u64 = u64::MAX;

// Whole cache lines: links are many, and each is looked at when it has been forgotten.
#[repr(align(64))]
pub(crate) struct Link {
    id: LinkId,
    pub(crate) to: Target,
    input: Tally,
    output: Tally,
    /// All but input and output. Apart, since plain links do not touch it: links are many.
    counters: Box<Counters>,
    /// [`NEVER`] unless the link is plain.
    plain_delay_ns: u64,
    /// Deliveries are made as soon as they are decided.
    early: bool,
    /// Every stage is blind: see [`blind`].
    blind: bool,
    /// When the next frame moves inside the link; [`NEVER`] when none will.
    inside_ns: u64,
    front: Option<Box<Front>>,
    server: Option<Box<Server>>,
    back: Option<Box<Back>>,
    far_end: Output,
}

impl Link {
    /// `key` is [what tells](FrameId::entered_by) the next link of frames that enter here, if one
    /// follows.
    pub(crate) fn new(
        id: LinkId,
        spec: &LinkSpec,
        to: Target,
        key: Option<u32>,
        seed: u64,
        start_ns: u64,
    ) -> Self {
        let streams = Streams { seed, link: &spec.name, next: FirstNumbers::default() };
        let onward = key.map(|key| Onward { key, copies: streams.draws("copies") });
        let make_front = || Box::new(Front::new(spec, &streams, start_ns));
        let make_server = || Box::new(Server::new(spec, &streams, start_ns));
        let make_back = || Box::new(Back::new(spec, &streams, start_ns));
        let mut link = Self {
            id,
            to,
            input: Tally::default(),
            output: Tally::default(),
            counters: Box::default(),
            plain_delay_ns: NEVER,
            early: false,
            blind: false,
            inside_ns: NEVER,
            front: front::is_needed(spec).then(make_front),
            server: spec.has_line().then(make_server),
            back: back::is_needed(spec).then(make_back),
            far_end: Output::new(spec, &streams, start_ns, onward),
        };
        link.find_plain();
        link
    }

    /// Goes over to another specification, now that everything up to `at_ns` is settled. Frames,
    /// streams, and the state of every stage that stays as it is are kept. `entered` tells how many
    /// frames entered by other links, by their keys.
    pub(crate) fn change(
        &mut self,
        (old, new): (&LinkSpec, &LinkSpec),
        seed: u64,
        entered: &[(u32, u64)],
        at_ns: u64,
        carrier: &mut impl Carrier,
    ) {
        let next = FirstNumbers { here: self.input.packets, elsewhere: entered.to_vec() };
        let streams = Streams { seed, link: &new.name, next };
        self.far_end.dissolve(self.plain_delay_ns, carrier);
        match &mut self.front {
            Some(front) => front.change(old, new, &streams, at_ns),
            None if front::is_needed(new) => {
                self.front = Some(Box::new(Front::new(new, &streams, at_ns)));
            }
            None => {}
        }
        let counters = &mut self.counters;
        match &mut self.server {
            Some(server) => {
                let mut sink = Sink { carrier, counters, link: self.id };
                server.change(old, new, &streams, at_ns, &mut sink);
            }
            None if new.has_line() => {
                self.server = Some(Box::new(Server::new(new, &streams, at_ns)));
            }
            None => {}
        }
        match &mut self.back {
            Some(back) => back.change(old, new, &streams, at_ns),
            None if back::is_needed(new) => {
                self.back = Some(Box::new(Back::new(new, &streams, at_ns)));
            }
            None => {}
        }
        self.far_end.change(old, new, streams.next, at_ns);
        self.find_plain();
        self.look_inside();
    }

    pub(crate) fn set_early(&mut self, early: bool) {
        self.early = early && matches!(self.to, Target::Exit(_));
    }

    fn find_plain(&mut self) {
        let stages = self.front.is_some() || self.server.is_some() || self.back.is_some();
        let delay_ns = self.far_end.plain_delay_ns().filter(|_| !stages);
        self.plain_delay_ns = delay_ns.unwrap_or(NEVER);
        self.blind = self.is_blind();
    }

    /// Whether frames need nothing of this link but to be passed to [`Self::arrive_all`].
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain_delay_ns != NEVER
    }

    /// Takes a train into a plain link; `false`, and nothing is done, if its frames have to come
    /// one by one.
    #[inline]
    pub(crate) fn arrive_train(&mut self, train: Train) -> bool {
        // An entry for one frame is smaller where it is no train.
        let alone = train.packets == 1 && !self.far_end.has_trains();
        if alone || self.early || !matches!(self.to, Target::Exit(_)) {
            return false;
        }
        let sent = self.far_end.send_train(train, self.plain_delay_ns);
        if sent {
            self.input += train.tally();
        }
        sent
    }

    /// Takes frames into a plain link.
    #[inline]
    pub(crate) fn arrive_all(&mut self, frames: &[Arrival], carrier: &mut impl Carrier) {
        let delay_ns = self.plain_delay_ns;
        if self.far_end.has_trains() {
            self.far_end.dissolve(delay_ns, carrier);
        }
        let bytes = frames.iter().map(|frame| u64::from(frame.len)).sum();
        self.input += Tally { packets: frames.len() as u64, bytes };
        let flights = frames.iter().map(|frame| Flight {
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

    /// How many frames have come in.
    pub(crate) const fn entered(&self) -> u64 {
        self.input.packets
    }

    /// Takes a frame in that enters the network. Everything before it must be settled.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, frame: Arrival, carrier: &mut impl Carrier) {
        let id = FrameId::entered(self.input.packets);
        self.arrive_as(frame.identified(id), carrier);
    }

    /// Takes a frame in. Everything before it must be settled.
    #[inline(always)]
    pub(crate) fn arrive_as(&mut self, frame: Frame, carrier: &mut impl Carrier) {
        self.input.count(frame.len);
        if let Some(front) = &mut self.front {
            let mut sink = Sink { carrier, counters: &mut self.counters, link: self.id };
            if front.pass(frame, &mut sink).is_none() {
                return self.look_inside();
            }
        }
        self.enter(frame, carrier);
        self.look_inside();
    }

    /// Finds out when the next frame moves inside the link.
    #[inline(always)]
    fn look_inside(&mut self) {
        let front = self.front.as_ref().map_or(NEVER, |front| front.next_ns());
        let server = self.server.as_ref().map_or(NEVER, |server| server.next_ns());
        let back = self.back.as_ref().map_or(NEVER, |back| back.next_ns());
        self.inside_ns = front.min(server).min(back);
    }

    /// When anything happens next; `None` when nothing will.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let outside = self.far_end.next_ns(self.plain_delay_ns).unwrap_or(u64::MAX);
        let next_ns = outside.min(self.inside_ns);
        (next_ns != u64::MAX).then_some(next_ns)
    }

    /// Performs what happens inside the link up to `now_ns`, in order of time. At one moment the
    /// line comes first, so that what it frees is free for what arrives.
    #[inline]
    pub(crate) fn settle(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        while self.inside_ns <= now_ns && self.inside_ns != NEVER {
            self.step(self.inside_ns, carrier);
            self.look_inside();
        }
    }

    #[inline]
    fn step(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        if let Some(server) = &mut self.server
            && server.next_ns() == now_ns
        {
            let mut sink = Sink { carrier, counters: &mut self.counters, link: self.id };
            if let Some(served) = server.serve(&mut sink) {
                self.depart(served, carrier);
            }
        } else if let Some(copy) = self.back.as_mut().and_then(|back| back.release(now_ns)) {
            self.travel(copy, carrier);
        } else if let Some(frame) = self.front.as_mut().and_then(|front| front.release(now_ns)) {
            self.enter(frame, carrier);
        }
    }

    /// A frame reaches the queue, or passes by where there is no line.
    #[inline(always)]
    fn enter(&mut self, frame: Frame, carrier: &mut impl Carrier) {
        let Some(server) = &mut self.server else {
            let Frame { arrival_ns, handle, len, id } = frame;
            let (start_ns, base_ns) = (arrival_ns, arrival_ns);
            let departed = Departed { handle, len, start_ns, base_ns, id, copy: 0 };
            return self.depart(Served { departed, end_ns: arrival_ns, lost_to: None }, carrier);
        };
        let mut sink = Sink { carrier, counters: &mut self.counters, link: self.id };
        if server.is_idle(frame.arrival_ns) {
            if let Some(served) = server.pass(frame, &mut sink) {
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

    /// A frame leaves the line.
    #[inline(always)]
    fn depart(&mut self, served: Served, carrier: &mut impl Carrier) {
        let Served { departed, end_ns, lost_to } = served;
        let mut sink = Sink { carrier, counters: &mut self.counters, link: self.id };
        if let Some(cause) = lost_to {
            return sink.lose(departed.as_frame(), end_ns, cause);
        }
        let Some(back) = &mut self.back else { return self.travel(departed, carrier) };
        if !back.pass(departed, end_ns, &mut sink) {
            return;
        }
        let copies = back.copies(departed.id);
        self.travel_with_copies(departed, copies, carrier);
    }

    #[inline]
    fn travel_with_copies(&mut self, frame: Departed, copies: u32, carrier: &mut impl Carrier) {
        // Copies are made before the frame is sent: once delivered, it is the caller's.
        let mut made = alloc::vec::Vec::new();
        for number in 1..=copies {
            let mut sink = Sink { carrier, counters: &mut self.counters, link: self.id };
            if let Some(back) = &mut self.back {
                made.extend(back.copy(frame, number, &mut sink));
            }
        }
        self.travel(frame, carrier);
        for copy in made {
            self.travel(copy, carrier);
        }
    }

    /// A frame sets out for the far end.
    #[inline(always)]
    fn travel(&mut self, frame: Departed, carrier: &mut impl Carrier) {
        match self.far_end.judge(frame, carrier) {
            Sent::Overtook => {
                let mut sink = Sink { carrier, counters: &mut self.counters, link: self.id };
                sink.lose(frame.as_frame(), frame.base_ns, Cause::Order);
            }
            Sent::Unanswered => {
                let mut sink = Sink { carrier, counters: &mut self.counters, link: self.id };
                sink.lose(frame.as_frame(), frame.base_ns, Cause::Model);
            }
            Sent::Released { flight, clamped } => {
                if clamped {
                    self.counters.clamped.count(flight.len);
                }
                if flight.release_ns != NEVER && self.may_deliver_early() {
                    self.deliver(flight, carrier);
                } else {
                    if self.far_end.has_trains() {
                        self.far_end.dissolve(self.plain_delay_ns, carrier);
                    }
                    self.far_end.send(flight, frame.id, frame.copy);
                }
            }
        }
    }

    /// Takes out the next frame that has reached the node at the far end by `now_ns`.
    #[inline]
    pub(crate) fn hop_due(&mut self, now_ns: u64, carrier: &mut impl Carrier) -> Option<Frame> {
        let (flight, id) = self.far_end.hop_due(now_ns)?;
        self.output.count(flight.len);
        carrier.hop(self.id, &flight);
        Some(flight.arrived().identified(id))
    }

    /// Delivers what has reached the exit by `now_ns`.
    #[inline]
    pub(crate) fn deliver_due(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        let Target::Exit(exit) = self.to else { return };
        let early = self.early && self.far_end.in_order();
        let until_ns = if early { NEVER - 1 } else { now_ns };
        let Self { far_end, output, id, plain_delay_ns, .. } = self;
        let exit = ExitId(exit as u16);
        far_end.take_due(until_ns, |flights| {
            let bytes = flights.iter().map(|flight| u64::from(flight.len)).sum();
            *output += Tally { packets: flights.len() as u64, bytes };
            carrier.deliver_all(exit, *id, flights);
        });
        while let Some(train) = far_end.pop_train(until_ns, *plain_delay_ns, carrier) {
            *output += train.tally();
            carrier.deliver_train(exit, *id, *plain_delay_ns, train);
        }
    }

    #[inline]
    fn may_deliver_early(&self) -> bool {
        self.early && self.far_end.in_order() && self.far_end.len() == 0
    }

    #[inline]
    fn deliver(&mut self, flight: Flight, carrier: &mut impl Carrier) {
        let Target::Exit(exit) = self.to else { return };
        self.output.count(flight.len);
        carrier.deliver(flight.delivered(ExitId(exit as u16), self.id));
    }

    pub(crate) fn counters(&self) -> Counters {
        let (input, output) = (self.input, self.output);
        let mut counters = Counters { input, output, ..*self.counters };
        let front = self.front.as_ref().map_or(0, |front| front.held());
        let server = self.server.as_ref().map_or(0, |server| server.waiting());
        let back = self.back.as_ref().map_or(0, |back| back.held());
        let gone = counters.output + counters.drops.total();
        let bytes = (counters.input + counters.copies).bytes - gone.bytes;
        counters.in_flight = Tally { packets: front + server + back + self.far_end.len(), bytes };
        counters
    }
}
