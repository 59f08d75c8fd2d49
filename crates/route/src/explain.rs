//! Explains the decision of each stage about one packet, for `why` and `trace`. The engine's own
//! stages make these decisions.

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_fib::{Adjacency, FibPortIndex, Target, TargetAction, TargetIndex, VrfIndex};
use slipring_neighbour::icmp::IcmpProblem;

use crate::batch::{RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::engine::RouteEngine;
use crate::field::{be32, be128};
use crate::output::RouteOutput;
use crate::packet::PacketTraits;
use crate::punt::PuntReason;
use crate::verdict::RouteVerdict;

/// The result of one stage for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteStep {
    /// The first stage accepted the packet.
    Parsed {
        /// The port that the frame's tags select.
        port: FibPortIndex,
        /// The VRF of that port.
        vrf: VrfIndex,
        /// The packet's source.
        source: IpAddr,
        /// The packet's destination.
        destination: IpAddr,
        /// Length of the packet in bytes.
        ip_len: u32,
    },
    /// The second stage accepted the packet.
    Policed {
        /// The new DSCP, if a policer sets one.
        dscp: Option<u8>,
    },
    /// What the third stage found, even if it is that there is no route.
    Matched {
        /// The address that was looked up: the destination, unless a rule forwards elsewhere.
        address: IpAddr,
        /// Index of the target.
        index: TargetIndex,
        /// The target.
        target: Target,
        /// The neighbour, if the packet is to be forwarded.
        adjacency: Option<Adjacency>,
    },
    /// A stage rejected the packet. Its sender may get an ICMP error.
    Rejected {
        /// Why the packet is dropped.
        cause: RouteDropCause,
        /// The content of the ICMP error.
        problem: IcmpProblem,
    },
    /// The verdict, and why the kernel gets the packet, if it does.
    Decided(RouteVerdict, Option<PuntReason>),
    /// A packet that the router created: an ICMP error, a redirect, or a fragment.
    Made(RouteOutput),
}

/// Stages between the engine's own stages, such as rules, in the explanation of a packet.
pub trait ExplainedStages {
    /// Called after the engine's first stage.
    fn after_parse(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    );

    /// Called after the engine's fourth stage.
    fn after_look_up(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    );
}

