//! The complete checks of IPv4 packets (RFC 1812, 5.2.2, 5.3.7; RFC 7126).

use slipring_wire::assigned::EtherType;
use slipring_wire::checksum;

use super::outcome::{Accepted, ParseRefusal};
use crate::cause::RouteDropCause;
use crate::field::{be16, be32};
use crate::packet::RoutedPacket;
use crate::punt::{PuntReason, classify};
use crate::view::RouteView;

const MIN_HEADER_LEN: usize = 20;
const BROADCAST: u32 = u32::MAX;

/// Checks the IPv4 packet at `packet.l3`. Returns it if it may be forwarded, otherwise what happens
/// to the frame.
pub(super) fn examine(
    view: &RouteView,
    bytes: &[u8],
    packet: RoutedPacket,
) -> Result<Accepted, ParseRefusal> {
    let l3 = packet.l3();
    let ip = bytes.get(l3..).unwrap_or(&[]);
    let (header_len, total_len) = lengths(ip).map_err(ParseRefusal::Drop)?;
    let kernel = |reason| Err(ParseRefusal::Kernel(classify(bytes, EtherType::IPV4, l3), reason));
    match options(&ip[MIN_HEADER_LEN..header_len]) {
        Options::None => {}
        Options::SourceRoute => return Err(ParseRefusal::Drop(RouteDropCause::V4SourceRoute)),
        Options::Other => return kernel(PuntReason::Options),
    }
    let (source, destination) = (be32(ip, 12), be32(ip, 16));
    if let Some(cause) = never_a_source(source) {
        return Err(ParseRefusal::Drop(cause));
    }
    // Hosts that have no address yet send from 0.0.0.0 to groups (DHCP, IGMP), so packets to groups
    // are left to the kernel before 0.0.0.0 is refused as a source.
    if destination >> 28 == 0xe || destination == BROADCAST {
        return kernel(PuntReason::Group);
    }
    let martian = match (source >> 24, destination >> 24) {
        (_, 0) => Some(RouteDropCause::V4DestinationZero),
        (_, 127) => Some(RouteDropCause::V4DestinationLoopback),
        (0, _) => Some(RouteDropCause::V4SourceZero),
        _ => view.own.has_v4(source, packet.vrf).then_some(RouteDropCause::V4SourceOwn),
    };
    match martian {
        Some(cause) => Err(ParseRefusal::Drop(cause)),
        None => {
            let end = (l3 + total_len) as u32;
            Ok((RoutedPacket { end, ..packet }, u128::from(destination)))
        }
    }
}

/// Checks the header; returns its length and the length of the packet.
fn lengths(ip: &[u8]) -> Result<(usize, usize), RouteDropCause> {
    if ip.len() < MIN_HEADER_LEN {
        return Err(RouteDropCause::V4Truncated);
    }
    if ip[0] >> 4 != 4 {
        return Err(RouteDropCause::V4Version);
    }
    let header_len = usize::from(ip[0] & 0xf) * 4;
    if header_len < MIN_HEADER_LEN {
        return Err(RouteDropCause::V4HeaderLength);
    }
    let total_len = usize::from(be16(ip, 2));
    if header_len > ip.len() {
        return Err(RouteDropCause::V4Truncated);
    }
    if checksum::of(&ip[..header_len]) != 0 {
        return Err(RouteDropCause::V4Checksum);
    }
    if total_len < header_len {
        return Err(RouteDropCause::V4TotalLength);
    }
    if total_len > ip.len() {
        return Err(RouteDropCause::V4BeyondFrame);
    }
    Ok((header_len, total_len))
}

/// Returns why a source address is invalid, whatever the destination is; `None` if it may be valid.
fn never_a_source(source: u32) -> Option<RouteDropCause> {
    match source >> 24 {
        127 => Some(RouteDropCause::V4SourceLoopback),
        224..240 => Some(RouteDropCause::V4SourceMulticast),
        _ if source == BROADCAST => Some(RouteDropCause::V4SourceBroadcast),
        _ => None,
    }
}

enum Options {
    None,
    SourceRoute,
    Other,
}

/// Returns whether a header has options, and whether one of them is a source route. An invalid
/// option ends the search.
fn options(mut options: &[u8]) -> Options {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    if options.is_empty() {
        return Options::None;
    }
    while let [kind, rest @ ..] = options {
        options = match *kind {
            END => break,
            NO_OPERATION => rest,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Options::SourceRoute,
            _ => match rest.first() {
                Some(&len) if len >= 2 => options.get(usize::from(len)..).unwrap_or(&[]),
                _ => break,
            },
        };
    }
    Options::Other
}
