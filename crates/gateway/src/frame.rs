//! The bytes of frames: what the router reads of them, and what it writes.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_wire::MacAddr;
use slipring_wire::assigned::EtherType;
use slipring_wire::checksum::{self, Delta};
use slipring_wire::view::{Headers, IpVersion};

/// Where the IP header begins: frames with VLAN tags are none of ours.
pub(crate) const L3: usize = 14;
const TTL: usize = L3 + 8;
const V4_CHECKSUM: usize = L3 + 10;
const V4_TARGET: usize = L3 + 16;
const HOP_LIMIT: usize = L3 + 7;
const V6_TARGET: usize = L3 + 24;

/// What a frame is to the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// An IP packet, where it wants to go, and how many routers it may still meet.
    Ip { to: IpAddr, life: u8 },
    /// ARP.
    Arp,
    /// Something else.
    Other,
    /// An IP packet that contradicts itself.
    Malformed,
}

/// Looks at a frame.
pub(crate) fn content(frame: &[u8]) -> Content {
    let Ok(headers) = Headers::parse(frame) else { return Content::Malformed };
    let Some(ip) = headers.ip.filter(|_| usize::from(headers.l3) == L3) else {
        let arp = headers.ethertype == EtherType::ARP && usize::from(headers.l3) == L3;
        return if arp { Content::Arp } else { Content::Other };
    };
    let whole = ip.end as usize <= frame.len();
    let found = match ip.version {
        IpVersion::V4 if !whole || checksum::of(&frame[L3..usize::from(ip.l4)]) != 0 => None,
        IpVersion::V4 => array::<4>(frame, V4_TARGET)
            .zip(frame.get(TTL))
            .map(|(to, &life)| Content::Ip { to: Ipv4Addr::from(to).into(), life }),
        IpVersion::V6 if !whole => None,
        IpVersion::V6 => array::<16>(frame, V6_TARGET)
            .zip(frame.get(HOP_LIMIT))
            .map(|(to, &life)| Content::Ip { to: Ipv6Addr::from(to).into(), life }),
    };
    found.unwrap_or(Content::Malformed)
}

/// Takes one from the number of routers that an IP packet may still meet.
pub(crate) fn age(frame: &mut [u8], to: IpAddr) {
    if to.is_ipv6() {
        frame[HOP_LIMIT] -= 1;
        return;
    }
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let before = word(frame, TTL);
    frame[TTL] -= 1;
    let sum = Delta::new().u16(before, word(frame, TTL)).apply(word(frame, V4_CHECKSUM));
    frame[V4_CHECKSUM..V4_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Addresses a frame.
pub(crate) fn address(frame: &mut [u8], to: MacAddr, from: MacAddr) {
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
}

/// To whom a frame is addressed.
pub(crate) fn target(frame: &[u8]) -> Option<MacAddr> {
    array(frame, 0).map(MacAddr)
}

/// The header of a frame, to be gone on with.
pub(crate) fn ethernet(to: MacAddr, from: MacAddr, kind: EtherType) -> Vec<u8> {
    [&to.0[..], &from.0, &kind.0.to_be_bytes()].concat()
}

/// `N` bytes at a place, if they are there.
pub(crate) fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}
