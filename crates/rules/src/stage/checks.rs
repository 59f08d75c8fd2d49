//! Checks frames of a batch, on input and on output, and carries out the verdicts.

use std::net::IpAddr;

use slipring_dummynet::ShaperTarget;
use slipring_ipfw::rule::NextHop;
use slipring_ipfw::run::{CheckPass, CheckResult, FrameBatch, PacketMetadata, RuleVerdict};
use slipring_neighbour::icmp::{IcmpMessage, IcmpProblem};
use slipring_route::{RouteBatch, RouteDropCause, RouteEngine, RouteFrame, RouteVerdict};
use slipring_wire::offload::complete_partial;

use super::{RuleStage, explained_check};

/// Some frames of a batch, selected by index, as a batch for the firewall.
struct ListedFrames<'l, 'f> {
    frames: &'l mut [RouteFrame<'f>],
    list: &'l [u8],
}

impl FrameBatch for ListedFrames<'_, '_> {
    #[inline]
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self.frames[usize::from(self.list[at])].bytes
    }
}

impl RuleStage {
    /// Checks on input all frames that can still be forwarded, here or by the kernel. Runs after
    /// the engine's stage `parse`.
    pub fn check_in(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        self.outputs.is_watched = self.log.is_watched();
        if self.needs.rewrites {
            complete_checksums(engine, batch, frames);
        }
        if self.needs.checks_together {
            return self.check_together(engine, batch, frames, now_ns);
        }
        self.crossings.fill(None);
        for at in 0..batch.len() {
            if is_checked(engine, batch, frames, at) {
                let crossing = PacketMetadata::incoming(batch.ingress(at).0);
                self.check(engine, batch, frames, at, crossing, now_ns);
            }
        }
    }

    /// Checks on output all frames that have a route or that the kernel will forward. Runs before
    /// the engine's stage `rewrite`.
    pub fn check_out(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        if !self.needs.checks_out {
            return;
        }
        for at in 0..batch.len() {
            let Some(crossing) = self.crossings[at].take() else { continue };
            if !is_checked(engine, batch, frames, at) {
                continue;
            }
            // `None` if the kernel forwards the frame: it may choose an interface that is not one
            // of the router's ports.
            let egress = engine.egress(batch, at).filter(|_| is_live(batch, at));
            let mut crossing = crossing.outgoing(egress.map_or(0, |port| port.0));
            crossing.xmit = egress.map(|port| port.0);
            self.check(engine, batch, frames, at, crossing, now_ns);
        }
    }

    /// Splits the frames into groups of consecutive frames from one port, and checks each group
    /// with one call of the firewall.
    fn check_together(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        let mut list = [0; slipring_route::MAX_ROUTE_BATCH];
        let mut count = 0;
        for at in 0..batch.len() {
            if is_checked(engine, batch, frames, at) {
                list[count] = at as u8;
                count += 1;
            }
        }
        let mut rest = &list[..count];
        while let [first, ..] = *rest {
            let port = batch.ingress(usize::from(first));
            let same = |at: &&u8| batch.ingress(usize::from(**at)) == port;
            let (run, others) = rest.split_at(rest.iter().take_while(same).count());
            let mut checked = std::mem::take(&mut self.checked);
            let mut listed = ListedFrames { frames: &mut *frames, list: run };
            let came = (port.0, now_ns);
            self.firewall.check_all(&mut listed, run.len(), came, &mut self.outputs, &mut checked);
            if !checked.is_all_accepted() {
                for (&at, result) in run.iter().zip(checked.drain()) {
                    let at = usize::from(at);
                    match result {
                        CheckResult::Accepted => {}
                        CheckResult::Denied => self.drop(engine, batch, at),
                        CheckResult::Other(verdict, crossing) => {
                            self.act(engine, batch, frames, at, (verdict, crossing), now_ns);
                        }
                    }
                }
            }
            self.checked = checked;
            rest = others;
        }
    }

    /// Checks one frame, and carries out the verdict.
    pub(super) fn check(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        at: usize,
        mut crossing: PacketMetadata,
        now_ns: u64,
    ) {
        let bytes = &mut *frames[at].bytes;
        // On a bridge, a translator also changes the destination MAC address. A router sets this
        // address itself, so the old one is restored.
        let mac = bytes.first_chunk::<6>().copied();
        let verdict = match &mut self.explained {
            None => self.firewall.check(bytes, &mut crossing, now_ns, &mut self.outputs),
            Some(checks) => {
                let (firewall, outputs) = (&mut self.firewall, &mut self.outputs);
                explained_check::check(firewall, checks, bytes, &mut crossing, now_ns, outputs)
            }
        };
        if let (Some(mac), Some(to)) = (mac, bytes.first_chunk_mut()) {
            *to = mac;
        }
        self.outputs.whole = None;
        self.take_released(&verdict, &crossing, batch, at, now_ns);
        self.act(engine, batch, frames, at, (verdict, crossing), now_ns);
    }

