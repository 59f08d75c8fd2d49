//! A router's rules: stages between those of the [`RouteEngine`].
//!
//! ```text
//!   parse -> check in -> police -> look_up -> check out -> rewrite -> answer
//!              |  ^                             |  ^
//!              '--|---------- pipe, queue ------'--|--> DelayedFrames
//!                 '---------- run ---------------- '
//! ```
//!
//! # Invariants
//! 1. Every frame gets one final verdict of the engine. A frame that waits in a pipe, or for other
//!    fragments, first gets the verdict `Delayed`, and its final verdict when it leaves. This keeps
//!    the engine's counters balanced.
//! 2. The rules also check packets that the kernel will forward, and drop those that a rule denies.
//!
//! # Design decisions
//! - **The check on output** happens only if a rule depends on the direction or translates
//!   ([`asks_directions`]), as in `slipring firewall`.
//! - **`reject`, `unreach`** make the engine reply with an ICMP error, from the router's address
//!   and within the engine's rate limits.
//! - **`fwd`** replaces the destination in the lookup. The next hop must be reachable by a route.
//! - **Pipes** only delay what the engine forwards. A packet that a rule sends to a pipe is dropped
//!   if the kernel would forward it, because it would evade the pipe's limits.
//!
//! Not for: frames that are not IP packets, and frames addressed to the router itself. The engine
//! passes them to the kernel, and no rule checks them.

mod checks;
mod delayed;
mod directions;
mod explained;
mod explained_check;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use slipring_dummynet::{Dummynet, ShaperEvent};
use slipring_fib::{FibPortIndex, ForwardingTables};
use slipring_ipfw::packet::PacketHeaders;
use slipring_ipfw::rule::{NextHop, RuleAction};
use slipring_ipfw::run::{
    CheckOutputs, CheckedBatch, EmissionTarget, EmittedFrame, Firewall, IpfwConfig, PacketMetadata,
    PortIndex, Ruleset,
};
use slipring_route::{MAX_ROUTE_BATCH, PuntClass, RouteBatch, RouteEngine, RouteFrame};

use crate::dataplane::RuleDataplane;
use crate::distribution::Steering;
use crate::events::LogEvents;
use delayed::{DelayedFrames, ResumedFrame};
pub use directions::asks_directions;
pub use explained_check::ExplainedCheck;

/// A frame for the kernel that is not in the memory of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PuntedFrame {
    /// The port at which the frame arrived.
    pub ingress: FibPortIndex,
    /// The class of the packet, which determines its rate limit.
    pub class: PuntClass,
    /// The whole frame, with the changes that rules have made.
    pub bytes: Vec<u8>,
}

/// What the current rules require of the stage.
#[derive(Clone, Copy, Debug, Default)]
struct RuleNeeds {
    /// Whether packets are also checked on output.
    checks_out: bool,
    /// Whether all frames of a batch are checked together. This is possible if no frame is checked
    /// on output, no rule reassembles fragments, and the stage does not explain a packet.
    checks_together: bool,
    /// Whether rules change packets, so that checksums must be complete before the check.
    rewrites: bool,
    /// Whether rules change addresses.
    translates: bool,
    /// Which of several threads must check a frame.
    steering: Steering,
}

/// Counters of a stage, apart from those of its rules and pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleStageCounters {
    /// Frames that rules and pipes have dropped.
    pub dropped: u64,
    /// Frames that were put into pipes, or wait for other fragments.
    pub delayed: u64,
    /// Packets that the rules have generated: resets and keepalives.
    pub made: u64,
    /// Generated packets that could not be sent because there was no route.
    pub unsent: u64,
}

/// The rules, pipes and states of one worker, and the frames that wait in its pipes.
#[derive(Debug)]
pub struct RuleStage {
    firewall: Firewall,
    shaper: Dummynet<u32>,
    needs: RuleNeeds,
    /// Whether frames are held, unchecked, for now.
    holds_frames: bool,
    delayed: DelayedFrames,
    /// Frames whose processing continues: they have left a pipe, or their packet's last fragment
    /// has arrived.
    resumed: Vec<ResumedFrame>,
    punted: Vec<PuntedFrame>,
    /// Ingress and length of resumed frames that were forwarded.
    forwarded: Vec<(FibPortIndex, u64)>,
    /// The batch for resumed frames; `None` until it is first needed.
    resume_batch: Option<Box<RouteBatch>>,
    /// For each frame of the batch, the metadata for the check on output.
    crossings: [Option<PacketMetadata>; MAX_ROUTE_BATCH],
    /// Number of fragments that the firewall keeps.
    fragments: usize,
    checked: CheckedBatch,
    outputs: CheckOutputs,
    events: Vec<ShaperEvent<u32>>,
    log: Arc<LogEvents>,
    counters: RuleStageCounters,
    /// The checks of the packet that is explained; `None` if this stage does not explain packets.
    explained: Option<Vec<ExplainedCheck>>,
}

