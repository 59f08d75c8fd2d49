//! The queue before the line: limits, disciplines, and marks.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use slipring_model::ParameterError;
use slipring_model::aqm::{
    Aqm, Arriving, CoDel, CoDelSpec, DelayFrom, Departure, DropCause, DualPi2, DualPi2Spec, Entry,
    FairQueue, FairSpec, FifoAqm, Leaving, MultiQueue, Pie, PieSpec, QueueView, Red, RedSpec,
    Verdict,
};
use slipring_model::{Draws, Stream};
use slipring_wire::FlowHasher;

use crate::carrier::{Carrier, Cause, Frame, Handle, Joined};
use crate::counters::Tally;
use crate::ecn;
use crate::frame_id::FrameId;
use crate::sink::Sink;
use crate::spec::{Admit, Discipline, QueueSpec};

pub(crate) struct Queue {
    spec: QueueSpec,
    kind: Kind,
    draws: Draws,
    hasher: FlowHasher,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a FIFO is the usual one, and is looked at for each packet"
)]
enum Kind {
    Fifo(Fifo),
    Multi(Box<MultiQueue<Identified>>),
}

struct Fifo {
    aqm: FifoAqm,
    waiting: VecDeque<Frame>,
    bytes: u64,
}

/// A frame in a queue of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identified {
    handle: Handle,
    id: FrameId,
}

/// What a queue must know of the line behind it to judge an arrival.
pub(crate) struct Ahead {
    /// The frame on the line.
    pub(crate) busy: Tally,
    /// How long a frame that arrives now waits for the line.
    pub(crate) wait_ns: u64,
}

impl Queue {
    pub(crate) fn new(spec: &QueueSpec, mut stream: Stream, draws: Draws) -> Self {
        let hasher = FlowHasher::new([stream.next_u64(), stream.next_u64()]);
        let kind = Kind::new(spec).expect("specifications are judged before anything is built");
        Self { spec: spec.clone(), kind, draws, hasher }
    }

    /// Goes over to another specification. What waits keeps waiting; an algorithm keeps its
    /// state if only its parameters change.
    pub(crate) fn change<C: Carrier>(
        &mut self,
        spec: &QueueSpec,
        now_ns: u64,
        sink: &mut Sink<'_, C>,
    ) {
        if *spec == self.spec {
            return;
        }
        let fresh = Kind::new(spec).expect("specifications are judged before anything is built");
        self.spec = spec.clone();
        if self.kind.retune(spec) {
            return;
        }
        let old = core::mem::replace(&mut self.kind, fresh);
        for frame in old.drain(sink) {
            self.restore(frame, now_ns, sink);
        }
    }

    /// Bytes and packets that wait.
    #[inline]
    pub(crate) fn tally(&self) -> Tally {
        match &self.kind {
            Kind::Fifo(fifo) => Tally { packets: fifo.waiting.len() as u64, bytes: fifo.bytes },
            Kind::Multi(multi) => Tally { packets: multi.packets(), bytes: multi.bytes() },
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.waiting.is_empty(),
            Kind::Multi(multi) => multi.packets() == 0,
        }
    }

    /// Whether judging an arrival needs to know how long it would wait.
    #[inline]
    pub(crate) fn asks_for_wait(&self) -> bool {
        let asks = |pie: &PieSpec| pie.delay_from == DelayFrom::View;
        self.spec.delay_ns.is_some()
            || matches!(&self.spec.discipline, Discipline::Pie(pie) if asks(pie))
    }

