//! Changes headers of a frame and updates checksums.

use slipring_wire::checksum::Delta;

use crate::packet::{IpFamily, PacketHeaders, options};

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

fn put_be16(frame: &mut [u8], at: usize, value: u16) -> Option<()> {
    *frame.get_mut(at..)?.first_chunk_mut()? = value.to_be_bytes();
    Some(())
}

/// Sets the DSCP and keeps ECN; returns `None`, without a change, if the frame is not IP.
pub(super) fn set_dscp(frame: &mut [u8], packet: &mut PacketHeaders, dscp: u8) -> Option<()> {
    set_tos(frame, packet, dscp << 2 | packet.tos & 3)
}

/// Sets the ECN field of an IP frame to "congestion experienced".
pub fn mark_congestion(frame: &mut [u8]) {
    if let Ok(mut packet) = PacketHeaders::parse(frame) {
        let tos = packet.tos | 3;
        set_tos(frame, &mut packet, tos);
    }
}

fn set_tos(frame: &mut [u8], packet: &mut PacketHeaders, tos: u8) -> Option<()> {
    let old = be16(frame, packet.l3)?;
    match packet.version {
        IpFamily::V4 => {
            let new = old & 0xff00 | u16::from(tos);
            let sum = be16(frame, packet.l3 + 10)?;
            put_be16(frame, packet.l3, new)?;
            put_be16(frame, packet.l3 + 10, Delta::new().u16(old, new).apply(sum))?;
        }
        IpFamily::V6 => put_be16(frame, packet.l3, old & 0xf00f | u16::from(tos) << 4)?,
        IpFamily::None => return None,
    }
    packet.tos = tos;
    Some(())
}

/// Lowers the MSS option of a SYN to `mss`; returns `None` if the packet has no larger one.
pub(super) fn set_mss(frame: &mut [u8], packet: &PacketHeaders, mss: u16) -> Option<()> {
    const SYN: u8 = 0x02;
    if !packet.is_tcp() || packet.tcp_flags & SYN == 0 {
        return None;
    }
    let (old, at) = options::tcp_mss(frame, packet)?;
    if old <= mss {
        return None;
    }
    // A field at an odd offset counts in the checksum with its bytes swapped.
    let is_odd = (at - packet.l4) % 2 == 1;
    let (was, is) = if is_odd { (old.swap_bytes(), mss.swap_bytes()) } else { (old, mss) };
    let sum = be16(frame, packet.l4 + 16)?;
    put_be16(frame, at, mss)?;
    put_be16(frame, packet.l4 + 16, Delta::new().u16(was, is).apply(sum))
}

/// Copies the changes that rules made to the reassembled packet `whole` to a fragment: DSCP,
/// addresses and payload.
pub(super) fn copy_rewritten_fields(
    part: &mut [u8],
    (whole, after): (&[u8], &PacketHeaders),
) -> Option<()> {
    let mut packet = PacketHeaders::parse(part).ok()?;
    set_dscp(part, &mut packet, after.dscp());
    let from = after.l4 + usize::from(packet.ip_off & 0x1fff) * 8;
    let payload = whole.get(from..from + (packet.end - packet.l4))?;
    part.get_mut(packet.l4..packet.end)?.copy_from_slice(payload);
    let addresses = whole.get(after.l3 + 12..after.l3 + 20)?;
    let old = part.get_mut(packet.l3 + 12..packet.l3 + 20)?;
    let delta = Delta::new().bytes(old, addresses);
    old.copy_from_slice(addresses);
    let sum = be16(part, packet.l3 + 10)?;
    put_be16(part, packet.l3 + 10, delta.apply(sum))
}
