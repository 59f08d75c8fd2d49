//! Redirects: if a packet leaves by its ingress port, its sender is informed of the better gateway.
//! The packet itself is forwarded.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_fib::{Adjacency, NextHopAddress};
use slipring_neighbour::icmp::IcmpMessage;
use slipring_wire::MacAddr;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::Sum;

use super::{AnswerOutcome, AnswerParts, admit, answer, dispatch};
use crate::egress;
use crate::field::{be32, be128};
use crate::packet::RoutedPacket;
use crate::view::{RouteView, shares_prefix};

/// The longest ICMPv6 packet: the minimum MTU (RFC 4861, 8.2).
const MAX_V6_LEN: usize = 1280;
const V6_HEADER_LEN: usize = 40;
/// Type and code of an ICMPv6 redirect, and its reserved field.
const V6_REDIRECT: IcmpMessage = IcmpMessage { kind: 137, code: 0, rest: 0 };

/// Sends a redirect if the packet leaves by its ingress port, redirects are switched on, and the
/// RFC of the packet's IP version and the rate limit allow it.
pub(crate) fn redirect(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    bytes: &[u8],
    packet: &RoutedPacket,
    now_ns: u64,
) {
    if !parts.sends_redirects || egress::is_expired(bytes, packet) {
        return;
    }
    let Some(adjacency) = view.adjacency(packet.adjacency) else { return };
    if adjacency.port.0 != packet.port {
        return;
    }
    let outcome = if packet.is_v6() {
        redirect_v6(view, parts, bytes, packet, adjacency, now_ns)
    } else if view.port(packet.port).is_some_and(|port| port.withholds_v4_redirects) {
        None
    } else {
        redirect_v4(view, parts, bytes, packet, adjacency, now_ns)
    };
    if outcome == Some(AnswerOutcome::Queued) {
        parts.counters.redirects += 1;
    }
}

/// Sends an IPv4 redirect, unless RFC 1812, 5.2.7.2, forbids it: the sender and the gateway must be
/// in one subnet of the port. Returns `None` if it is forbidden.
fn redirect_v4(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    bytes: &[u8],
    packet: &RoutedPacket,
    adjacency: &Adjacency,
    now_ns: u64,
) -> Option<AnswerOutcome> {
    let l3 = packet.l3();
    let gateway = match adjacency.next_hop {
        NextHopAddress::OnLink => Ipv4Addr::from_bits(be32(bytes, l3 + 16)),
        NextHopAddress::Via(IpAddr::V4(gateway)) => gateway,
        NextHopAddress::Via(IpAddr::V6(_)) => return None,
    };
    let source = Ipv4Addr::from_bits(be32(bytes, l3 + 12));
    if !is_on_link(view, packet, source.into(), Some(gateway.into())) {
        return None;
    }
    let message = IcmpMessage { kind: 5, code: 1, rest: gateway.to_bits() };
    Some(answer(view, parts, bytes, packet, message, now_ns))
}

/// Sends an IPv6 redirect, unless RFC 4861, 8.2, forbids it: the sender must be a neighbour, and
/// the target a router's link-local address or the destination itself. Returns `None` if it is
/// forbidden, or if the port has no link-local address.
fn redirect_v6(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    bytes: &[u8],
    packet: &RoutedPacket,
    adjacency: &Adjacency,
    now_ns: u64,
) -> Option<AnswerOutcome> {
    let l3 = packet.l3();
    let destination = Ipv6Addr::from_bits(be128(bytes, l3 + 24));
    let target = match adjacency.next_hop {
        NextHopAddress::OnLink => destination,
        NextHopAddress::Via(IpAddr::V6(target))
            if target == destination || target.is_unicast_link_local() =>
        {
            target
        }
        NextHopAddress::Via(_) => return None,
    };
    let source = Ipv6Addr::from_bits(be128(bytes, l3 + 8));
    let own = own_link_local(view, packet.port)?;
    if !is_on_link(view, packet, source.into(), None) {
        return None;
    }
    let (_, route) = match admit(view, parts, bytes, packet, V6_REDIRECT, now_ns) {
        Ok(admitted) => admitted,
        Err(outcome) => return Some(outcome),
    };
    let about = bytes.get(l3..packet.end as usize)?;
    let message = v6_redirect([own, source], [target, destination], adjacency.mac, about);
    Some(dispatch(view, parts, &message, packet, (source.into(), route)))
}

/// Returns whether a prefix of the ingress port contains the source and, if given, the gateway.
fn is_on_link(
    view: &RouteView,
    packet: &RoutedPacket,
    source: IpAddr,
    gateway: Option<IpAddr>,
) -> bool {
    let port = view.tables.ports.get(usize::from(packet.port));
    port.into_iter().flat_map(|port| &port.addresses).any(|(own, len)| {
        let has = |address| shares_prefix(*own, address, *len);
        has(source) && gateway.is_none_or(has)
    })
}

fn own_link_local(view: &RouteView, port: u16) -> Option<Ipv6Addr> {
    let port = view.tables.ports.get(usize::from(port))?;
    port.addresses.iter().find_map(|(address, _)| match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => Some(*address),
        _ => None,
    })
}

/// Builds the packet of an ICMPv6 redirect (RFC 4861, 4.5), with the target's MAC address, if
/// known, and as much of the original packet as fits.
fn v6_redirect(
    [from, to]: [Ipv6Addr; 2],
    [target, destination]: [Ipv6Addr; 2],
    mac: Option<MacAddr>,
    about: &[u8],
) -> Vec<u8> {
    const TARGET_MAC: [u8; 2] = [2, 1];
    const REDIRECTED_HEADER: u8 = 4;
    let mut message = Vec::from([V6_REDIRECT.kind, V6_REDIRECT.code, 0, 0, 0, 0, 0, 0]);
    message.extend(target.octets());
    message.extend(destination.octets());
    if let Some(mac) = mac {
        message.extend(TARGET_MAC);
        message.extend(mac.0);
    }
    // The length of an option is in units of 8 bytes, including 8 bytes for its head.
    let space = (MAX_V6_LEN - V6_HEADER_LEN - message.len() - 8) / 8 * 8;
    let quoted = &about[..about.len().min(space) / 8 * 8];
    message.extend([REDIRECTED_HEADER, (quoted.len() / 8 + 1) as u8, 0, 0, 0, 0, 0, 0]);
    message.extend(quoted);
    let sum = Sum::pseudo_v6(from, to, IpProto::ICMPV6, message.len() as u32);
    let checksum = sum.bytes(&message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut packet = Vec::from([0x60, 0, 0, 0]);
    packet.extend((message.len() as u16).to_be_bytes());
    packet.extend([IpProto::ICMPV6.0, u8::MAX]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.append(&mut message);
    packet
}
