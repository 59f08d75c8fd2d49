//! The emulation loop, run to completion in one thread: the core of `slipring emulate`.
//!
//! ```text
//!   rx rings --take--> store --push--> network --deliver--> outlets --flush--> tx rings
//!             stamps    bytes  bursts   decides   bursts       copies
//! ```
//!
//! One turn, that is, one iteration of the loop, performs all these steps for a batch. It syncs
//! each rx ring once and then reads the clock. It syncs a tx ring again as long as this makes space
//! for more due frames, and reads the clock after each sync that sent frames. Under light load, due
//! frames are sent first, and the clock is read again after frames were received. A turn never
//! waits; its caller decides what happens between two turns ([`super::emulator_loop`]).

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_link::{
    Burst, BurstItem, Carrier, Delivery, ExitId, FrameArrival, FrameHandle, InFlightFrame, LinkId,
    LostFrame, Network, NetworkSpec, PacketCounts, QueueArrival, QueueDeparture, SpecError,
};
use slipring_port::{Interest, Nanos, Port, Queue, QueueVisitor, RunError, WaitSet};
use slipring_ring::SlotFlags;

use super::frame_tap::FrameTap;
use super::inlet::{PortInlet, RxScratch};
use super::options::RealtimeOptions;
use super::outlet::PortOutlet;
use super::peer_thread::PeerThread;
use crate::account::{EmulationAccount, EmulationState};
use crate::report::histogram::Histogram;
use crate::report::hop_times::HopEntry;
use crate::report::measurement::LinkMeasurement;
use crate::store::{EmulationStore, StoredFrame};

/// Memory allocated at the start, in bytes, so that the first frames do not wait for an allocation.
const PREALLOCATED_BYTES: u64 = 8 << 20;

/// The network delivers at most about this many frames at a time. If a turn receives more than half
/// of this number, the limit is twice the number of received frames instead.
const MIN_SEND_FRAMES: usize = 512;
/// Maximum number of frames in a turn that counts as light load.
const IDLE_TURN_FRAMES: usize = 8;
/// How far beyond its next event the network runs in the first step of `Emulator::release`, in ns.
/// Each further step is twice as long as the previous one.
const CATCH_UP_STEP_NS: Nanos = 16_000;

/// One port: its queues, and its input and output in the network.
pub(super) struct EmulatorPort {
    pub(super) queues: Vec<Box<dyn Queue>>,
    /// The port's input; `None` if the network has no entry for this port.
    pub(super) inlet: Option<PortInlet>,
    /// Index of the port's output in [`RealtimeCarrier::outlets`]; `None` if the network has no
    /// exit for this port.
    pub(super) outlet: Option<usize>,
    /// In a pipeline, the connection to the thread of the other port: received frames go there,
    /// and frames to be sent come from there. `None` otherwise. Boxed, since there may be
    /// thousands of ports.
    pub(super) peer: Option<Box<PeerThread>>,
}

/// Through this, the network accesses the frames that have left the rx rings and are not yet in the
/// tx rings.
pub(super) struct RealtimeCarrier<T> {
    pub(super) store: EmulationStore,
    pub(super) outlets: Vec<PortOutlet>,
    pub(super) measured: Vec<LinkMeasurement>,
    pub(super) unrouted: PacketCounts,
    /// Number of frames that the network has delivered.
    pub(super) delivered: usize,
    pub(super) tap: T,
}

/// The state of one emulating thread.
pub struct Emulator<T> {
    pub(super) ports: Vec<EmulatorPort>,
    pub(super) network: Network,
    pub(super) carrier: RealtimeCarrier<T>,
    rx_scratch: RxScratch,
    /// Whether the last turn received and sent at most [`IDLE_TURN_FRAMES`] frames in total.
    is_lightly_loaded: bool,
}

/// What one turn of an emulator did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnResult {
    /// Number of frames that the turn received from the ports; in a pipeline, plus the frames that
    /// it took over from the other thread.
    pub received: usize,
    /// Number of frames that the turn put into the tx rings.
    pub sent: usize,
    /// When the turn had synced the rx rings, on the clock of [`slipring_port::now`].
    pub at_ns: Nanos,
}