/// No additional stages.
impl ExplainedStages for () {
    fn after_parse(
        &mut self,
        _: &mut RouteEngine,
        _: &mut RouteBatch,
        _: &mut [RouteFrame<'_>],
        _: u64,
    ) {
    }

    fn after_look_up(
        &mut self,
        _: &mut RouteEngine,
        _: &mut RouteBatch,
        _: &mut [RouteFrame<'_>],
        _: u64,
    ) {
    }
}

impl RouteEngine {
    /// Returns what each stage would decide about a frame. Neither the frame nor the engine
    /// changes: counters, policers, limits of ICMP errors and the output queue stay as they are.
    #[must_use]
    pub fn explain(&self, frame: &RouteFrame<'_>, now_ns: u64) -> Vec<RouteStep> {
        self.explain_with(&mut (), frame, now_ns)
    }

    /// Like [`Self::explain`], with the stages of another component between the engine's stages.
    pub fn explain_with(
        &self,
        others: &mut impl ExplainedStages,
        frame: &RouteFrame<'_>,
        now_ns: u64,
    ) -> Vec<RouteStep> {
        let mut engine = self.clone();
        engine.policers = self.policers.detached();
        while engine.pop().is_some() {}
        let mut bytes = frame.bytes.to_vec();
        let mut frames = [RouteFrame { bytes: &mut bytes, ..*frame }];
        let mut batch = RouteBatch::new();
        let mut steps = Vec::new();
        engine.parse(&mut batch, &frames);
        note(&batch, &mut steps, |batch| parsed(batch, &frames[0]));
        others.after_parse(&mut engine, &mut batch, &mut frames, now_ns);
        engine.police(&mut batch, &frames, now_ns);
        note(&batch, &mut steps, policed);
        let was_live = batch.live() != 0;
        engine.look_up(&mut batch, &frames);
        if was_live {
            steps.push(matched(&engine, &batch));
        }
        engine.check_sources(&mut batch, &frames);
        others.after_look_up(&mut engine, &mut batch, &mut frames, now_ns);
        // A rule may have changed the next hop of the packet. If the result of the lookup has
        // changed, it is a further step.
        if batch.live() != 0 && steps.last() != Some(&matched(&engine, &batch)) {
            steps.push(matched(&engine, &batch));
        }
        engine.rewrite(&mut batch, &mut frames, now_ns);
        if batch.rejected != 0 {
            let rejection = batch.rejections[0];
            steps.push(RouteStep::Rejected { cause: rejection.cause, problem: rejection.problem });
        }
        engine.answer(&mut batch, &frames, now_ns);
        if let Some(verdict) = batch.verdict(0) {
            steps.push(RouteStep::Decided(verdict, batch.punt_reason(0)));
        }
        steps.extend(core::iter::from_fn(|| engine.pop()).map(RouteStep::Made));
        steps
    }
}

/// Appends a step if the packet is still live.
fn note(batch: &RouteBatch, steps: &mut Vec<RouteStep>, step: impl Fn(&RouteBatch) -> RouteStep) {
    if batch.live() != 0 {
        steps.push(step(batch));
    }
}

fn parsed(batch: &RouteBatch, frame: &RouteFrame<'_>) -> RouteStep {
    let packet = &batch.packets[0];
    let ip = packet.l3();
    let (source, destination) = if packet.is_v6() {
        let at = |offset| IpAddr::V6(Ipv6Addr::from_bits(be128(frame.bytes, ip + offset)));
        (at(8), at(24))
    } else {
        let at = |offset| IpAddr::V4(Ipv4Addr::from_bits(be32(frame.bytes, ip + offset)));
        (at(12), at(16))
    };
    let (port, vrf) = (FibPortIndex(packet.port), VrfIndex(packet.vrf));
    RouteStep::Parsed { port, vrf, source, destination, ip_len: packet.ip_len() }
}

fn policed(batch: &RouteBatch) -> RouteStep {
    let packet = &batch.packets[0];
    RouteStep::Policed { dscp: packet.traits.has(PacketTraits::REMARK).then_some(packet.dscp) }
}

fn matched(engine: &RouteEngine, batch: &RouteBatch) -> RouteStep {
    let packet = &batch.packets[0];
    let index = TargetIndex(packet.target);
    let address = match packet.is_v6() {
        true => IpAddr::V6(Ipv6Addr::from_bits(batch.keys[0])),
        false => IpAddr::V4(Ipv4Addr::from_bits(batch.keys[0] as u32)),
    };
    let tables = engine.tables();
    let target = tables.targets.get(usize::from(index.0)).copied();
    let target = target.unwrap_or(Target { action: TargetAction::Kernel, mtu: 0 });
    let adjacency = tables.adjacencies.get(usize::from(packet.adjacency));
    let adjacency = adjacency.filter(|_| batch.live() != 0).copied();
    RouteStep::Matched { address, index, target, adjacency }
}

impl fmt::Display for RouteStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parsed { port, vrf, source, destination, ip_len } => write!(
                f,
                "parse: {source} > {destination}, {ip_len} bytes, from port {}, VRF {}",
                port.0, vrf.0
            ),
            Self::Policed { dscp: None } => f.write_str("police: accepted"),
            Self::Policed { dscp: Some(dscp) } => {
                write!(f, "police: accepted with new DSCP {dscp}")
            }
            Self::Matched { address, index, target, adjacency } => {
                let action = action_name(target.action);
                write!(f, "look up {address}: target {}, {action}", index.0)?;
                if target.mtu != 0 {
                    write!(f, ", route MTU {}", target.mtu)?;
                }
                match adjacency {
                    Some(Adjacency { port, mac: Some(mac), .. }) => {
                        write!(f, ", to {mac} by port {}", port.0)
                    }
                    Some(Adjacency { port, mac: None, .. }) => {
                        write!(f, ", to an unresolved neighbour by port {}", port.0)
                    }
                    None => Ok(()),
                }
            }
            Self::Rejected { cause, problem } => write!(f, "rejected: {cause} ({problem:?})"),
            Self::Decided(verdict, reason) => {
                decided(f, verdict)?;
                reason.map_or(Ok(()), |reason| write!(f, " ({})", reason.name()))
            }
            Self::Made(RouteOutput::Send { port, frame }) => {
                write!(f, "made: {} bytes, to port {}", frame.len(), port.0)
            }
            Self::Made(RouteOutput::Hold { held, frame }) => {
                write!(f, "made: {} bytes, held for {}", frame.len(), held.next_hop)
            }
        }
    }
}

/// The action of a route in one or two words.
const fn action_name(action: TargetAction) -> &'static str {
    match action {
        TargetAction::NoRoute => "no route",
        TargetAction::Kernel => "kernel",
        TargetAction::Blackhole => "blackhole",
        TargetAction::Unreachable => "unreachable",
        TargetAction::Prohibit => "prohibit",
        TargetAction::Forward(_) => "forward",
        TargetAction::Balance(_) => "balance",
    }
}

fn decided(f: &mut fmt::Formatter<'_>, verdict: &RouteVerdict) -> fmt::Result {
    match verdict {
        RouteVerdict::Forward(frame) => {
            write!(f, "forwarded by port {}, {} bytes", frame.port.0, frame.frame_len())
        }
        RouteVerdict::Fragmented => f.write_str("forwarded in fragments"),
        RouteVerdict::Hold(held) => write!(f, "held until {} is resolved", held.next_hop),
        RouteVerdict::Delayed => f.write_str("delayed"),
        RouteVerdict::Kernel(class) => write!(f, "to the kernel as {}", class.name()),
        RouteVerdict::Drop(cause) => write!(f, "dropped: {cause}"),
        RouteVerdict::Answered(cause) => write!(f, "dropped and answered: {cause}"),
    }
}
