//! Prints GRE, version 0 and version 1 (PPTP). The contents of PPP are not printed.

use super::text::{
    DecodeResult, Encapsulated, SummaryLine, TruncatedHeader, bytes_from, put, u8_at, u16_at,
    u32_at,
};
use crate::assigned::EtherType;

const FLAGS: [(u32, &str); 6] = [
    (0x8000, "checksum present"),
    (0x4000, "routing present"),
    (0x2000, "key present"),
    (0x1000, "sequence# present"),
    (0x0800, "source routing present"),
    (0x0080, "ack present"),
];
const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const ACK: u16 = 0x0080;

pub(super) fn line(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "gre";
    if !line.enter() {
        put!(line, "[too many headers]");
        return Ok(());
    }
    let flags = u16_at(bytes, 0)?;
    put!(line, "GREv{}", flags & 7);
    if flags & 7 > 1 {
        put!(line, " ERROR: unknown-version");
        return Ok(());
    }
    if line.is_verbose() {
        put!(line, ", Flags [");
        line.bits(&FLAGS, u32::from(flags), ", ");
        put!(line, "]");
    }
    let proto = EtherType(u16_at(bytes, 2)?);
    if flags & 7 == 0 {
        plain(line, bytes, flags, proto, length)
    } else {
        pptp(line, bytes, flags, proto, length)
    }
}

fn plain(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    flags: u16,
    proto: EtherType,
    length: usize,
) -> DecodeResult {
    let mut at = 4;
    if flags & (CHECKSUM | ROUTING) != 0 {
        if line.is_verbose() {
            put!(line, ", sum 0x{:x}", u16_at(bytes, at)?);
        }
        put!(line, ", off 0x{:x}", u16_at(bytes, at + 2)?);
        at += 4;
    }
    if flags & KEY != 0 {
        put!(line, ", key=0x{:x}", u32_at(bytes, at)?);
        at += 4;
    }
    if flags & SEQUENCE != 0 {
        put!(line, ", seq {}", u32_at(bytes, at)?);
        at += 4;
    }
    if flags & ROUTING != 0 {
        at = routes(bytes, at)?;
    }
    protocol(line, proto, length);
    put!(line, "{}", if line.is_verbose() { "\n\t" } else { ": " });
    let (inner, left) = (bytes_from(bytes, at), length.saturating_sub(at));
    match proto.0 {
        0x0800 | 0x883e => line.inner(Encapsulated::Ipv4, inner, left),
        0x86dd => line.inner(Encapsulated::Ipv6, inner, left),
        0x6558 => line.inner(Encapsulated::Ethernet, inner, left),
        other => {
            put!(line, "gre-proto-0x{other:x}");
            Ok(())
        }
    }
}

/// Skips source route entries up to the entry whose family and length are 0. Returns the offset of
/// the payload.
fn routes(bytes: &[u8], mut at: usize) -> Result<usize, TruncatedHeader> {
    loop {
        let (family, len) = (u16_at(bytes, at)?, u8_at(bytes, at + 3)?);
        at += 4;
        if family == 0 && len == 0 {
            return Ok(at);
        }
        at += usize::from(len);
    }
}

/// Writes the payload type if `-e` was given, and always the total length.
fn protocol(line: &mut SummaryLine<'_>, proto: EtherType, length: usize) {
    if line.link {
        let name = proto.name().unwrap_or("unknown");
        put!(line, ", proto {name} (0x{:04x})", proto.0);
    }
    put!(line, ", length {length}");
}

fn pptp(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    flags: u16,
    proto: EtherType,
    length: usize,
) -> DecodeResult {
    let mut at = 4;
    if flags & KEY != 0 {
        put!(line, ", call {}", u16_at(bytes, at + 2)?);
        at += 4;
    }
    if flags & SEQUENCE != 0 {
        put!(line, ", seq {}", u32_at(bytes, at)?);
        at += 4;
    }
    if flags & ACK != 0 {
        put!(line, ", ack {}", u32_at(bytes, at)?);
    }
    if flags & SEQUENCE == 0 {
        put!(line, ", no-payload");
    }
    protocol(line, proto, length);
    Ok(())
}
