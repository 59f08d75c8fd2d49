//! The emulation loop, run to completion in one thread: the heart of `slipring emulate`.
//!
//! ```text
//!   rx rings --take--> store --push--> network --deliver--> outlets --flush--> tx rings
//!             stamps    bytes  trains   decides   trains       copies
//! ```
//!
//! One turn does all of that once, for a batch: one look at the clock, one sync per ring. Where there
//! is little to do, what is due comes first, and the clock is looked at again. A turn never waits; who
//! calls it decides what happens between two ([`super::drive`]).

use slipring_link::{
    Arrival, Carrier, Coupled, Delivery, ExitId, Flight, Handle, Joined, LinkId, Lost, Network,
    NetworkSpec, Queued, SpecError, Tally, Train,
};
use slipring_port::{Interest, Nanos, Port, Queue, RunError, Visit, WaitSet};
use slipring_ring::SlotFlags;

use super::Manner;
use super::account::Account;
use super::board::State;
use super::far::Far;
use super::inlet::{Hands, Inlet};
use super::outlet::Outlet;
use super::tap::Tap;
use crate::report::histogram::Histogram;
use crate::report::hops::Entered;
use crate::report::measured::Measured;
use crate::store::{Store, Stored};

/// Memory taken at the start, in bytes, so that the first frames do not wait for it.
const PREPARED: u64 = 8 << 20;

/// Frames that a turn may always send.
const FEW: usize = 512;
/// Frames in a turn that has little to do.
const LITTLE: usize = 8;
/// How much of the time that was missed the network makes up for in one go.
const STEP: Nanos = 16_000;

/// One port: its queues, and what they mean to the network.
pub(super) struct Side {
    pub(super) queues: Vec<Box<dyn Queue>>,
    /// What enters here; nothing does where the network has no such entry.
    pub(super) inlet: Option<Inlet>,
    /// Place in the list of outlets.
    pub(super) outlet: Option<usize>,
    /// The thread of the other port, in a pipeline: where frames go from here, and come from. Apart,
    /// since ports may be thousands.
    pub(super) far: Option<Box<Far>>,
}

/// Frames between the rings: what the network runs on.
pub(super) struct Cargo<T> {
    pub(super) store: Store,
    pub(super) outlets: Vec<Outlet>,
    pub(super) measured: Vec<Measured>,
    pub(super) unrouted: Tally,
    /// Frames that the network has handed over.
    pub(super) delivered: usize,
    pub(super) tap: T,
}

/// Everything that one thread emulates.
pub struct Emulator<T> {
    pub(super) sides: Vec<Side>,
    pub(super) network: Network,
    pub(super) cargo: Cargo<T>,
    hands: Hands,
    /// The last turn had little to do.
    has_time: bool,
}

/// What a turn did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// Frames taken in.
    pub taken: usize,
    /// Frames sent.
    pub sent: usize,
    /// When.
    pub at_ns: Nanos,
}

impl<T: Tap> Emulator<T> {
    /// Emulates `plan` from `now` on: its entry and exit `i` are `ports[i]`.
    ///
    /// # Errors
    /// A plan that cannot be built.
    pub fn between(
        ports: Vec<Port>,
        plan: &NetworkSpec,
        manner: &Manner,
        tap: T,
        now: Nanos,
    ) -> Result<Self, SpecError> {
        let side = |(i, port): (usize, Port)| Side {
            inlet: (i < plan.entries.len()).then(|| Inlet::of(&port, i, manner, now)),
            outlet: (i < plan.exits.len()).then_some(i),
            queues: port.queues,
            far: None,
        };
        let sides = ports.into_iter().enumerate().map(side).collect();
        Self::of(sides, plan, manner, tap, now)
    }

    /// Emulates `plan` from `now` on, as far as it concerns these ports.
    pub(super) fn of(
        sides: Vec<Side>,
        plan: &NetworkSpec,
        manner: &Manner,
        tap: T,
        now: Nanos,
    ) -> Result<Self, SpecError> {
        let mut store = Store::new(manner.storage_bytes);
        store.prepare(PREPARED);
        let outlet = |exit| Outlet::new(ExitId(exit as u16), manner.late_drop);
        let outlets = (0..plan.exits.len()).map(outlet).collect();
        let measured = plan.links.iter().map(|_| Measured::new(manner.late_warn)).collect();
        Ok(Self {
            hands: Hands::default(),
            has_time: false,
            network: Network::starting_at(plan, manner.seed, now)?,
            sides,
            cargo: Cargo {
                store,
                outlets,
                measured,
                unrouted: Tally::default(),
                delivered: 0,
                tap,
            },
        })
    }

