//! The far end of a link: delays, order, and the frames in flight.
//!
//! ```text
//!   released in order:  | t1 | t2 | t3 | ...  a FIFO, at the cost of a copy
//!   bursts after them:  | t4 ... t68 | ...    of a link that is plain
//!   overtaking:         { t2.5, ... }         only frames that really overtake
//! ```
//!
//! # Invariants
//! 1. The FIFO is sorted by release time; equal times keep the order of sending.
//! 2. Under a policy that keeps order, `overtaking` holds only frames sent before the policy was
//!    set.
//! 3. Bursts leave after all other frames; [split](LinkOutput::split_bursts) them before sending
//!    a single frame.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use slipring_model::{BitRate, NANOS_PER_SEC, Wheel};

use crate::burst::{Burst, BurstFifo};
use crate::carrier::{Carrier, FrameArrival, FrameHandle, InFlightFrame};
use crate::counters::PacketCounts;
use crate::delay::{DelayStage, FrameDelay};
use crate::fifo::BlockFifo;
use crate::frame_id::{FirstFrameNumbers, FrameId, FrameIdMapper};
use crate::spec::{LinkSpec, OrderPolicy};
use crate::streams::LinkStreams;

/// A time that is never reached; as a delay, "not constant".
const NEVER_NS: u64 = u64::MAX;

/// A frame that left the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineDeparture {
    pub(crate) handle: FrameHandle,
    pub(crate) len: u32,
    /// When its first bit left the line.
    pub(crate) start_ns: u64,
    /// Start of its delay: the delay stage adds to this time.
    pub(crate) base_ns: u64,
    pub(crate) id: FrameId,
    /// Number of the copy that this link made, from 1; 0 for the original frame.
    pub(crate) copy: u32,
}

/// The fate of a frame after the line.
pub(crate) enum SendOutcome {
    /// The frame can be sent as `flight`. `clamped` is whether it leaves later than its delay
    /// requires, to keep the order.
    Released { flight: InFlightFrame, clamped: bool },
    /// The frame would have overtaken an earlier frame, and the order policy drops such frames.
    Overtook,
    /// A user model returned no delay for the frame.
    Unanswered,
}

pub(crate) struct LinkOutput {
    fifo: BlockFifo<InFlightFrame>,
    /// Bursts in flight; `None` until the first burst.
    bursts: Option<Box<BurstFifo>>,
    last_release_ns: u64,
    /// Number of frames in `overtaking`; a copy, because it is read far more often than it changes.
    overtakers: u32,
    /// Whether the link ends at a node, where another link may follow.
    has_next_link: bool,
    /// The delay in ns, if it is constant, nothing is subtracted from it, and the policy keeps the
    /// order; [`NEVER_NS`] otherwise.
    constant_delay_ns: u64,
    /// Data that the fast paths for a constant delay seldom touch, boxed because there are many
    /// links and small caches.
    rules: Box<OutputRules>,
    overtaking: Box<Wheel<InFlightFrame>>,
}

/// Identities of the frames in flight, in the same order as the frames.
struct NextLinkFrames {
    id_mapper: FrameIdMapper,
    in_order: BlockFifo<FrameId>,
    overtaking: Wheel<FrameId>,
}

/// The rules that decide when a frame arrives at the far end.
struct OutputRules {
    delayer: DelayStage,
    order: OrderPolicy,
    /// Rate of the physical port that sends the frames after the link; its serialisation time is
    /// subtracted from the delay. `None` if no such time is subtracted.
    port: Option<BitRate>,
    offset_ns: u64,
    /// Last release time in ns of each path ([`OrderPolicy::Path`]).
    paths: BTreeMap<u32, u64>,
    /// Identities of the frames in flight; `None` if the link ends at an exit.
    next_link_frames: Option<NextLinkFrames>,
}

