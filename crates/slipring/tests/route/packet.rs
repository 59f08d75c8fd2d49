//! IPv4 and IPv6 packets as values: built from fields, and parsed back. The parser verifies the
//! lengths of IP, and the checksums of IPv4, UDP and ICMP. Written from RFC 791, 8200, 768 and
//! 1071; shares no code with the product.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const ICMP: u8 = 1;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP6: u8 = 58;
/// IPv6 extension headers.
pub(crate) const HOP_BY_HOP: u8 = 0;
pub(crate) const FRAGMENT: u8 = 44;

/// IPv4 flags, in the 16-bit field whose low 13 bits are the fragment offset.
pub(crate) const DF: u16 = 0x4000;
pub(crate) const MF: u16 = 0x2000;

const V4_HEADER_LEN: usize = 20;
const V6_HEADER_LEN: usize = 40;

/// An IP packet. The family is that of the two addresses.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// TTL or hop limit.
    pub(crate) hops: u8,
    /// DSCP and ECN.
    pub(crate) class: u8,
    /// IPv4 identification.
    pub(crate) id: u16,
    /// IPv4 flags and fragment offset.
    pub(crate) fragment: u16,
    /// IPv6 flow label.
    pub(crate) flow: u32,
    /// IPv4 options, a multiple of 4 bytes.
    pub(crate) options: Vec<u8>,
    /// One IPv6 extension header, if any: its kind and its bytes. The first byte, the next header,
    /// is filled in when the packet is built.
    pub(crate) extension: Option<(u8, Vec<u8>)>,
    /// The protocol of the payload.
    pub(crate) proto: u8,
    pub(crate) payload: Vec<u8>,
}

impl Packet {
    /// A packet with TTL 64 and the flag DF clear.
    pub(crate) fn new(src: IpAddr, dst: IpAddr, proto: u8, payload: Vec<u8>) -> Self {
        let (options, extension) = (Vec::new(), None);
        let (hops, class, id, fragment, flow) = (64, 0, 0x1234, 0, 0);
        Self { src, dst, hops, class, id, fragment, flow, options, extension, proto, payload }
    }

    /// A UDP datagram from port 4000 to port 9 (discard).
    pub(crate) fn udp(src: IpAddr, dst: IpAddr, data: &[u8]) -> Self {
        Self::udp_ports(src, dst, [4000, 9], data)
    }

    /// A UDP datagram between these ports.
    pub(crate) fn udp_ports(src: IpAddr, dst: IpAddr, ports: [u16; 2], data: &[u8]) -> Self {
        let len = 8 + data.len() as u16;
        let mut udp = [ports[0], ports[1], len, 0].map(u16::to_be_bytes).concat();
        udp.extend(data);
        let sum = transport_checksum(src, dst, UDP, &udp);
        // RFC 768: a computed checksum of zero is sent as all ones.
        let sum = if sum == 0 { 0xffff } else { sum };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        Self::new(src, dst, UDP, udp)
    }

