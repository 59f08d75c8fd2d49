//! Builds Ethernet frames of an exact length, and changes their fields afterwards.
//!
//! A [`FrameSpec`] describes a frame. [`FrameSpec::build`] returns a [`FrameTemplate`]: the bytes
//! of a valid frame, and the [`FrameLayout`] of its fields. A generator copies the bytes into a
//! buffer. It then uses the layout to change the fields that differ from frame to frame. This keeps
//! the checksums valid, and costs only a few additions.
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

/// The contents of a frame. The default is a UDP datagram from 10.0.0.1 to 10.1.0.1, both with port
/// 1234. It is addressed to the broadcast MAC address, and its payload is zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSpec {
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Destination MAC address.
    pub dst_mac: MacAddr,
    /// VLAN tags, the outermost first.
    pub tags: Vec<TagSpec>,
    /// The IP header.
    pub ip: IpSpec,
    /// The header that follows the IP header.
    pub l4: L4Spec,
    /// The contents of the payload after the headers.
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
    /// The EtherType of the tag: [`EtherType::VLAN`], or [`EtherType::QINQ`] for the outer one of
    /// two tags.
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
    /// IPv4, without options.
    V4(Ipv4Spec),
    /// IPv6, without extension headers.
    V6(Ipv6Spec),
}

/// Fields of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Spec {
    /// Address of the sender.
    pub src: Ipv4Addr,
    /// Address of the receiver.
    pub dst: Ipv4Addr,
    /// Time to live. Each router decrements it, and drops the packet when it becomes 0.
    pub ttl: u8,
    /// Type of service, which contains DSCP and ECN.
    pub tos: u8,
    /// Identification field of the IPv4 header.
    pub id: u16,
    /// Whether the "don't fragment" bit is set.
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
    /// Address of the sender.
    pub src: Ipv6Addr,
    /// Address of the receiver.
    pub dst: Ipv6Addr,
    /// Hop limit. Each router decrements it, and drops the packet when it becomes 0.
    pub hop_limit: u8,
    /// The traffic class, which contains DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label. Only its lower 20 bits are used.
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

/// The header that follows the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4Spec {
    /// A UDP datagram.
    Udp(PortPair),
    /// A TCP segment without options.
    Tcp(TcpSpec),
    /// An ICMP echo message. If the IP header is version 6, it is an ICMPv6 message.
    Echo(EchoSpec),
}

/// A pair of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair {
    /// Port of the sender.
    pub src: u16,
    /// Port of the receiver.
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
    /// Ports of sender and receiver.
    pub ports: PortPair,
    /// Sequence number of the first payload byte or, with the flag SYN, of the SYN.
    pub seq: u32,
    /// Acknowledgement number: the next byte that the sender expects to receive.
    pub ack: u32,
    /// Flag bits as on the wire: FIN 0x01, SYN 0x02, RST 0x04, PSH 0x08, ACK 0x10 and so on.
    pub flags: u8,
    /// Window field, as it is in the header, without scaling.
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
    /// Whether the message is a request or a reply.
    pub kind: EchoKind,
    /// Identifier, which distinguishes the senders of messages.
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
    /// These bytes, repeated. If there are none, zeros.
    Pattern(Vec<u8>),
}