impl LinkOutput {
    /// Builds the far end; the identities of frames are kept only if `onward` is given.
    pub(crate) fn new(
        spec: &LinkSpec,
        streams: &LinkStreams<'_>,
        start_ns: u64,
        onward: Option<FrameIdMapper>,
    ) -> Self {
        let rules = OutputRules {
            delayer: DelayStage::new(&spec.delay, streams.draws("delay"), start_ns),
            order: spec.order,
            port: port_of(spec),
            offset_ns: spec.offset_ns,
            paths: BTreeMap::new(),
            next_link_frames: onward.map(|onward| {
                let (in_order, overtaking) = (BlockFifo::new(), Wheel::new());
                NextLinkFrames { id_mapper: onward, in_order, overtaking }
            }),
        };
        Self {
            fifo: BlockFifo::new(),
            bursts: None,
            last_release_ns: 0,
            overtakers: 0,
            has_next_link: onward.is_some(),
            constant_delay_ns: rules.constant_delay_ns(),
            rules: Box::new(rules),
            overtaking: Box::new(Wheel::new()),
        }
    }

    /// Switches to another specification; frames in flight are not affected.
    pub(crate) fn change(
        &mut self,
        old: &LinkSpec,
        new: &LinkSpec,
        next: FirstFrameNumbers,
        at_ns: u64,
    ) {
        let rules = &mut self.rules;
        if old.delay != new.delay {
            rules.delayer.change(&old.delay, &new.delay, next, at_ns);
        }
        rules.order = new.order;
        rules.port = port_of(new);
        rules.offset_ns = new.offset_ns;
        self.constant_delay_ns = rules.constant_delay_ns();
    }

    /// Returns the delay in ns, if it is constant, nothing is subtracted from it, and the policy
    /// keeps the order.
    pub(crate) fn plain_delay_ns(&self) -> Option<u64> {
        (self.constant_delay_ns != NEVER_NS).then_some(self.constant_delay_ns)
    }

    /// Decides when a frame arrives at the far end. [`Self::send`] then puts the frame in flight.
    #[inline(always)]
    pub(crate) fn judge(
        &mut self,
        frame: LineDeparture,
        carrier: &mut impl Carrier,
    ) -> SendOutcome {
        let rules = &mut *self.rules;
        let Some(delayed) = rules.delayer.delay(&frame, carrier) else {
            return SendOutcome::Unanswered;
        };
        let FrameDelay { delay_ns, route, not_before_ns } = delayed;
        let own_ns = rules.own_ns(frame.len);
        let due_ns = frame.base_ns.saturating_add(delay_ns).saturating_sub(own_ns);
        // No frame leaves before its first bit left the line, however much is subtracted from the
        // delay.
        let due_ns = due_ns.max(frame.start_ns).max(not_before_ns);
        let last_ns = match rules.order {
            OrderPolicy::Strict | OrderPolicy::Correlated => self.last_release_ns,
            OrderPolicy::Drop if due_ns < self.last_release_ns => return SendOutcome::Overtook,
            OrderPolicy::Drop | OrderPolicy::Free => 0,
            OrderPolicy::Path => rules.paths.get(&route).copied().unwrap_or(0),
        };
        let release_ns = due_ns.max(last_ns);
        if rules.order == OrderPolicy::Path {
            rules.paths.insert(route, release_ns);
        }
        rules.delayer.released(release_ns);
        self.last_release_ns = self.last_release_ns.max(release_ns);
        let flight = InFlightFrame { release_ns, handle: frame.handle, len: frame.len };
        SendOutcome::Released { flight, clamped: release_ns > due_ns }
    }

    /// Whether arrival times depend neither on payload nor on paths nor on gaps between frames, and
    /// every frame arrives.
    pub(crate) fn is_payload_agnostic(&self) -> bool {
        use OrderPolicy::{Correlated, Free, Strict};
        let rules = &*self.rules;
        rules.delayer.is_payload_agnostic() && matches!(rules.order, Strict | Correlated | Free)
    }

