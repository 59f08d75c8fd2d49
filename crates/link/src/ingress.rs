//! The stages before the queue: policer, loss, hold.

use alloc::vec::Vec;

use slipring_model::bucket::{
    Colour, ColourMode, MeterKind, TokenBucket, TwoRateSpec, TwoRateThreeColour,
};
use slipring_model::{DelayLine, Draws};

use crate::carrier::{Carrier, FrameArrival, LinkDropCause, LinkFrame};
use crate::loss::{LossMask, LossStage};
use crate::sink::LinkSink;
use crate::spec::{HoldSpec, LinkSpec, LossPosition, MeterSpec, PoliceAction, PoliceSpec};
use crate::streams::LinkStreams;
use crate::user::LossVerdict;

pub(crate) struct IngressStages {
    police: Option<Policer>,
    losses: Vec<LossStage>,
    hold: Option<HoldSpec>,
    hold_draws: Draws,
    held: DelayLine<LinkFrame>,
    /// When the first held frame continues, in ns.
    next_ns: u64,
}

/// Whether a link has any stage before its queue.
pub(crate) fn is_needed(spec: &LinkSpec) -> bool {
    spec.police.is_some()
        || spec.hold.is_some()
        || spec.loss.iter().any(|loss| loss.position == LossPosition::Pre)
}

impl IngressStages {
    pub(crate) fn new(spec: &LinkSpec, streams: &LinkStreams<'_>, start_ns: u64) -> Self {
        Self {
            police: spec.police.map(|police| Policer::new(police, start_ns)),
            losses: streams.loss_stages(spec, LossPosition::Pre, start_ns),
            hold: spec.hold,
            hold_draws: streams.draws("hold"),
            held: DelayLine::new(),
            next_ns: u64::MAX,
        }
    }

    /// Switches to another specification; random streams and held frames stay.
    pub(crate) fn change(
        &mut self,
        old: &LinkSpec,
        new: &LinkSpec,
        streams: &LinkStreams<'_>,
        at_ns: u64,
    ) {
        if old.police != new.police {
            self.police = new.police.map(|police| Policer::new(police, at_ns));
        }
        streams.change_losses(&mut self.losses, old, new, LossPosition::Pre, at_ns);
        self.hold = new.hold;
    }

    /// Returns a frame that continues to the queue; `None` if it is lost or held.
    #[inline(always)]
    pub(crate) fn pass<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        sink: &mut LinkSink<'_, C>,
    ) -> Option<LinkFrame> {
        if let Some(police) = &mut self.police
            && !police.pass(frame, sink)
        {
            return None;
        }
        for loss in &mut self.losses {
            if !passes_loss(loss, frame, frame.arrival_ns, sink) {
                return None;
            }
        }
        let Some(hold) = self.hold else { return Some(frame) };
        if !self.hold_draws.chance(frame.id.draw(), hold.chance) {
            return Some(frame);
        }
        sink.counters.held.count(frame.len);
        let until_ns = frame.arrival_ns.saturating_add(hold.hold_ns);
        self.held.push(until_ns, LinkFrame { arrival_ns: until_ns, ..frame });
        self.next_ns = self.next_ns.min(until_ns);
        None
    }

    /// Whether there are only loss stages, and none of them looks at the bytes of frames.
    pub(crate) fn is_payload_agnostic(&self) -> bool {
        self.police.is_none()
            && self.hold.is_none()
            && self.losses.iter().all(LossStage::is_payload_agnostic)
    }

    /// Computes which of the frames in the mask `among` are lost; `first` is the number of
    /// `frames[0]`. Only for [payload-agnostic](Self::is_payload_agnostic) stages.
    #[inline]
    pub(crate) fn judge(&mut self, frames: &[FrameArrival], first: u64, among: u64) -> LossMask {
        LossMask::of(&mut self.losses, frames, first, |index| frames[index].arrival_ns, among)
    }

    /// Returns the time at which the next held frame continues, in ns.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    pub(crate) fn release(&mut self, now_ns: u64) -> Option<LinkFrame> {
        let due = self.held.pop_due(now_ns);
        self.next_ns = self.held.next_release_ns().unwrap_or(u64::MAX);
        due
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.len() as u64
    }
}

/// Returns whether a frame passes a loss stage.
#[inline(always)]
pub(crate) fn passes_loss<C: Carrier>(
    loss: &mut LossStage,
    frame: LinkFrame,
    at_ns: u64,
    sink: &mut LinkSink<'_, C>,
) -> bool {
    match loss.judge(frame, at_ns, sink.carrier) {
        LossVerdict::Keep => true,
        LossVerdict::Drop(cause) => {
            sink.lose(frame, at_ns, cause);
            false
        }
        LossVerdict::Mark => {
            let marked = sink.mark(frame.handle, frame.len);
            if !marked {
                sink.lose(frame, at_ns, LinkDropCause::Loss);
            }
            marked
        }
    }
}

struct Policer {
    meter: PolicerMeter,
    exceed: PoliceAction,
    violate: PoliceAction,
}

enum PolicerMeter {
    Bucket(TokenBucket),
    TwoRates(TwoRateThreeColour),
}

impl Policer {
    fn new(spec: PoliceSpec, now_ns: u64) -> Self {
        let meter = PolicerMeter::new(spec.meter, now_ns);
        Self { meter, exceed: spec.exceed, violate: spec.violate }
    }

    fn pass<C: Carrier>(&mut self, frame: LinkFrame, sink: &mut LinkSink<'_, C>) -> bool {
        let action = match self.meter.colour(frame.arrival_ns, frame.len) {
            Colour::Green => PoliceAction::Pass,
            Colour::Yellow => self.exceed,
            Colour::Red => self.violate,
        };
        let passes = match action {
            PoliceAction::Pass => true,
            PoliceAction::Mark => sink.mark(frame.handle, frame.len),
            PoliceAction::Drop => false,
        };
        if !passes {
            sink.lose(frame, frame.arrival_ns, LinkDropCause::Police);
        }
        passes
    }
}

impl PolicerMeter {
    fn new(meter: MeterSpec, now_ns: u64) -> Self {
        const CHECKED: &str = "specifications are judged before anything is built";
        let spec = match meter {
            MeterSpec::Bucket { bps, burst } => {
                return Self::Bucket(TokenBucket::new(bps, burst, now_ns).expect(CHECKED));
            }
            MeterSpec::Rfc2698 { committed_bps, committed_burst, peak_bps, peak_burst } => {
                TwoRateSpec {
                    kind: MeterKind::Rfc2698,
                    mode: ColourMode::Blind,
                    committed_bps,
                    committed_bytes: committed_burst,
                    other_bps: peak_bps,
                    other_bytes: peak_burst,
                }
            }
            MeterSpec::Rfc4115 { committed_bps, committed_burst, excess_bps, excess_burst } => {
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

    /// Meters a frame and returns its colour. A single token bucket yields green, or yellow for a
    /// frame beyond its rate.
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
