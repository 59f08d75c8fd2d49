//! Converts the engine's decision to the outcome of the packet, depending on where the interface's
//! packets are forwarded.

use slipring_fib::{Adjacency, FibPortIndex, Target};
use slipring_route::{PuntReason, RouteDropCause, RouteStep, RouteVerdict};
use slipring_route_bpf::has_address_for_kernel;

use super::explained::ExplainedPacket;
use super::path::DecidingEngine;
use crate::names::port_name;
use crate::reasons;
use crate::routing::Routing;

/// The final outcome of a packet.
pub(super) struct PacketOutcome {
    pub(super) action: &'static str,
    pub(super) reason: Option<String>,
    /// The port by which the packet leaves, or will leave when its next hop is resolved; `None` for
    /// all other outcomes, also if the packet leaves in fragments.
    pub(super) egress: Option<FibPortIndex>,
}

impl PacketOutcome {
    fn new(action: &'static str, reason: Option<&str>) -> Self {
        Self { action, reason: reason.map(str::to_owned), egress: None }
    }

    fn kernel(reason: String) -> Self {
        Self { action: "to the kernel", reason: Some(reason), egress: None }
    }
}

impl ExplainedPacket {
    pub(super) fn outcome(&self, routing: &Routing) -> PacketOutcome {
        if let Some(reason) = &self.path.passed {
            return PacketOutcome::kernel(reason.clone());
        }
        if let Some(port) = self.left_to {
            return PacketOutcome::kernel(self.egress_reason(routing, port).unwrap_or_default());
        }
        let decided = self.steps.iter().find_map(|step| match step {
            RouteStep::Decided(verdict, reason) => Some((verdict, *reason)),
            _ => None,
        });
        let Some((verdict, punt)) = decided else {
            return PacketOutcome::kernel("a thread of the router has ended".to_owned());
        };
        match self.path.kind {
            DecidingEngine::Program => self.of_program(routing, verdict, punt),
            DecidingEngine::Workers | DecidingEngine::Subinterface => {
                self.of_engine(routing, verdict, punt)
            }
        }
    }

    /// The outcome if the engine itself forwards.
    fn of_engine(
        &self,
        routing: &Routing,
        verdict: &RouteVerdict,
        punt: Option<PuntReason>,
    ) -> PacketOutcome {
        if let RouteVerdict::Kernel(_) = verdict {
            return self.punted(routing, punt);
        }
        let (action, reason, egress) = decided(verdict, punt);
        PacketOutcome { egress, ..PacketOutcome::new(action, reason) }
    }

    /// The outcome if a program forwards. It forwards the packets that the engine would forward,
    /// with exceptions, and drops those that fail the check of their source. The kernel gets all
    /// others.
    fn of_program(
        &self,
        routing: &Routing,
        verdict: &RouteVerdict,
        punt: Option<PuntReason>,
    ) -> PacketOutcome {
        match verdict {
            RouteVerdict::Forward(frame) => match self.exception(routing, frame.port) {
                Some(reason) => PacketOutcome::kernel(reason),
                None => self.of_engine(routing, verdict, punt),
            },
            RouteVerdict::Hold(held) => match reasons::made_by_router(routing, held.port) {
                Some(reason) => PacketOutcome::kernel(reason),
                None => PacketOutcome::new("to the kernel, to resolve", None),
            },
            RouteVerdict::Fragmented => PacketOutcome::kernel("too-big".to_owned()),
            RouteVerdict::Drop(
                RouteDropCause::ReversePathStrict | RouteDropCause::ReversePathLoose,
            ) => self.of_engine(routing, verdict, punt),
            RouteVerdict::Drop(cause) | RouteVerdict::Answered(cause) => {
                PacketOutcome::kernel(cause.name().to_owned())
            }
            RouteVerdict::Kernel(_) | RouteVerdict::Delayed => self.punted(routing, punt),
        }
    }

    /// Returns why the program leaves a packet to the kernel although the engine would forward it.
    fn exception(&self, routing: &Routing, egress: FibPortIndex) -> Option<String> {
        let mtu = self.target().map_or(0, |target| target.mtu) as usize;
        let len = self.path.packet().len();
        if egress == self.path.ingress {
            Some("the next hop is on the interface on which it arrives".to_owned())
        } else if has_address_for_kernel(self.path.packet(), &routing.mirror.local_addresses()) {
            Some("such addresses are left to the kernel".to_owned())
        } else if mtu != 0 && len > mtu {
            Some("too-big".to_owned())
        } else {
            self.egress_reason(routing, egress)
        }
    }

    /// Returns why packets that would leave by a port are left to the kernel.
    fn egress_reason(&self, routing: &Routing, port: FibPortIndex) -> Option<String> {
        let name = port_name(routing, port).unwrap_or_default();
        match self.path.kind {
            DecidingEngine::Program => reasons::of_next_hop(routing, port),
            DecidingEngine::Workers if !reasons::is_own(routing, port) => {
                reasons::of_egress(routing, port)
            }
            DecidingEngine::Workers | DecidingEngine::Subinterface => {
                Some(format!("packets for {name} are left to the kernel"))
            }
        }
    }

    /// The outcome if the engine leaves the packet to the kernel, with the reason.
    fn punted(&self, routing: &Routing, punt: Option<PuntReason>) -> PacketOutcome {
        PacketOutcome::kernel(match (punt, self.address()) {
            (Some(PuntReason::Route), Some(address)) => {
                let found =
                    routing.mirror.route_get(routing.vrf_of_port(self.path.ingress), address);
                reasons::of_route(routing, found.and_then(|found| found.route).as_ref())
            }
            (Some(reason), _) => reason.name().to_owned(),
            (None, _) => "the engine leaves it".to_owned(),
        })
    }

    fn matched(&self) -> Option<&RouteStep> {
        self.steps.iter().rfind(|step| matches!(step, RouteStep::Matched { .. }))
    }

    fn target(&self) -> Option<Target> {
        match self.matched()? {
            RouteStep::Matched { target, .. } => Some(*target),
            _ => None,
        }
    }

    fn address(&self) -> Option<std::net::IpAddr> {
        match self.matched()? {
            RouteStep::Matched { address, .. } => Some(*address),
            _ => None,
        }
    }

    /// The next hop that was chosen.
    pub(super) fn next_hop(&self) -> Option<Adjacency> {
        match self.matched()? {
            RouteStep::Matched { adjacency, .. } => *adjacency,
            _ => None,
        }
    }
}

/// Converts a verdict of the engine to the action, its reason, and the port of
/// [`PacketOutcome::egress`].
pub(crate) fn decided(
    verdict: &RouteVerdict,
    punt: Option<PuntReason>,
) -> (&'static str, Option<&'static str>, Option<FibPortIndex>) {
    match verdict {
        RouteVerdict::Forward(frame) => ("forwarded", None, Some(frame.port)),
        RouteVerdict::Fragmented => ("forwarded in fragments", None, None),
        RouteVerdict::Hold(held) => ("held, to resolve", None, Some(held.port)),
        RouteVerdict::Delayed => ("delayed", Some("in a pipe, or for other fragments"), None),
        RouteVerdict::Kernel(_) => ("to the kernel", punt.map(PuntReason::name), None),
        RouteVerdict::Drop(cause) => ("dropped", Some(cause.name()), None),
        RouteVerdict::Answered(cause) => ("dropped and answered", Some(cause.name()), None),
    }
}
