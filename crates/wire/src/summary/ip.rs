//! IPv4 and IPv6: addresses, fragments, and who speaks above.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::detail::{self, Checked};
use super::{Detail, icmp, tcp};
use crate::assigned::IpProto;
use crate::field::{array, be16};
use crate::view::{Fragment, Headers, Ip, IpVersion, Layer, ViewError};

/// What the lines about transport headers need.
pub(super) struct Packet<'f> {
    /// Transport header and payload, as far as the frame holds them.
    pub(super) bytes: &'f [u8],
    /// Their length as the IP header claims.
    pub(super) len: usize,
    /// Whether few words will do.
    pub(super) quick: bool,
    /// Whether many words are wanted.
    pub(super) full: bool,
    /// What became of the checksum; `None` where nobody asked.
    pub(super) checked: Option<Checked>,
}

pub(super) fn line(f: &mut fmt::Formatter<'_>, frame: &[u8], detail: Detail) -> fmt::Result {
    let headers = match Headers::parse(frame) {
        Ok(headers) => headers,
        Err(error) => return broken(f, error),
    };
    let Some(ip) = headers.ip else {
        return Ok(());
    };
    if !f.alternate() {
        f.write_str(if ip.version == IpVersion::V4 { "IP " } else { "IP6 " })?;
    }
    if matches!(detail, Detail::Full { .. }) {
        detail::header(f, frame, usize::from(headers.l3), ip)?;
    }
    write_endpoints(f, frame, &headers, ip)?;
    let l4 = usize::from(ip.l4);
    let end = frame.len().min(ip.end as usize);
    let packet = Packet {
        bytes: frame.get(l4..end).unwrap_or_default(),
        len: ip.l4_len() as usize,
        quick: detail == Detail::Quick,
        full: matches!(detail, Detail::Full { .. }),
        checked: match detail {
            Detail::Full { checksums: true, udp_v4 } if udp_v4 || !is_udp_v4(ip) => {
                detail::check(frame, usize::from(headers.l3), ip)
            }
            _ => None,
        },
    };
    // A first fragment has its transport header; of all others only the protocol is known.
    if ip.fragment != Fragment::Whole && ip.version == IpVersion::V4 {
        if fragment_offset(frame, &headers) > 0 {
            return write!(f, "ip-proto-{}", ip.proto.0);
        }
    } else if ip.fragment != Fragment::Whole {
        return write_fragment(f, frame, usize::from(headers.l3), ip, &packet);
    }
    match ip.proto {
        IpProto::TCP => tcp::line(f, &packet),
        IpProto::UDP => udp(f, &packet),
        IpProto::ICMP => icmp::line_v4(f, &packet),
        IpProto::ICMPV6 => icmp::line_v6(f, &packet),
        other => write!(f, "{other}, length {}", packet.len),
    }
}

fn is_udp_v4(ip: Ip) -> bool {
    ip.version == IpVersion::V4 && ip.proto == IpProto::UDP
}

/// In units of 8 bytes, of IPv4.
fn fragment_offset(frame: &[u8], headers: &Headers) -> u16 {
    be16(frame, usize::from(headers.l3) + 6).unwrap_or(0) & 0x1fff
}

/// The ports of a first fragment, which [`Headers::ports`] leaves to whoever reassembles it.
fn first_fragment_ports(frame: &[u8], headers: &Headers, ip: Ip) -> Option<(u16, u16)> {
    let first = ip.version == IpVersion::V4
        && ip.fragment != Fragment::Whole
        && fragment_offset(frame, headers) == 0
        && matches!(ip.proto, IpProto::TCP | IpProto::UDP);
    let l4 = usize::from(ip.l4);
    if first { be16(frame, l4).zip(be16(frame, l4 + 2)) } else { None }
}

fn broken(f: &mut fmt::Formatter<'_>, error: ViewError) -> fmt::Result {
    match error {
        ViewError::Truncated { layer: Layer::Ipv4, .. } => f.write_str("[|ip]"),
        ViewError::Truncated { .. } => f.write_str("[|ip6]"),
        other => write!(f, "[{other}]"),
    }
}

/// `10.0.0.1.1234 > 10.0.0.2.80: `, without ports where there are none.
fn write_endpoints(
    f: &mut fmt::Formatter<'_>,
    frame: &[u8],
    headers: &Headers,
    ip: Ip,
) -> fmt::Result {
    let l3 = usize::from(headers.l3);
    let ports = headers.ports(frame).filter(|_| ip.fragment == Fragment::Whole);
    let ports = ports.or_else(|| first_fragment_ports(frame, headers, ip));
    let (src_port, dst_port) = (Port(ports.map(|p| p.0)), Port(ports.map(|p| p.1)));
    match ip.version {
        IpVersion::V4 => {
            let at = |at| Ipv4Addr::from(array::<4>(frame, l3 + at).unwrap_or_default());
            write!(f, "{}{src_port} > {}{dst_port}: ", at(12), at(16))
        }
        IpVersion::V6 => {
            let at = |at| Ipv6Addr::from(array::<16>(frame, l3 + at).unwrap_or_default());
            write!(f, "{}{src_port} > {}{dst_port}: ", at(8), at(24))
        }
    }
}

/// `.80`, or nothing.
struct Port(Option<u16>);

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |port| write!(f, ".{port}"))
    }
}

/// `frag (id 7, offset 1480+, length 1480) UDP`, of IPv6; a plus says that more follow.
fn write_fragment(
    f: &mut fmt::Formatter<'_>,
    frame: &[u8],
    l3: usize,
    ip: Ip,
    packet: &Packet<'_>,
) -> fmt::Result {
    let (id, offset, more) = v6_fragment(frame, l3).unwrap_or_default();
    let more = if more { "+" } else { "" };
    let (len, proto) = (packet.len, ip.proto);
    write!(f, "frag (id {id}, offset {offset}{more}, length {len}) {proto}")
}

/// Walks to the fragment header: [`Headers::parse`] has checked the chain, and that there is one.
fn v6_fragment(frame: &[u8], l3: usize) -> Option<(u32, u16, bool)> {
    let (mut next, mut at) = (*frame.get(l3 + 6)?, l3 + 40);
    loop {
        let [following, units, a, b, id @ ..] = array::<8>(frame, at)?;
        match IpProto(next) {
            IpProto::FRAGMENT => {
                let bits = u16::from_be_bytes([a, b]);
                return Some((u32::from_be_bytes(id), bits & 0xfff8, bits & 1 != 0));
            }
            IpProto::AUTHENTICATION => at += (usize::from(units) + 2) * 4,
            _ => at += (usize::from(units) + 1) * 8,
        }
        next = following;
    }
}

/// `UDP, length 18`, counting payload as the UDP header claims.
fn udp(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    match packet.checked {
        Some(Checked::Absent) => f.write_str("[no cksum] "),
        Some(checked) => checked.in_brackets(f, "udp"),
        None => Ok(()),
    }?;
    match be16(packet.bytes, 4) {
        Some(len) if len >= 8 => write!(f, "UDP, length {}", len - 8),
        Some(len) => write!(f, "UDP, bad length {len} < 8"),
        None => f.write_str("[|udp]"),
    }
}