impl RuleStage {
    /// Makes a stage. The ports of `firewall` are those of the router's tables, in their order.
    #[must_use]
    pub fn new(firewall: Firewall, shaper: Dummynet<u32>, log: Arc<LogEvents>) -> Self {
        let mut stage = Self {
            firewall,
            shaper,
            needs: RuleNeeds::default(),
            holds_frames: false,
            delayed: DelayedFrames::default(),
            resumed: Vec::new(),
            punted: Vec::new(),
            forwarded: Vec::new(),
            resume_batch: None,
            crossings: [const { None }; MAX_ROUTE_BATCH],
            fragments: 0,
            checked: CheckedBatch::default(),
            outputs: CheckOutputs { leaves_errors: true, ..CheckOutputs::default() },
            events: Vec::new(),
            log,
            counters: RuleStageCounters::default(),
            explained: None,
        };
        stage.inspect();
        stage
    }

    /// Returns the stage's counters.
    #[must_use]
    pub const fn counters(&self) -> &RuleStageCounters {
        &self.counters
    }

    /// Returns whether packets are also checked on output.
    #[must_use]
    pub const fn checks_out(&self) -> bool {
        self.needs.checks_out
    }

    /// Returns which of several stages with the same rules must check a frame.
    #[must_use]
    pub const fn steering(&self) -> Steering {
        self.needs.steering
    }

    /// Returns whether frames must stay where they are for now, because states are moving between
    /// stages.
    #[must_use]
    pub const fn holds_frames(&self) -> bool {
        self.holds_frames
    }

    /// Returns whether no frame waits in a pipe or for other fragments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.delayed.is_empty() && self.resumed.is_empty() && self.fragments == 0
    }

    fn inspect(&mut self) {
        use RuleAction::{Nat, Nptv6, Reass, SetDscp, TcpSetMss};
        let config = self.firewall.config();
        let any = |which: fn(&RuleAction) -> bool| {
            config.list.iter().any(|(entry, _)| which(&entry.rule.action))
        };
        let checks_out = asks_directions(config);
        self.needs = RuleNeeds {
            checks_out,
            // `reass` releases earlier fragments, which must leave before the next frame, so frames
            // are then checked one by one.
            checks_together: !checks_out
                && self.explained.is_none()
                && !any(|action| matches!(action, Reass)),
            rewrites: any(|action| matches!(action, Nat(_) | Nptv6(_) | SetDscp(_) | TcpSetMss(_))),
            translates: any(|action| matches!(action, Nat(_) | Nptv6(_))),
            steering: Steering::of(config),
        };
        self.shaper.settings_mut().one_pass = !self.firewall.continues_after_shaper();
    }

    /// Processes up to 64 frames, as [`RouteEngine::process`] does without rules. Afterwards,
    /// frames that were delayed earlier and leave now are in the engine's output queue, or are
    /// returned by [`Self::take_punted`].
    ///
    /// # Panics
    /// If there are more than [`MAX_ROUTE_BATCH`] frames.
    pub fn process(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        engine.parse(batch, frames);
        self.check_in(engine, batch, frames, now_ns);
        engine.police(batch, frames, now_ns);
        engine.look_up(batch, frames);
        engine.check_sources(batch, frames);
        self.check_out(engine, batch, frames, now_ns);
        engine.rewrite(batch, frames, now_ns);
        engine.answer(batch, frames, now_ns);
        self.finish(engine, now_ns);
    }

    /// Time at which [`Self::run`] must be called next, in ns; `None` if nothing is due later.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        if !self.events.is_empty() || !self.resumed.is_empty() {
            return Some(0);
        }
        self.shaper.next_release().into_iter().chain(self.firewall.next_tick_ns()).min()
    }

    /// Does the work that is due: packets leave pipes, states expire, keepalives are sent.
    pub fn run(&mut self, engine: &mut RouteEngine, now_ns: u64) {
        self.outputs.is_watched = self.log.is_watched();
        if self.firewall.next_tick_ns().is_some_and(|due| due <= now_ns) {
            self.firewall.tick(now_ns, &mut self.outputs);
        }
        if self.shaper.next_release().is_some_and(|due| due <= now_ns) {
            let events = &mut self.events;
            self.shaper.release(now_ns, &mut |event| events.push(event));
        }
        self.finish(engine, now_ns);
    }

    /// Removes and returns the records of delayed frames that were forwarded: the ingress port and
    /// the length in bytes of each.
    #[must_use]
    pub fn take_forwarded(&mut self) -> Vec<(FibPortIndex, u64)> {
        std::mem::take(&mut self.forwarded)
    }

    /// Removes and returns the frames for the kernel that are not in the memory of a port.
    pub fn take_punted(&mut self) -> Vec<PuntedFrame> {
        std::mem::take(&mut self.punted)
    }

    /// Runs after the last stage of the engine: handles the outputs of checks and the frames that
    /// leave pipes.
    pub fn finish(&mut self, engine: &mut RouteEngine, now_ns: u64) {
        while !self.events.is_empty() || !self.resumed.is_empty() {
            self.take_shaper_events(engine);
            self.resume(engine, now_ns);
        }
        self.send_outputs(engine);
        self.count_lost_fragments(engine);
    }

    /// Sends the packets that the rules have generated, and logs the rules' lines.
    fn send_outputs(&mut self, engine: &mut RouteEngine) {
        self.outputs.log.drain(..).for_each(|event| self.log.add(event));
        if self.outputs.unseen > 0 {
            self.log.count_unwatched(std::mem::take(&mut self.outputs.unseen));
        }
        for EmittedFrame { target, frame } in self.outputs.frames.drain(..) {
            let port = match target {
                EmissionTarget::Port(port) | EmissionTarget::From(port) => port,
                EmissionTarget::All => 0,
            };
            self.counters.made += 1;
            let packet = PacketHeaders::parse(&frame).ok();
            let packet = packet.and_then(|headers| frame.get(headers.l3..headers.end));
            let is_sent = packet.is_some_and(|packet| engine.originate(FibPortIndex(port), packet));
            self.counters.unsent += u64::from(!is_sent);
        }
    }
}

