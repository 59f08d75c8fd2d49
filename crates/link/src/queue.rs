//! The queue of a link, in which frames wait for the line: its limits, disciplines, and marks.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use slipring_model::ParameterError;
use slipring_model::aqm::{
    Aqm, AqmArrival, AqmDeparture, AqmDropCause, AqmQueueView, AqmVerdict, CoDel, CoDelSpec,
    DelaySource, DequeuedPacket, DualPi2, DualPi2Spec, FairQueue, FairSpec, FifoAqm, MultiQueue,
    Pie, PieSpec, QueuedPacket, Red, RedSpec,
};
use slipring_model::{Draws, Stream};
use slipring_wire::FlowHasher;

use crate::carrier::{Carrier, FrameHandle, LinkDropCause, LinkFrame, QueueArrival};
use crate::counters::PacketCounts;
use crate::ecn;
use crate::frame_id::FrameId;
use crate::sink::LinkSink;
use crate::spec::{AdmitPolicy, Discipline, LinkQueueSpec};

pub(crate) struct LinkQueue {
    spec: LinkQueueSpec,
    kind: LinkQueueKind,
    draws: Draws,
    hasher: FlowHasher,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a FIFO is the usual one, and is looked at for each packet"
)]
enum LinkQueueKind {
    Fifo(FifoQueue),
    Multi(Box<MultiQueue<IdentifiedFrame>>),
}

struct FifoQueue {
    aqm: FifoAqm,
    waiting: VecDeque<LinkFrame>,
    bytes: u64,
}

/// A frame in a multi-queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdentifiedFrame {
    handle: FrameHandle,
    id: FrameId,
}

/// The state of the line after the queue, as needed to decide on an arrival.
pub(crate) struct LineBacklog {
    /// The frame on the line: 1 packet and its bytes; zeros if the line is free.
    pub(crate) busy: PacketCounts,
    /// Estimate of how long a frame that arrives now would wait for the line, in ns; 0 if the queue
    /// does not [need](LinkQueue::needs_wait_ns) it.
    pub(crate) wait_ns: u64,
}

impl LinkQueue {
    pub(crate) fn new(spec: &LinkQueueSpec, mut stream: Stream, draws: Draws) -> Self {
        let hasher = FlowHasher::new([stream.next_u64(), stream.next_u64()]);
        let kind =
            LinkQueueKind::new(spec).expect("specifications are judged before anything is built");
        Self { spec: spec.clone(), kind, draws, hasher }
    }

    /// Switches to another specification. Waiting frames stay, except those that a new discipline
    /// of several queues drops. The AQM algorithm keeps its state if only its parameters change.
    pub(crate) fn change<C: Carrier>(
        &mut self,
        spec: &LinkQueueSpec,
        now_ns: u64,
        sink: &mut LinkSink<'_, C>,
    ) {
        if *spec == self.spec {
            return;
        }
        let fresh =
            LinkQueueKind::new(spec).expect("specifications are judged before anything is built");
        self.spec = spec.clone();
        if self.kind.retune(spec) {
            return;
        }
        let old = core::mem::replace(&mut self.kind, fresh);
        for frame in old.drain(sink) {
            self.restore(frame, now_ns, sink);
        }
    }