    /// Takes what has arrived, runs the network up to now, sends what is due; some of it, if a
    /// loop that was late has much to make up for.
    pub fn turn(&mut self, clock: impl Fn() -> Nanos) -> Result<Turn, RunError> {
        for queue in self.sides.iter_mut().flat_map(|side| &mut side.queues) {
            queue.rx_sync()?;
        }
        // What the syncs found had arrived by now, and what is due by now may leave.
        let at_ns = clock();
        self.cargo.store.tick(at_ns);
        let first = if self.has_time { self.send_due(at_ns, &clock)? } else { 0 };
        let taken = self.take(at_ns);
        // What became due while one frame was taken in need not wait for the next turn.
        let late_ns = if self.has_time && taken > 0 { clock() } else { at_ns };
        self.release(late_ns, FEW.max(2 * taken));
        let sent = first + self.send(late_ns, clock)?;
        self.has_time = taken + sent <= LITTLE;
        Ok(Turn { taken, sent, at_ns })
    }

    /// Sends what is due before anything else is done. Frames that have come by then enter a network
    /// that has gone on to the same moment.
    #[inline]
    fn send_due(&mut self, now: Nanos, clock: impl Fn() -> Nanos) -> Result<usize, RunError> {
        if self.network.next_ns().is_none_or(|due| due > now) {
            return Ok(0);
        }
        self.release(now, FEW);
        self.send(now, clock)
    }

    fn take(&mut self, now: Nanos) -> usize {
        let Self { sides, network, cargo, hands, .. } = self;
        let mut taken = 0;
        for side in sides {
            let Some(inlet) = &mut side.inlet else { continue };
            let mut entry = inlet.entry();
            let keepers = (&mut cargo.store, &mut cargo.tap);
            let batch = match &mut side.far {
                None => inlet.take(&mut side.queues, hands, keepers, now),
                Some(far) => {
                    taken += far.pass(inlet, &mut side.queues, hands, now);
                    entry = far.entry;
                    far.receive(keepers)
                }
            };
            for &train in batch {
                network.push_train(entry, train, cargo);
                taken += train.packets as usize;
            }
        }
        taken
    }

    /// Runs the network up to `now`, or until it has delivered about `most` frames. After a pause
    /// everything that was in flight may be due: all of it at once would keep arrivals waiting,
    /// whose frames would then be a burst of their own, and nothing would be in the caches.
    #[inline]
    fn release(&mut self, now: Nanos, most: usize) {
        let delivered = self.cargo.delivered;
        let mut step = STEP;
        while let Some(next) = self.network.next_ns()
            && next <= now
            && self.cargo.delivered - delivered < most
        {
            self.network.run(now.min(next + step), &mut self.cargo);
            step *= 2;
        }
    }

    /// Frames leave by the first queue of a port: on several they would overtake each other.
    fn send(&mut self, now: Nanos, clock: impl Fn() -> Nanos) -> Result<usize, RunError> {
        let Cargo { store, outlets, measured, tap, .. } = &mut self.cargo;
        let mut sent = 0;
        for side in &mut self.sides {
            if let (Some(outlet), Some(queue)) = (side.outlet, side.queues.first_mut()) {
                sent += outlets[outlet].flush(&mut **queue, store, tap, measured, now, &clock)?;
            }
        }
        Ok(sent)
    }

    /// When something will happen by itself.
    pub fn next_ns(&self) -> Option<Nanos> {
        self.network.next_ns()
    }

    /// Whether frames that are due wait for room at a port.
    pub(super) fn is_blocked(&self) -> bool {
        self.cargo.outlets.iter().any(Outlet::is_waiting)
    }

    /// Whether a port will bring no more frames, and all that came have left. A turn that did
    /// something is no end.
    pub(super) fn is_done(&mut self, turn: Turn) -> bool {
        if turn.taken + turn.sent > 0 && !self.far().is_some_and(Far::is_over) {
            return false;
        }
        let (mut ended, mut frames) = (false, false);
        for queue in self.sides.iter_mut().flat_map(|side| &mut side.queues) {
            let waits = queue.rings().rx.avail() > 0;
            ended |= queue.ended() && !waits;
            frames |= waits;
        }
        let is_empty = self.network.next_ns().is_none() && !self.is_blocked();
        match self.sides.first_mut().and_then(|side| side.far.as_deref_mut()) {
            None => ended && is_empty,
            Some(far) => far.is_done(ended, frames, is_empty),
        }
    }

    /// The other thread of a pipeline.
    #[inline]
    pub(super) fn far(&self) -> Option<&Far> {
        self.sides.first().and_then(|side| side.far.as_deref())
    }

    /// What there is to see at `at_ns`.
    pub(super) fn state(&mut self, at_ns: Nanos) -> State {
        let mut account = self.account(at_ns);
        account.untaken = self.untaken();
        debug_assert!(account.balance(), "nothing is lost uncounted: {account:?}");
        State { account, measured: self.cargo.measured.clone() }
    }