impl RuleDataplane for RuleStage {
    fn firewall(&self) -> &Firewall {
        &self.firewall
    }

    fn firewall_mut(&mut self) -> &mut Firewall {
        &mut self.firewall
    }

    fn shaper_mut(&mut self) -> &mut Dummynet<u32> {
        &mut self.shaper
    }

    fn adopt(&mut self, ruleset: &mut Ruleset) {
        self.firewall.adopt(ruleset);
        self.inspect();
    }

    fn hold_frames(&mut self, holds: bool) {
        self.holds_frames = holds;
    }

    /// Queues the events for the next [`Self::run`], which becomes due immediately.
    fn apply_shaper_events(&mut self, events: Vec<ShaperEvent<u32>>, _: u64) {
        self.events.extend(events);
    }

    /// Returns all ports but `from`, because routes can lead to any of them; `None` if frames are
    /// not checked on output.
    fn egress_ports(&self, from: PortIndex) -> Option<Vec<PortIndex>> {
        let ports = self.firewall.config().ports.len() as PortIndex;
        self.needs.checks_out.then(|| (0..ports).filter(|&port| port != from).collect())
    }
}

/// Returns why a router cannot execute these rules; `None` if it can execute them.
#[must_use]
pub fn router_obstacle(config: &IpfwConfig) -> Option<String> {
    let is_by_port = |action: &RuleAction| matches!(action, RuleAction::Forward(NextHop::Port(_)));
    let mut rules = config.list.iter().map(|(entry, _)| entry);
    rules.find(|entry| is_by_port(&entry.rule.action)).map(|entry| {
        let number = entry.number;
        format!("rule {number}: a router sends to next hops: give fwd the address of one")
    })
}

/// Names and addresses of a router's ports, as rules use them: for `Firewall::set_ports` and
/// `Firewall::set_me`.
#[must_use]
pub fn router_ports(
    tables: &ForwardingTables,
) -> (Vec<String>, Vec<(std::net::IpAddr, Option<u16>)>) {
    let names = tables.ports.iter().map(|port| port.name.clone()).collect();
    let own = tables.ports.iter().zip(0..).flat_map(|(port, index)| {
        port.addresses.iter().map(move |(address, _)| (*address, Some(index)))
    });
    (names, own.collect())
}
