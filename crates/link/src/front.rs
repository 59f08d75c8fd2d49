//! What happens to a frame before the queue: policed, lost, held back.

use alloc::vec::Vec;

use slipring_model::bucket::{
    Colour, ColourMode, MeterKind, TokenBucket, TwoRateSpec, TwoRateThreeColour,
};
use slipring_model::{DelayLine, Draws};

use crate::carrier::{Arrival, Carrier, Cause, Frame};
use crate::loss::{LossStage, Losses};
use crate::sink::Sink;
use crate::spec::{Action, HoldSpec, LinkSpec, Meter, Place, PoliceSpec};
use crate::streams::Streams;
use crate::user::Verdict;

pub(crate) struct Front {
    police: Option<Policer>,
    losses: Vec<LossStage>,
    hold: Option<HoldSpec>,
    hold_draws: Draws,
    held: DelayLine<Frame>,
    /// When the first of them goes on.
    next_ns: u64,
}

/// Whether a link has anything to do before its queue.
pub(crate) fn is_needed(spec: &LinkSpec) -> bool {
    spec.police.is_some()
        || spec.hold.is_some()
        || spec.loss.iter().any(|loss| loss.place == Place::Pre)
}

impl Front {
    pub(crate) fn new(spec: &LinkSpec, streams: &Streams<'_>, start_ns: u64) -> Self {
        Self {
            police: spec.police.map(|police| Policer::new(police, start_ns)),
            losses: streams.losses(spec, Place::Pre, start_ns),
            hold: spec.hold,
            hold_draws: streams.draws("hold"),
            held: DelayLine::new(),
            next_ns: u64::MAX,
        }
    }

    /// Goes over to another specification; streams and held frames stay.
    pub(crate) fn change(
        &mut self,
        old: &LinkSpec,
        new: &LinkSpec,
        streams: &Streams<'_>,
        at_ns: u64,
    ) {
        if old.police != new.police {
            self.police = new.police.map(|police| Policer::new(police, at_ns));
        }
        streams.change_losses(&mut self.losses, old, new, Place::Pre, at_ns);
        self.hold = new.hold;
    }

    /// Lets a frame pass on to the queue, or loses it, or holds it.
    #[inline(always)]
    pub(crate) fn pass<C: Carrier>(
        &mut self,
        frame: Frame,
        sink: &mut Sink<'_, C>,
    ) -> Option<Frame> {
        if let Some(police) = &mut self.police
            && !police.pass(frame, sink)
        {
            return None;
        }
        for loss in &mut self.losses {
            if !survives(loss, frame, frame.arrival_ns, sink) {
                return None;
            }
        }
        let Some(hold) = self.hold else { return Some(frame) };
        if !self.hold_draws.chance(frame.id.draw(), hold.chance) {
            return Some(frame);
        }
        sink.counters.held.count(frame.len);
        let until_ns = frame.arrival_ns.saturating_add(hold.hold_ns);
        self.held.push(until_ns, Frame { arrival_ns: until_ns, ..frame });
        self.next_ns = self.next_ns.min(until_ns);
        None
    }

    /// Whether all it does is to lose frames without a look at their bytes.
    pub(crate) fn is_blind(&self) -> bool {
        self.police.is_none() && self.hold.is_none() && self.losses.iter().all(LossStage::is_blind)
    }

    /// Which of some frames it loses, if it is [blind](Self::is_blind).
    #[inline]
    pub(crate) fn judge(&mut self, frames: &[Arrival], first: u64, among: u64) -> Losses {
        Losses::of(&mut self.losses, frames, first, |index| frames[index].arrival_ns, among)
    }

    /// When the next held frame goes on.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    pub(crate) fn release(&mut self, now_ns: u64) -> Option<Frame> {
        let due = self.held.pop_due(now_ns);
        self.next_ns = self.held.next_release_ns().unwrap_or(u64::MAX);
        due
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.len() as u64
    }
}

/// Whether a frame passes a loss stage.
#[inline(always)]
pub(crate) fn survives<C: Carrier>(
    loss: &mut LossStage,
    frame: Frame,
    at_ns: u64,
    sink: &mut Sink<'_, C>,
) -> bool {
    match loss.judge(frame, at_ns, sink.carrier) {
        Verdict::Keep => true,
        Verdict::Drop(cause) => {
            sink.lose(frame, at_ns, cause);
            false
        }
        Verdict::Mark => {
            let marked = sink.mark(frame.handle, frame.len);
            if !marked {
                sink.lose(frame, at_ns, Cause::Loss);
            }
            marked
        }
    }
}

struct Policer {
    meter: Metering,
    exceed: Action,
    violate: Action,
}

enum Metering {
    Bucket(TokenBucket),
    TwoRates(TwoRateThreeColour),
}

impl Policer {
    fn new(spec: PoliceSpec, now_ns: u64) -> Self {
        let meter = Metering::new(spec.meter, now_ns);
        Self { meter, exceed: spec.exceed, violate: spec.violate }
    }

    fn pass<C: Carrier>(&mut self, frame: Frame, sink: &mut Sink<'_, C>) -> bool {
        let action = match self.meter.colour(frame.arrival_ns, frame.len) {
            Colour::Green => Action::Pass,
            Colour::Yellow => self.exceed,
            Colour::Red => self.violate,
        };
        let passes = match action {
            Action::Pass => true,
            Action::Mark => sink.mark(frame.handle, frame.len),
            Action::Drop => false,
        };
        if !passes {
            sink.lose(frame, frame.arrival_ns, Cause::Police);
        }
        passes
    }
}

impl Metering {
    fn new(meter: Meter, now_ns: u64) -> Self {
        const CHECKED: &str = "specifications are judged before anything is built";
        let spec = match meter {
            Meter::Bucket { bps, burst } => {
                return Self::Bucket(TokenBucket::new(bps, burst, now_ns).expect(CHECKED));
            }
            Meter::Rfc2698 { committed_bps, committed_burst, peak_bps, peak_burst } => {
                TwoRateSpec {
                    kind: MeterKind::Rfc2698,
                    mode: ColourMode::Blind,
                    committed_bps,
                    committed_bytes: committed_burst,
                    other_bps: peak_bps,
                    other_bytes: peak_burst,
                }
            }
            Meter::Rfc4115 { committed_bps, committed_burst, excess_bps, excess_burst } => {
                TwoRateSpec {
                    kind: MeterKind::Rfc4115,
                    mode: ColourMode::Blind,
                    committed_bps,
                    committed_bytes: committed_burst,
                    other_bps: excess_bps,
                    other_bytes: excess_burst,
                }
            }
        };
        Self::TwoRates(TwoRateThreeColour::new(&spec, now_ns).expect(CHECKED))
    }

    /// One bucket knows green and, beyond, yellow.
    fn colour(&mut self, now_ns: u64, len: u32) -> Colour {
        match self {
            Self::Bucket(bucket) => {
                if bucket.take(now_ns, len) {
                    Colour::Green
                } else {
                    Colour::Yellow
                }
            }
            Self::TwoRates(meter) => meter.colour(now_ns, len, Colour::Green),
        }
    }
}
