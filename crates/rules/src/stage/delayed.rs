//! Frames that wait in pipes, and how their processing continues.

use slipring_dummynet::{ShaperEvent, ShaperPacket, ShaperTarget};
use slipring_fib::FibPortIndex;
use slipring_ipfw::run::{CheckPass, PacketMetadata, RuleVerdict, mark_congestion};
use slipring_route::{
    MAX_ROUTE_BATCH, RouteBatch, RouteDropCause, RouteEngine, RouteFrame, RouteVerdict,
};
use slipring_wire::frame::TagSpec;

use super::checks::is_live;
use super::{PuntedFrame, RuleStage};
use crate::shaped::flow_of;

/// Stands for the ingress port of a fragment that was given up. Its real port is no longer known.
const UNKNOWN_PORT: FibPortIndex = FibPortIndex(u16::MAX);

/// A frame that waits, or whose processing continues.
#[derive(Debug)]
pub(super) struct ResumedFrame {
    bytes: Vec<u8>,
    ingress: FibPortIndex,
    stripped_tag: Option<TagSpec>,
    is_partial: bool,
    crossing: PacketMetadata,
    /// Whether the packet must still be checked by the rules after the one that delayed it.
    goes_on_in_rules: bool,
}

/// The frames in pipes, by handle.
#[derive(Debug, Default)]
pub(super) struct DelayedFrames {
    frames: Vec<Option<ResumedFrame>>,
    free: Vec<u32>,
}

impl DelayedFrames {
    fn insert(&mut self, frame: ResumedFrame) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.frames[handle as usize] = Some(frame);
            return handle;
        }
        self.frames.push(Some(frame));
        (self.frames.len() - 1) as u32
    }

    fn get_mut(&mut self, handle: u32) -> &mut ResumedFrame {
        self.frames[handle as usize].as_mut().expect("the pipe has the frame")
    }

    fn take(&mut self, handle: u32) -> ResumedFrame {
        self.free.push(handle);
        self.frames[handle as usize].take().expect("the pipe has had the frame")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.len() == self.free.len()
    }
}

