//! Passes the payload after the IP headers on to the decoder of its protocol, and prints the
//! headers AH and ESP.

use super::ip_carrier::IpCarrier;
use super::text::{
    DecodeResult, Encapsulated, SummaryLine, bytes_from, put, u8_at, u16_at, u32_at,
};
use super::{gre, icmp, icmp6, igmp, ospf, tcp, udp, vrrp};

/// Writes the payload after the IP headers. It had `length` bytes, of which `bytes` were captured.
pub(super) fn payload(
    line: &mut SummaryLine<'_>,
    proto: u8,
    bytes: &[u8],
    length: usize,
    carrier: &IpCarrier,
) -> DecodeResult {
    match proto {
        1 if carrier.is_v6() => invalid(line, "[ICMP requires IPv4]"),
        1 => icmp::line(line, bytes, length, carrier),
        2 => igmp::line(line, bytes, length),
        4 => line.inner(Encapsulated::Ipv4, bytes, length),
        6 => tcp::line(line, bytes, length, carrier),
        17 => udp::line(line, bytes, length, carrier),
        41 => line.inner(Encapsulated::Ipv6, bytes, length),
        47 => gre::line(line, bytes, length),
        50 => esp(line, bytes, length),
        51 => authentication(line, bytes, length, carrier),
        58 if carrier.is_v6() => icmp6::line(line, bytes, length, carrier),
        58 => invalid(line, "[ICMPv6 requires IPv6]"),
        59 => {
            put!(line, "no next header");
            Ok(())
        }
        89 if !carrier.is_v6() => ospf::line(line, bytes, length),
        108 => {
            line.protocol = "ipcomp";
            put!(line, "IPComp(cpi=0x{:04x})", u16_at(bytes, 2)?);
            Ok(())
        }
        112 => vrrp::line(line, bytes, length, carrier),
        other => {
            put!(line, " ip-proto-{other} {length}");
            Ok(())
        }
    }
}

fn invalid(line: &mut SummaryLine<'_>, why: &str) -> DecodeResult {
    put!(line, "{why} (invalid)");
    Ok(())
}

fn esp(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "esp";
    let (spi, seq) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?);
    put!(line, "ESP(spi=0x{spi:08x},seq=0x{seq:x}), length {length}");
    Ok(())
}

fn authentication(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    carrier: &IpCarrier,
) -> DecodeResult {
    line.protocol = "ah";
    if !line.enter() {
        return invalid(line, "[too many headers]");
    }
    let (next, words) = (u8_at(bytes, 0)?, u8_at(bytes, 1)?);
    let len = (usize::from(words) + 2) * 4;
    put!(line, "AH(");
    let (spi, seq) = (u32_at(bytes, 4)?, u32_at(bytes, 8)?);
    if line.is_verbose() {
        put!(line, "length={words}({len}-bytes),");
    }
    put!(line, "spi=0x{spi:08x},");
    if line.is_verbose() && u16_at(bytes, 2)? != 0 {
        put!(line, "reserved[not MBZ],");
    }
    put!(line, "seq=0x{seq:x},icv=0x");
    for at in 12..len {
        put!(line, "{:02x}", u8_at(bytes, at)?);
    }
    put!(line, "): ");
    let left = length.saturating_sub(len);
    payload(line, next, bytes_from(bytes, len), left, carrier)
}
