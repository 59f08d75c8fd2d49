//! Prints IPv4 headers and options, and passes the payload on to its decoder.

use super::ip_carrier::{IpCarrier, IpEndpoints, PROTOCOLS, checked, has_ports};
use super::text::{
    DecodeResult, SummaryLine, TruncatedHeader, bytes_from, put, slice_at, u8_at, u16_at, upto,
    v4_at,
};
use super::{ip_options, upper_layer};
use crate::assigned::IpProto;
use crate::checksum::Sum;

const MIN_LEN: usize = 20;
const FRAGMENT_FLAGS: [(u32, &str); 3] = [(0x2000, "+"), (0x4000, "DF"), (0x8000, "rsvd")];

/// Writes an IPv4 packet that had `length` bytes on the wire. These may include padding.
pub(super) fn packet(line: &mut SummaryLine<'_>, packet: &[u8], length: usize) -> DecodeResult {
    line.protocol = "ip";
    if !line.enter() {
        put!(line, "[too many headers]");
        return Ok(());
    }
    let first = u8_at(packet, 0)?;
    match first >> 4 {
        4 => write_protocol(line),
        6 => {
            put!(line, "IP6, wrong link-layer encapsulation (invalid)");
            return Ok(());
        }
        version => {
            put!(line, "IP{version} (invalid)");
            return Ok(());
        }
    }
    slice_at(packet, 0, MIN_LEN)?;
    if length < MIN_LEN {
        put!(line, "truncated-ip {length}");
        return Ok(());
    }
    let header_len = usize::from(first & 15) * 4;
    if header_len < MIN_LEN {
        put!(line, "bad-hlen {header_len}");
        return Ok(());
    }
    let total = usize::from(u16_at(packet, 2)?);
    if length < total {
        put!(line, "truncated-ip - {} bytes missing! ", total - length);
    }
    if total < header_len {
        put!(line, "bad-len {total}");
        return Ok(());
    }
    if packet.len() < header_len {
        put!(line, " [remaining caplen({}) < header length({header_len})]", packet.len());
        return Err(TruncatedHeader);
    }
    whole(line, upto(packet, total), header_len, total)
}

/// Writes `IP `, unless the header of the link layer is printed.
fn write_protocol(line: &mut SummaryLine<'_>) {
    if !line.link {
        put!(line, "IP ");
    }
}

/// Writes a packet of `total` bytes, of which at least the header was captured.
fn whole(
    line: &mut SummaryLine<'_>,
    packet: &[u8],
    header_len: usize,
    total: usize,
) -> DecodeResult {
    let (bits, ttl, proto) = (u16_at(packet, 6)?, u8_at(packet, 8)?, u8_at(packet, 9)?);
    if line.is_verbose() && !in_parentheses(line, packet, header_len)? {
        put!(line, "{} > {}: ", v4_at(packet, 12)?, v4_at(packet, 16)?);
        line.cut();
        return Ok(());
    }
    let ends = IpEndpoints::V4(v4_at(packet, 12)?, v4_at(packet, 16)?);
    let is_fragment = bits & 0x2000 != 0;
    let carrier = IpCarrier { ends, next: proto, is_fragment, ttl };
    if bits & 0x1fff != 0 {
        carrier.write_endpoints(line, IpProto(proto), None);
        put!(line, "ip-proto-{proto}");
        return Ok(());
    }
    if !has_ports(proto) {
        carrier.write_endpoints(line, IpProto(proto), None);
    }
    upper_layer::payload(line, proto, bytes_from(packet, header_len), total - header_len, &carrier)
}

/// Writes the fields of the header in parentheses, and a line break. Returns `false` if the options
/// are truncated.
fn in_parentheses(
    line: &mut SummaryLine<'_>,
    packet: &[u8],
    header_len: usize,
) -> Result<bool, TruncatedHeader> {
    let (tos, ttl, proto) = (u8_at(packet, 1)?, u8_at(packet, 8)?, u8_at(packet, 9)?);
    put!(line, "(tos 0x{tos:x}");
    put!(line, "{}", ["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(tos & 3)]);
    if ttl > 0 {
        put!(line, ", ttl {ttl}");
    }
    let (id, bits) = (u16_at(packet, 4)?, u16_at(packet, 6)?);
    put!(line, ", id {id}, offset {}, flags [", (bits & 0x1fff) * 8);
    line.bits(&FRAGMENT_FLAGS, u32::from(bits), ", ");
    put!(line, "], proto ");
    line.name(&PROTOCOLS, proto, format_args!("unknown"));
    put!(line, " ({proto}), length {}", u16_at(packet, 2)?);
    let mut is_whole = true;
    if header_len > MIN_LEN {
        put!(line, ", options (");
        let options = upto(bytes_from(packet, MIN_LEN), header_len - MIN_LEN);
        is_whole = ip_options::list(line, options, header_len - MIN_LEN);
        put!(line, "{}", if is_whole { ")" } else { " [truncated-option])" });
    }
    if line.detail.checksums
        && let Some((found, right)) = checked(Sum::new(), packet, header_len, 10)
        && found != right
    {
        put!(line, ", bad cksum {found:x} (->{right:x})!");
    }
    put!(line, ")\n    ");
    Ok(is_whole)
}
