//! Answers to pings of the router itself: ICMP echo (RFC 792), ICMPv6 echo (RFC 4443).
//!
//! Only whole packets without IP options are answered. The answer goes to the source MAC address of
//! the request, so it needs no address resolution and no state.

use alloc::vec::Vec;

use slipring_wire::MacAddr;
use slipring_wire::assigned::{EtherType, IpProto};
use slipring_wire::checksum::{self, Delta, Sum};

use crate::frame::{L3_OFFSET, array};

const V4_ICMP_OFFSET: usize = L3_OFFSET + 20;
const V6_ICMP_OFFSET: usize = L3_OFFSET + 40;
/// The usual initial TTL of hosts.
const DEFAULT_TTL: u8 = 64;

/// The answer of `own` to a ping; `None` if the frame is not a ping, or damaged.
pub(crate) fn reply(frame: &[u8], own: MacAddr) -> Option<Vec<u8>> {
    let asker = MacAddr(array(frame, 6)?);
    let kind = EtherType(u16::from_be_bytes(array(frame, 12)?));
    let mut answer = match kind {
        EtherType::IPV4 => v4(frame)?,
        EtherType::IPV6 => v6(frame)?,
        _ => return None,
    };
    if asker.is_multicast() {
        return None;
    }
    crate::frame::set_macs(&mut answer, asker, own);
    Some(answer)
}

fn v4(frame: &[u8]) -> Option<Vec<u8>> {
    const REQUEST: u8 = 8;
    const REPLY: u8 = 0;
    let [plain, _, long, short] = array(frame, L3_OFFSET)?;
    let end = L3_OFFSET + usize::from(u16::from_be_bytes([long, short]));
    // No options and not a fragment: all bits except "do not fragment" are 0.
    let [flags, offset] = array(frame, L3_OFFSET + 6)?;
    let is_whole = plain == 0x45 && flags & 0xbf == 0 && offset == 0;
    let packet = frame.get(V4_ICMP_OFFSET..end)?;
    let asks = IpProto(frame[L3_OFFSET + 9]) == IpProto::ICMP && packet.get(..2)? == [REQUEST, 0];
    if !is_whole || !asks || checksum::of(packet) != 0 {
        return None;
    }
    let mut answer = frame[..end].to_vec();
    swap::<4>(&mut answer, L3_OFFSET + 12);
    answer[L3_OFFSET + 8] = DEFAULT_TTL;
    answer[L3_OFFSET + 10..L3_OFFSET + 12].fill(0);
    let sum = checksum::of(&answer[L3_OFFSET..V4_ICMP_OFFSET]);
    answer[L3_OFFSET + 10..L3_OFFSET + 12].copy_from_slice(&sum.to_be_bytes());
    set_reply_type(&mut answer[V4_ICMP_OFFSET..], REPLY);
    Some(answer)
}

fn v6(frame: &[u8]) -> Option<Vec<u8>> {
    const REQUEST: u8 = 128;
    const REPLY: u8 = 129;
    let end = V6_ICMP_OFFSET + usize::from(u16::from_be_bytes(array(frame, L3_OFFSET + 4)?));
    let packet = frame.get(V6_ICMP_OFFSET..end)?;
    let asks = IpProto(frame[L3_OFFSET + 6]) == IpProto::ICMPV6 && packet.get(..2)? == [REQUEST, 0];
    let (from, to) = (array::<16>(frame, L3_OFFSET + 8)?, array::<16>(frame, L3_OFFSET + 24)?);
    let sum = Sum::pseudo_v6(from.into(), to.into(), IpProto::ICMPV6, packet.len() as u32);
    if !asks || sum.bytes(packet).checksum() != 0 {
        return None;
    }
    let mut answer = frame[..end].to_vec();
    swap::<16>(&mut answer, L3_OFFSET + 8);
    answer[L3_OFFSET + 7] = DEFAULT_TTL;
    // Swapping the addresses does not change their sum.
    set_reply_type(&mut answer[V6_ICMP_OFFSET..], REPLY);
    Some(answer)
}

/// Swaps two adjacent addresses of `N` bytes.
fn swap<const N: usize>(frame: &mut [u8], at: usize) {
    let (from, to) = frame[at..at + 2 * N].split_at_mut(N);
    from.swap_with_slice(to);
}

/// Turns an ICMP request into a reply.
fn set_reply_type(packet: &mut [u8], reply: u8) {
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let before = word(packet, 0);
    packet[0] = reply;
    let sum = Delta::new().u16(before, word(packet, 0)).apply(word(packet, 2));
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
}