    /// Bytes and packets waiting in the queue, without the frame on the line.
    #[inline]
    pub(crate) fn backlog(&self) -> PacketCounts {
        match &self.kind {
            LinkQueueKind::Fifo(fifo) => {
                PacketCounts { packets: fifo.waiting.len() as u64, bytes: fifo.bytes }
            }
            LinkQueueKind::Multi(multi) => {
                PacketCounts { packets: multi.packets(), bytes: multi.bytes() }
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match &self.kind {
            LinkQueueKind::Fifo(fifo) => fifo.waiting.is_empty(),
            LinkQueueKind::Multi(multi) => multi.packets() == 0,
        }
    }

    /// Whether judging an arrival needs the expected waiting time.
    #[inline]
    pub(crate) fn needs_wait_ns(&self) -> bool {
        let asks = |pie: &PieSpec| pie.delay_from == DelaySource::View;
        self.spec.delay_ns.is_some()
            || matches!(&self.spec.discipline, Discipline::Pie(pie) if asks(pie))
    }

    /// Enqueues a frame, or drops it, or drops waiting frames to make room; returns whether the
    /// frame was enqueued. `wait_ns` estimates the wait for a given backlog.
    #[inline]
    pub(crate) fn enqueue<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        ahead: &LineBacklog,
        wait_ns: impl FnMut(PacketCounts) -> u64,
        sink: &mut LinkSink<'_, C>,
    ) -> bool {
        if matches!(self.spec.discipline, Discipline::DropHead) {
            return self.replace(frame, ahead, wait_ns, sink);
        }
        if self.spec.delay_ns.is_some_and(|limit_ns| ahead.wait_ns > limit_ns) {
            sink.lose(frame, frame.arrival_ns, LinkDropCause::Queue);
            return false;
        }
        match &mut self.kind {
            LinkQueueKind::Multi(multi) => {
                let entry = entry(frame, &self.hasher, sink.carrier);
                let now_ns = frame.arrival_ns;
                let mut taken = true;
                let stream = &mut self.draws.stream(frame.id.draw());
                multi.enqueue(now_ns, entry, stream, &mut |entry, cause| {
                    taken &= entry.handle.handle != frame.handle;
                    sink.lose(arrival(&entry), now_ns, cause_of(cause));
                });
                taken
            }
            LinkQueueKind::Fifo(fifo) => {
                if is_full(&self.spec, fifo.view(ahead), frame.len) {
                    sink.lose(frame, frame.arrival_ns, LinkDropCause::Queue);
                    return false;
                }
                let admitted = fifo.admits(frame, ahead, self.draws, sink);
                if admitted {
                    fifo.push(frame);
                }
                admitted
            }
        }
    }

    /// Drops the oldest waiting frames until the new frame fits, and enqueues the new frame. If the
    /// limits refuse it even without waiting frames, drops only the new frame. Returns whether the
    /// frame was enqueued.
    fn replace<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        ahead: &LineBacklog,
        mut wait_ns: impl FnMut(PacketCounts) -> u64,
        sink: &mut LinkSink<'_, C>,
    ) -> bool {
        let mut fits = |queue: &Self, waiting: PacketCounts| {
            let PacketCounts { packets, bytes } = waiting + ahead.busy;
            let view = AqmQueueView { bytes, packets, delay_ns: 0 };
            let late = queue.spec.delay_ns.is_some_and(|limit_ns| wait_ns(waiting) > limit_ns);
            !late && !is_full(&queue.spec, view, frame.len)
        };
        if !fits(self, PacketCounts::default()) {
            sink.lose(frame, frame.arrival_ns, LinkDropCause::Queue);
            return false;
        }
        while !fits(self, self.backlog()) {
            let LinkQueueKind::Fifo(fifo) = &mut self.kind else { break };
            let Some(oldest) = fifo.pop() else { break };
            sink.lose(oldest, frame.arrival_ns, LinkDropCause::Queue);
        }
        if let LinkQueueKind::Fifo(fifo) = &mut self.kind {
            fifo.push(frame);
        }
        true
    }

    /// Whether the queue is empty and frames may [bypass](Self::bypass) it.
    #[inline(always)]
    pub(crate) fn is_bypassable(&self) -> bool {
        matches!(&self.kind, LinkQueueKind::Fifo(fifo) if fifo.waiting.is_empty())
            && !self.needs_wait_ns()
    }

