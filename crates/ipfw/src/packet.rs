//! What rules may ask of a packet, read from its headers once.
//!
//! A frame whose headers end too early or contradict themselves has no [`Packet`] but a
//! [`Malformed`]: it is dropped and counted there, by no rule, as ipfw drops what it cannot pull
//! up. What is merely unknown, such as an IPv6 next header without a name, is a packet like any
//! other.
//!
//! Not for: TCP and IP options, which few rules ask for and which are read then ([`options`]).

mod malformed;
pub mod options;
mod parse;

pub use malformed::{MalformedCounters, MalformedReason};

use slipring_wire::MacAddr;
use slipring_wire::assigned::VlanTag;

use crate::table::IpfwFlowKey;

/// The version of IP in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpFamily {
    /// No IP.
    None,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Everything that rules ask of headers. Fields that a frame does not have are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeaders {
    /// Where to and where from on Ethernet, as on the wire.
    pub macs: [u8; 12],
    /// The type behind all tags.
    pub ethertype: u16,
    /// VLAN tags, outermost first.
    pub tags: [Option<VlanTag>; 2],
    /// The version of IP.
    pub version: IpFamily,
    /// Source address; an IPv4 one in the low 32 bits.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Protocol above IP and its extension headers.
    pub proto: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Identification of IPv4.
    pub ip_id: u16,
    /// Bytes of the IP packet.
    pub ip_len: u32,
    /// Flags and offset of IPv4, as on the wire.
    pub ip_off: u16,
    /// A fragment other than the first: no transport header.
    pub later_fragment: bool,
    /// IPv6 extension headers seen ([`crate::rule::Extension`]).
    pub extensions: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// TCP, UDP, UDP-Lite or SCTP with a header: ports are valid.
    pub has_ports: bool,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Flags of TCP.
    pub tcp_flags: u8,
    /// Type and code of ICMP and ICMPv6.
    pub icmp: (u8, u8),
    /// Offset of the IP header.
    pub l3: usize,
    /// Offset of the transport header.
    pub l4: usize,
    /// Offset of the end of the packet, within the frame.
    pub end: usize,
    /// Bytes that counters count: of IP its length as far as there is any, else of the whole frame.
    pub counted_len: u32,
}

impl Default for PacketHeaders {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PacketHeaders {
    /// No packet at all.
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

    /// Where from, on Ethernet.
    #[must_use]
    pub const fn src_mac(&self) -> MacAddr {
        let [.., a, b, c, d, e, f] = self.macs;
        MacAddr([a, b, c, d, e, f])
    }

    /// Where to, on Ethernet.
    #[must_use]
    pub const fn dst_mac(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = self.macs;
        MacAddr([a, b, c, d, e, f])
    }

    /// The packet is TCP and has its header.
    #[inline]
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.proto == 6 && self.has_ports
    }

    /// The DSCP, of IP.
    #[inline]
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// What flow it belongs to.
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

    /// The destination is a group or everybody.
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
