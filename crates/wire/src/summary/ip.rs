//! IPv4, and the dispatch to protocols above IP of either version.

use core::net::Ipv4Addr;

use super::ip_options;
use super::text::{
    DecodeResult, Ipv6Text, SummaryLine, TruncatedHeader, put, rest, slice_at, u8_at, u16_at,
    u32_at, upto, v4_at, v6_at,
};
use super::{gre, icmp, icmp6, igmp, ip6, ospf, tcp, udp, vrrp};
use crate::assigned::IpProto;
use crate::checksum::Sum;

const MIN_LEN: usize = 20;
const FRAGMENT_FLAGS: [(u32, &str); 3] = [(0x2000, "+"), (0x4000, "DF"), (0x8000, "rsvd")];

/// The IP header that carries a packet.
#[derive(Clone, Copy)]
pub(super) struct IpCarrier {
    /// Its endpoints.
    pub(super) ends: IpEndpoints,
    /// The next-header field of the IP header itself; extension headers may follow.
    pub(super) next: u8,
    /// Whether more fragments of the packet follow.
    pub(super) is_fragment: bool,
    /// Time to live, or hop limit.
    pub(super) ttl: u8,
}

/// Source and destination.
#[derive(Clone, Copy)]
pub(super) enum IpEndpoints {
    V4(Ipv4Addr, Ipv4Addr),
    /// The last one is the destination for checksums: the end of a routing header.
    V6(Ipv6Text, Ipv6Text, Ipv6Text),
}

impl IpCarrier {
    /// Writes `10.0.0.1.53 > 10.0.0.2.53: `, or only the ports after other headers.
    pub(super) fn write_endpoints(
        &self,
        line: &mut SummaryLine<'_>,
        proto: IpProto,
        ports: Option<(u16, u16)>,
    ) {
        match (ports, self.ends) {
            (Some((from, to)), _) if self.next != proto.0 => put!(line, "{from} > {to}: "),
            (Some((from, to)), IpEndpoints::V4(src, dst)) => {
                put!(line, "{src}.{from} > {dst}.{to}: ")
            }
            (Some((from, to)), IpEndpoints::V6(src, dst, _)) => {
                put!(line, "{src}.{from} > {dst}.{to}: ")
            }
            // Other headers follow the addresses, which were printed before them.
            (None, _) if self.next != proto.0 => {}
            (None, IpEndpoints::V4(src, dst)) => put!(line, "{src} > {dst}: "),
            (None, IpEndpoints::V6(src, dst, _)) => put!(line, "{src} > {dst}: "),
        }
    }

    /// The sum of the pseudo header.
    pub(super) fn pseudo(&self, proto: IpProto, len: usize) -> Sum {
        match self.ends {
            IpEndpoints::V4(src, dst) => Sum::pseudo_v4(src, dst, proto, len as u32),
            IpEndpoints::V6(src, _, dst) => Sum::pseudo_v6(src.0, dst.0, proto, len as u32),
        }
    }

    /// Whether it is IPv6.
    pub(super) fn is_v6(&self) -> bool {
        matches!(self.ends, IpEndpoints::V6(..))
    }
}

/// Returns the checksum found at `at` and the correct one, if all `len` bytes were captured.
pub(super) fn checked(sum: Sum, bytes: &[u8], len: usize, at: usize) -> Option<(u16, u16)> {
    let bytes = bytes.get(..len)?;
    let (before, found_and_after) = bytes.split_at_checked(at)?;
    let (found, after) = found_and_after.split_at_checked(2)?;
    let right = sum.bytes(before).bytes(after).checksum();
    Some((u16::from_be_bytes([found[0], found[1]]), right))
}

/// Writes a packet of which `length` bytes were on the wire, including padding.
pub(super) fn packet(line: &mut SummaryLine<'_>, packet: &[u8], length: usize) -> DecodeResult {
    line.protocol = "ip";
    if !line.enter() {
        put!(line, "[too many headers]");
        return Ok(());
    }
    let first = u8_at(packet, 0)?;
    match first >> 4 {
        4 => named(line),
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

/// Writes `IP ` unless the link layer header is printed.
fn named(line: &mut SummaryLine<'_>) {
    if !line.link {
        put!(line, "IP ");
    }
}

/// Writes a packet of `total` bytes whose fixed header was captured.
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
    upper_layer(line, proto, rest(packet, header_len), total - header_len, &carrier)
}

/// Whether its lines start with addresses and ports together.
pub(super) fn has_ports(proto: u8) -> bool {
    matches!(IpProto(proto), IpProto::TCP | IpProto::UDP)
}

/// Writes the header's fields, and a line break before the addresses; `false` if options
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
        let options = upto(rest(packet, MIN_LEN), header_len - MIN_LEN);
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

/// Protocols with names, by their IANA numbers.
pub(super) const PROTOCOLS: [(u8, &str); 28] = [
    (0, "Options"),
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IPIP"),
    (6, "TCP"),
    (8, "EGP"),
    (9, "IGRP"),
    (17, "UDP"),
    (33, "DCCP"),
    (41, "IPv6"),
    (43, "Routing"),
    (44, "Fragment"),
    (46, "RSVP"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (55, "Mobile IP"),
    (58, "ICMPv6"),
    (62, "Mobile IP (old)"),
    (88, "EIGRP"),
    (89, "OSPF"),
    (103, "PIM"),
    (108, "Compressed IP"),
    (112, "VRRP"),
    (113, "PGM"),
    (132, "SCTP"),
    (135, "Mobility"),
    (143, "Ethernet"),
];

/// Writes the payload of the IP headers: `length` bytes, of which `bytes` were captured.
pub(super) fn upper_layer(
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
        4 => packet(line, bytes, length),
        6 => tcp::line(line, bytes, length, carrier),
        17 => udp::line(line, bytes, length, carrier),
        41 => ip6::packet(line, bytes, length),
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
    upper_layer(line, next, rest(bytes, len), left, carrier)
}

/// The addresses of an IPv6 header; `end` is the final destination of routing headers.
pub(super) fn endpoints_v6(
    header: &[u8],
    end: Option<Ipv6Text>,
) -> Result<IpEndpoints, TruncatedHeader> {
    let dst = v6_at(header, 24)?;
    Ok(IpEndpoints::V6(v6_at(header, 8)?, dst, end.unwrap_or(dst)))
}