    /// Puts frames in flight. The delay of each frame is measured from its entry in `base_ns`, and
    /// each frame began to leave the line at its arrival time. Only for a
    /// [payload-agnostic](Self::is_payload_agnostic) output. Returns the counts of frames that
    /// leave later than their delay requires. `first` is the number of the first frame; `times_ns`
    /// is scratch space of the same length.
    #[inline(never)]
    pub(crate) fn send_batch(
        &mut self,
        frames: &[FrameArrival],
        first: u64,
        base_ns: &[u64],
        times_ns: &mut [u64],
    ) -> PacketCounts {
        let steady_ns = self.constant_delay_ns;
        if steady_ns != NEVER_NS {
            let times = base_ns.iter().zip(&mut *times_ns);
            times.for_each(|(base_ns, time)| *time = base_ns.saturating_add(steady_ns));
        } else {
            self.rules.delayer.delay_all(first, base_ns, times_ns);
            self.rules.make_due(frames, base_ns, times_ns);
        }
        let mut clamped = PacketCounts::default();
        if steady_ns != NEVER_NS || self.rules.order.keeps_order() {
            clamped = self.keep_order(frames, times_ns);
            self.fifo.extend(flights(frames, times_ns));
        } else {
            // No link follows a link that takes whole batches, so no identities are needed.
            flights(frames, times_ns).for_each(|flight| self.send(flight, FrameId::default(), 0));
            let last_ns = times_ns.iter().copied().max().unwrap_or(0);
            self.last_release_ns = self.last_release_ns.max(last_ns);
        }
        clamped
    }

    /// Defers frames that would overtake earlier ones; returns the counts of deferred frames.
    #[inline]
    fn keep_order(&mut self, frames: &[FrameArrival], due_ns: &mut [u64]) -> PacketCounts {
        let (mut last_ns, mut late) = (self.last_release_ns, false);
        let in_order = |&due_ns: &u64| {
            late |= due_ns < last_ns;
            last_ns = last_ns.max(due_ns);
        };
        due_ns.iter().for_each(in_order);
        // The slow path: only if a frame would overtake an earlier one.
        let clamped = if late { self.defer(frames, due_ns) } else { PacketCounts::default() };
        self.last_release_ns = last_ns;
        clamped
    }

    #[cold]
    fn defer(&self, frames: &[FrameArrival], due_ns: &mut [u64]) -> PacketCounts {
        let (mut last_ns, mut clamped) = (self.last_release_ns, PacketCounts::default());
        for (frame, due_ns) in frames.iter().zip(due_ns) {
            if *due_ns < last_ns {
                clamped.count(frame.len);
                *due_ns = last_ns;
            }
            last_ns = *due_ns;
        }
        clamped
    }

    /// Puts a frame in flight, or copy number `copy` of the frame if `copy` is not 0.
    #[inline(always)]
    pub(crate) fn send(&mut self, flight: InFlightFrame, id: FrameId, copy: u32) {
        let overtakes = self.fifo.back().is_some_and(|last| last.release_ns > flight.release_ns);
        if self.has_next_link {
            self.rules.send_to_next_link(flight.release_ns, overtakes, id, copy);
        }
        if overtakes {
            self.overtaking.push(flight.release_ns, flight);
            self.overtakers += 1;
        } else {
            self.fifo.push(flight);
        }
    }

    /// Returns whether a frame with this arrival and delay would overtake an earlier frame.
    #[inline]
    pub(crate) fn is_late(&self, arrival_ns: u64, delay_ns: u64) -> bool {
        arrival_ns.saturating_add(delay_ns) < self.last_release_ns
    }

    /// Puts frames in flight. They come in order and have a constant delay.
    #[inline]
    pub(crate) fn send_all(&mut self, flights: impl ExactSizeIterator<Item = InFlightFrame>) {
        let mut last_ns = self.last_release_ns;
        self.fifo.extend(flights.map(|flight| {
            last_ns = flight.release_ns.max(last_ns);
            InFlightFrame { release_ns: last_ns, ..flight }
        }));
        self.last_release_ns = last_ns;
    }