impl RuleStage {
    /// Puts a copy of a frame into a pipe or queue.
    pub(super) fn shape(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        (frame, at): (&RouteFrame<'_>, usize),
        (target, number): (fn(u16) -> ShaperTarget, u32),
        crossing: PacketMetadata,
        now_ns: u64,
    ) {
        let Some(number) = u16::try_from(number).ok().filter(|_| is_live(batch, at)) else {
            return self.drop(engine, batch, at);
        };
        engine.settle(batch, at, RouteVerdict::Delayed);
        self.counters.delayed += 1;
        let (key, ecn) = flow_of(frame.bytes);
        let handle = self.delayed.insert(ResumedFrame {
            bytes: frame.bytes.to_vec(),
            ingress: frame.ingress,
            stripped_tag: frame.stripped_tag,
            is_partial: frame.is_partial,
            crossing,
            goes_on_in_rules: self.firewall.continues_after_shaper(),
        });
        let packet = ShaperPacket { handle, rule: 0, len: frame.bytes.len() as u32, ecn };
        let events = &mut self.events;
        self.shaper.submit(now_ns, target(number), &key, packet, &mut |event| events.push(event));
    }

    /// Handles the shaper's events: frames that leave a pipe, and frames that it drops.
    pub(super) fn take_shaper_events(&mut self, engine: &mut RouteEngine) {
        for event in self.events.drain(..) {
            match event {
                ShaperEvent::Dropped { handle, .. } => {
                    let frame = self.delayed.take(handle);
                    self.counters.dropped += 1;
                    engine.discard_delayed(frame.ingress, RouteDropCause::Rules);
                }
                ShaperEvent::Marked { handle } => {
                    mark_congestion(&mut self.delayed.get_mut(handle).bytes);
                }
                ShaperEvent::Released { handle, .. } => {
                    self.resumed.push(self.delayed.take(handle));
                }
            }
        }
    }

    /// Marks a fragment of the batch as delayed, because the firewall has kept a copy of it.
    pub(super) fn hold_fragment(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        at: usize,
    ) {
        if !is_live(batch, at) {
            return self.drop(engine, batch, at);
        }
        engine.settle(batch, at, RouteVerdict::Delayed);
        self.counters.delayed += 1;
        self.fragments += 1;
    }

    /// Takes the fragments that were waiting for the frame that was just checked. Their processing
    /// continues if the packet is accepted. With any other verdict, they are dropped.
    pub(super) fn take_released(
        &mut self,
        verdict: &RuleVerdict,
        crossing: &PacketMetadata,
        batch: &RouteBatch,
        at: usize,
    ) {
        // The fragments that are not resumed here are counted by `count_lost_fragments` later.
        if self.outputs.released.is_empty() || *verdict != RuleVerdict::Accept {
            return self.outputs.released.clear();
        }
        self.fragments -= self.outputs.released.len();
        for bytes in self.outputs.released.drain(..) {
            self.resumed.push(ResumedFrame {
                bytes,
                ingress: batch.ingress(at),
                stripped_tag: None,
                is_partial: false,
                crossing: crossing.clone(),
                goes_on_in_rules: false,
            });
        }
    }

    /// Counts the fragments that the firewall has dropped since the last call.
    pub(super) fn count_lost_fragments(&mut self, engine: &mut RouteEngine) {
        let held = self.firewall.fragments_held();
        for _ in held..self.fragments {
            self.counters.dropped += 1;
            engine.discard_delayed(UNKNOWN_PORT, RouteDropCause::Rules);
        }
        self.fragments = held;
    }

    /// Passes the resumed frames through the remaining stages.
    pub(super) fn resume(&mut self, engine: &mut RouteEngine, now_ns: u64) {
        let mut resumed = std::mem::take(&mut self.resumed);
        for pass in [CheckPass::In, CheckPass::Out] {
            let mut of_pass: Vec<_> =
                resumed.extract_if(.., |frame| frame.crossing.pass == pass).collect();
            for group in of_pass.chunks_mut(MAX_ROUTE_BATCH) {
                self.resume_group(engine, group, pass, now_ns);
            }
        }
    }

    fn resume_group(
        &mut self,
        engine: &mut RouteEngine,
        group: &mut [ResumedFrame],
        pass: CheckPass,
        now_ns: u64,
    ) {
        let mut batch = self.resume_batch.take().unwrap_or_default();
        let (mut frames, crossings): (Vec<_>, Vec<_>) = group.iter_mut().map(parts).unzip();
        engine.parse_delayed(&mut batch, &frames);
        match pass {
            CheckPass::In => {
                self.recheck(engine, &mut batch, &mut frames, &crossings, now_ns);
                engine.police(&mut batch, &frames, now_ns);
                engine.look_up(&mut batch, &frames);
                engine.check_sources(&mut batch, &frames);
                self.check_out(engine, &mut batch, &mut frames, now_ns);
            }
            CheckPass::Out => {
                engine.look_up(&mut batch, &frames);
                self.recheck(engine, &mut batch, &mut frames, &crossings, now_ns);
            }
        }
        engine.rewrite(&mut batch, &mut frames, now_ns);
        engine.answer(&mut batch, &frames, now_ns);
        for at in 0..frames.len() {
            if let Some(RouteVerdict::Kernel(class)) = batch.verdict(at) {
                let (ingress, bytes) = (frames[at].ingress, frames[at].bytes.to_vec());
                self.punted.push(PuntedFrame { ingress, class, bytes });
            } else if engine.emit(&batch, &frames, at) {
                let len = match batch.verdict(at) {
                    Some(RouteVerdict::Forward(frame)) => u64::from(frame.frame_len()),
                    Some(RouteVerdict::Fragmented) => frames[at].bytes.len() as u64,
                    _ => continue,
                };
                self.forwarded.push((frames[at].ingress, len));
            }
        }
        self.resume_batch = Some(batch);
    }

    /// Checks resumed frames by the remaining rules, if there are any.
    fn recheck(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        crossings: &[(PacketMetadata, bool)],
        now_ns: u64,
    ) {
        self.crossings.fill(None);
        for (at, (crossing, goes_on)) in crossings.iter().enumerate() {
            if !is_live(batch, at) {
                continue;
            }
            if *goes_on {
                self.check(engine, batch, frames, at, crossing.clone(), now_ns);
            } else if crossing.pass == CheckPass::In && self.needs.checks_out {
                self.crossings[at] = Some(crossing.clone());
            }
        }
    }
}

/// Returns the frame for the engine, its metadata for the rules, and whether rules must still check
/// it.
fn parts(frame: &mut ResumedFrame) -> (RouteFrame<'_>, (PacketMetadata, bool)) {
    let ResumedFrame { bytes, ingress, stripped_tag, is_partial, crossing, goes_on_in_rules } =
        frame;
    let route = RouteFrame {
        bytes,
        ingress: *ingress,
        stripped_tag: *stripped_tag,
        is_partial: *is_partial,
    };
    (route, (crossing.clone(), *goes_on_in_rules))
}
