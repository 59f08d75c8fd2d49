//! Builds Ethernet frames of an exact length and patches their fields afterwards.
//!
//! A [`FrameSpec`] describes a frame. [`FrameSpec::build`] returns a [`FrameTemplate`]: valid bytes
//! plus the [`FrameLayout`] of their fields. A generator copies the bytes into a buffer and changes
//! the fields that differ from frame to frame through the layout, which keeps the checksums valid
//! at the cost of a few additions.
//!
//! Not for: fragments, IP options, TCP options.

mod build;
mod layout;

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

pub use build::BuildError;
pub use layout::{FrameLayout, FrameTemplate};

use crate::assigned::{EtherType, VlanTag};
use crate::mac::MacAddr;

/// The contents of a frame. The default is a UDP datagram from 10.0.0.1 to 10.1.0.1, both port
/// 1234, to the broadcast MAC address, with a payload of zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSpec {
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Destination MAC address.
    pub dst_mac: MacAddr,
    /// VLAN tags, outermost first.
    pub tags: Vec<TagSpec>,
    /// The IP header.
    pub ip: IpSpec,
    /// The header above IP.
    pub l4: L4Spec,
    /// The contents of the payload.
    pub fill: Fill,
}

impl Default for FrameSpec {
    fn default() -> Self {
        Self {
            src_mac: MacAddr::ZERO,
            dst_mac: MacAddr::BROADCAST,
            tags: Vec::new(),
            ip: IpSpec::V4(Ipv4Spec::default()),
            l4: L4Spec::Udp(PortPair::default()),
            fill: Fill::Byte(0),
        }
    }
}

/// A VLAN tag and its EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSpec {
    /// [`EtherType::VLAN`], or [`EtherType::QINQ`] for the outer of two.
    pub ethertype: EtherType,
    /// VLAN id and priority.
    pub tag: VlanTag,
}

impl From<VlanTag> for TagSpec {
    /// Creates an 802.1Q tag.
    fn from(tag: VlanTag) -> Self {
        Self { ethertype: EtherType::VLAN, tag }
    }
}

/// An IP header of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpSpec {
    /// IPv4, no options.
    V4(Ipv4Spec),
    /// IPv6, no extension headers.
    V6(Ipv6Spec),
}

/// Fields of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Spec {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification field of the IPv4 header.
    pub id: u16,
    /// The "don't fragment" bit.
    pub dont_fragment: bool,
}

impl Default for Ipv4Spec {
    fn default() -> Self {
        Self {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 1, 0, 1),
            ttl: 64,
            tos: 0,
            id: 0,
            dont_fragment: true,
        }
    }
}

/// Fields of an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Spec {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label; the lower 20 bits count.
    pub flow_label: u32,
}

impl Default for Ipv6Spec {
    fn default() -> Self {
        Self {
            src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
            dst: Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 1),
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        }
    }
}

/// The header above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4Spec {
    /// A UDP datagram.
    Udp(PortPair),
    /// A TCP segment without options.
    Tcp(TcpSpec),
    /// An ICMP echo message, ICMPv6 if the IP header is version 6.
    Echo(EchoSpec),
}

/// A pair of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
}

impl Default for PortPair {
    fn default() -> Self {
        Self { src: 1234, dst: 1234 }
    }
}

/// Fields of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSpec {
    /// The ports.
    pub ports: PortPair,
    /// Sequence number of the first payload byte.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flag bits as on the wire: FIN 0x01, SYN 0x02, RST 0x04, PSH 0x08, ACK 0x10 and so on.
    pub flags: u8,
    /// Window field, without scaling.
    pub window: u16,
}

impl Default for TcpSpec {
    fn default() -> Self {
        Self { ports: PortPair::default(), seq: 1, ack: 1, flags: 0x10, window: 0xffff }
    }
}

/// Fields of an ICMP echo message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoSpec {
    /// Request or reply.
    pub kind: EchoKind,
    /// Identifier, which distinguishes senders.
    pub id: u16,
    /// Sequence number, which distinguishes the messages of one sender.
    pub seq: u16,
}

/// Direction of an echo message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoKind {
    /// A request to send the message back.
    Request,
    /// The answer to a request.
    Reply,
}

/// The contents of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Every byte has this value.
    Byte(u8),
    /// The bytes 0, 1, 2, … 255, 0, …
    Counting,
    /// These bytes, repeated; an empty pattern means zeros.
    Pattern(Vec<u8>),
}
