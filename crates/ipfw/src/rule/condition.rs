use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use slipring_wire::MacAddr;

use super::address::{AddressPattern, TableTest};
use super::name::ObjectName;

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The protocol above IP is this one.
    Proto(u8),
    /// The packet is IPv4.
    Ip4,
    /// The packet is IPv6.
    Ip6,
    /// The source address is in this set.
    Src(AddressPattern),
    /// The destination address is in this set.
    Dst(AddressPattern),
    /// A header field is in one of the ranges.
    Number(HeaderField, Ranges),
    /// The Ethernet addresses match these masks.
    Mac {
        /// Destination address.
        dst: MacMask,
        /// Source address.
        src: MacMask,
    },
    /// The destination MAC is in a table.
    DstMac(TableTest),
    /// The source MAC is in a table.
    SrcMac(TableTest),
    /// The packet is checked when it comes in.
    In,
    /// The packet is checked when it goes out.
    Out,
    /// The packet is seen as an Ethernet frame.
    Layer2,
    /// The packet came in by this port.
    Recv(InterfacePattern),
    /// The packet goes out by this port.
    Xmit(InterfacePattern),
    /// With `in`, the port by which the packet comes in; with `out`, the port by which it goes out.
    Via(InterfacePattern),
    /// Bits of the type of service, for IPv4 only.
    IpTos(BitTest),
    /// The DSCP is in this set, one bit for each value; for both IP versions.
    Dscp(u64),
    /// The upper three bits of the type of service, for IPv4 only.
    IpPrecedence(u8),
    /// The version in the IP header.
    IpVersion(u8),
    /// IPv4 options present and absent.
    IpOptions(BitTest),
    /// Fragment bits: the IPv4 flags, and for both IP versions, whether the packet is a fragment
    /// other than the first.
    Frag(BitTest),
    /// TCP flags that must be set, and flags that must be clear.
    TcpFlags(BitTest),
    /// A TCP segment, except one that has SYN but neither ACK nor RST.
    Established,
    /// TCP sequence number.
    TcpSeq(u32),
    /// TCP acknowledgement number.
    TcpAck(u32),
    /// TCP options present and absent.
    TcpOptions(BitTest),
    /// ICMP types, one bit for each of 0..=31.
    IcmpTypes(u32),
    /// ICMPv6 types, one bit for each of 0..=255.
    Icmp6Types([u64; 4]),
    /// Any of these IPv6 extension headers.
    Ext6Hdr(u8),
    /// Any of these IPv6 flow labels.
    FlowId(Vec<u32>),
    /// The packet has a tag in one of the ranges.
    Tagged(Ranges),
    /// The packet has the tag that the table lookup found.
    TaggedTablearg,
    /// The mark of the packet, in the bits of the mask.
    Mark {
        /// The required value.
        value: u32,
        /// The bits to compare.
        mask: u32,
    },
    /// The mark is the one that the table lookup found.
    MarkTablearg,
    /// The flow is in a table.
    Flow(TableTest),
    /// A field is in a table.
    Lookup {
        /// The field.
        key: LookupKey,
        /// The bits of the field to compare; `None` means all bits.
        mask: Option<LookupMask>,
        /// The table.
        table: ObjectName,
    },
}

impl Condition {
    /// Returns whether the condition is `from any` or `to any`, which holds for every packet.
    #[must_use]
    pub const fn is_always(&self) -> bool {
        matches!(self, Self::Src(AddressPattern::Any) | Self::Dst(AddressPattern::Any))
    }
}

/// Ranges of numbers. Each is given by its first and last number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(pub Vec<(u16, u16)>);

impl Ranges {
    /// Returns whether one of the ranges contains `value`.
    #[inline]
    #[must_use]
    pub fn contains(&self, value: u16) -> bool {
        self.0.iter().any(|&(low, high)| low <= value && value <= high)
    }
}

/// A header field that is compared with ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderField {
    /// Source port of TCP, UDP, UDP-Lite and SCTP.
    SrcPort,
    /// Destination port.
    DstPort,
    /// The EtherType after all VLAN tags.
    MacType,
    /// Id of the outermost VLAN tag.
    Vlan,
    /// Id of the second VLAN tag.
    InnerVlan,
    /// Length of an IP packet with its header, in bytes, for both IP versions.
    IpLen,
    /// IPv4 identification.
    IpId,
    /// Time to live, for IPv4 only.
    IpTtl,
    /// TCP window, unscaled.
    TcpWin,
    /// TCP payload in bytes.
    TcpDataLen,
    /// The MSS option of TCP, in bytes.
    TcpMss,
}

/// Bits that must be set and bits that must be clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitTest {
    /// Bits that must be set.
    pub set: u8,
    /// Bits that must be clear.
    pub clear: u8,
}

impl BitTest {
    /// Returns whether `bits` pass the test.
    #[inline]
    #[must_use]
    pub const fn holds(self, bits: u8) -> bool {
        bits & self.set == self.set && !bits & self.clear == self.clear
    }
}

/// An Ethernet address and a mask, which together match a set of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacMask {
    /// The address; bits outside the mask are 0.
    pub address: MacAddr,
    /// The bits to compare, as an address.
    pub mask: MacAddr,
}

impl MacMask {
    /// Every address.
    pub const ANY: Self = Self { address: MacAddr::ZERO, mask: MacAddr::ZERO };

    /// Builds a mask; clears the address bits that are not in `mask`.
    #[must_use]
    pub fn new(address: MacAddr, mask: MacAddr) -> Self {
        Self { address: MacAddr::from_u64(address.to_u64() & mask.to_u64()), mask }
    }

    /// Returns whether `mac` agrees with this address in the bits of the mask.
    #[inline]
    #[must_use]
    pub fn contains(self, mac: MacAddr) -> bool {
        mac.to_u64() & self.mask.to_u64() == self.address.to_u64()
    }
}

/// A set of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfacePattern {
    /// Any known port.
    Any,
    /// Names that match, with `*`, `?` and `[…]`.
    Glob(String),
    /// The port that has this address.
    Address(Ipv4Addr),
    /// The ports in a table.
    Table(TableTest),
}

/// Bits for [`Condition::Ext6Hdr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ipv6Extension {
    /// Fragment header.
    Fragment = 0x01,
    /// Hop-by-hop options.
    HopByHop = 0x02,
    /// Routing header.
    Route = 0x04,
    /// Authentication header.
    Auth = 0x08,
    /// Encapsulated security payload.
    Esp = 0x10,
    /// Destination options.
    Destination = 0x20,
    /// Routing header of type 0.
    Route0 = 0x40,
    /// Routing header of type 2.
    Route2 = 0x80,
}

/// The field that `lookup` looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKey {
    /// Destination address of either version.
    DstIp,
    /// Source address of either version.
    SrcIp,
    /// IPv4 destination.
    DstIp4,
    /// IPv4 source.
    SrcIp4,
    /// IPv6 destination.
    DstIp6,
    /// IPv6 source.
    SrcIp6,
    /// Destination port.
    DstPort,
    /// Source port.
    SrcPort,
    /// Destination MAC.
    DstMac,
    /// Source MAC.
    SrcMac,
    /// The DSCP field.
    Dscp,
    /// The mark of the packet.
    Mark,
    /// The number of the rule.
    RuleNumber,
}

/// The bits of a key to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupMask {
    /// Bits of an IPv4 address.
    V4(u32),
    /// Bits of an IPv6 address.
    V6(Box<u128>),
    /// Bits of an Ethernet address.
    Mac(MacAddr),
    /// Bits of a number.
    Number(u32),
}