    /// Enqueues and dequeues a frame at the same time, with an idle line; returns `false` if the
    /// frame is dropped.
    #[inline(always)]
    pub(crate) fn bypass<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        sink: &mut LinkSink<'_, C>,
    ) -> bool {
        let (at_ns, len) = (frame.arrival_ns, frame.len);
        let LinkQueueKind::Fifo(fifo) = &mut self.kind else { return false };
        let nothing = LineBacklog { busy: PacketCounts::default(), wait_ns: 0 };
        if is_full(&self.spec, fifo.view(&nothing), len) {
            sink.lose(frame, at_ns, LinkDropCause::Queue);
            return false;
        }
        if !fifo.admits(frame, &nothing, self.draws, sink) {
            return false;
        }
        let link = sink.link;
        sink.carrier.on_enqueue(QueueArrival { link, at_ns, bytes: len.into(), packets: 1 });
        if !fifo.admits_departure(frame, at_ns, sink) {
            return false;
        }
        if self.spec.mark_above_ns == Some(0) {
            sink.mark(frame.handle, len);
        }
        true
    }

    /// Returns whether the queue is a FIFO that, if it is empty and the line is free, admits a
    /// frame by its length alone and does not mark it.
    pub(crate) fn is_payload_agnostic(&self) -> bool {
        let by_length = |fifo: &FifoQueue| matches!(fifo.aqm, FifoAqm::None | FifoAqm::CoDel(_));
        self.spec.mark_above_ns != Some(0)
            && matches!(&self.kind, LinkQueueKind::Fifo(fifo) if by_length(fifo))
    }

    /// Bytes of the longest frame that the empty queue admits. Only for a
    /// [payload-agnostic](Self::is_payload_agnostic) queue.
    pub(crate) fn max_len(&self) -> u64 {
        match self.spec.admit {
            AdmitPolicy::Strict => self.spec.bytes.unwrap_or(u64::MAX),
            AdmitPolicy::Tlem => u64::MAX,
        }
    }

    /// Whether the queue has an AQM algorithm, which [`Self::note_bypass`] must inform of frames
    /// that bypass the queue.
    pub(crate) fn has_aqm(&self) -> bool {
        !matches!(&self.kind, LinkQueueKind::Fifo(FifoQueue { aqm: FifoAqm::None, .. }))
    }

    /// Informs the AQM algorithm that frames bypassed the queue, the last one of `len` bytes at
    /// `at_ns`.
    #[inline]
    pub(crate) fn note_bypass(&mut self, at_ns: u64, len: u32) {
        if let LinkQueueKind::Fifo(fifo) = &mut self.kind {
            // None of the frames waited, and CoDel uses only the sojourn time, so the queue length
            // may be 0.
            let queue = AqmQueueView::default();
            let leaving = AqmDeparture { now_ns: at_ns, len, sojourn_ns: 0, queue };
            let verdict = fifo.aqm.dequeue(&leaving, || false);
            debug_assert_eq!(verdict, AqmVerdict::Keep, "nothing waited");
        }
    }

    /// Removes and returns the frame that goes on the line at `now_ns`; `None` if no frame is left.
    #[inline]
    pub(crate) fn dequeue<C: Carrier>(
        &mut self,
        now_ns: u64,
        sink: &mut LinkSink<'_, C>,
    ) -> Option<LinkFrame> {
        let frame = match &mut self.kind {
            LinkQueueKind::Fifo(fifo) => fifo.dequeue(now_ns, sink),
            LinkQueueKind::Multi(multi) => {
                let departure = multi.dequeue(now_ns, &mut |entry, cause| {
                    sink.lose(arrival(&entry), now_ns, cause_of(cause));
                });
                departure.map(|departure| departed(&departure, sink))
            }
        }?;
        if let Some(above_ns) = self.spec.mark_above_ns
            && now_ns.saturating_sub(frame.arrival_ns) >= above_ns
        {
            sink.mark(frame.handle, frame.len);
        }
        Some(frame)
    }

    /// Enqueues a frame that was already waiting before the queue was changed. A FIFO queue takes
    /// it without a check.
    fn restore<C: Carrier>(&mut self, frame: LinkFrame, now_ns: u64, sink: &mut LinkSink<'_, C>) {
        match &mut self.kind {
            LinkQueueKind::Fifo(fifo) => fifo.push(frame),
            LinkQueueKind::Multi(multi) => {
                let entry = entry(frame, &self.hasher, sink.carrier);
                let stream = &mut self.draws.stream(frame.id.draw());
                multi.enqueue(now_ns, entry, stream, &mut |entry, cause| {
                    sink.lose(arrival(&entry), now_ns, cause_of(cause));
                });
            }
        }
    }
}

/// Whether a frame of `len` bytes does not fit.
#[inline]
fn is_full(spec: &LinkQueueSpec, queue: AqmQueueView, len: u32) -> bool {
    let (bytes, packets) = match spec.admit {
        AdmitPolicy::Strict => (queue.bytes + u64::from(len), queue.packets + 1),
        AdmitPolicy::Tlem => (queue.bytes, queue.packets),
    };
    spec.bytes.is_some_and(|limit| bytes > limit)
        || spec.packets.is_some_and(|limit| packets > limit)
}

impl FifoQueue {
    /// Returns the queue as an arriving frame finds it: waiting frames, the frame on the line, and
    /// the expected wait.
    #[inline]
    fn view(&self, ahead: &LineBacklog) -> AqmQueueView {
        AqmQueueView {
            bytes: self.bytes + ahead.busy.bytes,
            packets: self.waiting.len() as u64 + ahead.busy.packets,
            delay_ns: ahead.wait_ns,
        }
    }

