//! The header fields that rules test most, parsed before the rules.
//!
//! A frame whose headers are truncated or contradict themselves yields a [`MalformedReason`]
//! instead of [`PacketHeaders`]. Such a frame is dropped and counted before any rule, as ipfw drops
//! a packet whose headers it cannot make contiguous (`m_pullup`). An unknown value, such as an IPv6
//! next header without a name, is valid.
//!
//! Not for IPv4 options, TCP options, sequence numbers and windows. Few rules test them, so they
//! are parsed on demand ([`options`]).

mod malformed;
mod match_headers;
pub mod options;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use match_headers::MatchHeaders;

pub use malformed::{MalformedCounters, MalformedReason};

use slipring_wire::MacAddr;
use slipring_wire::assigned::VlanTag;

use crate::table::IpfwFlowKey;

/// The version of IP in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpFamily {
    /// The frame has no IP packet.
    None,
    /// Version 4 of IP.
    V4,
    /// Version 6 of IP.
    V6,
}

/// The header fields that rules test most. Fields that a frame does not have are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeaders {
    /// Ethernet destination and source, as on the wire.
    pub macs: [u8; 12],
    /// The EtherType after all VLAN tags.
    pub ethertype: u16,
    /// VLAN tags, outermost first.
    pub tags: [Option<VlanTag>; 2],
    /// The version of IP.
    pub version: IpFamily,
    /// Source address; an IPv4 address is in the low 32 bits.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Protocol above IP and its extension headers.
    pub proto: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// IPv4 identification.
    pub ip_id: u16,
    /// Length of the IP packet in bytes.
    pub ip_len: u32,
    /// IPv4 flags (upper three bits) and fragment offset, in units of 8 bytes.
    pub ip_off: u16,
    /// Whether the packet is a fragment other than the first one, so that it has no transport
    /// header.
    pub later_fragment: bool,
    /// IPv6 extension headers present ([`crate::rule::Ipv6Extension`]).
    pub extensions: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Whether the packet is TCP, UDP, UDP-Lite or SCTP and has its transport header, so that the
    /// ports are valid.
    pub has_ports: bool,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// TCP flags.
    pub tcp_flags: u8,
    /// ICMP or ICMPv6 type and code.
    pub icmp: (u8, u8),
    /// Offset of the IP header in the frame, in bytes.
    pub l3: usize,
    /// Offset of the transport header in the frame, in bytes.
    pub l4: usize,
    /// Offset in the frame of the first byte after the IP packet, in bytes.
    pub end: usize,
    /// Bytes that counters add for the packet: the part of the IP packet that is in the frame, or
    /// for other frames, the whole frame.
    pub counted_len: u32,
}

impl Default for PacketHeaders {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PacketHeaders {
    /// Headers with all fields 0 or absent.
    pub const EMPTY: Self = Self {
        macs: [0; 12],
        ethertype: 0,
        tags: [None; 2],
        version: IpFamily::None,
        src: 0,
        dst: 0,
        proto: 0,
        ttl: 0,
        tos: 0,
        ip_id: 0,
        ip_len: 0,
        ip_off: 0,
        later_fragment: false,
        extensions: 0,
        flow_label: 0,
        has_ports: false,
        src_port: 0,
        dst_port: 0,
        tcp_flags: 0,
        icmp: (0, 0),
        l3: 0,
        l4: 0,
        end: 0,
        counted_len: 0,
    };

    /// Ethernet source.
    #[must_use]
    pub const fn src_mac(&self) -> MacAddr {
        let [.., a, b, c, d, e, f] = self.macs;
        MacAddr([a, b, c, d, e, f])
    }

    /// Ethernet destination.
    #[must_use]
    pub const fn dst_mac(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = self.macs;
        MacAddr([a, b, c, d, e, f])
    }

    /// Returns whether the packet is TCP and contains the TCP header.
    #[inline]
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.proto == 6 && self.has_ports
    }

    /// The DSCP of an IP packet.
    #[inline]
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// The flow that the packet belongs to.
    #[must_use]
    pub const fn flow(&self) -> IpfwFlowKey {
        IpfwFlowKey {
            is_v6: matches!(self.version, IpFamily::V6),
            src: self.src,
            proto: self.proto,
            src_port: self.src_port,
            dst: self.dst,
            dst_port: self.dst_port,
        }
    }

    /// Returns whether the MAC or IP destination is a multicast group or broadcast. All IPv4
    /// addresses from 224.0.0.0 on count as such; the broadcast addresses of subnets do not.
    #[must_use]
    pub fn is_multicast(&self) -> bool {
        let by_ip = match self.version {
            IpFamily::V4 => self.dst as u32 >= 0xe000_0000,
            IpFamily::V6 => self.dst >> 120 == 0xff,
            IpFamily::None => false,
        };
        by_ip || self.dst_mac().is_multicast()
    }
}
