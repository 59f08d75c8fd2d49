//! Frames that wait in pipes, and how their processing continues.

use std::net::IpAddr;

use slipring_dummynet::{ShaperEvent, ShaperPacket, ShaperTarget};
use slipring_fib::FibPortIndex;
use slipring_ipfw::run::{CheckPass, PacketMetadata, RuleVerdict, mark_congestion};
use slipring_route::{
    MAX_ROUTE_BATCH, RouteBatch, RouteDropCause, RouteEngine, RouteFrame, RouteVerdict,
};
use slipring_wire::frame::TagSpec;

use super::checks::{is_live, next_hop_address, shaper_target};
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
    /// The next hop that a rule has chosen; `None` if it is that of the route.
    next_hop: Option<IpAddr>,
}

/// What becomes of the fragments that waited for the last one of their packet.
enum ReleasedPath {
    /// They continue, to this next hop if there is one.
    Continue(Option<IpAddr>),
    /// They wait in a pipe or queue.
    Wait(ShaperTarget),
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
        target: Option<ShaperTarget>,
        crossing: PacketMetadata,
        now_ns: u64,
    ) {
        let Some(target) = target.filter(|_| is_live(batch, at)) else {
            return self.drop(engine, batch, at);
        };
        engine.settle(batch, at, RouteVerdict::Delayed);
        self.counters.delayed += 1;
        let frame = ResumedFrame {
            bytes: frame.bytes.to_vec(),
            ingress: frame.ingress,
            stripped_tag: frame.stripped_tag,
            is_partial: frame.is_partial,
            crossing,
            goes_on_in_rules: self.firewall.continues_after_shaper(),
            next_hop: None,
        };
        self.submit(frame, target, now_ns);
    }

    fn submit(&mut self, frame: ResumedFrame, target: ShaperTarget, now_ns: u64) {
        let (key, ecn) = flow_of(&frame.bytes);
        let len = frame.bytes.len() as u32;
        let packet = ShaperPacket { handle: self.delayed.insert(frame), rule: 0, len, ecn };
        let events = &mut self.events;
        self.shaper.submit(now_ns, target, &key, packet, &mut |event| events.push(event));
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

    /// Takes the fragments that were waiting for the frame that was just checked, and does with
    /// them what the verdict demands for the frame.
    pub(super) fn take_released(
        &mut self,
        verdict: &RuleVerdict,
        crossing: &PacketMetadata,
        batch: &RouteBatch,
        at: usize,
        now_ns: u64,
    ) {
        if self.outputs.released.is_empty() {
            return;
        }
        // The fragments that are dropped here are counted by `count_lost_fragments` later.
        let Some(path) = self.path_of_released(verdict, batch, at) else {
            return self.outputs.released.clear();
        };
        let released = std::mem::take(&mut self.outputs.released);
        self.fragments -= released.len();
        for bytes in released {
            let mut frame = ResumedFrame {
                bytes,
                ingress: batch.ingress(at),
                stripped_tag: None,
                is_partial: false,
                crossing: crossing.clone(),
                goes_on_in_rules: false,
                next_hop: None,
            };
            match path {
                ReleasedPath::Continue(next_hop) => {
                    self.resumed.push(ResumedFrame { next_hop, ..frame });
                }
                ReleasedPath::Wait(target) => {
                    frame.goes_on_in_rules = self.firewall.continues_after_shaper();
                    self.submit(frame, target, now_ns);
                }
            }
        }
    }

    /// Returns `None` if the fragments are dropped, as the frame at `at` will be.
    fn path_of_released(
        &self,
        verdict: &RuleVerdict,
        batch: &RouteBatch,
        at: usize,
    ) -> Option<ReleasedPath> {
        match verdict {
            RuleVerdict::Accept => Some(ReleasedPath::Continue(None)),
            _ if !is_live(batch, at) => None,
            RuleVerdict::Forward(hop) => {
                next_hop_address(hop).map(|address| ReleasedPath::Continue(Some(address)))
            }
            _ => shaper_target(verdict).map(ReleasedPath::Wait),
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
        let next_hops: Vec<_> = group.iter().map(|frame| frame.next_hop).collect();
        let (mut frames, crossings): (Vec<_>, Vec<_>) = group.iter_mut().map(parts).unzip();
        engine.parse_delayed(&mut batch, &frames);
        for (at, next_hop) in next_hops.iter().enumerate() {
            if is_live(&batch, at) && next_hop.is_some_and(|hop| !batch.set_next_hop(at, hop)) {
                self.drop(engine, &mut batch, at);
            }
        }
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
    let ResumedFrame {
        bytes, ingress, stripped_tag, is_partial, crossing, goes_on_in_rules, ..
    } = frame;
    let route = RouteFrame {
        bytes,
        ingress: *ingress,
        stripped_tag: *stripped_tag,
        is_partial: *is_partial,
    };
    (route, (crossing.clone(), *goes_on_in_rules))
}
