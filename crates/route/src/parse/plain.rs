//! The fast path: untagged frames to the router's MAC address, with IPv4 without options or IPv6
//! without hop-by-hop header, and addresses that need no further checks.

use slipring_wire::assigned::IpProto;

use super::outcome::Accepted;
use crate::batch::RouteFrame;
use crate::packet::{PacketTraits, RoutedPacket};
use crate::view::RouteView;

const V4_LEN: usize = 14 + 20;
const V6_LEN: usize = 14 + 40;
/// The lower 48 bits of a word: a MAC address.
const MAC_BITS: u64 = (1 << 48) - 1;

/// Accepts a packet of the most common forms. `None` only means that the complete checks must
/// decide.
#[inline(always)]
pub(super) fn accept(view: &RouteView, frame: &RouteFrame<'_>) -> Option<Accepted> {
    let head = frame.bytes.first_chunk::<V4_LEN>()?;
    let port = view.untagged(frame.ingress)?;
    let facts = view.port(port)?;
    let [word, ..] = head.as_chunks::<8>().0 else { return None };
    let is_ours = u64::from_le_bytes(*word) & MAC_BITS == facts.mac;
    if !is_ours || frame.stripped_tag.is_some() || frame.is_partial {
        return None;
    }
    let packet = RoutedPacket { l3: 14, port, vrf: facts.vrf, ..RoutedPacket::default() };
    match [head[12], head[13], head[14]] {
        [0x08, 0x00, 0x45] => accept_v4(view, frame.bytes, head, packet),
        [0x86, 0xdd, 0x60..=0x6f] => accept_v6(view, frame.bytes, packet),
        _ => None,
    }
}

#[inline(always)]
fn accept_v4(
    view: &RouteView,
    bytes: &[u8],
    head: &[u8; V4_LEN],
    packet: RoutedPacket,
) -> Option<Accepted> {
    let (words, _) = head[14..].as_chunks::<4>();
    let sum = words.iter().fold(0, |sum, word| sum + u64::from(u32::from_ne_bytes(*word)));
    let total_len = usize::from(u16::from_be_bytes([head[16], head[17]]));
    let source = u32::from_be_bytes(words[3]);
    let destination = u32::from_be_bytes(words[4]);
    let is_valid = is_all_ones(sum)
        & (total_len >= 20)
        & (14 + total_len <= bytes.len())
        & is_plain_v4(source)
        & is_plain_v4(destination)
        & !view.own.may_have_v4(source);
    is_valid
        .then_some((RoutedPacket { end: 14 + total_len as u32, ..packet }, u128::from(destination)))
}

/// Returns whether a ones' complement sum of 32-bit words is that of a valid header.
#[inline(always)]
fn is_all_ones(sum: u64) -> bool {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum == 0xffff
}

/// Returns whether an address is outside 0/8 and 127/8, and its first byte is at most 223.
#[inline(always)]
fn is_plain_v4(address: u32) -> bool {
    let first = address >> 24;
    (first.wrapping_sub(1) < 223) & (first != 127)
}

#[inline(always)]
fn accept_v6(view: &RouteView, bytes: &[u8], packet: RoutedPacket) -> Option<Accepted> {
    let head = bytes.first_chunk::<V6_LEN>()?;
    let payload_len = usize::from(u16::from_be_bytes([head[18], head[19]]));
    let (addresses, _) = head[22..].as_chunks::<16>();
    let source = u128::from_be_bytes(addresses[0]);
    let destination = u128::from_be_bytes(addresses[1]);
    let is_valid = (V6_LEN + payload_len <= bytes.len())
        & (head[20] != IpProto::HOP_BY_HOP.0)
        & is_plain_v6(source)
        & is_plain_v6(destination)
        & !view.own.may_have_v6(source);
    let traits = PacketTraits::V6;
    let end = (V6_LEN + payload_len) as u32;
    is_valid.then_some((RoutedPacket { end, traits, ..packet }, destination))
}

/// Returns whether an address is below `fe00::` (so not link-local or multicast) and does not begin
/// with 64 zeros (unspecified, loopback, mapped).
#[inline(always)]
fn is_plain_v6(address: u128) -> bool {
    let high = (address >> 64) as u64;
    (high < 0xfe00 << 48) & (high != 0)
}
