//! Builds a frame from its specification. Headers are appended in the order in which they are on
//! the wire. The transport checksum is computed last.

use alloc::vec;
use alloc::vec::Vec;

use super::{
    EchoKind, EchoSpec, Fill, FrameLayout, FrameSpec, FrameTemplate, IpSpec, Ipv4Spec, Ipv6Spec,
    L4Spec, TcpSpec,
};
use crate::assigned::{EtherType, IpProto};
use crate::checksum::{Sum, nonzero, of};
use crate::field::put_be16;
use crate::view::{IpVersion, MAX_TAGS};

/// Why a frame cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The requested length of the frame is less than that of its headers.
    #[error("{len} bytes cannot hold the headers, which take {min}")]
    TooShort {
        /// Requested length, in bytes.
        len: usize,
        /// Length of the headers, in bytes.
        min: usize,
    },
    /// The requested length does not fit in the 16-bit length fields of IP or UDP.
    #[error("{len} bytes are more than the {max} that the IP length field allows")]
    TooLong {
        /// Requested length, in bytes.
        len: usize,
        /// Maximum length of the frame, in bytes.
        max: usize,
    },
    /// There are more VLAN tags than this crate parses.
    #[error("{count} VLAN tags, at most {MAX_TAGS} are supported")]
    TooManyTags {
        /// Number of requested tags.
        count: usize,
    },
}

impl FrameSpec {
    /// Returns the length of all headers in bytes. It is the length of the shortest frame that can
    /// be built.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.layout().payload
    }

    /// Builds a frame of exactly `len` bytes, without CRC. The payload has all bytes after the
    /// headers. There is no Ethernet padding, even if `len` is below 60.
    ///
    /// # Errors
    /// [`BuildError`] if `len` is too small for the headers or too large for their length fields,
    /// or if there are too many tags.
    pub fn build(&self, len: usize) -> Result<FrameTemplate, BuildError> {
        let layout = self.layout();
        self.check(len, &layout)?;
        let mut bytes = Vec::with_capacity(len);
        self.push_link(&mut bytes);
        match &self.ip {
            IpSpec::V4(ip) => push_ipv4(&mut bytes, ip, self.proto(), len - layout.l3),
            IpSpec::V6(ip) => push_ipv6(&mut bytes, ip, self.proto(), len - layout.l4),
        }
        self.push_l4(&mut bytes, (len - layout.l4) as u16);
        self.fill.extend(&mut bytes, len - layout.payload);
        let sum = self.pseudo(len - layout.l4).bytes(&bytes[layout.l4..]).checksum();
        let is_udp = layout.proto == IpProto::UDP;
        put_be16(&mut bytes, layout.l4_check, if is_udp { nonzero(sum) } else { sum });
        Ok(FrameTemplate { bytes, layout })
    }

    fn check(&self, len: usize, layout: &FrameLayout) -> Result<(), BuildError> {
        let count = self.tags.len();
        if count > MAX_TAGS {
            return Err(BuildError::TooManyTags { count });
        }
        if len < layout.payload {
            return Err(BuildError::TooShort { len, min: layout.payload });
        }
        let max = usize::from(u16::MAX)
            + match self.ip {
                IpSpec::V4(_) => layout.l3,
                IpSpec::V6(_) => layout.l4,
            };
        if len > max { Err(BuildError::TooLong { len, max }) } else { Ok(()) }
    }

    fn proto(&self) -> IpProto {
        match (&self.l4, &self.ip) {
            (L4Spec::Udp(_), _) => IpProto::UDP,
            (L4Spec::Tcp(_), _) => IpProto::TCP,
            (L4Spec::Echo(_), IpSpec::V4(_)) => IpProto::ICMP,
            (L4Spec::Echo(_), IpSpec::V6(_)) => IpProto::ICMPV6,
        }
    }

    fn layout(&self) -> FrameLayout {
        let l3 = 14 + 4 * self.tags.len();
        let (version, ip_len) = match self.ip {
            IpSpec::V4(_) => (IpVersion::V4, 20),
            IpSpec::V6(_) => (IpVersion::V6, 40),
        };
        let (check, l4_len) = match self.l4 {
            L4Spec::Udp(_) => (6, 8),
            L4Spec::Tcp(_) => (16, 20),
            L4Spec::Echo(_) => (2, 8),
        };
        let l4 = l3 + ip_len;
        let proto = self.proto();
        FrameLayout { version, proto, l3, l4, l4_check: l4 + check, payload: l4 + l4_len }
    }

    fn push_link(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.dst_mac.0);
        bytes.extend(self.src_mac.0);
        for spec in &self.tags {
            bytes.extend(spec.ethertype.0.to_be_bytes());
            bytes.extend(spec.tag.0.to_be_bytes());
        }
        let ethertype = match self.ip {
            IpSpec::V4(_) => EtherType::IPV4,
            IpSpec::V6(_) => EtherType::IPV6,
        };
        bytes.extend(ethertype.0.to_be_bytes());
    }

    /// Appends the transport header. Its checksum is zero at first.
    fn push_l4(&self, bytes: &mut Vec<u8>, l4_len: u16) {
        match &self.l4 {
            L4Spec::Udp(ports) => {
                for field in [ports.src, ports.dst, l4_len, 0] {
                    bytes.extend(field.to_be_bytes());
                }
            }
            L4Spec::Tcp(tcp) => push_tcp(bytes, tcp),
            L4Spec::Echo(echo) => push_echo(bytes, echo, self.proto()),
        }
    }

    /// Returns the sum of the pseudo header. For ICMPv4, whose checksum does not cover a pseudo
    /// header, returns an empty sum.
    fn pseudo(&self, l4_len: usize) -> Sum {
        let (proto, len) = (self.proto(), l4_len as u32);
        match &self.ip {
            IpSpec::V4(_) if proto == IpProto::ICMP => Sum::new(),
            IpSpec::V4(ip) => Sum::pseudo_v4(ip.src, ip.dst, proto, len),
            IpSpec::V6(ip) => Sum::pseudo_v6(ip.src, ip.dst, proto, len),
        }
    }
}