impl<T: FrameTap> Emulator<T> {
    /// Creates the emulation of `plan`, which starts at `now`. Entry and exit `i` of the plan are
    /// `ports[i]`.
    ///
    /// # Errors
    /// [`SpecError`] if the plan cannot be built.
    pub fn between(
        ports: Vec<Port>,
        plan: &NetworkSpec,
        options: &RealtimeOptions,
        tap: T,
        now: Nanos,
    ) -> Result<Self, SpecError> {
        let side = |(i, port): (usize, Port)| EmulatorPort {
            inlet: (i < plan.entries.len()).then(|| PortInlet::of(&port, i, options, now)),
            outlet: (i < plan.exits.len()).then_some(i),
            queues: port.queues,
            peer: None,
        };
        let sides = ports.into_iter().enumerate().map(side).collect();
        Self::of(sides, plan, options, tap, now)
    }

    /// Creates the emulation of the part of `plan` that belongs to the ports in `sides`, which
    /// starts at `now`.
    pub(super) fn of(
        sides: Vec<EmulatorPort>,
        plan: &NetworkSpec,
        options: &RealtimeOptions,
        tap: T,
        now: Nanos,
    ) -> Result<Self, SpecError> {
        let mut store = EmulationStore::new(options.storage_bytes);
        store.prepare(PREALLOCATED_BYTES);
        let outlet = |exit| PortOutlet::new(ExitId(exit as u16), options.late_drop);
        let outlets = (0..plan.exits.len()).map(outlet).collect();
        let measured = plan.links.iter().map(|_| LinkMeasurement::new(options.late_warn)).collect();
        Ok(Self {
            rx_scratch: RxScratch::default(),
            is_lightly_loaded: false,
            network: Network::starting_at(plan, options.seed, now)?,
            ports: sides,
            carrier: RealtimeCarrier {
                store,
                outlets,
                measured,
                unrouted: PacketCounts::default(),
                delivered: 0,
                tap,
            },
        })
    }

    /// Performs one iteration of the loop: receives arrived frames, runs the network up to now, and
    /// sends due frames. If very many are due, because the thread was kept from running, sends only
    /// some of them. Returns what was done.
    pub fn turn(&mut self, clock: impl Fn() -> Nanos) -> Result<TurnResult, RunError> {
        for queue in self.ports.iter_mut().flat_map(|side| &mut side.queues) {
            queue.rx_sync()?;
        }
        // The clock is read after the syncs. So all frames that they found have arrived by this
        // time, and frames that are due by this time may leave.
        let at_ns = clock();
        self.carrier.store.set_time(at_ns);
        let first = if self.is_lightly_loaded { self.send_due(at_ns, &clock)? } else { 0 };
        let received = self.receive(at_ns);
        // Under light load, the clock is read again. So a frame that became due while others were
        // received can leave in this turn instead of the next.
        let late_ns = if self.is_lightly_loaded && received > 0 { clock() } else { at_ns };
        self.release(late_ns, MIN_SEND_FRAMES.max(2 * received));
        let sent = first + self.send(late_ns, clock)?;
        self.is_lightly_loaded = received + sent <= IDLE_TURN_FRAMES;
        Ok(TurnResult { received, sent, at_ns })
    }

    /// Sends due frames before the turn receives frames. So the network has advanced to `now`
    /// before the received frames enter it. Returns the number of frames sent.
    #[inline]
    fn send_due(&mut self, now: Nanos, clock: impl Fn() -> Nanos) -> Result<usize, RunError> {
        if self.network.next_ns().is_none_or(|due| due > now) {
            return Ok(0);
        }
        self.release(now, MIN_SEND_FRAMES);
        self.send(now, clock)
    }

    fn receive(&mut self, now: Nanos) -> usize {
        let Self { ports: sides, network, carrier, rx_scratch, .. } = self;
        let mut received = 0;
        for side in sides {
            let Some(inlet) = &mut side.inlet else { continue };
            let mut entry = inlet.entry();
            let keepers = (&mut carrier.store, &mut carrier.tap);
            let batch = match &mut side.peer {
                None => inlet.take(&mut side.queues, rx_scratch, keepers, now),
                Some(peer) => {
                    received += peer.forward(inlet, &mut side.queues, rx_scratch, now);
                    entry = peer.entry;
                    peer.receive(keepers)
                }
            };
            for &burst in batch {
                network.push_burst(entry, burst, carrier);
                received += burst.packets as usize;
            }
        }
        received
    }

