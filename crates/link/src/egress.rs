//! The stages after the line: loss, mangling, corruption, duplication.

use alloc::vec::Vec;

use slipring_model::{DelayLine, Draws};

use crate::carrier::{Carrier, FrameArrival, LinkDropCause, LinkFrame};
use crate::corrupt::Corruptor;
use crate::frame_id::FrameId;
use crate::ingress::passes_loss;
use crate::loss::{LossMask, LossStage};
use crate::mangle::Mangler;
use crate::output::LineDeparture;
use crate::sink::LinkSink;
use crate::spec::{DuplicateSpec, LinkSpec, LossPosition};
use crate::streams::LinkStreams;

pub(crate) struct EgressStages {
    losses: Vec<LossStage>,
    mangle: Option<Mangler>,
    mangle_draws: Draws,
    corrupt: Option<Corruptor>,
    corrupt_draws: Draws,
    duplicate: Option<DuplicateSpec>,
    duplicate_draws: Draws,
    /// Copies that have to wait before they continue ([`DuplicateSpec::after_ns`]).
    delayed_copies: DelayLine<LineDeparture>,
    /// When the first delayed copy continues, in ns.
    next_ns: u64,
}

/// Whether a link needs any of these stages, which are between its line and its delay.
pub(crate) fn is_needed(spec: &LinkSpec) -> bool {
    spec.mangle.is_some()
        || spec.corrupt.is_some()
        || spec.duplicate.is_some()
        || spec.loss.iter().any(|loss| loss.position == LossPosition::Post)
}

impl EgressStages {
    pub(crate) fn new(spec: &LinkSpec, streams: &LinkStreams<'_>, start_ns: u64) -> Self {
        let corrupt_draws = streams.draws("corrupt");
        let mangle_draws = streams.draws("mangle");
        Self {
            losses: streams.loss_stages(spec, LossPosition::Post, start_ns),
            mangle: spec.mangle.clone().map(|mangle| Mangler::new(mangle, mangle_draws)),
            mangle_draws,
            corrupt: spec.corrupt.map(|corrupt| Corruptor::new(corrupt, corrupt_draws)),
            corrupt_draws,
            duplicate: spec.duplicate,
            duplicate_draws: streams.draws("duplicate"),
            delayed_copies: DelayLine::new(),
            next_ns: u64::MAX,
        }
    }

    /// Switches to another specification; random streams and delayed copies stay.
    pub(crate) fn change(
        &mut self,
        old: &LinkSpec,
        new: &LinkSpec,
        streams: &LinkStreams<'_>,
        at_ns: u64,
    ) {
        streams.change_losses(&mut self.losses, old, new, LossPosition::Post, at_ns);
        if old.mangle != new.mangle {
            let draws = self.mangle_draws;
            self.mangle = new.mangle.clone().map(|mangle| Mangler::new(mangle, draws));
        }
        if old.corrupt != new.corrupt {
            let draws = self.corrupt_draws;
            self.corrupt = new.corrupt.map(|corrupt| Corruptor::new(corrupt, draws));
        }
        self.duplicate = new.duplicate;
    }

    /// Applies losses and damage to a frame; `false` if it is lost.
    #[inline]
    pub(crate) fn pass<C: Carrier>(
        &mut self,
        frame: LineDeparture,
        end_ns: u64,
        sink: &mut LinkSink<'_, C>,
    ) -> bool {
        let (judged, draw) = (frame.as_frame(), frame.id.draw());
        if !self.losses.iter_mut().all(|loss| passes_loss(loss, judged, end_ns, sink)) {
            return false;
        }
        if let Some(mangle) = &self.mangle
            && mangle.mangle(frame.handle, draw, sink.carrier)
        {
            sink.counters.mangled.count(frame.len);
        }
        if let Some(corrupt) = &mut self.corrupt
            && corrupt.damage((frame.handle, frame.len), draw, sink.carrier)
        {
            sink.counters.corrupted.count(frame.len);
        }
        true
    }

    /// Whether these stages only lose frames and never look at their bytes.
    pub(crate) fn is_payload_agnostic(&self) -> bool {
        self.mangle.is_none()
            && self.corrupt.is_none()
            && self.duplicate.is_none()
            && self.losses.iter().all(LossStage::is_payload_agnostic)
    }

    /// Computes which frames are lost at the end of the line. Only for
    /// [payload-agnostic](Self::is_payload_agnostic) stages.
    #[inline]
    pub(crate) fn judge(
        &mut self,
        frames: &[FrameArrival],
        first: u64,
        end_ns: &[u64],
        among: u64,
    ) -> LossMask {
        LossMask::of(&mut self.losses, frames, first, |index| end_ns[index], among)
    }

    /// Number of copies to make of a frame.
    #[inline]
    pub(crate) fn copies(&self, frame: FrameId) -> u32 {
        match self.duplicate {
            Some(spec) if self.duplicate_draws.chance(frame.draw(), spec.chance) => spec.copies,
            _ => 0,
        }
    }

    /// Makes copy number `number`, counted from 1, and returns it if it continues immediately.
    /// Returns `None` if the copy continues later, or if there was no buffer for it.
    pub(crate) fn copy<C: Carrier>(
        &mut self,
        frame: LineDeparture,
        number: u32,
        sink: &mut LinkSink<'_, C>,
    ) -> Option<LineDeparture> {
        let after_ns = self.duplicate.map_or(0, |spec| spec.after_ns);
        let Some(handle) = sink.carrier.copy(frame.handle) else {
            // The copy counts as made and lost. It has no storage, so there is nothing to give
            // back.
            sink.counters.copies.count(frame.len);
            sink.counters.drops.count(LinkDropCause::Buffer, frame.len);
            return None;
        };
        sink.counters.copies.count(frame.len);
        let after_ns = after_ns.saturating_mul(u64::from(number));
        let start_ns = frame.start_ns.saturating_add(after_ns);
        let base_ns = frame.base_ns.saturating_add(after_ns);
        let copy = LineDeparture { handle, start_ns, base_ns, copy: number, ..frame };
        if after_ns == 0 {
            return Some(copy);
        }
        // The copy waits until `start_ns`, and its delay is computed then, as for an original
        // frame. If it waited until `base_ns`, it might leave too late: the output subtracts a time
        // from the delay, so the copy may be due as early as `start_ns`.
        self.delayed_copies.push(start_ns, copy);
        self.next_ns = self.next_ns.min(start_ns);
        None
    }

    /// Returns the time at which the next delayed copy continues, in ns.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    pub(crate) fn release(&mut self, now_ns: u64) -> Option<LineDeparture> {
        let due = self.delayed_copies.pop_due(now_ns);
        self.next_ns = self.delayed_copies.next_release_ns().unwrap_or(u64::MAX);
        due
    }

    pub(crate) fn held(&self) -> u64 {
        self.delayed_copies.len() as u64
    }
}

impl LineDeparture {
    pub(crate) const fn as_frame(self) -> LinkFrame {
        let Self { handle, len, base_ns: arrival_ns, id, .. } = self;
        LinkFrame { arrival_ns, handle, len, id }
    }
}
