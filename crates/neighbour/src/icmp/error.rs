//! Builds ICMP errors (RFC 792, RFC 1812, RFC 4443).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::{self, Sum};

use super::offending::OffendingPacket;

/// Length of an ICMP header.
const ICMP_LEN: usize = 8;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// Maximum length in bytes of an IPv4 packet with an ICMP error (RFC 1812, 4.3.2.3).
const MAX_V4_LEN: usize = 576;
/// Maximum length in bytes of an IPv6 packet with an ICMPv6 error: the minimum MTU (RFC 4443, 2.4
/// c).
const MAX_V6_LEN: usize = 1280;
/// The TTL with which hosts usually send packets.
const DEFAULT_TTL: u8 = 64;

/// Why a packet was not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpProblem {
    /// There is no route to the destination.
    NoRoute,
    /// The next hop does not answer neighbour solicitations.
    HostUnreachable,
    /// A filter rule forbids the packet.
    Prohibited,
    /// No program listens at the port.
    PortUnreachable,
    /// The packet is longer than the MTU of the next link.
    TooBig {
        /// The MTU of the next link, in bytes.
        mtu: u32,
    },
    /// The packet's TTL or hop limit has expired.
    TimeExceeded,
    /// A message that the caller has chosen for the packet's address family.
    Message(IcmpMessage),
}

/// The fields that distinguish ICMP errors: type, code, and the 32 bits after the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpMessage {
    /// The ICMP or ICMPv6 type.
    pub kind: u8,
    /// The ICMP or ICMPv6 code.
    pub code: u8,
    /// The remaining 32 bits of the header: an MTU, a pointer, or 0.
    pub rest: u32,
}

/// How much of an IPv4 packet an error quotes. An ICMPv6 error always quotes as much as fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuoteLength {
    /// The error quotes the IP header and the next 8 bytes (RFC 792).
    Minimal,
    /// The error quotes as many bytes as fit in 576 bytes (RFC 1812).
    Full,
}

impl IcmpProblem {
    /// Returns the ICMP message about this problem; if `is_v6` is true, the ICMPv6 message.
    #[must_use]
    pub const fn message(self, is_v6: bool) -> IcmpMessage {
        let (kind, code, rest) = match (self, is_v6) {
            (Self::NoRoute, false) => (3, 0, 0),
            (Self::NoRoute, true) => (1, 0, 0),
            (Self::HostUnreachable, false) => (3, 1, 0),
            (Self::HostUnreachable, true) => (1, 3, 0),
            (Self::Prohibited, false) => (3, 13, 0),
            (Self::Prohibited, true) => (1, 1, 0),
            (Self::PortUnreachable, false) => (3, 3, 0),
            (Self::PortUnreachable, true) => (1, 4, 0),
            // RFC 1191: the field for the MTU has 16 bits. So larger values are reduced.
            (Self::TooBig { mtu }, false) => (3, 4, if mtu > 0xffff { 0xffff } else { mtu }),
            (Self::TooBig { mtu }, true) => (2, 0, mtu),
            (Self::TimeExceeded, false) => (11, 0, 0),
            (Self::TimeExceeded, true) => (3, 0, 0),
            (Self::Message(message), _) => return message,
        };
        IcmpMessage { kind, code, rest }
    }
}

impl IcmpMessage {
    /// Returns whether this ICMPv6 message may be sent because of a packet to a group. This is only
    /// allowed for "packet too big", and for "parameter problem" because of an unknown option.
    pub(super) const fn is_allowed_for_groups(self) -> bool {
        matches!((self.kind, self.code), (2, _) | (4, 2))
    }
}

impl OffendingPacket<'_> {
    /// Builds an IP packet from `own` that informs the sender of this packet about the problem;
    /// `None` if `own` is not of the packet's address family. The caller must check whether the
    /// error may be sent.
    #[must_use]
    pub fn error(&self, message: IcmpMessage, own: IpAddr, quote: QuoteLength) -> Option<Vec<u8>> {
        match (own, self.source) {
            (IpAddr::V4(own), IpAddr::V4(to)) => Some(self.error_v4(message, own, to, quote)),
            (IpAddr::V6(own), IpAddr::V6(to)) => Some(self.error_v6(message, own, to)),
            _ => None,
        }
    }

    fn error_v4(
        &self,
        message: IcmpMessage,
        own: Ipv4Addr,
        to: Ipv4Addr,
        quote: QuoteLength,
    ) -> Vec<u8> {
        let longest = match quote {
            QuoteLength::Minimal => self.l4 + 8,
            QuoteLength::Full => MAX_V4_LEN - IPV4_LEN - ICMP_LEN,
        };
        let quoted = &self.bytes[..self.bytes.len().min(longest)];
        let len = (IPV4_LEN + ICMP_LEN + quoted.len()) as u16;
        let mut packet = Vec::from([0x45, 0]);
        packet.extend(len.to_be_bytes());
        packet.extend([0, 0, 0, 0, DEFAULT_TTL, IpProto::ICMP.0, 0, 0]);
        packet.extend(own.octets());
        packet.extend(to.octets());
        let check = checksum::of(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&check);
        append_message(&mut packet, message, quoted, Sum::new());
        packet
    }

    fn error_v6(&self, message: IcmpMessage, own: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
        let longest = MAX_V6_LEN - IPV6_LEN - ICMP_LEN;
        let quoted = &self.bytes[..self.bytes.len().min(longest)];
        let len = (ICMP_LEN + quoted.len()) as u16;
        let mut packet = Vec::from([0x60, 0, 0, 0]);
        packet.extend(len.to_be_bytes());
        packet.extend([IpProto::ICMPV6.0, DEFAULT_TTL]);
        packet.extend(own.octets());
        packet.extend(to.octets());
        let pseudo = Sum::pseudo_v6(own, to, IpProto::ICMPV6, len.into());
        append_message(&mut packet, message, quoted, pseudo);
        packet
    }
}

fn append_message(packet: &mut Vec<u8>, message: IcmpMessage, quoted: &[u8], pseudo: Sum) {
    let at = packet.len();
    packet.extend([message.kind, message.code, 0, 0]);
    packet.extend(message.rest.to_be_bytes());
    packet.extend(quoted);
    let check = pseudo.bytes(&packet[at..]).checksum().to_be_bytes();
    packet[at + 2..at + 4].copy_from_slice(&check);
}