    /// Asks the AQM algorithm about an arriving frame; drops the frame and returns `false` if the
    /// algorithm refuses it.
    #[inline(always)]
    fn admits<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        ahead: &LineBacklog,
        draws: Draws,
        sink: &mut LinkSink<'_, C>,
    ) -> bool {
        if matches!(self.aqm, FifoAqm::None) {
            return true;
        }
        let now_ns = frame.arrival_ns;
        let arriving = AqmArrival { now_ns, len: frame.len, queue: self.view(ahead) };
        let capable = || ecn::read(sink.carrier.frame(frame.handle)).is_capable();
        match self.aqm.admit(&arriving, capable, &mut draws.stream(frame.id.draw())) {
            AqmVerdict::Keep => {}
            AqmVerdict::Mark => _ = sink.mark(frame.handle, frame.len),
            AqmVerdict::Drop => {
                sink.lose(frame, now_ns, LinkDropCause::Aqm);
                return false;
            }
        }
        true
    }

    #[inline]
    fn dequeue<C: Carrier>(
        &mut self,
        now_ns: u64,
        sink: &mut LinkSink<'_, C>,
    ) -> Option<LinkFrame> {
        loop {
            let frame = self.pop()?;
            if self.admits_departure(frame, now_ns, sink) {
                return Some(frame);
            }
        }
    }

    /// Asks the AQM algorithm about a departing frame; drops the frame and returns `false` if the
    /// algorithm refuses it.
    #[inline(always)]
    fn admits_departure<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        now_ns: u64,
        sink: &mut LinkSink<'_, C>,
    ) -> bool {
        if matches!(self.aqm, FifoAqm::None) {
            return true;
        }
        let (bytes, packets) = (self.bytes, self.waiting.len() as u64);
        let leaving = AqmDeparture {
            now_ns,
            len: frame.len,
            sojourn_ns: now_ns.saturating_sub(frame.arrival_ns),
            queue: AqmQueueView { bytes, packets, delay_ns: 0 },
        };
        let capable = || ecn::read(sink.carrier.frame(frame.handle)).is_capable();
        match self.aqm.dequeue(&leaving, capable) {
            AqmVerdict::Keep => {}
            AqmVerdict::Mark => _ = sink.mark(frame.handle, frame.len),
            AqmVerdict::Drop => {
                sink.lose(frame, now_ns, LinkDropCause::Aqm);
                return false;
            }
        }
        true
    }

    #[inline]
    fn push(&mut self, frame: LinkFrame) {
        self.bytes += u64::from(frame.len);
        self.waiting.push_back(frame);
    }

    #[inline]
    fn pop(&mut self) -> Option<LinkFrame> {
        let frame = self.waiting.pop_front()?;
        self.bytes -= u64::from(frame.len);
        Some(frame)
    }
}

impl LinkQueueKind {
    fn new(spec: &LinkQueueSpec) -> Result<Self, ParameterError> {
        let fifo = |aqm| Self::Fifo(FifoQueue { aqm, waiting: VecDeque::new(), bytes: 0 });
        let multi = |multi| Self::Multi(Box::new(multi));
        Ok(match &spec.discipline {
            Discipline::DropTail | Discipline::DropHead => fifo(FifoAqm::None),
            Discipline::Red(red) => fifo(FifoAqm::Red(Red::new(&red_of(red, spec))?)),
            Discipline::CoDel(codel) => fifo(FifoAqm::CoDel(CoDel::new(&codel_of(codel, spec))?)),
            Discipline::Pie(pie) => fifo(FifoAqm::Pie(Pie::new(&pie_of(pie, spec))?)),
            Discipline::FqCoDel(fair, codel) => multi(MultiQueue::FqCoDel(
                FairQueue::<_, CoDel>::new(&fair_of(fair, spec), &codel_of(codel, spec))?,
            )),
            Discipline::FqPie(fair, pie) => multi(MultiQueue::FqPie(FairQueue::<_, Pie>::new(
                &fair_of(fair, spec),
                &pie_of(pie, spec),
            )?)),
            Discipline::DualPi2(dual) => {
                multi(MultiQueue::DualPi2(DualPi2::new(&dual_of(dual, spec))?))
            }
        })
    }