    /// Puts a burst in flight whose frames all have the delay `delay_ns`; `false` if they have to
    /// be sent one by one.
    #[inline]
    pub(crate) fn send_burst(&mut self, burst: Burst, delay_ns: u64) -> bool {
        // If the first frame of the burst need not wait for earlier frames, its other frames need
        // not wait either.
        if burst.first_ns.saturating_add(delay_ns) < self.last_release_ns || self.overtakers > 0 {
            return false;
        }
        self.last_release_ns = burst.last_ns.saturating_add(delay_ns);
        self.bursts.get_or_insert_with(|| Box::new(BurstFifo::new())).push(burst);
        true
    }

    /// Removes the first burst, or the part of it that has arrived by `now_ns` with this delay;
    /// `None` if nothing has arrived, or single frames are ahead of it.
    #[inline]
    pub(crate) fn pop_burst(
        &mut self,
        now_ns: u64,
        delay_ns: u64,
        carrier: &mut impl Carrier,
    ) -> Option<Burst> {
        let trains = self.bursts.as_deref_mut()?;
        if self.overtakers > 0 || self.fifo.front().is_some() {
            return None;
        }
        // Release times that overflow are set to `u64::MAX`, so at that time all bursts are due.
        let until_ns = if now_ns == u64::MAX { now_ns } else { now_ns.checked_sub(delay_ns)? };
        trains.pop(until_ns, carrier)
    }

    /// Whether bursts are in flight.
    #[inline]
    pub(crate) fn has_bursts(&self) -> bool {
        self.bursts.as_ref().is_some_and(|trains| trains.packets() > 0)
    }

    /// Turns the bursts in flight into single frames.
    #[cold]
    pub(crate) fn split_bursts(&mut self, delay_ns: u64, carrier: &mut impl Carrier) {
        let Some(trains) = &mut self.bursts else { return };
        trains.split_all(delay_ns, carrier, |flight| self.fifo.push(flight));
    }

    /// Like [`Self::send_all`], but for one frame that the caller delivers immediately: the frame
    /// is not stored here, but returned with its release time.
    #[inline]
    pub(crate) fn pass(&mut self, flight: InFlightFrame) -> InFlightFrame {
        self.last_release_ns = flight.release_ns.max(self.last_release_ns);
        InFlightFrame { release_ns: self.last_release_ns, ..flight }
    }

    /// Removes the next frame that has arrived at a node by `now_ns`, and returns it with its
    /// identity.
    #[inline]
    pub(crate) fn hop_due(&mut self, now_ns: u64) -> Option<(InFlightFrame, FrameId)> {
        let before = self.overtakers;
        let flight = self.pop_due(now_ns)?;
        let id = self.rules.next_link_frames.as_mut().and_then(|following| {
            let overtook = self.overtakers < before;
            if overtook { following.overtaking.pop_due(now_ns) } else { following.in_order.pop() }
        });
        Some((flight, id.unwrap_or_default()))
    }

    /// Removes the next frame that has arrived by `now_ns`.
    #[inline]
    fn pop_due(&mut self, now_ns: u64) -> Option<InFlightFrame> {
        let front_ns = self.fifo.front().map_or(u64::MAX, |flight| flight.release_ns);
        if self.overtakers > 0
            && let Some(first_ns) = self.overtaking.next_release_ns()
            && first_ns < front_ns
        {
            let flight = self.overtaking.pop_due(now_ns);
            self.overtakers -= u32::from(flight.is_some());
            return flight;
        }
        if front_ns > now_ns {
            return None;
        }
        self.fifo.pop()
    }

