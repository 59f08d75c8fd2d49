//! Reads and writes the header fields of frames that the router needs.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_wire::MacAddr;
use slipring_wire::assigned::EtherType;
use slipring_wire::checksum::{self, Delta};
use slipring_wire::view::{Headers, IpVersion};

/// Offset of the IP header in a frame. Frames with VLAN tags have another offset, but the router
/// drops them.
const L3_OFFSET: usize = 14;
const TTL_OFFSET: usize = L3_OFFSET + 8;
const V4_CHECKSUM_OFFSET: usize = L3_OFFSET + 10;
const V4_DST_OFFSET: usize = L3_OFFSET + 16;
const HOP_LIMIT_OFFSET: usize = L3_OFFSET + 7;
const V6_DST_OFFSET: usize = L3_OFFSET + 24;

/// The kinds of frames that the router treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatewayFrameKind {
    /// An IP packet, with its destination address, and its TTL or hop limit.
    Ip { to: IpAddr, ttl: u8 },
    /// An ARP packet.
    Arp,
    /// A frame that is neither IP nor ARP, or has a VLAN tag.
    Other,
    /// A frame whose headers are truncated or inconsistent.
    Malformed,
}

/// Classifies a frame.
pub(crate) fn classify(frame: &[u8]) -> GatewayFrameKind {
    let Ok(headers) = Headers::parse(frame) else { return GatewayFrameKind::Malformed };
    let Some(ip) = headers.ip.filter(|_| usize::from(headers.l3) == L3_OFFSET) else {
        let arp = headers.ethertype == EtherType::ARP && usize::from(headers.l3) == L3_OFFSET;
        return if arp { GatewayFrameKind::Arp } else { GatewayFrameKind::Other };
    };
    let whole = ip.end as usize <= frame.len();
    let found = match ip.version {
        IpVersion::V4 if !whole || checksum::of(&frame[L3_OFFSET..usize::from(ip.l4)]) != 0 => None,
        IpVersion::V4 => array::<4>(frame, V4_DST_OFFSET)
            .zip(frame.get(TTL_OFFSET))
            .map(|(to, &life)| GatewayFrameKind::Ip { to: Ipv4Addr::from(to).into(), ttl: life }),
        IpVersion::V6 if !whole => None,
        IpVersion::V6 => array::<16>(frame, V6_DST_OFFSET)
            .zip(frame.get(HOP_LIMIT_OFFSET))
            .map(|(to, &life)| GatewayFrameKind::Ip { to: Ipv6Addr::from(to).into(), ttl: life }),
    };
    found.unwrap_or(GatewayFrameKind::Malformed)
}

/// Decrements the TTL or hop limit of an IP packet, and corrects the header checksum of IPv4. `to`
/// is the packet's destination.
pub(crate) fn decrement_ttl(frame: &mut [u8], to: IpAddr) {
    if to.is_ipv6() {
        frame[HOP_LIMIT_OFFSET] -= 1;
        return;
    }
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let before = word(frame, TTL_OFFSET);
    frame[TTL_OFFSET] -= 1;
    let sum =
        Delta::new().u16(before, word(frame, TTL_OFFSET)).apply(word(frame, V4_CHECKSUM_OFFSET));
    frame[V4_CHECKSUM_OFFSET..V4_CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Sets the MAC addresses of a frame.
pub(crate) fn set_macs(frame: &mut [u8], to: MacAddr, from: MacAddr) {
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
}

/// Returns the destination MAC address of a frame; `None` if the frame is too short.
pub(crate) fn dst_mac(frame: &[u8]) -> Option<MacAddr> {
    array(frame, 0).map(MacAddr)
}

/// Returns the `N` bytes at offset `at`; `None` if the frame is too short.
fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}