    /// Runs the network up to `now`, or until this call has delivered about `most` frames. After a
    /// pause, all frames in flight may be due. Releasing all of them at once would overflow the
    /// caches and delay arrivals, which would then form another burst.
    #[inline]
    fn release(&mut self, now: Nanos, most: usize) {
        let delivered = self.carrier.delivered;
        let mut step = CATCH_UP_STEP_NS;
        while let Some(next) = self.network.next_ns()
            && next <= now
            && self.carrier.delivered - delivered < most
        {
            self.network.run(now.min(next + step), &mut self.carrier);
            step *= 2;
        }
    }

    /// Sends due frames. Each port sends on its first queue only, because frames on several queues
    /// would overtake each other. Returns the number of frames sent.
    fn send(&mut self, now: Nanos, clock: impl Fn() -> Nanos) -> Result<usize, RunError> {
        let RealtimeCarrier { store, outlets, measured, tap, .. } = &mut self.carrier;
        let mut sent = 0;
        for side in &mut self.ports {
            if let (Some(outlet), Some(queue)) = (side.outlet, side.queues.first_mut()) {
                sent += outlets[outlet].flush(&mut **queue, store, tap, measured, now, &clock)?;
            }
        }
        Ok(sent)
    }

    /// Returns the time of the network's next event.
    pub fn next_ns(&self) -> Option<Nanos> {
        self.network.next_ns()
    }

    /// Returns whether due frames wait for space in a tx ring.
    pub(super) fn is_blocked(&self) -> bool {
        self.carrier.outlets.iter().any(PortOutlet::is_waiting)
    }

    /// Returns whether a port has ended and all received frames have left. After a turn that moved
    /// frames, returns `false`, except in a pipeline both of whose threads have finished.
    pub(super) fn is_done(&mut self, turn: TurnResult) -> bool {
        if turn.received + turn.sent > 0 && !self.peer().is_some_and(PeerThread::is_over) {
            return false;
        }
        let (mut ended, mut frames) = (false, false);
        for queue in self.ports.iter_mut().flat_map(|side| &mut side.queues) {
            let waits = queue.rings().rx.avail() > 0;
            ended |= queue.ended() && !waits;
            frames |= waits;
        }
        let is_empty = self.network.next_ns().is_none() && !self.is_blocked();
        match self.ports.first_mut().and_then(|side| side.peer.as_deref_mut()) {
            None => ended && is_empty,
            Some(peer) => peer.is_done(ended, frames, is_empty),
        }
    }

    /// Returns the connection to the other thread, in a pipeline.
    #[inline]
    pub(super) fn peer(&self) -> Option<&PeerThread> {
        self.ports.first().and_then(|side| side.peer.as_deref())
    }

    /// Returns the current frame counts and measurements; `at_ns` is their timestamp.
    pub(super) fn state(&mut self, at_ns: Nanos) -> EmulationState {
        let mut account = self.account(at_ns);
        account.ring_backlog = self.ring_backlog();
        debug_assert!(account.is_balanced(), "nothing is lost uncounted: {account:?}");
        EmulationState { account, measured: self.carrier.measured.clone() }
    }

    /// Counts the frames in the rx rings that were not received yet.
    fn ring_backlog(&mut self) -> PacketCounts {
        let mut untaken = PacketCounts::default();
        let entries = self.ports.iter_mut().filter(|side| side.inlet.is_some());
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

    /// Returns how late the frames of each link were sent, in ns.
    pub fn errors(&self) -> Vec<Histogram> {
        self.carrier.measured.iter().map(|link| link.error.clone()).collect()
    }

    /// Returns the frame counts so far; `at_ns` is their timestamp.
    pub fn account(&self, at_ns: Nanos) -> EmulationAccount {
        let links =
            (0..self.carrier.measured.len() as u32).map(|link| self.network.counters(LinkId(link)));
        let inlets = self.ports.iter().filter_map(|side| side.inlet.as_ref());
        let (handed_over, taken_over) = self.peer().map(PeerThread::account).unwrap_or_default();
        let mut account = EmulationAccount {
            at_ns,
            links: links.collect(),
            entries: inlets.map(PortInlet::account).collect(),
            exits: self.carrier.outlets.iter().map(PortOutlet::account).collect(),
            unrouted: self.carrier.unrouted,
            ring_backlog: PacketCounts::default(),
            handed_over,
            taken_over,
            storage_bytes: self.carrier.store.memory_bytes()
                + self.peer().map_or(0, PeerThread::memory_bytes),
        };
        account.charge_links();
        account
    }
}

impl<T: FrameTap> Carrier for RealtimeCarrier<T> {
    #[inline]
    fn frame(&mut self, handle: FrameHandle) -> &mut [u8] {
        self.store.get(handle).bytes
    }

    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
        let copy = self.store.copy(handle)?;
        self.tap.copied(handle, copy);
        Some(copy)
    }