    /// Changes the parameters of the discipline in place; returns `false` if `spec` needs another
    /// kind of queue or AQM algorithm.
    fn retune(&mut self, spec: &LinkQueueSpec) -> bool {
        match (self, &spec.discipline) {
            (Self::Fifo(fifo), discipline) => match (&mut fifo.aqm, discipline) {
                (FifoAqm::None, Discipline::DropTail | Discipline::DropHead) => true,
                (FifoAqm::Red(red), Discipline::Red(new)) => red.retune(&red_of(new, spec)).is_ok(),
                (FifoAqm::CoDel(codel), Discipline::CoDel(new)) => {
                    codel.retune(&codel_of(new, spec)).is_ok()
                }
                (FifoAqm::Pie(pie), Discipline::Pie(new)) => pie.retune(&pie_of(new, spec)).is_ok(),
                _ => false,
            },
            (Self::Multi(multi), discipline) => match (multi.as_mut(), discipline) {
                (MultiQueue::FqCoDel(fair), Discipline::FqCoDel(flows, codel)) => {
                    fair.retune(&fair_of(flows, spec), &codel_of(codel, spec)).is_ok()
                }
                (MultiQueue::FqPie(fair), Discipline::FqPie(flows, pie)) => {
                    fair.retune(&fair_of(flows, spec), &pie_of(pie, spec)).is_ok()
                }
                (MultiQueue::DualPi2(dual), Discipline::DualPi2(new)) => {
                    dual.retune(&dual_of(new, spec)).is_ok()
                }
                _ => false,
            },
        }
    }

    /// Returns all waiting frames in order of arrival, without asking the AQM algorithm.
    fn drain<C: Carrier>(self, sink: &mut LinkSink<'_, C>) -> Vec<LinkFrame> {
        match self {
            Self::Fifo(mut fifo) => core::iter::from_fn(|| fifo.pop()).collect(),
            Self::Multi(mut multi) => {
                let departures = multi.drain().into_iter();
                departures.map(|departure| departed(&departure, sink)).collect()
            }
        }
    }
}

/// Returns the frame of a departure, and marks the frame "congestion experienced" if required.
fn departed<C: Carrier>(
    departure: &DequeuedPacket<IdentifiedFrame>,
    sink: &mut LinkSink<'_, C>,
) -> LinkFrame {
    let frame = arrival(&departure.entry);
    if departure.mark {
        sink.mark(frame.handle, frame.len);
    }
    frame
}

fn red_of(red: &RedSpec, spec: &LinkQueueSpec) -> RedSpec {
    RedSpec { ecn: red.ecn || spec.ecn, ..*red }
}

fn codel_of(codel: &CoDelSpec, spec: &LinkQueueSpec) -> CoDelSpec {
    CoDelSpec { ecn: codel.ecn || spec.ecn, ..*codel }
}

fn pie_of(pie: &PieSpec, spec: &LinkQueueSpec) -> PieSpec {
    PieSpec { ecn: pie.ecn || spec.ecn, ..*pie }
}

fn fair_of(fair: &FairSpec, spec: &LinkQueueSpec) -> FairSpec {
    FairSpec {
        limit_packets: packets_of(spec, fair.limit_packets),
        limit_bytes: spec.bytes.unwrap_or(fair.limit_bytes),
        ..*fair
    }
}

fn dual_of(dual: &DualPi2Spec, spec: &LinkQueueSpec) -> DualPi2Spec {
    DualPi2Spec {
        limit_packets: packets_of(spec, dual.limit_packets),
        limit_bytes: spec.bytes.unwrap_or(dual.limit_bytes),
        ..*dual
    }
}

fn packets_of(spec: &LinkQueueSpec, own: u32) -> u32 {
    spec.packets.map_or(own, |limit| u32::try_from(limit).unwrap_or(u32::MAX))
}

fn entry(
    frame: LinkFrame,
    hasher: &FlowHasher,
    carrier: &mut impl Carrier,
) -> QueuedPacket<IdentifiedFrame> {
    let bytes = carrier.frame(frame.handle);
    QueuedPacket {
        handle: IdentifiedFrame { handle: frame.handle, id: frame.id },
        len: frame.len,
        arrival_ns: frame.arrival_ns,
        flow: hasher.hash_frame(bytes) as u32,
        ecn: ecn::read(bytes),
    }
}

fn arrival(entry: &QueuedPacket<IdentifiedFrame>) -> LinkFrame {
    let IdentifiedFrame { handle, id } = entry.handle;
    LinkFrame { arrival_ns: entry.arrival_ns, handle, len: entry.len, id }
}

const fn cause_of(cause: AqmDropCause) -> LinkDropCause {
    match cause {
        AqmDropCause::Limit => LinkDropCause::Queue,
        AqmDropCause::Aqm => LinkDropCause::Aqm,
    }
}
