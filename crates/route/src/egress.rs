//! Prepares packets to leave the router: checks TTL and MTU, finds the neighbour, decrements the
//! TTL, and writes the link header.

mod fragment;
mod header;
mod link;

use core::net::{Ipv4Addr, Ipv6Addr};

use slipring_fib::{Adjacency, FibPortIndex, NextHopAddress};
use slipring_neighbour::icmp::IcmpProblem;
use slipring_wire::MacAddr;
use slipring_wire::offload::complete_partial;

use crate::batch::Rejection;
use crate::cause::RouteDropCause;
use crate::counters::RouteCounters;
use crate::field::byte;
use crate::output::{OutputQueue, RouteOutput};
use crate::packet::{PacketTraits, RoutedPacket};
use crate::verdict::{ForwardedFrame, HeldPacket, RouteVerdict};
use crate::view::{PortFacts, RouteView};

pub(crate) use header::{count_hop_v4, is_expired};
pub(crate) use link::LinkHeader;

/// Minimum MTU of a link with IPv6 (RFC 8200, 5).
const MIN_V6_MTU: u32 = 1280;

/// Prepares a packet for the neighbour of its adjacency, and returns the verdict about the packet.
/// If the MAC address of the neighbour is not known, the verdict is `Hold`, and the frame stays
/// unchanged. `key` is the address that was looked up. If the adjacency is for all hosts of the
/// link, `key` is the address of the neighbour.
///
/// # Errors
/// The [`Rejection`] of a packet that cannot be sent. The frame is then unchanged.
pub(crate) fn depart(
    view: &RouteView,
    counters: &mut RouteCounters,
    output: &mut OutputQueue,
    bytes: &mut [u8],
    packet: RoutedPacket,
    key: u128,
) -> Result<RouteVerdict, Rejection> {
    let Some(&Adjacency { port, next_hop, mac }) = view.adjacency(packet.adjacency) else {
        return Err(unreachable_port());
    };
    let next_hop = match next_hop {
        NextHopAddress::Via(address) => address,
        NextHopAddress::OnLink if packet.is_v6() => Ipv6Addr::from_bits(key).into(),
        NextHopAddress::OnLink => Ipv4Addr::from_bits(key as u32).into(),
    };
    let egress = check(view, bytes, &packet, port)?;
    match mac {
        Some(mac) => send(egress, counters, output, bytes, packet, (port, mac)),
        None => Ok(RouteVerdict::Hold(HeldPacket { port, next_hop, packet })),
    }
}

/// Prepares a held packet, now that the MAC address of its neighbour, `mac`, is known. Returns the
/// verdict about the packet.
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

/// The egress port, and the MTU for a packet on it.
#[derive(Clone, Copy, Debug)]
struct Egress<'v> {
    facts: &'v PortFacts,
    mtu: u32,
}

/// Checks the TTL, the egress port and the MTU. A packet that is larger than the MTU passes if its
/// header permits fragmentation; [`send`] checks whether fragmentation is possible.
fn check<'v>(
    view: &'v RouteView,
    bytes: &[u8],
    packet: &RoutedPacket,
    port: FibPortIndex,
) -> Result<Egress<'v>, Rejection> {
    if is_expired(bytes, packet) {
        let cause = match packet.is_v6() {
            true => RouteDropCause::HopLimitExpired,
            false => RouteDropCause::TtlExpired,
        };
        return Err(Rejection { cause, problem: IcmpProblem::TimeExceeded });
    }
    let Some(facts) = view.port(port.0).filter(|facts| facts.is_up) else {
        return Err(unreachable_port());
    };
    let mtu = match packet.mtu {
        0 => facts.mtu,
        // The MTU of an IPv6 route counts as at least the minimum. Otherwise, senders could never
        // make their packets small enough.
        route if packet.is_v6() => facts.mtu.min(route.max(MIN_V6_MTU)),
        route => facts.mtu.min(route),
    };
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

/// Changes the packet and gives it a link header; fragments it if it is larger than the MTU.
fn send(
    egress: Egress<'_>,
    counters: &mut RouteCounters,
    output: &mut OutputQueue,
    bytes: &mut [u8],
    packet: RoutedPacket,
    (port, mac): (FibPortIndex, MacAddr),
) -> Result<RouteVerdict, Rejection> {
    let is_fragmented = packet.ip_len() > egress.mtu;
    if is_fragmented && let Err(cause) = can_fragment(egress.mtu, output, bytes, &packet) {
        return Ok(RouteVerdict::Drop(cause));
    }
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
    if is_fragmented {
        let ip = &bytes[packet.l3()..packet.end as usize];
        send_fragments(egress.mtu, counters, output, ip, &link, port);
        return Ok(RouteVerdict::Fragmented);
    }
    let (start, prepend) = link.write(bytes, packet.l3);
    Ok(RouteVerdict::Forward(ForwardedFrame { port, start, end: packet.end, prepend }))
}

/// Checks that each fragment of a packet fits into the MTU, and that all fit into the output queue.
fn can_fragment(
    mtu: u32,
    output: &OutputQueue,
    bytes: &[u8],
    packet: &RoutedPacket,
) -> Result<(), RouteDropCause> {
    let ip = &bytes[packet.l3()..packet.end as usize];
    let fragments = fragment::Fragments::new(ip, mtu).ok_or(RouteDropCause::MtuTooSmall)?;
    match output.has_room(fragments.count()) {
        true => Ok(()),
        false => Err(RouteDropCause::OutputQueueFull),
    }
}

/// Puts the fragments of an IPv4 packet into the output queue.
fn send_fragments(
    mtu: u32,
    counters: &mut RouteCounters,
    output: &mut OutputQueue,
    ip: &[u8],
    link: &LinkHeader,
    port: FibPortIndex,
) {
    for fragment in fragment::Fragments::new(ip, mtu).into_iter().flatten() {
        let mut frame = output.buffer();
        frame.extend_from_slice(link.as_bytes());
        fragment.write(&mut frame);
        counters.fragments += 1;
        counters.count_frame(port, frame.len() as u32);
        output.push(RouteOutput::Send { port, frame });
    }
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