    fn act(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        at: usize,
        (verdict, crossing): (RuleVerdict, PacketMetadata),
        now_ns: u64,
    ) {
        match verdict {
            RuleVerdict::Accept => self.accepted(engine, batch, frames, at, crossing),
            RuleVerdict::Reject(message) => self.reject(engine, batch, at, message),
            RuleVerdict::Forward(hop) => self.forward(engine, batch, frames, at, &hop, crossing),
            RuleVerdict::Pipe(_) | RuleVerdict::Queue(_) if self.explained.is_some() => {
                self.leave_pipe_at_once(engine, batch, frames, at, crossing, now_ns);
            }
            RuleVerdict::Pipe(_) | RuleVerdict::Queue(_) => {
                let target = shaper_target(&verdict);
                self.shape(engine, batch, (&frames[at], at), target, crossing, now_ns);
            }
            RuleVerdict::Held => self.hold_fragment(engine, batch, at),
            // The firewall performs translations itself, so it never returns the last two verdicts.
            RuleVerdict::Deny(_) | RuleVerdict::Nat(_) | RuleVerdict::Nptv6(_) => {
                self.drop(engine, batch, at)
            }
        }
    }

    fn accepted(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &[RouteFrame<'_>],
        at: usize,
        crossing: PacketMetadata,
    ) {
        if crossing.pass == CheckPass::Out {
            return;
        }
        if self.needs.translates && is_live(batch, at) {
            engine.parse_again(batch, frames, at);
        }
        self.keep(at, crossing);
    }

    /// Keeps the metadata of a frame for the check on output.
    pub(super) fn keep(&mut self, at: usize, crossing: PacketMetadata) {
        if self.needs.checks_out {
            self.crossings[at] = Some(crossing);
        }
    }

    /// Makes the engine send a packet to another next hop.
    fn forward(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &[RouteFrame<'_>],
        at: usize,
        hop: &NextHop,
        crossing: PacketMetadata,
    ) {
        // A frame that the kernel would forward cannot be redirected: the kernel would use the
        // destination's route.
        let address = next_hop_address(hop).filter(|_| is_live(batch, at));
        if !address.is_some_and(|address| batch.set_next_hop(at, address)) {
            return self.drop(engine, batch, at);
        }
        match crossing.pass {
            CheckPass::In => self.keep(at, crossing),
            CheckPass::Out => engine.look_up_again(batch, frames, at),
        }
    }

    fn reject(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        at: usize,
        message: IcmpMessage,
    ) {
        if !is_live(batch, at) {
            return self.drop(engine, batch, at);
        }
        self.counters.dropped += 1;
        engine.reject(batch, at, RouteDropCause::Rules, IcmpProblem::Message(message));
    }

    pub(super) fn drop(&mut self, engine: &mut RouteEngine, batch: &mut RouteBatch, at: usize) {
        self.counters.dropped += 1;
        if is_live(batch, at) {
            engine.settle(batch, at, RouteVerdict::Drop(RouteDropCause::Rules));
        } else {
            engine.withhold(batch, at, RouteDropCause::Rules);
        }
    }
}

/// Returns the pipe or queue that a verdict names; `None` if there can be no such one.
pub(super) fn shaper_target(verdict: &RuleVerdict) -> Option<ShaperTarget> {
    let (target, number): (fn(u16) -> ShaperTarget, _) = match verdict {
        RuleVerdict::Pipe(number) => (ShaperTarget::Pipe, number),
        RuleVerdict::Queue(number) => (ShaperTarget::Queue, number),
        _ => return None,
    };
    u16::try_from(*number).ok().map(target)
}

/// Returns the address of a next hop that a router can send to.
pub(super) const fn next_hop_address(hop: &NextHop) -> Option<IpAddr> {
    match hop {
        NextHop::V4(address, _) => Some(IpAddr::V4(*address)),
        NextHop::V6(address, _) => Some(IpAddr::V6(*address)),
        NextHop::Port(_) | NextHop::Tablearg(_) => None,
    }
}

pub(super) fn is_live(batch: &RouteBatch, at: usize) -> bool {
    batch.live() & 1 << at != 0
}

/// Returns whether the rules must check a frame: either it can still be forwarded here, or the
/// kernel will forward it.
fn is_checked(
    engine: &RouteEngine,
    batch: &RouteBatch,
    frames: &[RouteFrame<'_>],
    at: usize,
) -> bool {
    is_live(batch, at) || engine.is_for_kernel_to_forward(batch, frames, at)
}

/// Completes transport checksums that local senders have left unfinished, before a rule changes
/// bytes that the checksums cover.
fn complete_checksums(
    engine: &mut RouteEngine,
    batch: &mut RouteBatch,
    frames: &mut [RouteFrame<'_>],
) {
    for at in 0..batch.len() {
        if frames[at].is_partial && is_live(batch, at) {
            complete_partial(frames[at].bytes);
            frames[at].is_partial = false;
            engine.parse_again(batch, frames, at);
        }
    }
}
