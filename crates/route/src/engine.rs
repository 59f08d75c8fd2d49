//! The engine: the stages, and the state that they share.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_fib::{Adjacency, FibPortIndex, ForwardingTables};
use slipring_neighbour::icmp::{IcmpLimiter, IcmpLimits, IcmpProblem};
use slipring_wire::MacAddr;

use crate::answer::{self, AnswerOutcome, AnswerParts};
use crate::batch::{Rejection, RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::config::{PortPolicy, RouteConfig};
use crate::counters::RouteCounters;
use crate::egress;
use crate::hash::NextHopHash;
use crate::output::{OutputQueue, RouteOutput};
use crate::police::{Policers, PortPolicer};
use crate::punt::{PuntClass, PuntReason};
use crate::verdict::{ForwardedFrame, HeldPacket, RouteVerdict};
use crate::view::RouteView;
use crate::{check_sources, look_up, parse, rewrite};

/// Makes a router's decisions. Each worker has its own engine. Engines share only the tables and
/// the policers.
///
/// All times are in ns and must never decrease.
#[derive(Clone, Debug)]
pub struct RouteEngine {
    config: RouteConfig,
    policies: Vec<PortPolicy>,
    pub(crate) view: RouteView,
    pub(crate) policers: Policers,
    limiter: IcmpLimiter,
    pub(crate) output: OutputQueue,
    pub(crate) counters: RouteCounters,
}

impl RouteEngine {
    /// Makes an engine with a first snapshot of the tables.
    #[must_use]
    pub fn new(config: RouteConfig, tables: Arc<ForwardingTables>) -> Self {
        let mut counters = RouteCounters::default();
        counters.grow(tables.ports.len());
        Self {
            view: RouteView::new(tables, &config, &[]),
            limiter: IcmpLimiter::new(config.icmp_limits, config.seed),
            config,
            policies: Vec::new(),
            policers: Policers::default(),
            output: OutputQueue::default(),
            counters,
        }
    }

    /// Uses a snapshot from now on. The time this takes depends on the number of ports (its square)
    /// and of their addresses, not on the number of routes.
    pub fn set_tables(&mut self, tables: Arc<ForwardingTables>) {
        self.counters.grow(tables.ports.len());
        self.view = RouteView::new(tables, &self.config, &self.policies);
    }

    /// Sets the policies of all ports, by port index. Ports without a policy get the default
    /// policy.
    pub fn set_policies(&mut self, policies: Vec<PortPolicy>) {
        self.policies = policies;
        self.set_tables(Arc::clone(&self.view.tables));
    }

    /// Sets the policers of all ports, by port index; ports beyond the end of the list have none.
    pub fn set_policers(&mut self, policers: Vec<Option<Arc<PortPolicer>>>) {
        self.policers = Policers::new(policers);
    }

    /// Sets the limits on ICMP errors.
    pub fn set_icmp_limits(&mut self, limits: IcmpLimits) {
        self.config.icmp_limits = limits;
        self.limiter.set_limits(limits);
    }

    /// Sets whether redirects are sent ([`RouteConfig::sends_redirects`]).
    pub const fn set_sends_redirects(&mut self, sends: bool) {
        self.config.sends_redirects = sends;
    }

    /// Sets the addresses of the router apart from those of its ports
    /// ([`RouteConfig::own_addresses`]), from the next call of [`Self::set_tables`] or
    /// [`Self::set_policies`] on.
    pub fn set_own_addresses(&mut self, addresses: Vec<IpAddr>) {
        self.config.own_addresses = addresses;
    }

    /// The snapshot in use.
    #[must_use]
    pub const fn tables(&self) -> &Arc<ForwardingTables> {
        &self.view.tables
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> &RouteCounters {
        &self.counters
    }

    /// Decides about up to 64 frames: all stages, one after the other. The verdicts are in the
    /// batch; ICMP errors, redirects and fragments are in the output queue.
    ///
    /// # Panics
    /// If there are more than [`crate::MAX_ROUTE_BATCH`] frames.
    pub fn process(&mut self, batch: &mut RouteBatch, frames: &mut [RouteFrame<'_>], now_ns: u64) {
        self.parse(batch, frames);
        self.police(batch, frames, now_ns);
        self.look_up(batch, frames);
        self.check_sources(batch, frames);
        self.rewrite(batch, frames, now_ns);
        self.answer(batch, frames, now_ns);
    }

    /// First stage: starts a batch with these frames. All other stages must get the same frames.
    ///
    /// # Panics
    /// If there are more than [`crate::MAX_ROUTE_BATCH`] frames.
    pub fn parse(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>]) {
        let punts = self.config.punts_other_macs;
        parse::run(&self.view, punts, &mut self.counters, batch, frames);
    }

    /// Parses a live frame again after its addresses were changed. Call this only before the third
    /// stage.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn parse_again(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>], at: usize) {
        let punts = self.config.punts_other_macs;
        batch.leave(at);
        parse::parse(&self.view, punts, &mut self.counters, batch, at, &frames[at]);
    }

    /// Second stage: policers.
    pub fn police(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>], now_ns: u64) {
        if !self.policers.is_empty() {
            self.policers.run(&mut self.counters, batch, frames, now_ns);
        }
    }

    /// Third stage: routes and adjacencies.
    pub fn look_up(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>]) {
        let hash = self.hash();
        look_up::run(&self.view, hash, &mut self.counters, batch, frames);
    }

    /// Fourth stage: reverse path checks.
    pub fn check_sources(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>]) {
        if self.view.checks_sources {
            check_sources::run(&self.view, &mut self.counters, batch, frames);
        }
    }

    /// The port by which a live frame leaves, after the third stage.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn egress(&self, batch: &RouteBatch, at: usize) -> Option<FibPortIndex> {
        self.adjacency(batch, at).map(|adjacency| adjacency.port)
    }

    /// The adjacency that a live frame leads to, after the third stage.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn adjacency(&self, batch: &RouteBatch, at: usize) -> Option<&Adjacency> {
        self.view.adjacency(batch.packets[..batch.len()][at].adjacency)
    }

    /// Fifth stage: TTL, MTU, neighbours, link headers. Rejected packets stay in the batch.
    pub fn rewrite(&mut self, batch: &mut RouteBatch, frames: &mut [RouteFrame<'_>], now_ns: u64) {
        let (view, parts) = self.parts();
        rewrite::run(view, parts, batch, frames, now_ns);
    }

    /// Last stage: ICMP errors about rejected packets. After it, every frame has a verdict.
    pub fn answer(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>], now_ns: u64) {
        if batch.rejected != 0 {
            let (view, parts) = self.parts();
            answer::run(view, parts, batch, frames, now_ns);
        }
    }

    /// Sets and counts the verdict about a live frame between two stages. The later stages skip the
    /// frame.
    ///
    /// # Panics
    /// If the frame has a verdict.
    pub fn settle(&mut self, batch: &mut RouteBatch, at: usize, verdict: RouteVerdict) {
        assert!(batch.verdict(at).is_none(), "a frame has one verdict");
        batch.settle(&mut self.counters, at, verdict);
    }

    /// Gives a live frame to the kernel between two stages, because packets for its egress port are
    /// left to the kernel. The later stages skip the frame.
    ///
    /// # Panics
    /// If the frame has a verdict.
    pub fn leave_to_kernel(&mut self, batch: &mut RouteBatch, at: usize) {
        assert!(batch.verdict(at).is_none(), "a frame has one verdict");
        batch.punt(&mut self.counters, at, PuntClass::Other, PuntReason::Egress);
    }

    /// Drops a live frame between two stages. The last stage sends an ICMP error to its sender, if
    /// the RFCs' rules and the rate limit allow it.
    ///
    /// # Panics
    /// If the frame has a verdict.
    pub fn reject(
        &mut self,
        batch: &mut RouteBatch,
        at: usize,
        cause: RouteDropCause,
        problem: IcmpProblem,
    ) {
        assert!(batch.verdict(at).is_none(), "a frame has one verdict");
        batch.reject(at, Rejection { cause, problem });
    }

    /// Takes the next packet out of the output queue; `None` if the queue is empty.
    pub fn pop(&mut self) -> Option<RouteOutput> {
        self.output.pop()
    }

    /// Gives back the buffer of a packet from [`Self::pop`] for use again.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.output.recycle(buffer);
    }

    /// Sends a held packet, whose next hop has this MAC address. `frame` must contain the frame as
    /// it was held; it is rewritten if the packet is sent. The verdict is `Forward`, or any other
    /// that [`Self::process`] can give to a packet whose neighbour is known.
    pub fn release(
        &mut self,
        held: &HeldPacket,
        frame: &mut [u8],
        mac: MacAddr,
        now_ns: u64,
    ) -> RouteVerdict {
        let (view, mut parts) = self.parts();
        let result = if frame.len() < held.frame_len() {
            let is_v6 = held.packet.is_v6();
            let [v4, v6] = [RouteDropCause::V4BeyondFrame, RouteDropCause::V6BeyondFrame];
            Ok(RouteVerdict::Drop(if is_v6 { v6 } else { v4 }))
        } else {
            egress::release(view, parts.counters, parts.output, frame, held, mac)
        };
        let verdict = match result {
            Ok(verdict) => verdict,
            Err(rejection) => reply(view, &mut parts, held, frame, rejection, now_ns),
        };
        self.counters.held -= 1;
        self.counters.count(held.packet.port, &verdict);
        verdict
    }

    /// Drops a held packet whose next hop did not answer, and sends an error to its sender (ICMP
    /// 3/1, ICMPv6 1/3), if the RFCs' rules and the rate limit allow it. `frame` is the frame as it
    /// was when it was held. The verdict is `Answered` or `Drop`, or `Kernel` if only the kernel
    /// can send the error.
    pub fn unanswered(&mut self, held: &HeldPacket, frame: &[u8], now_ns: u64) -> RouteVerdict {
        let (view, mut parts) = self.parts();
        let rejection = Rejection {
            cause: RouteDropCause::NeighbourUnanswered,
            problem: IcmpProblem::HostUnreachable,
        };
        let verdict = reply(view, &mut parts, held, frame, rejection, now_ns);
        self.counters.held -= 1;
        self.counters.count(held.packet.port, &verdict);
        verdict
    }

    /// Drops a held packet for another cause, such as [`RouteDropCause::HoldQueueFull`].
    pub fn discard(&mut self, held: &HeldPacket, cause: RouteDropCause) {
        self.counters.held -= 1;
        self.counters.count(held.packet.port, &RouteVerdict::Drop(cause));
    }

    pub(crate) const fn punts_other_macs(&self) -> bool {
        self.config.punts_other_macs
    }

    /// Drops a packet from `ingress` after its verdict, because there is no space to send it. The
    /// packet no longer counts as forwarded, but as dropped for
    /// [`RouteDropCause::TransmitQueueFull`].
    pub fn unsent(&mut self, ingress: FibPortIndex, frame: &ForwardedFrame) {
        self.counters.count_unsent(ingress, frame);
    }

    pub(crate) fn hash(&self) -> NextHopHash {
        NextHopHash { seed: self.config.seed, uses_flow_label: self.config.uses_flow_label }
    }

    pub(crate) fn parts(&mut self) -> (&RouteView, AnswerParts<'_>) {
        let hash = self.hash();
        let parts = AnswerParts {
            counters: &mut self.counters,
            limiter: &mut self.limiter,
            output: &mut self.output,
            hash,
            quote: self.config.quote,
            sends_redirects: self.config.sends_redirects,
            in_first_vrf: self.config.answers_in_first_vrf,
        };
        (&self.view, parts)
    }
}

/// Sends an error with the reason for the drop to the sender of a held packet. Returns the verdict
/// about the packet.
fn reply(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    held: &HeldPacket,
    frame: &[u8],
    Rejection { cause, problem }: Rejection,
    now_ns: u64,
) -> RouteVerdict {
    let message = problem.message(held.packet.is_v6());
    match answer::answer(view, parts, frame, &held.packet, message, now_ns) {
        AnswerOutcome::Queued => RouteVerdict::Answered(cause),
        AnswerOutcome::Silent => RouteVerdict::Drop(cause),
        AnswerOutcome::Kernel => {
            let reason = PuntReason::ErrorRoute;
            parts.counters.port(held.packet.port).reasons[reason as usize] += 1;
            RouteVerdict::Kernel(PuntClass::Icmp)
        }
    }
}