    /// Passes all single frames that have arrived by `now_ns` to `give`, in order of release, in
    /// slices of consecutive frames.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64, mut give: impl FnMut(&[InFlightFrame])) {
        while self.overtakers > 0 {
            let Some(flight) = self.pop_due(now_ns) else { return };
            give(&[flight]);
        }
        loop {
            let run = self.fifo.run();
            let due = run.iter().take_while(|flight| flight.release_ns <= now_ns).count();
            if due == 0 {
                return;
            }
            give(&run[..due]);
            self.fifo.consume(due);
        }
    }

    /// Returns the time at which the next frame arrives, in ns; `None` if no frame is in flight.
    /// `delay_ns` is the delay of bursts.
    #[inline]
    pub(crate) fn next_ns(&self, delay_ns: u64) -> Option<u64> {
        let mut front = self.fifo.front().map(|flight| flight.release_ns);
        if front.is_none()
            && let Some(trains) = &self.bursts
        {
            front = trains.first_ns().map(|first_ns| first_ns.saturating_add(delay_ns));
        }
        if self.overtakers == 0 {
            return front;
        }
        match self.overtaking.next_release_ns() {
            None => front,
            Some(first) => Some(front.map_or(first, |front| front.min(first))),
        }
    }

    /// Whether all frames, those in flight and later ones, leave in the order in which they are
    /// sent.
    pub(crate) fn in_order(&self) -> bool {
        self.rules.order.keeps_order() && self.overtakers == 0
    }

    /// Number of frames in flight.
    pub(crate) fn len(&self) -> u64 {
        let trains = self.bursts.as_ref().map_or(0, |trains| trains.packets());
        self.fifo.len() as u64 + u64::from(self.overtakers) + trains
    }
}

/// Combines each frame with its release time.
#[inline]
fn flights(
    frames: &[FrameArrival],
    releases_ns: &[u64],
) -> impl ExactSizeIterator<Item = InFlightFrame> {
    frames.iter().zip(releases_ns).map(|(frame, &release_ns)| InFlightFrame {
        release_ns,
        handle: frame.handle,
        len: frame.len,
    })
}

impl OutputRules {
    /// Stores the identity of a frame that goes to another link. Not inlined, so that frames that
    /// leave the network here pay nothing for it.
    #[inline(never)]
    fn send_to_next_link(&mut self, release_ns: u64, overtakes: bool, id: FrameId, copy: u32) {
        let Some(following) = &mut self.next_link_frames else { return };
        let id = following.id_mapper.id(id, copy);
        match overtakes {
            true => following.overtaking.push(release_ns, id),
            false => following.in_order.push(id),
        }
    }

    /// Returns the delay in ns, if it is constant, nothing is subtracted from it, and the policy
    /// keeps the order; [`NEVER_NS`] otherwise.
    fn constant_delay_ns(&self) -> u64 {
        let steady = self.port.is_none() && self.offset_ns == 0 && self.order.keeps_order();
        let constant_ns = self.delayer.constant_ns().filter(|_| steady);
        constant_ns.unwrap_or(NEVER_NS)
    }

    /// Converts the delays in `times_ns`, measured from `base_ns`, to due times in place.
    #[inline]
    fn make_due(&self, frames: &[FrameArrival], base_ns: &[u64], times_ns: &mut [u64]) {
        let times = base_ns.iter().zip(times_ns);
        if self.port.is_none() && self.offset_ns == 0 {
            return times.for_each(|(base_ns, time)| *time = base_ns.saturating_add(*time));
        }
        for ((base_ns, time), frame) in times.zip(frames) {
            let due_ns = base_ns.saturating_add(*time).saturating_sub(self.own_ns(frame.len));
            *time = due_ns.max(frame.arrival_ns);
        }
    }

    /// Returns the time in ns that is subtracted from the delay of a frame of `len` bytes: the
    /// fixed offset and the serialisation time of the output port.
    #[inline]
    fn own_ns(&self, len: u32) -> u64 {
        self.port.map_or(0, |port| Self::serialisation_ns(port, len)).saturating_add(self.offset_ns)
    }

    #[inline]
    fn serialisation_ns(port: BitRate, len: u32) -> u64 {
        // `len` is below 2^32, so the product is below 2^65. If it exceeds 64 bits, it needs the
        // wide division.
        let work = u128::from(len) * 8 * u128::from(NANOS_PER_SEC);
        // Rounded down: this time is subtracted from the delay, and no frame may leave early.
        u64::try_from(work).map_or_else(|_| port.divide_wide(work).0, |work| port.divide(work).0)
    }
}

fn port_of(spec: &LinkSpec) -> Option<BitRate> {
    spec.output_bps.and_then(core::num::NonZeroU64::new).map(BitRate::new)
}
