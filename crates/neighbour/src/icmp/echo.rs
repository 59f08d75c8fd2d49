//! Answers pings: ICMP echo (RFC 792) and ICMPv6 echo (RFC 4443).

use alloc::vec::Vec;

use slipring_wire::MacAddr;
use slipring_wire::assigned::{EtherType, IpProto};
use slipring_wire::checksum::{self, Delta, Sum};
use slipring_wire::view::IpVersion;

use crate::field::{ETHERNET_LEN, array, be16};

const V4_ICMP_OFFSET: usize = ETHERNET_LEN + 20;
const V6_ICMP_OFFSET: usize = ETHERNET_LEN + 40;
/// The TTL with which hosts usually send packets.
const DEFAULT_TTL: u8 = 64;

/// If `message` starts with the ICMP header of an echo request, makes it a reply and updates its
/// checksum. Otherwise leaves the message unchanged and returns `false`.
pub fn turn_into_reply(message: &mut [u8], version: IpVersion) -> bool {
    let (request, reply) = match version {
        IpVersion::V4 => (8, 0),
        IpVersion::V6 => (128, 129),
    };
    let Some(header) = message.first_chunk_mut::<4>() else { return false };
    let [kind, code, high, low] = *header;
    if kind != request {
        return false;
    }
    let word = |kind| u16::from_be_bytes([kind, code]);
    let delta = Delta::new().u16(word(request), word(reply));
    let [high, low] = delta.apply(u16::from_be_bytes([high, low])).to_be_bytes();
    *header = [reply, code, high, low];
    true
}

/// Builds the answer to a ping, with the source MAC address `own`; `None` if the frame is not a
/// ping, or is damaged. Only whole packets without VLAN tags and IP options are answered. The
/// answer goes to the MAC address from which the request came, so that no neighbour has to be
/// resolved.
#[must_use]
pub fn reply(frame: &[u8], own: MacAddr) -> Option<Vec<u8>> {
    let asker = MacAddr(array(frame, 6)?);
    let mut answer = match be16(frame, 12).map(EtherType)? {
        EtherType::IPV4 => reply_v4(frame)?,
        EtherType::IPV6 => reply_v6(frame)?,
        _ => return None,
    };
    if asker.is_multicast() {
        return None;
    }
    answer[..6].copy_from_slice(&asker.0);
    answer[6..12].copy_from_slice(&own.0);
    Some(answer)
}

fn reply_v4(frame: &[u8]) -> Option<Vec<u8>> {
    let [plain, _, long, short] = array(frame, ETHERNET_LEN)?;
    let end = ETHERNET_LEN + usize::from(u16::from_be_bytes([long, short]));
    // All bits except "do not fragment" must be 0. Otherwise the packet is a fragment, and
    // fragments are not answered.
    let [flags, offset] = array(frame, ETHERNET_LEN + 6)?;
    let is_whole = plain == 0x45 && flags & 0xbf == 0 && offset == 0;
    let message = frame.get(V4_ICMP_OFFSET..end)?;
    let is_ping = IpProto(frame[ETHERNET_LEN + 9]) == IpProto::ICMP && message.get(1) == Some(&0);
    if !is_whole || !is_ping || checksum::of(message) != 0 {
        return None;
    }
    let mut answer = frame[..end].to_vec();
    swap::<4>(&mut answer, ETHERNET_LEN + 12);
    answer[ETHERNET_LEN + 8] = DEFAULT_TTL;
    answer[ETHERNET_LEN + 10..ETHERNET_LEN + 12].fill(0);
    let sum = checksum::of(&answer[ETHERNET_LEN..V4_ICMP_OFFSET]);
    answer[ETHERNET_LEN + 10..ETHERNET_LEN + 12].copy_from_slice(&sum.to_be_bytes());
    turn_into_reply(&mut answer[V4_ICMP_OFFSET..], IpVersion::V4).then_some(answer)
}

fn reply_v6(frame: &[u8]) -> Option<Vec<u8>> {
    let end = V6_ICMP_OFFSET + usize::from(be16(frame, ETHERNET_LEN + 4)?);
    let message = frame.get(V6_ICMP_OFFSET..end)?;
    let is_ping = IpProto(frame[ETHERNET_LEN + 6]) == IpProto::ICMPV6 && message.get(1) == Some(&0);
    let from = array::<16>(frame, ETHERNET_LEN + 8)?;
    let to = array::<16>(frame, ETHERNET_LEN + 24)?;
    let sum = Sum::pseudo_v6(from.into(), to.into(), IpProto::ICMPV6, message.len() as u32);
    if !is_ping || sum.bytes(message).checksum() != 0 {
        return None;
    }
    let mut answer = frame[..end].to_vec();
    // Swapping the addresses does not change their sum. So the checksum stays valid.
    swap::<16>(&mut answer, ETHERNET_LEN + 8);
    answer[ETHERNET_LEN + 7] = DEFAULT_TTL;
    turn_into_reply(&mut answer[V6_ICMP_OFFSET..], IpVersion::V6).then_some(answer)
}

/// Swaps two adjacent addresses of `N` bytes.
fn swap<const N: usize>(frame: &mut [u8], at: usize) {
    let (from, to) = frame[at..at + 2 * N].split_at_mut(N);
    from.swap_with_slice(to);
}
