//! Changes IP headers: decrements the TTL, and sets the DSCP.

use slipring_wire::checksum::Delta;

use crate::field::{be16, byte, put};
use crate::packet::RoutedPacket;

/// Returns whether the TTL or hop limit does not permit another hop.
pub(crate) fn is_expired(bytes: &[u8], packet: &RoutedPacket) -> bool {
    let offset = if packet.is_v6() { 7 } else { 8 };
    byte(bytes, packet.l3() + offset) <= 1
}

/// Decrements TTL or hop limit, which must be above 0.
pub(super) fn count_hop(bytes: &mut [u8], packet: &RoutedPacket) {
    let l3 = packet.l3();
    if packet.is_v6() {
        let hops = byte(bytes, l3 + 7);
        return put(bytes, l3 + 7, [hops.wrapping_sub(1)]);
    }
    if let Some(header) = bytes.get_mut(l3 + 8..).and_then(|rest| rest.first_chunk_mut()) {
        count_hop_v4(header);
    }
}

/// Decrements the TTL, which must be above 0. `header` starts at the TTL and ends with the
/// checksum, which is updated (RFC 1624).
#[inline(always)]
pub(crate) const fn count_hop_v4(header: &mut [u8; 4]) {
    let [ttl, proto, high, low] = *header;
    // The TTL is the upper byte of its 16-bit field, so the checksum grows by 0x0100, with
    // end-around carry. The sum of a header is never 0. So its checksum is never 0xffff, only 0,
    // which is the other form of zero in ones' complement.
    let sum = u16::from_be_bytes([high, low]) as u32 + 0x0100;
    let sum = (sum + (sum >= 0xffff) as u32) as u16;
    let [high, low] = sum.to_be_bytes();
    *header = [ttl.wrapping_sub(1), proto, high, low];
}

/// The DSCP of a packet, 6 bits.
pub(super) fn dscp(bytes: &[u8], packet: &RoutedPacket) -> u8 {
    let word = be16(bytes, packet.l3());
    if packet.is_v6() { (word >> 6) as u8 & 0x3f } else { word as u8 >> 2 }
}

/// Sets the DSCP to `packet.dscp`; the ECN bits stay as they are.
pub(super) fn remark(bytes: &mut [u8], packet: &RoutedPacket) {
    let l3 = packet.l3();
    let (old, dscp) = (be16(bytes, l3), u16::from(packet.dscp));
    let new = if packet.is_v6() { old & 0xf03f | dscp << 6 } else { old & 0xff03 | dscp << 2 };
    put(bytes, l3, new.to_be_bytes());
    if !packet.is_v6() {
        let checksum = Delta::new().u16(old, new).apply(be16(bytes, l3 + 10));
        put(bytes, l3 + 10, checksum.to_be_bytes());
    }
}
