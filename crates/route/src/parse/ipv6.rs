//! The complete checks of IPv6 packets (RFC 8200; RFC 4291, 2.5 and 2.7).

use slipring_wire::assigned::{EtherType, IpProto};

use super::outcome::{Accepted, ParseRefusal};
use crate::cause::RouteDropCause;
use crate::field::{be16, be128};
use crate::packet::{PacketTraits, RoutedPacket};
use crate::punt::{PuntReason, classify};
use crate::view::RouteView;

const HEADER_LEN: usize = 40;
const UNSPECIFIED: u128 = 0;
const LOOPBACK: u128 = 1;

/// Checks the IPv6 packet at `packet.l3`. Returns it if it may be forwarded, otherwise what happens
/// to the frame.
pub(super) fn examine(
    view: &RouteView,
    bytes: &[u8],
    packet: RoutedPacket,
) -> Result<Accepted, ParseRefusal> {
    let l3 = packet.l3();
    let ip = bytes.get(l3..).unwrap_or(&[]);
    let drop = |cause| Err(ParseRefusal::Drop(cause));
    if ip.len() < HEADER_LEN {
        return drop(RouteDropCause::V6Truncated);
    }
    if ip[0] >> 4 != 6 {
        return drop(RouteDropCause::V6Version);
    }
    let len = HEADER_LEN + usize::from(be16(ip, 4));
    if len > ip.len() {
        return drop(RouteDropCause::V6BeyondFrame);
    }
    let (source, destination) = (be128(ip, 8), be128(ip, 24));
    if let Some(cause) = martian(source, destination) {
        return drop(cause);
    }
    let reason = if is_multicast(destination) {
        Some(PuntReason::Group)
    } else if is_link_local(destination) {
        Some(PuntReason::LinkLocal)
    } else if IpProto(ip[6]) == IpProto::HOP_BY_HOP {
        Some(PuntReason::HopByHop)
    } else {
        None
    };
    if let Some(reason) = reason {
        return Err(ParseRefusal::Kernel(classify(bytes, EtherType::IPV6, l3), reason));
    }
    if source == UNSPECIFIED {
        return drop(RouteDropCause::V6SourceUnspecified);
    }
    if view.own.has_v6(source, packet.vrf) {
        return drop(RouteDropCause::V6SourceOwn);
    }
    let traits = packet.traits.with(PacketTraits::V6);
    // A packet with this source must not be forwarded, but it may be for an address of the router.
    // Only the lookup finds this out, so the packet is only marked here.
    let traits = traits.with_if(is_link_local(source), PacketTraits::LINK_SOURCE);
    Ok((RoutedPacket { end: (l3 + len) as u32, traits, ..packet }, destination))
}

/// Returns why the addresses are invalid, whatever the link is; `None` if they may be valid.
fn martian(source: u128, destination: u128) -> Option<RouteDropCause> {
    match (source, destination) {
        (LOOPBACK, _) => Some(RouteDropCause::V6SourceLoopback),
        (source, _) if is_multicast(source) => Some(RouteDropCause::V6SourceMulticast),
        (_, UNSPECIFIED) => Some(RouteDropCause::V6DestinationUnspecified),
        (_, LOOPBACK) => Some(RouteDropCause::V6DestinationLoopback),
        _ => None,
    }
}

fn is_multicast(address: u128) -> bool {
    address >> 120 == 0xff
}

/// Returns whether an address is in `fe80::/10`.
fn is_link_local(address: u128) -> bool {
    address >> 118 == 0xfe80 >> 6
}
