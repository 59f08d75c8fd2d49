//! The fields of an IPv4 or IPv6 header that the decoders of the protocols above IP need.

use core::net::Ipv4Addr;

use super::text::{Ipv6Text, SummaryLine, TruncatedHeader, put, v6_at};
use crate::assigned::IpProto;
use crate::checksum::Sum;

/// The IP header of the packet that carries a protocol.
#[derive(Clone, Copy)]
pub(super) struct IpCarrier {
    /// Source and destination address.
    pub(super) ends: IpEndpoints,
    /// The next-header field of the IP header itself. Extension headers may be between it and the
    /// protocol.
    pub(super) next: u8,
    /// For IPv4, whether more fragments of the packet follow. For IPv6, whether the packet has a
    /// fragment header.
    pub(super) is_fragment: bool,
    /// Time to live, or hop limit.
    pub(super) ttl: u8,
}

/// The source and destination addresses of a packet.
#[derive(Clone, Copy)]
pub(super) enum IpEndpoints {
    V4(Ipv4Addr, Ipv4Addr),
    /// The source, the destination, and the destination that checksums cover. If there is a routing
    /// header with segments left, that is the final destination in the routing header.
    V6(Ipv6Text, Ipv6Text, Ipv6Text),
}

impl IpCarrier {
    /// Writes `10.0.0.1.53 > 10.0.0.2.53: `, without the ports if `ports` is `None`. If other
    /// headers are between the IP header and the protocol `proto`, writes only the ports.
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
            // Other headers are between the IP header and this protocol, so the addresses were
            // already printed.
            (None, _) if self.next != proto.0 => {}
            (None, IpEndpoints::V4(src, dst)) => put!(line, "{src} > {dst}: "),
            (None, IpEndpoints::V6(src, dst, _)) => put!(line, "{src} > {dst}: "),
        }
    }

    /// Returns the sum of the pseudo header.
    pub(super) fn pseudo(&self, proto: IpProto, len: usize) -> Sum {
        match self.ends {
            IpEndpoints::V4(src, dst) => Sum::pseudo_v4(src, dst, proto, len as u32),
            IpEndpoints::V6(src, _, dst) => Sum::pseudo_v6(src.0, dst.0, proto, len as u32),
        }
    }

    /// Returns whether the header is IPv6.
    pub(super) fn is_v6(&self) -> bool {
        matches!(self.ends, IpEndpoints::V6(..))
    }
}

/// Returns the checksum at offset `at`, and the correct checksum; `None` if not all `len` bytes
/// were captured, or if the checksum is not within them.
pub(super) fn checked(sum: Sum, bytes: &[u8], len: usize, at: usize) -> Option<(u16, u16)> {
    let bytes = bytes.get(..len)?;
    let (before, found_and_after) = bytes.split_at_checked(at)?;
    let (found, after) = found_and_after.split_at_checked(2)?;
    let right = sum.bytes(before).bytes(after).checksum();
    Some((u16::from_be_bytes([found[0], found[1]]), right))
}

/// Returns whether the addresses and ports are printed together at the start of lines about this
/// protocol.
pub(super) fn has_ports(proto: u8) -> bool {
    matches!(IpProto(proto), IpProto::TCP | IpProto::UDP)
}

/// Returns the addresses of an IPv6 header. `end` is the final destination, according to routing
/// headers.
pub(super) fn endpoints_v6(
    header: &[u8],
    end: Option<Ipv6Text>,
) -> Result<IpEndpoints, TruncatedHeader> {
    let dst = v6_at(header, 24)?;
    Ok(IpEndpoints::V6(v6_at(header, 8)?, dst, end.unwrap_or(dst)))
}

/// The protocols that have names, by their IANA numbers.
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