    /// Takes a frame in, or loses it or others in its place; whether it was taken in. `wait_ns`
    /// tells how long it would wait behind other frames than those that wait now.
    #[inline]
    pub(crate) fn enqueue<C: Carrier>(
        &mut self,
        frame: Frame,
        ahead: &Ahead,
        wait_ns: impl FnMut(Tally) -> u64,
        sink: &mut Sink<'_, C>,
    ) -> bool {
        if matches!(self.spec.discipline, Discipline::DropHead) {
            return self.replace(frame, ahead, wait_ns, sink);
        }
        if self.spec.delay_ns.is_some_and(|limit_ns| ahead.wait_ns > limit_ns) {
            sink.lose(frame, frame.arrival_ns, Cause::Queue);
            return false;
        }
        match &mut self.kind {
            Kind::Multi(multi) => {
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
            Kind::Fifo(fifo) => {
                if is_full(&self.spec, fifo.view(ahead), frame.len) {
                    sink.lose(frame, frame.arrival_ns, Cause::Queue);
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

    /// Takes a frame in and loses the oldest ones until it fits; loses none but the frame itself if
    /// that would not fit even alone.
    fn replace<C: Carrier>(
        &mut self,
        frame: Frame,
        ahead: &Ahead,
        mut wait_ns: impl FnMut(Tally) -> u64,
        sink: &mut Sink<'_, C>,
    ) -> bool {
        let mut fits = |queue: &Self, waiting: Tally| {
            let Tally { packets, bytes } = waiting + ahead.busy;
            let view = QueueView { bytes, packets, delay_ns: 0 };
            let late = queue.spec.delay_ns.is_some_and(|limit_ns| wait_ns(waiting) > limit_ns);
            !late && !is_full(&queue.spec, view, frame.len)
        };
        if !fits(self, Tally::default()) {
            sink.lose(frame, frame.arrival_ns, Cause::Queue);
            return false;
        }
        while !fits(self, self.tally()) {
            let Kind::Fifo(fifo) = &mut self.kind else { break };
            let Some(oldest) = fifo.pop() else { break };
            sink.lose(oldest, frame.arrival_ns, Cause::Queue);
        }
        if let Kind::Fifo(fifo) = &mut self.kind {
            fifo.push(frame);
        }
        true
    }

    /// Whether it is empty, and one that a frame may [pass](Self::pass).
    #[inline(always)]
    pub(crate) fn is_passable(&self) -> bool {
        matches!(&self.kind, Kind::Fifo(fifo) if fifo.waiting.is_empty()) && !self.asks_for_wait()
    }

    /// Takes a frame in and out again at the same moment, with nobody on the line; `false` if it
    /// is lost.
    #[inline(always)]
    pub(crate) fn pass<C: Carrier>(&mut self, frame: Frame, sink: &mut Sink<'_, C>) -> bool {
        let (at_ns, len) = (frame.arrival_ns, frame.len);
        let Kind::Fifo(fifo) = &mut self.kind else { return false };
        let nothing = Ahead { busy: Tally::default(), wait_ns: 0 };
        if is_full(&self.spec, fifo.view(&nothing), len) {
            sink.lose(frame, at_ns, Cause::Queue);
            return false;
        }
        if !fifo.admits(frame, &nothing, self.draws, sink) {
            return false;
        }
        let link = sink.link;
        sink.carrier.joined(Joined { link, at_ns, bytes: len.into(), packets: 1 });
        if !fifo.lets_go(frame, at_ns, sink) {
            return false;
        }
        if self.spec.mark_above_ns == Some(0) {
            sink.mark(frame.handle, len);
        }
        true
    }

    /// Whether frames that find it empty and the line free are passed on by their length alone.
    pub(crate) fn is_blind(&self) -> bool {
        let by_length = |fifo: &Fifo| matches!(fifo.aqm, FifoAqm::None | FifoAqm::CoDel(_));
        self.spec.mark_above_ns != Some(0)
            && matches!(&self.kind, Kind::Fifo(fifo) if by_length(fifo))
    }

    /// The longest frame that it passes on if it is [blind](Self::is_blind).
    pub(crate) fn longest(&self) -> u64 {
        match self.spec.admit {
            Admit::Strict => self.spec.bytes.unwrap_or(u64::MAX),
            Admit::Tlem => u64::MAX,
        }
    }

    /// Whether there is an algorithm that [learns](Self::passed) of frames.
    pub(crate) fn is_watched(&self) -> bool {
        !matches!(&self.kind, Kind::Fifo(Fifo { aqm: FifoAqm::None, .. }))
    }

    /// Learns that frames were passed on blindly, the last one at `at_ns`.
    #[inline]
    pub(crate) fn passed(&mut self, at_ns: u64, len: u32) {
        if let Kind::Fifo(fifo) = &mut self.kind {
            // None of them waited, and that is all that CoDel learns of each.
            let queue = QueueView::default();
            let leaving = Leaving { now_ns: at_ns, len, sojourn_ns: 0, queue };
            let verdict = fifo.aqm.dequeue(&leaving, || false);
            debug_assert_eq!(verdict, Verdict::Keep, "nothing waited");
        }
    }

    /// Takes out the frame that goes on the line at `now_ns`.
    #[inline]
    pub(crate) fn dequeue<C: Carrier>(
        &mut self,
        now_ns: u64,
        sink: &mut Sink<'_, C>,
    ) -> Option<Frame> {
        let frame = match &mut self.kind {
            Kind::Fifo(fifo) => fifo.dequeue(now_ns, sink),
            Kind::Multi(multi) => {
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

    /// Puts a frame back that was in the queue already.
    fn restore<C: Carrier>(&mut self, frame: Frame, now_ns: u64, sink: &mut Sink<'_, C>) {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.push(frame),
            Kind::Multi(multi) => {
                let entry = entry(frame, &self.hasher, sink.carrier);
                let stream = &mut self.draws.stream(frame.id.draw());
                multi.enqueue(now_ns, entry, stream, &mut |entry, cause| {
                    sink.lose(arrival(&entry), now_ns, cause_of(cause));
                });
            }
        }
    }
}

/// Whether a frame of `len` does not fit any more.
#[inline]
fn is_full(spec: &QueueSpec, queue: QueueView, len: u32) -> bool {
    let (bytes, packets) = match spec.admit {
        Admit::Strict => (queue.bytes + u64::from(len), queue.packets + 1),
        Admit::Tlem => (queue.bytes, queue.packets),
    };
    spec.bytes.is_some_and(|limit| bytes > limit)
        || spec.packets.is_some_and(|limit| packets > limit)
}

impl Fifo {
    /// What is in the queue, the frame on the line with it.
    #[inline]
    fn view(&self, ahead: &Ahead) -> QueueView {
        QueueView {
            bytes: self.bytes + ahead.busy.bytes,
            packets: self.waiting.len() as u64 + ahead.busy.packets,
            delay_ns: ahead.wait_ns,
        }
    }

    /// Asks the algorithm about a frame that comes; it is lost if the answer is `false`.
    #[inline(always)]
    fn admits<C: Carrier>(
        &mut self,
        frame: Frame,
        ahead: &Ahead,
        draws: Draws,
        sink: &mut Sink<'_, C>,
    ) -> bool {
        if matches!(self.aqm, FifoAqm::None) {
            return true;
        }
        let now_ns = frame.arrival_ns;
        let arriving = Arriving { now_ns, len: frame.len, queue: self.view(ahead) };
        let capable = || ecn::read(sink.carrier.frame(frame.handle)).is_capable();
        match self.aqm.admit(&arriving, capable, &mut draws.stream(frame.id.draw())) {
            Verdict::Keep => {}
            Verdict::Mark => _ = sink.mark(frame.handle, frame.len),
            Verdict::Drop => {
                sink.lose(frame, now_ns, Cause::Aqm);
                return false;
            }
        }
        true
    }

    #[inline]
    fn dequeue<C: Carrier>(&mut self, now_ns: u64, sink: &mut Sink<'_, C>) -> Option<Frame> {
        loop {
            let frame = self.pop()?;
            if self.lets_go(frame, now_ns, sink) {
                return Some(frame);
            }
        }
    }

    /// Asks the algorithm about a frame that goes; it is lost if the answer is `false`.
    #[inline(always)]
    fn lets_go<C: Carrier>(&mut self, frame: Frame, now_ns: u64, sink: &mut Sink<'_, C>) -> bool {
        if matches!(self.aqm, FifoAqm::None) {
            return true;
        }
        let (bytes, packets) = (self.bytes, self.waiting.len() as u64);
        let leaving = Leaving {
            now_ns,
            len: frame.len,
            sojourn_ns: now_ns.saturating_sub(frame.arrival_ns),
            queue: QueueView { bytes, packets, delay_ns: 0 },
        };
        let capable = || ecn::read(sink.carrier.frame(frame.handle)).is_capable();
        match self.aqm.dequeue(&leaving, capable) {
            Verdict::Keep => {}
            Verdict::Mark => _ = sink.mark(frame.handle, frame.len),
            Verdict::Drop => {
                sink.lose(frame, now_ns, Cause::Aqm);
                return false;
            }
        }
        true
    }

    #[inline]
    fn push(&mut self, frame: Frame) {
        self.bytes += u64::from(frame.len);
        self.waiting.push_back(frame);
    }

    #[inline]
    fn pop(&mut self) -> Option<Frame> {
        let frame = self.waiting.pop_front()?;
        self.bytes -= u64::from(frame.len);
        Some(frame)
    }
}

impl Kind {
    fn new(spec: &QueueSpec) -> Result<Self, ParameterError> {
        let fifo = |aqm| Self::Fifo(Fifo { aqm, waiting: VecDeque::new(), bytes: 0 });
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

    /// Changes parameters in place; `false` when another discipline is needed.
    fn retune(&mut self, spec: &QueueSpec) -> bool {
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

    /// All frames, in the order of their arrival, whatever the algorithm would think of them.
    fn drain<C: Carrier>(self, sink: &mut Sink<'_, C>) -> Vec<Frame> {
        match self {
            Self::Fifo(mut fifo) => core::iter::from_fn(|| fifo.pop()).collect(),
            Self::Multi(mut multi) => {
                let departures = multi.drain().into_iter();
                departures.map(|departure| departed(&departure, sink)).collect()
            }
        }
    }
}

/// The frame of a departure, marked if it is to be.
fn departed<C: Carrier>(departure: &Departure<Identified>, sink: &mut Sink<'_, C>) -> Frame {
    let frame = arrival(&departure.entry);
    if departure.mark {
        sink.mark(frame.handle, frame.len);
    }
    frame
}

fn red_of(red: &RedSpec, spec: &QueueSpec) -> RedSpec {
    RedSpec { ecn: red.ecn || spec.ecn, ..*red }
}

fn codel_of(codel: &CoDelSpec, spec: &QueueSpec) -> CoDelSpec {
    CoDelSpec { ecn: codel.ecn || spec.ecn, ..*codel }
}

fn pie_of(pie: &PieSpec, spec: &QueueSpec) -> PieSpec {
    PieSpec { ecn: pie.ecn || spec.ecn, ..*pie }
}

fn fair_of(fair: &FairSpec, spec: &QueueSpec) -> FairSpec {
    FairSpec {
        limit_packets: packets_of(spec, fair.limit_packets),
        limit_bytes: spec.bytes.unwrap_or(fair.limit_bytes),
        ..*fair
    }
}

fn dual_of(dual: &DualPi2Spec, spec: &QueueSpec) -> DualPi2Spec {
    DualPi2Spec {
        limit_packets: packets_of(spec, dual.limit_packets),
        limit_bytes: spec.bytes.unwrap_or(dual.limit_bytes),
        ..*dual
    }
}

fn packets_of(spec: &QueueSpec, own: u32) -> u32 {
    spec.packets.map_or(own, |limit| u32::try_from(limit).unwrap_or(u32::MAX))
}

fn entry(frame: Frame, hasher: &FlowHasher, carrier: &mut impl Carrier) -> Entry<Identified> {
    let bytes = carrier.frame(frame.handle);
    Entry {
        handle: Identified { handle: frame.handle, id: frame.id },
        len: frame.len,
        arrival_ns: frame.arrival_ns,
        flow: hasher.hash_frame(bytes) as u32,
        ecn: ecn::read(bytes),
    }
}

fn arrival(entry: &Entry<Identified>) -> Frame {
    let Identified { handle, id } = entry.handle;
    Frame { arrival_ns: entry.arrival_ns, handle, len: entry.len, id }
}

const fn cause_of(cause: DropCause) -> Cause {
    match cause {
        DropCause::Limit => Cause::Queue,
        DropCause::Aqm => Cause::Aqm,
    }
}
