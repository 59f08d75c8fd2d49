//! IPv4 options, TCP options and rarely tested TCP fields, parsed on demand.

use super::{IpFamily, PacketHeaders};

/// Iterates over the kinds and values of options, without no-operation options, up to the
/// end-of-options option or the first option that does not fit.
fn walk(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        loop {
            match *rest {
                [1, ref after @ ..] => rest = after,
                [kind, len, ..] if kind != 0 && len >= 2 && usize::from(len) <= rest.len() => {
                    let (option, after) = rest.split_at(len.into());
                    rest = after;
                    return Some((kind, &option[2..]));
                }
                _ => return None,
            }
        }
    })
}

/// Returns the options of an IPv4 header as bits: `ssrr` 1, `lsrr` 2, `rr` 4, `ts` 8.
#[must_use]
pub fn ip_options(frame: &[u8], packet: &PacketHeaders) -> u8 {
    if packet.version != IpFamily::V4 {
        return 0;
    }
    let options = frame.get(packet.l3 + 20..packet.l4).unwrap_or(&[]);
    walk(options).fold(0, |seen, (kind, _)| {
        seen | match kind {
            137 => 1,
            131 => 2,
            7 => 4,
            68 => 8,
            _ => 0,
        }
    })
}

fn tcp_option_bytes<'f>(frame: &'f [u8], packet: &PacketHeaders) -> &'f [u8] {
    let Some(offset) = frame.get(packet.l4 + 12) else { return &[] };
    let end = (packet.l4 + usize::from(offset >> 4) * 4).min(packet.end);
    frame.get(packet.l4 + 20..end).unwrap_or(&[])
}

/// Returns the options of a TCP header as bits: `mss` 1, `window` 2, `sack` 4, `ts` 8, `cc` 16.
#[must_use]
pub fn tcp_options(frame: &[u8], packet: &PacketHeaders) -> u8 {
    if !packet.is_tcp() {
        return 0;
    }
    walk(tcp_option_bytes(frame, packet)).fold(0, |seen, (kind, _)| {
        seen | match kind {
            2 => 1,
            3 => 2,
            4 | 5 => 4,
            8 => 8,
            11..=13 => 16,
            _ => 0,
        }
    })
}

/// Returns the MSS option of a segment, in bytes, and the offset of its value in the frame.
#[must_use]
pub fn tcp_mss(frame: &[u8], packet: &PacketHeaders) -> Option<(u16, usize)> {
    if !packet.is_tcp() {
        return None;
    }
    let options = tcp_option_bytes(frame, packet);
    let value = walk(options).find(|(kind, value)| *kind == 2 && value.len() == 2)?.1;
    // `value` is a slice of `options`, which begin after the fixed TCP header.
    let at = value.as_ptr() as usize - options.as_ptr() as usize + packet.l4 + 20;
    Some((u16::from_be_bytes([value[0], value[1]]), at))
}

/// Returns the length of the TCP payload in bytes.
#[must_use]
pub fn tcp_data_len(frame: &[u8], packet: &PacketHeaders) -> u32 {
    let Some(offset) = frame.get(packet.l4 + 12) else { return 0 };
    let headers = packet.l4 - packet.l3 + usize::from(offset >> 4) * 4;
    packet.ip_len.saturating_sub(headers as u32)
}

/// Returns the 32-bit field at offset `at` in the TCP header.
#[must_use]
pub fn tcp_word(frame: &[u8], packet: &PacketHeaders, at: usize) -> u32 {
    let word = frame.get(packet.l4 + at..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
