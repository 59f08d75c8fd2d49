//! Route mode: the emulator as a router between two subnets, instead of a wire.
//!
//! The subnets are those of the two interfaces. The router uses their IP and hardware addresses as
//! its own: hosts configure the router as their gateway. A frame for the other subnet passes the
//! link; its hardware addresses change, and its TTL only on request. Frames that do not pass are
//! counted by cause: at the port where they arrived, or, if the link has delivered them, at the
//! port where they were to leave.
//!
//! Not for routing decisions and address resolution, which are in `slipring-gateway`.

mod queue;

use std::sync::{Arc, Mutex};

use slipring_abi::name::{PortName, PortNameKind, RingSelection, kind};
use slipring_cli::codes::{SR0002, SR0012};
use slipring_cli::{Diagnostic, Failure, Session};
use slipring_gateway::{GatewayPort, RouterInterface, RouterInterfaceError, Subnet, TtlPolicy};
use slipring_port::Port;
use slipring_port::iface::Iface;
use slipring_port::netlink::Netlink;
use slipring_wire::MacAddr;

use crate::config::{EmulationConfig, RouteGateway, RouteSetting};
pub(crate) use queue::RING_LAYERS;
use queue::{GatewayQueue, SharedGateway};

/// The parameters of route mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteMode {
    /// The gateway on the network of each port; `None` if the port has none.
    gateways: [Option<RouteGateway>; 2],
    ttl_policy: TtlPolicy,
}

impl RouteMode {
    /// Reads the settings for these ports.
    ///
    /// # Errors
    /// [`Failure`] if there are not two ports, or a port is not an interface that leads to other
    /// hosts.
    pub fn of(config: &EmulationConfig, ports: &[PortName]) -> Result<Option<Self>, Failure> {
        let Some(RouteSetting { gateways, decrement_ttl }) = config.route()? else {
            return Ok(None);
        };
        if ports.len() != 2 {
            let error = Diagnostic::new(SR0002, "-r routes between two ports");
            let cause = format!("there are {}", ports.len());
            return Err(error.with_cause(cause).with_help("leave -r out, or all but two").into());
        }
        if let Some(port) = ports.iter().find(|port| !has_hosts(port)) {
            let error = Diagnostic::new(SR0012, format!("-r cannot route at {}", port.name));
            let error = error.with_cause("it takes its addresses from interfaces of this host");
            return Err(error.with_help("name interfaces: -i netmap:eth0 -i netmap:eth1").into());
        }
        let life = if decrement_ttl { TtlPolicy::Decrement } else { TtlPolicy::Preserve };
        Ok(Some(Self { gateways, ttl_policy: life }))
    }

    /// Inserts the router between the open ports and the program that uses them, by replacing the
    /// ports' queues.
    ///
    /// # Errors
    /// [`Failure`] if an interface has no usable address, or the subnets of the two overlap.
    pub fn between(
        &self,
        ports: &mut [Port],
        names: &[PortName],
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let sides = [self.side(&names[0], 0)?, self.side(&names[1], 1)?];
        refuse_overlap(&sides, names)?;
        if std::fs::read_to_string(IP_FORWARD_PATH).is_ok_and(|text| text.trim() == "1")
            && names.iter().any(|name| name.kind == PortNameKind::Packet)
        {
            session.reporter.warn(HOST_FORWARDS_WARNING)?;
        }
        for (port, [own, other]) in ports.iter_mut().zip([[0, 1], [1, 0]]) {
            let gate = GatewayPort::new(sides[own].clone(), sides[other].clone(), self.ttl_policy);
            gate_queues(port, &Arc::new(Mutex::new(gate)))?;
        }
        Ok(())
    }

    /// Returns the router's interface at a port, with the MAC and IP addresses of the host's
    /// interface.
    fn side(&self, port: &PortName, index: usize) -> Result<RouterInterface, Failure> {
        let name = &port.name;
        let iface = Iface::find(name).map_err(|error| {
            let failed = Diagnostic::new(SR0012, format!("-r cannot look at {name}"));
            failed.with_cause(error.to_string()).with_help("see what there is: ip link")
        })?;
        let addresses = Netlink::open().and_then(|netlink| netlink.addresses(iface.index))?;
        let subnets = addresses.into_iter().map(|(address, len)| Subnet::new(address, len));
        let subnets: Result<Vec<_>, RouterInterfaceError> =
            subnets.map(|subnet| Ok(subnet?)).collect();
        let gateway = self.gateways[index].as_ref();
        let gateways = gateway.map(|gateway| gateway.address).into_iter().collect();
        let side =
            subnets.and_then(|subnets| RouterInterface::new(MacAddr(iface.mac), subnets, gateways));
        side.map_err(|error| no_side(name, gateway, &error).into())
    }
}

const IP_FORWARD_PATH: &str = "/proc/sys/net/ipv4/ip_forward";
const HOST_FORWARDS_WARNING: &str = "this host forwards as well and sees what a packet: port sees, so \
    frames would pass twice: sysctl -w net.ipv4.ip_forward=0, or take netmap: ports";

/// Returns whether a port is a network interface of this host, opened by `netmap:`, `xdp:` or
/// `packet:` and without host rings: only its link is behind the port, and may lead to other hosts.
fn has_hosts(port: &PortName) -> bool {
    port.kind.has(kind::HOST_RINGS)
        && port.pipe.is_none()
        && matches!(port.rings, RingSelection::All | RingSelection::One(_))
}

fn no_side(name: &str, gateway: Option<&RouteGateway>, error: &RouterInterfaceError) -> Diagnostic {
    let failed = Diagnostic::new(SR0012, format!("-r cannot route at {name}"));
    match (gateway, error) {
        (Some(gateway), RouterInterfaceError::Gateway { .. }) => failed
            .with_cause(format!("{error}, at {}", gateway.location))
            .with_help(format!("name a neighbour of {name}, or none")),
        _ => failed
            .with_cause(error.to_string())
            .with_help(format!("give it one: ip addr add 10.1.0.1/24 dev {name}")),
    }
}

/// Returns an error if the subnets overlap, because then an address could belong to either side.
fn refuse_overlap(sides: &[RouterInterface; 2], names: &[PortName]) -> Result<(), Failure> {
    let Some(address) = sides[0].overlap(&sides[1]) else { return Ok(()) };
    let [left, right] = [&names[0].name, &names[1].name];
    let error = Diagnostic::new(SR0012, format!("{left} and {right} are in the same subnet"));
    let cause = format!("both reach {address}");
    Err(error.with_cause(cause).with_help("without -r it is a wire between them").into())
}

/// Wraps every queue of a port in a [`GatewayQueue`].
fn gate_queues(port: &mut Port, gate: &SharedGateway) -> Result<(), Failure> {
    let name = port.info.name.clone();
    for (index, queue) in (0..).zip(std::mem::take(&mut port.queues)) {
        port.queues.push(Box::new(GatewayQueue::new(&name, index, queue, gate.clone())?));
    }
    Ok(())
}
