//! What a full line adds: the fields of the IP header, and whether checksums are right.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::assigned::IpProto;
use crate::checksum::{self, Sum};
use crate::field::{array, be16, be32};
use crate::view::{Fragment, Ip, IpVersion};

const IPV4_LEN: usize = 20;

/// What became of a transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// It is right.
    Right { found: u16 },
    /// It should have been another one.
    Wrong { found: u16, right: u16 },
    /// The sender made none, as UDP over IPv4 allows.
    Absent,
}

impl Checked {
    /// `[udp sum ok] ` or `[bad udp cksum 0xfe31 -> 0x1234!] `.
    pub(super) fn in_brackets(self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        match self {
            Self::Right { .. } => write!(f, "[{what} sum ok] "),
            Self::Wrong { found, right } => {
                write!(f, "[bad {what} cksum 0x{found:04x} -> 0x{right:04x}!] ")
            }
            Self::Absent => Ok(()),
        }
    }

    /// `, cksum 0xfe31 (correct)`.
    pub(super) fn in_words(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right { found } => write!(f, ", cksum 0x{found:04x} (correct)"),
            Self::Wrong { found, right } => {
                write!(f, ", cksum 0x{found:04x} (incorrect -> 0x{right:04x})")
            }
            Self::Absent => Ok(()),
        }
    }
}

/// The fields of the IP header in parentheses, and a line break before the addresses.
pub(super) fn header(f: &mut fmt::Formatter<'_>, frame: &[u8], l3: usize, ip: Ip) -> fmt::Result {
    match ip.version {
        IpVersion::V4 => header_v4(f, frame, l3, ip)?,
        IpVersion::V6 => header_v6(f, frame, l3)?,
    }
    f.write_str(if ip.version == IpVersion::V4 { ")\n    " } else { ") " })
}

fn header_v4(f: &mut fmt::Formatter<'_>, frame: &[u8], l3: usize, ip: Ip) -> fmt::Result {
    let word = |at| be16(frame, l3 + at).unwrap_or(0);
    let [first, tos] = array(frame, l3).unwrap_or_default();
    let [ttl, _] = array(frame, l3 + 8).unwrap_or_default();
    write!(f, "(tos 0x{tos:x}")?;
    match tos & 3 {
        1 => f.write_str(",ECT(1)")?,
        2 => f.write_str(",ECT(0)")?,
        3 => f.write_str(",CE")?,
        _ => {}
    }
    let bits = word(6);
    let flags = match bits >> 13 & 3 {
        0 => "none",
        1 => "+",
        2 => "DF",
        _ => "+, DF",
    };
    let (id, offset, total) = (word(4), (bits & 0x1fff) * 8, word(2));
    let (proto, number) = (ip.proto, ip.proto.0);
    write!(f, ", ttl {ttl}, id {id}, offset {offset}, flags [{flags}], ")?;
    write!(f, "proto {proto} ({number}), length {total}")?;
    let header_len = usize::from(first & 15) * 4;
    if header_len > IPV4_LEN {
        write!(f, ", options ({} bytes)", header_len - IPV4_LEN)?;
    }
    let header = frame.get(l3..l3 + header_len).unwrap_or_default();
    let (found, right) = (word(10), without(Sum::new(), header, 10).checksum());
    if found != right {
        write!(f, ", bad cksum {found:x} (->{right:x})!")?;
    }
    Ok(())
}

fn header_v6(f: &mut fmt::Formatter<'_>, frame: &[u8], l3: usize) -> fmt::Result {
    let word = be32(frame, l3).unwrap_or(0);
    let (class, label) = (word >> 20 & 0xff, word & 0xf_ffff);
    let [next, hops] = array(frame, l3 + 6).unwrap_or_default();
    f.write_str("(")?;
    if class != 0 {
        write!(f, "class 0x{class:02x}, ")?;
    }
    if label != 0 {
        write!(f, "flowlabel 0x{label:05x}, ")?;
    }
    let payload = be16(frame, l3 + 4).unwrap_or(0);
    let name = IpProto(next);
    write!(f, "hlim {hops}, next-header {name} ({next}) payload length: {payload}")
}

/// Verifies the transport checksum; `None` for fragments, for what was cut, and for protocols
/// that have none.
pub(super) fn check(frame: &[u8], l3: usize, ip: Ip) -> Option<Checked> {
    if ip.fragment != Fragment::Whole || ip.rerouted {
        return None;
    }
    let bytes = ip.l4_bytes(frame)?;
    let at = match ip.proto {
        IpProto::TCP => 16,
        IpProto::UDP => 6,
        IpProto::ICMP | IpProto::ICMPV6 => 2,
        _ => return None,
    };
    let found = be16(bytes, at)?;
    let udp = ip.proto == IpProto::UDP;
    if udp && found == 0 {
        return Some(Checked::Absent);
    }
    let sum = without(pseudo(frame, l3, ip, bytes.len() as u32)?, bytes, at).checksum();
    let right = if udp { checksum::nonzero(sum) } else { sum };
    Some(if found == right { Checked::Right { found } } else { Checked::Wrong { found, right } })
}

fn pseudo(frame: &[u8], l3: usize, ip: Ip, len: u32) -> Option<Sum> {
    Some(match ip.version {
        // ICMP has no pseudo header.
        IpVersion::V4 if ip.proto == IpProto::ICMP => Sum::new(),
        IpVersion::V4 => {
            let at = |at| array::<4>(frame, l3 + at).map(Ipv4Addr::from);
            Sum::pseudo_v4(at(12)?, at(16)?, ip.proto, len)
        }
        IpVersion::V6 => {
            let at = |at| array::<16>(frame, l3 + at).map(Ipv6Addr::from);
            Sum::pseudo_v6(at(8)?, at(24)?, ip.proto, len)
        }
    })
}

/// The sum over all but the two bytes at `at`, which is even.
fn without(sum: Sum, bytes: &[u8], at: usize) -> Sum {
    let (before, after) = bytes.split_at(at.min(bytes.len()));
    sum.bytes(before).bytes(after.get(2..).unwrap_or_default())
}