    /// An ICMP or ICMPv6 message, by the family of the addresses. The checksum in `message` is
    /// filled in.
    pub(crate) fn icmp(src: IpAddr, dst: IpAddr, mut message: Vec<u8>) -> Self {
        let proto = if src.is_ipv4() { ICMP } else { ICMP6 };
        message[2..4].fill(0);
        let sum = transport_checksum(src, dst, proto, &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        Self::new(src, dst, proto, message)
    }

    /// An echo request with this sequence number.
    pub(crate) fn echo(src: IpAddr, dst: IpAddr, sequence: u16) -> Self {
        let kind = if src.is_ipv4() { 8 } else { 128 };
        let [high, low] = sequence.to_be_bytes();
        Self::icmp(src, dst, vec![kind, 0, 0, 0, 0x51, 0x1b, high, low, b'e', b'c', b'h', b'o'])
    }

    /// The same packet with other fields.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same packet with this TTL or hop limit.
    pub(crate) fn hops(self, hops: u8) -> Self {
        self.with(|packet| packet.hops = hops)
    }

    /// Returns the source port of a UDP datagram.
    pub(crate) fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.payload[0], self.payload[1]])
    }

    /// The destination port of a UDP datagram.
    pub(crate) fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.payload[2], self.payload[3]])
    }

    /// Returns the packet as the next router or the host receives it, with one hop fewer.
    pub(crate) fn forwarded(&self) -> Self {
        self.clone().hops(self.hops - 1)
    }

    /// The packet's bytes, with right lengths and checksums.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.v4_bytes(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.v6_bytes(src, dst),
            _ => panic!("addresses of two families"),
        }
    }

    fn v4_bytes(&self, src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
        let header_len = V4_HEADER_LEN + self.options.len();
        let total = (header_len + self.payload.len()) as u16;
        let mut bytes = vec![0x40 | (header_len / 4) as u8, self.class];
        bytes.extend([total, self.id, self.fragment].map(u16::to_be_bytes).concat());
        bytes.extend([self.hops, self.proto, 0, 0]);
        bytes.extend(src.octets());
        bytes.extend(dst.octets());
        bytes.extend(&self.options);
        seal(&mut bytes);
        bytes.extend(&self.payload);
        bytes
    }

    fn v6_bytes(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let mut body = Vec::new();
        let mut next = self.proto;
        if let Some((kind, extension)) = &self.extension {
            body.extend(extension);
            body[0] = self.proto;
            next = *kind;
        }
        body.extend(&self.payload);
        let word = 6 << 28 | u32::from(self.class) << 20 | self.flow;
        let mut bytes = word.to_be_bytes().to_vec();
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend([next, self.hops]);
        bytes.extend(src.octets());
        bytes.extend(dst.octets());
        bytes.extend(body);
        bytes
    }

    /// Parses the payload of a frame. Returns `None` for other protocols than IP.
    ///
    /// # Panics
    /// If a length or checksum is wrong, or if anything but padding follows the packet.
    pub(crate) fn parse(ethertype: u16, bytes: &[u8]) -> Option<Self> {
        let packet = match ethertype {
            0x0800 => Self::parse_v4(bytes),
            0x86dd => Self::parse_v6(bytes),
            _ => return None,
        };
        let len = packet.bytes().len();
        // Only padding to 60 bytes, of which 14 are the Ethernet header, may follow.
        let trailer = &bytes[len..];
        let padded = bytes.len() <= 46 && trailer.iter().all(|&byte| byte == 0);
        assert!(trailer.is_empty() || padded, "a trailer follows {packet:?}: {trailer:02x?}");
        Some(packet)
    }

    fn parse_v4(bytes: &[u8]) -> Self {
        let header_len = usize::from(bytes[0] & 15) * 4;
        assert!(bytes[0] >> 4 == 4 && header_len >= V4_HEADER_LEN, "{bytes:02x?}");
        assert_eq!(checksum(&bytes[..header_len]), 0, "header checksum of {bytes:02x?}");
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap());
        let packet = Self {
            src: address(12),
            dst: address(16),
            hops: bytes[8],
            class: bytes[1],
            id: half(4),
            fragment: half(6),
            flow: 0,
            options: bytes[V4_HEADER_LEN..header_len].to_vec(),
            extension: None,
            proto: bytes[9],
            payload: bytes[header_len..usize::from(half(2))].to_vec(),
        };
        if packet.fragment & 0x3fff == 0 {
            packet.verify_transport();
        }
        packet
    }

    fn parse_v6(bytes: &[u8]) -> Self {
        let word = u32::from_be_bytes(*bytes.first_chunk().unwrap());
        assert_eq!(word >> 28, 6, "{bytes:02x?}");
        let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap());
        let len = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let mut payload = &bytes[V6_HEADER_LEN..V6_HEADER_LEN + len];
        let (mut proto, mut extension) = (bytes[6], None);
        if proto == HOP_BY_HOP || proto == FRAGMENT {
            let len = if proto == FRAGMENT { 8 } else { (usize::from(payload[1]) + 1) * 8 };
            let (header, rest) = payload.split_at(len);
            extension = Some((proto, [&[0], &header[1..]].concat()));
            (proto, payload) = (header[0], rest);
        }
        let packet = Self {
            src: address(8),
            dst: address(24),
            hops: bytes[7],
            class: (word >> 20) as u8,
            id: 0x1234,
            fragment: 0,
            flow: word & 0x000f_ffff,
            options: Vec::new(),
            extension,
            proto,
            payload: payload.to_vec(),
        };
        if packet.extension.as_ref().is_none_or(|(kind, _)| *kind != FRAGMENT) {
            packet.verify_transport();
        }
        packet
    }

    fn verify_transport(&self) {
        let sum = match self.proto {
            UDP if self.payload.len() >= 8 && self.payload[6..8] == [0, 0] => 0,
            ICMP => checksum(&self.payload),
            UDP | ICMP6 => transport_checksum(self.src, self.dst, self.proto, &self.payload),
            _ => 0,
        };
        assert_eq!(sum, 0, "transport checksum of {self:?}");
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} > {} proto {} hops {}", self.src, self.dst, self.proto, self.hops)?;
        for (name, value) in [("class", u32::from(self.class)), ("flow", self.flow)] {
            if value != 0 {
                write!(f, " {name} {value:#x}")?;
            }
        }
        if self.src.is_ipv4() {
            write!(f, " id {:#x} frag {:#06x} opt {:02x?}", self.id, self.fragment, self.options)?;
        } else {
            write!(f, " ext {:02x?}", self.extension)?;
        }
        let shown = &self.payload[..self.payload.len().min(48)];
        write!(f, " {} B {shown:02x?}]", self.payload.len())
    }
}

/// Writes the checksum of an IPv4 header into it.
pub(crate) fn seal(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The Internet checksum (RFC 1071): the complement of the one's complement sum. Zero for bytes
/// that contain their own checksum.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of a transport header and its data with the pseudo-header. ICMP has no
/// pseudo-header.
fn transport_checksum(src: IpAddr, dst: IpAddr, proto: u8, bytes: &[u8]) -> u16 {
    let mut pseudo = match (src, dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) if proto == ICMP => Vec::new(),
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let len = (bytes.len() as u16).to_be_bytes();
            [&src.octets()[..], &dst.octets(), &[0, proto], &len].concat()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let len = (bytes.len() as u32).to_be_bytes();
            [&src.octets()[..], &dst.octets(), &len, &[0, 0, 0, proto]].concat()
        }
        _ => panic!("addresses of two families"),
    };
    pseudo.extend(bytes);
    checksum(&pseudo)
}

#[test]
fn the_checksum_is_that_of_the_rfcs_example() {
    // The example of RFC 1071, section 3.
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
}

#[test]
fn a_packet_is_parsed_as_it_was_built() {
    for [src, dst] in [["10.1.0.2", "10.3.0.2"], ["fd01::2", "fd03::2"]] {
        let packet = Packet::udp(src.parse().unwrap(), dst.parse().unwrap(), b"odd");
        let ethertype = if packet.src.is_ipv4() { 0x0800 } else { 0x86dd };
        let mut bytes = packet.bytes();
        assert_eq!(Packet::parse(ethertype, &bytes), Some(packet));
        *bytes.last_mut().unwrap() ^= 1;
        assert!(std::panic::catch_unwind(|| Packet::parse(ethertype, &bytes)).is_err());
    }
}