fn push_ipv4(bytes: &mut Vec<u8>, ip: &Ipv4Spec, proto: IpProto, total_len: usize) {
    let start = bytes.len();
    bytes.extend([0x45, ip.tos]);
    bytes.extend((total_len as u16).to_be_bytes());
    bytes.extend(ip.id.to_be_bytes());
    bytes.extend([if ip.dont_fragment { 0x40 } else { 0 }, 0, ip.ttl, proto.0, 0, 0]);
    bytes.extend(ip.src.octets());
    bytes.extend(ip.dst.octets());
    let checksum = of(&bytes[start..]);
    put_be16(bytes, start + 10, checksum);
}

fn push_ipv6(bytes: &mut Vec<u8>, ip: &Ipv6Spec, proto: IpProto, payload_len: usize) {
    let first = 6 << 28 | u32::from(ip.traffic_class) << 20 | ip.flow_label & 0xf_ffff;
    bytes.extend(first.to_be_bytes());
    bytes.extend((payload_len as u16).to_be_bytes());
    bytes.extend([proto.0, ip.hop_limit]);
    bytes.extend(ip.src.octets());
    bytes.extend(ip.dst.octets());
}

fn push_tcp(bytes: &mut Vec<u8>, tcp: &TcpSpec) {
    bytes.extend(tcp.ports.src.to_be_bytes());
    bytes.extend(tcp.ports.dst.to_be_bytes());
    bytes.extend(tcp.seq.to_be_bytes());
    bytes.extend(tcp.ack.to_be_bytes());
    bytes.extend([0x50, tcp.flags]);
    bytes.extend(tcp.window.to_be_bytes());
    bytes.extend([0; 4]);
}

fn push_echo(bytes: &mut Vec<u8>, echo: &EchoSpec, proto: IpProto) {
    let kind = match (echo.kind, proto) {
        (EchoKind::Request, IpProto::ICMPV6) => 128,
        (EchoKind::Reply, IpProto::ICMPV6) => 129,
        (EchoKind::Request, _) => 8,
        (EchoKind::Reply, _) => 0,
    };
    bytes.extend([kind, 0, 0, 0]);
    bytes.extend(echo.id.to_be_bytes());
    bytes.extend(echo.seq.to_be_bytes());
}

impl Fill {
    fn extend(&self, bytes: &mut Vec<u8>, count: usize) {
        match self {
            Self::Byte(value) => bytes.extend(vec![*value; count]),
            Self::Counting => bytes.extend((0..=255u8).cycle().take(count)),
            Self::Pattern(pattern) if pattern.is_empty() => bytes.extend(vec![0; count]),
            Self::Pattern(pattern) => bytes.extend(pattern.iter().cycle().take(count)),
        }
    }
}
