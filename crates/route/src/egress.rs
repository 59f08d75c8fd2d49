//! What every packet needs that leaves the router: a TTL above 1, an MTU that it fits, a neighbour,
//! one hop less, and a link header.

mod fragment;
mod header;
mod link;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_fib::{Adjacency, NextHopAddress, PortIndex};
use slipring_neighbour::icmp::IcmpProblem;
use slipring_wire::MacAddr;
use slipring_wire::offload::complete_partial;

use crate::batch::Rejection;
use crate::cause::RouteDropCause;
use crate::counters::RouteCounters;
use crate::field::{be32, be128, byte};
use crate::output::{OutputQueue, RouteOutput};
use crate::packet::{PacketTraits, RoutedPacket};
use crate::verdict::{ForwardedFrame, HeldPacket, RouteVerdict};
use crate::view::{PortFacts, RouteView};

pub(crate) use header::{count_hop_v4, is_expired};
pub(crate) use link::LinkHeader;

/// Minimum MTU of a link with IPv6 (RFC 8200, 5).
const MIN_V6_MTU: u32 = 1280;

/// Sends a packet to the neighbour of its adjacency, or has it wait.
///
/// # Errors
/// The [`Rejection`] of a packet that cannot be sent. The frame is then unchanged.
pub(crate) fn depart(
    view: &RouteView,
    counters: &mut RouteCounters,
    output: &mut OutputQueue,
    bytes: &mut [u8],
    packet: RoutedPacket,
) -> Result<RouteVerdict, Rejection> {
    let Some(&Adjacency { port, next_hop, mac }) = view.adjacency(packet.adjacency) else {
        return Err(unreachable_port());
    };
    let next_hop = match next_hop {
        NextHopAddress::Via(address) => address,
        NextHopAddress::OnLink => destination(bytes, &packet),
    };
    let egress = check(view, bytes, &packet, port)?;
    match mac {
        Some(mac) => send(egress, counters, output, bytes, packet, (port, mac)),
        None => Ok(RouteVerdict::Hold(HeldPacket { port, next_hop, packet })),
    }
}

/// Sends a packet that waited for `mac`.
///
/// # Errors
/// As [`depart`].
pub(crate) fn release(
    view: &RouteView,
    counters: &mut RouteCounters,
    output: &mut OutputQueue,
    bytes: &mut [u8],
    held: &HeldPacket,
    mac: MacAddr,
) -> Result<RouteVerdict, Rejection> {
    let egress = check(view, bytes, &held.packet, held.port)?;
    send(egress, counters, output, bytes, held.packet, (held.port, mac))
}

/// A port, and the MTU for a packet on it.
#[derive(Clone, Copy, Debug)]
struct Egress<'v> {
    facts: &'v PortFacts,
    mtu: u32,
}

/// Checks all that can be wrong with a packet that has a neighbour.
fn check<'v>(
    view: &'v RouteView,
    bytes: &[u8],
    packet: &RoutedPacket,
    port: PortIndex,
) -> Result<Egress<'v>, Rejection> {
    let is_own = packet.traits.has(PacketTraits::OWN);
    if !is_own && is_expired(bytes, packet) {
        let cause = match packet.is_v6() {
            true => RouteDropCause::HopLimitExpired,
            false => RouteDropCause::TtlExpired,
        };
        return Err(Rejection { cause, problem: IcmpProblem::TimeExceeded });
    }
    let Some(facts) = view.port(port.0).filter(|facts| facts.is_up) else {
        return Err(unreachable_port());
    };
    let mtu = if packet.mtu == 0 { facts.mtu } else { facts.mtu.min(packet.mtu) };
    let may_fragment = !packet.is_v6() && byte(bytes, packet.l3() + 6) & 0x40 == 0;
    if packet.ip_len() <= mtu || may_fragment {
        return Ok(Egress { facts, mtu });
    }
    let (cause, mtu) = match packet.is_v6() {
        true => (RouteDropCause::V6TooBig, mtu.max(MIN_V6_MTU)),
        false => (RouteDropCause::V4TooBig, mtu),
    };
    Err(Rejection { cause, problem: IcmpProblem::TooBig { mtu } })
}

fn unreachable_port() -> Rejection {
    Rejection { cause: RouteDropCause::PortDown, problem: IcmpProblem::HostUnreachable }
}

fn destination(bytes: &[u8], packet: &RoutedPacket) -> IpAddr {
    if packet.is_v6() {
        Ipv6Addr::from_bits(be128(bytes, packet.l3() + 24)).into()
    } else {
        Ipv4Addr::from_bits(be32(bytes, packet.l3() + 16)).into()
    }
}

/// Changes the packet and gives it a link header; fragments it if it is larger than the MTU.
fn send(
    egress: Egress<'_>,
    counters: &mut RouteCounters,
    output: &mut OutputQueue,
    bytes: &mut [u8],
    packet: RoutedPacket,
    (port, mac): (PortIndex, MacAddr),
) -> Result<RouteVerdict, Rejection> {
    if packet.traits.has(PacketTraits::PARTIAL) {
        complete_partial(bytes);
    }
    if packet.traits.has(PacketTraits::REMARK) {
        header::remark(bytes, &packet);
    }
    if !packet.traits.has(PacketTraits::OWN) {
        header::count_hop(bytes, &packet);
    }
    let class_selector = header::dscp(bytes, &packet) >> 3;
    let link = LinkHeader::new(egress.facts, mac, packet.is_v6(), class_selector);
    if packet.ip_len() > egress.mtu {
        let ip = &bytes[packet.l3()..packet.end as usize];
        return Ok(send_fragments(egress.mtu, counters, output, ip, &link, port));
    }
    let (start, prepend) = link.write(bytes, packet.l3);
    Ok(RouteVerdict::Forward(ForwardedFrame { port, start, end: packet.end, prepend }))
}

/// Puts the fragments of an IPv4 packet into the output queue: all of them or none.
fn send_fragments(
    mtu: u32,
    counters: &mut RouteCounters,
    output: &mut OutputQueue,
    ip: &[u8],
    link: &LinkHeader,
    port: PortIndex,
) -> RouteVerdict {
    let Some(fragments) = fragment::Fragments::new(ip, mtu) else {
        return RouteVerdict::Drop(RouteDropCause::MtuTooSmall);
    };
    if !output.has_room(fragments.clone().count()) {
        return RouteVerdict::Drop(RouteDropCause::OutputQueueFull);
    }
    for fragment in fragments {
        let mut frame = output.buffer();
        frame.extend_from_slice(link.as_bytes());
        fragment.write(&mut frame);
        counters.fragments += 1;
        counters.count_frame(port, frame.len() as u32);
        output.push(RouteOutput::Send { port, frame });
    }
    RouteVerdict::Fragmented
}

/// The fragments of a packet, for tests.
#[cfg(test)]
pub(crate) fn split(packet: &[u8], mtu: u32) -> alloc::vec::Vec<alloc::vec::Vec<u8>> {
    let fragments = fragment::Fragments::new(packet, mtu).expect("data fits into fragments");
    let write = |fragment: fragment::Fragment<'_>| {
        let mut bytes = alloc::vec::Vec::new();
        fragment.write(&mut bytes);
        bytes
    };
    fragments.map(write).collect()
}
