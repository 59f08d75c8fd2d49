//! Finds the engine that gets a packet, and collects from the routing thread the state that an
//! explanation needs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use slipring_control::ControlRefusal;
use slipring_fib::{FibPort, FibPortIndex, ForwardingTables, TargetAction, TargetIndex};
use slipring_route::RouteEngine;
use slipring_route_bpf::is_kept_from_sockets;

use crate::names::{port_name, port_of};
use crate::reasons;
use crate::routing::Routing;

/// Source MAC address of the explained frames. It belongs to no host: the engine does not check it,
/// and rules do so only with options such as `mac`.
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The engine that decides about packets that arrive on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecidingEngine {
    /// The program in the kernel.
    Program,
    /// A worker, which receives frames through sockets.
    Workers,
    /// The thread that serves the subinterfaces that the router has created, while programs forward
    /// all other packets.
    Subinterface,
}

/// A packet and the engine that gets it.
pub(super) struct PacketPath {
    pub(super) kind: DecidingEngine,
    /// The interface on which the packet arrives.
    pub(super) name: String,
    pub(super) ingress: FibPortIndex,
    /// The packet with the link header of this interface.
    pub(super) frame: Vec<u8>,
    l3: usize,
    /// Why the packet is left to the kernel before any stage.
    pub(super) passed: Option<String>,
    /// A copy or a model of the engine; `None` if the packet is left to the kernel before any
    /// stage, or if no copy of the worker's engine is available.
    pub(super) engine: Option<RouteEngine>,
    /// By port, whether packets that would leave by it are left to the kernel, regardless of the
    /// engine's decision.
    pub(super) left: Vec<bool>,
}

impl PacketPath {
    /// Returns the path of a packet that arrives on an interface. With workers, it contains
    /// `of_worker`, the copy of one worker's engine.
    ///
    /// # Errors
    /// If the router has no such interface.
    pub(super) fn of(
        routing: &mut Routing,
        name: &str,
        packet: Vec<u8>,
        (has_rules, of_worker): (bool, Option<RouteEngine>),
    ) -> Result<Self, ControlRefusal> {
        let at = port_of(routing, name)?;
        let ingress = FibPortIndex(at as u16);
        let kind = match () {
            () if !routing.workers.is_empty() => DecidingEngine::Workers,
            () if at >= routing.engine.interfaces().len() => DecidingEngine::Subinterface,
            () => DecidingEngine::Program,
        };
        let tables = routing.tables().cloned();
        let port = tables.as_ref().and_then(|tables| tables.ports.get(at));
        let mut frame = port.map_or_else(Vec::new, |port| link_header(port, &packet));
        let l3 = frame.len();
        frame.extend_from_slice(&packet);
        let passed = passed(routing, (kind, has_rules), ingress, &packet);
        let engine = tables.filter(|_| passed.is_none());
        let engine = engine.and_then(|tables| engine_of(routing, kind, tables, of_worker));
        let left = (0..routing.ruled.len()).map(|at| is_left(routing, kind, at)).collect();
        Ok(Self { kind, name: name.to_owned(), ingress, frame, l3, passed, engine, left })
    }

    /// The IP packet.
    pub(super) fn packet(&self) -> &[u8] {
        &self.frame[self.l3..]
    }
}

/// Returns the Ethernet header of a packet for a port, with the port's tags.
fn link_header(port: &FibPort, packet: &[u8]) -> Vec<u8> {
    let mut header = [port.mac.0, SENDER].concat();
    for (tpid, vlan) in [port.tags.outer, port.tags.inner].into_iter().flatten() {
        header.extend(tpid.to_be_bytes());
        header.extend(vlan.to_be_bytes());
    }
    header.extend(if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    header
}

/// Returns a copy of the engine that gets the packets, or an engine that makes the same decisions.
fn engine_of(
    routing: &Routing,
    kind: DecidingEngine,
    tables: Arc<ForwardingTables>,
    of_worker: Option<RouteEngine>,
) -> Option<RouteEngine> {
    match kind {
        DecidingEngine::Workers => of_worker,
        DecidingEngine::Program => Some(routing.engine.model(tables, routing.own_addresses())),
        DecidingEngine::Subinterface => {
            let mut engine = RouteEngine::new(Default::default(), Arc::clone(&tables));
            engine.set_own_addresses(routing.own_addresses());
            engine.set_tables(tables);
            Some(engine)
        }
    }
}

/// Returns why a packet is left to the kernel before any stage of the engine.
fn passed(
    routing: &Routing,
    (kind, has_rules): (DecidingEngine, bool),
    ingress: FibPortIndex,
    packet: &[u8],
) -> Option<String> {
    if let Some(reason) = reasons::of_router(routing) {
        return Some(reason);
    }
    if usize::from(ingress.0) >= routing.engine.interfaces().len() {
        let name = port_name(routing, ingress).unwrap_or_default();
        if routing.is_left(usize::from(ingress.0)) {
            return Some(format!("packets from {name} are left to the kernel"));
        }
        // With rules, these reasons apply before the rules. Without rules, the engine itself finds
        // these reasons.
        return of_kernel(routing, ingress, packet).filter(|_| has_rules);
    }
    let reason = reasons::of_ingress(routing, ingress);
    reason.or_else(|| {
        kept(routing, ingress, packet, has_rules).filter(|_| kind == DecidingEngine::Workers)
    })
}

/// Returns why the program that hands packets over to workers leaves a packet to the kernel.
fn kept(
    routing: &Routing,
    ingress: FibPortIndex,
    packet: &[u8],
    has_rules: bool,
) -> Option<String> {
    if is_kept_from_sockets(packet, has_rules) {
        return Some("such packets are not handed over to the router's threads".to_owned());
    }
    of_kernel(routing, ingress, packet)
}

/// Returns why a packet is left to the kernel because of its route; `None` if its route does not
/// require this.
fn of_kernel(routing: &Routing, ingress: FibPortIndex, packet: &[u8]) -> Option<String> {
    let found = routing.mirror.route_get(routing.vrf_of_port(ingress), destination(packet)?)?;
    let is_kernels =
        found.index == TargetIndex::KERNEL || found.target.action == TargetAction::Kernel;
    is_kernels.then(|| reasons::of_route(routing, found.route.as_ref()))
}

pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet[0] >> 4 {
        6 => Some(address_of(u128::from_be_bytes(*packet.get(24..)?.first_chunk()?), true)),
        _ => Some(address_of(u32::from_be_bytes(*packet.get(16..)?.first_chunk()?).into(), false)),
    }
}

/// Whether threads leave packets for a port to the kernel.
fn is_left(routing: &Routing, kind: DecidingEngine, at: usize) -> bool {
    match kind {
        // `ExplainedPacket::exception` finds the packets that the program leaves to the kernel.
        DecidingEngine::Program => false,
        // Rules of the kernel matter only for arriving packets, except on subinterfaces.
        DecidingEngine::Workers => match routing.engine.interfaces().get(at) {
            Some(of) => of.is_left,
            None => routing.is_left(at),
        },
        DecidingEngine::Subinterface => routing.is_left(at),
    }
}

pub(super) fn address_of(bits: u128, is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
}