    /// Frames in the rings that the ports have filled and nobody has emptied.
    fn untaken(&mut self) -> Tally {
        let mut untaken = Tally::default();
        let entries = self.sides.iter_mut().filter(|side| side.inlet.is_some());
        for queue in entries.flat_map(|side| &mut side.queues) {
            let rx = queue.rings().rx;
            let slots = rx.avail();
            for slot in (0..rx.whole_packets(slots)).map_while(|i| rx.slot(i)) {
                untaken.packets += u64::from(!slot.flags.has(SlotFlags::MOREFRAG));
                untaken.bytes += u64::from(slot.len);
            }
        }
        untaken
    }

    /// How late the frames of each link were sent, in ns.
    pub fn errors(&self) -> Vec<Histogram> {
        self.cargo.measured.iter().map(|link| link.error.clone()).collect()
    }

    /// What was done so far.
    pub fn account(&self, at_ns: Nanos) -> Account {
        let links =
            (0..self.cargo.measured.len() as u32).map(|link| self.network.counters(LinkId(link)));
        let inlets = self.sides.iter().filter_map(|side| side.inlet.as_ref());
        let (given, taken) = self.far().map(Far::account).unwrap_or_default();
        let mut account = Account {
            at_ns,
            links: links.collect(),
            entries: inlets.map(Inlet::account).collect(),
            exits: self.cargo.outlets.iter().map(Outlet::account).collect(),
            unrouted: self.cargo.unrouted,
            untaken: Tally::default(),
            given,
            taken,
            storage_bytes: self.cargo.store.held_bytes() + self.far().map_or(0, Far::held_bytes),
        };
        account.charge_links();
        account
    }
}

impl<T: Tap> Carrier for Cargo<T> {
    #[inline]
    fn frame(&mut self, handle: Handle) -> &mut [u8] {
        self.store.get(handle).bytes
    }

    fn copy(&mut self, handle: Handle) -> Option<Handle> {
        self.store.copy(handle)
    }

    #[inline(always)]
    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { release_ns, handle, len, exit, link } = delivery;
        self.deliver_all(exit, link, &[Flight { release_ns, handle, len }]);
    }

    #[inline]
    fn deliver_all(&mut self, exit: ExitId, link: LinkId, frames: &[Flight]) {
        self.delivered += frames.len();
        let outlet = &mut self.outlets[usize::from(exit.0)];
        frames.iter().for_each(|frame| outlet.push(link, *frame));
    }

    #[inline]
    fn coupled(&mut self, handle: Handle) -> Option<Coupled> {
        self.store.fetch_ahead(handle);
        Some(self.store.coupled(handle))
    }

    #[inline]
    fn uncouple(&mut self, train: &Train, frames: &mut Vec<Arrival>) {
        self.store.uncouple(train, frames);
    }

    #[inline]
    fn deliver_train(&mut self, exit: ExitId, link: LinkId, delay_ns: Nanos, train: Train) {
        self.delivered += train.packets as usize;
        self.outlets[usize::from(exit.0)].push_train(link, delay_ns, train);
    }

    fn hop(&mut self, link: LinkId, frame: &Flight) {
        let Stored { arrival_ns: at_ns, is_copy, .. } = self.store.get(frame.handle);
        let entered = Entered { at_ns, is_copy };
        self.measured[link.0 as usize].passed(entered, frame.release_ns, frame.len);
        self.store.restamp(frame.handle, frame.release_ns);
    }

    #[inline]
    fn lose(&mut self, lost: Lost) {
        if lost.link.is_none() {
            self.unrouted.count(lost.len);
        }
        self.tap.lost(&lost, &mut self.store);
        self.store.free(lost.handle);
    }

    #[inline]
    fn joined(&mut self, joined: Joined) {
        self.measured[joined.link.0 as usize].joined(&joined);
    }

    #[inline]
    fn queued(&mut self, queued: Queued) {
        self.measured[queued.link.0 as usize].queued(&queued);
        self.tap.queued(&queued);
    }

    #[inline]
    fn passed(&mut self, link: LinkId, frames: &[Arrival], wire_bytes: &[u64]) {
        self.measured[link.0 as usize].passed_line(frames, wire_bytes);
        if T::ON {
            for (&Arrival { arrival_ns: at_ns, len, .. }, &wire_bytes) in
                frames.iter().zip(wire_bytes)
            {
                self.tap.queued(&Queued { link, at_ns, delay_ns: 0, len, wire_bytes });
            }
        }
    }
}

/// Waits for frames, and where some are due at a full port, for room there.
impl<T> WaitSet for Emulator<T> {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        for side in &mut self.sides {
            let waiting = side.outlet.is_some_and(|i| self.cargo.outlets[i].is_waiting());
            // What cannot be taken does not wake us.
            let starved = side.far.as_deref().is_some_and(Far::is_starved);
            let rx = side.inlet.is_some() && !starved;
            for (i, queue) in side.queues.iter_mut().enumerate() {
                visit(&mut **queue, Interest { rx, tx: waiting && i == 0 })?;
            }
        }
        Ok(())
    }
}