    #[inline(always)]
    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { release_ns, handle, len, exit, link } = delivery;
        self.deliver_all(exit, link, &[InFlightFrame { release_ns, handle, len }]);
    }

    #[inline]
    fn deliver_all(&mut self, exit: ExitId, link: LinkId, frames: &[InFlightFrame]) {
        self.delivered += frames.len();
        let outlet = &mut self.outlets[usize::from(exit.0)];
        frames.iter().for_each(|frame| outlet.push(link, *frame));
    }

    #[inline]
    fn burst_item(&mut self, handle: FrameHandle) -> Option<BurstItem> {
        self.store.prefetch_ahead(handle);
        Some(self.store.burst_item(handle))
    }

    #[inline]
    fn split_burst(&mut self, burst: &Burst, frames: &mut Vec<FrameArrival>) {
        self.store.split(burst, frames);
    }

    #[inline]
    fn deliver_burst(&mut self, exit: ExitId, link: LinkId, delay_ns: Nanos, burst: Burst) {
        self.delivered += burst.packets as usize;
        self.outlets[usize::from(exit.0)].push_burst(link, delay_ns, burst);
    }

    fn on_hop(&mut self, link: LinkId, frame: &InFlightFrame) {
        let StoredFrame { arrival_ns: at_ns, is_copy, .. } = self.store.get(frame.handle);
        let entered = HopEntry { at_ns, is_copy };
        self.measured[link.0 as usize].passed(entered, frame.release_ns, frame.len);
        self.store.restamp(frame.handle, frame.release_ns);
    }

    #[inline]
    fn lose(&mut self, lost: LostFrame) {
        if lost.link.is_none() {
            self.unrouted.count(lost.len);
        }
        self.tap.lost(&lost, &mut self.store);
        self.store.free(lost.handle);
    }

    #[inline]
    fn on_enqueue(&mut self, joined: QueueArrival) {
        self.measured[joined.link.0 as usize].joined(&joined);
    }

    #[inline]
    fn on_dequeue(&mut self, queued: QueueDeparture) {
        self.measured[queued.link.0 as usize].queued(&queued);
        self.tap.queued(&queued);
    }

    #[inline]
    fn on_bypass(&mut self, link: LinkId, frames: &[FrameArrival], wire_bytes: &[u64]) {
        self.measured[link.0 as usize].passed_line(frames, wire_bytes);
        if T::IS_ENABLED {
            for (&FrameArrival { arrival_ns: at_ns, len, .. }, &wire_bytes) in
                frames.iter().zip(wire_bytes)
            {
                self.tap.queued(&QueueDeparture { link, at_ns, delay_ns: 0, len, wire_bytes });
            }
        }
    }
}

/// Waits for frames and, if frames are due at a full port, for space in that port.
impl<T> WaitSet for Emulator<T> {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        for side in &mut self.ports {
            let waiting = side.outlet.is_some_and(|i| self.carrier.outlets[i].is_waiting());
            // Without memory for frames, arriving frames must not wake the thread, because it
            // could not take them.
            let starved = side.peer.as_deref().is_some_and(PeerThread::lacks_chunks);
            let rx = side.inlet.is_some() && !starved;
            for (i, queue) in side.queues.iter_mut().enumerate() {
                visit(&mut **queue, Interest { rx, tx: waiting && i == 0 })?;
            }
        }
        Ok(())
    }
}

/// Converts the error of a plan that cannot be built.
pub(super) fn wrong_plan(error: SpecError) -> Failure {
    Diagnostic::new(codes::SR0002, "the links cannot be built").with_cause(error.to_string()).into()
}
