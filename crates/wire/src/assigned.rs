//! Numbers that standards assign: EtherTypes and IP protocols. Also VLAN tags.

use core::fmt;

/// The type field of an Ethernet frame. Values below 0x600 are not types but lengths (802.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4.
    pub const IPV4: Self = Self(0x0800);
    /// Address resolution protocol.
    pub const ARP: Self = Self(0x0806);
    /// Customer VLAN tag, IEEE 802.1Q.
    pub const VLAN: Self = Self(0x8100);
    /// Internet Protocol version 6.
    pub const IPV6: Self = Self(0x86dd);
    /// Service VLAN tag, IEEE 802.1ad.
    pub const QINQ: Self = Self(0x88a8);
    /// The service tag that switches used before 802.1ad.
    pub const QINQ_OLD: Self = Self(0x9100);

    /// Returns whether the type means that a VLAN tag follows, and not a payload.
    #[inline]
    #[must_use]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ | Self::QINQ_OLD)
    }
}

impl EtherType {
    /// Returns the name of the type in tcpdump; `None` if it has no name.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let at = ETHERTYPES.binary_search_by_key(&self.0, |(number, _)| *number).ok()?;
        Some(ETHERTYPES[at].1)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "0x{:04x}", self.0),
        }
    }
}

/// The types that have names, sorted by number.
const ETHERTYPES: [(u16, &str); 48] = [
    (0x0600, "NS"),
    (0x0707, "GeoNet (old)"),
    (0x0800, "IPv4"),
    (0x0806, "ARP"),
    (0x1000, "Trail"),
    (0x1111, "CALM FAST"),
    (0x6001, "MOP DL"),
    (0x6002, "MOP RC"),
    (0x6003, "DN"),
    (0x6004, "LAT"),
    (0x6007, "SCA"),
    (0x6558, "TEB"),
    (0x8035, "Reverse ARP"),
    (0x8038, "Lanbridge"),
    (0x803c, "DEC DNS"),
    (0x803e, "DEC DTS"),
    (0x805b, "VEXP"),
    (0x805c, "VPROD"),
    (0x809b, "Appletalk"),
    (0x80f3, "Appletalk ARP"),
    (0x8100, "802.1Q"),
    (0x8137, "IPX"),
    (0x86dd, "IPv6"),
    (0x8808, "MPCP"),
    (0x8809, "Slow Protocols"),
    (0x880b, "PPP"),
    (0x8847, "MPLS unicast"),
    (0x8848, "MPLS multicast"),
    (0x8863, "PPPoE D"),
    (0x8864, "PPPoE S"),
    (0x886f, "MS NLB heartbeat"),
    (0x888e, "EAPOL"),
    (0x8899, "Realtek protocols"),
    (0x88a2, "AoE"),
    (0x88a8, "802.1Q-QinQ"),
    (0x88ca, "TIPC"),
    (0x88cc, "LLDP"),
    (0x88e5, "802.1AE MACsec"),
    (0x88f7, "PTP"),
    (0x8902, "CFM"),
    (0x893a, "IEEE1905.1"),
    (0x8947, "GeoNet"),
    (0x894f, "NSH"),
    (0x9000, "Loopback"),
    (0x9100, "802.1Q-9100"),
    (0xabcd, "CFM (old)"),
    (0xd28b, "Arista Vendor Specific Protocol"),
    (0xfefe, "OSI"),
];

/// The number of the protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpProto(pub u8);

impl IpProto {
    /// IPv6 hop-by-hop options. They come directly after the IPv6 header.
    pub const HOP_BY_HOP: Self = Self(0);
    /// Internet control message protocol, for IPv4.
    pub const ICMP: Self = Self(1);
    /// Internet group management protocol.
    pub const IGMP: Self = Self(2);
    /// Transmission control protocol.
    pub const TCP: Self = Self(6);
    /// User datagram protocol.
    pub const UDP: Self = Self(17);
    /// IPv6 routing header.
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Self = Self(44);
    /// Authentication header, for IPv4 and IPv6.
    pub const AUTHENTICATION: Self = Self(51);
    /// Internet control message protocol, for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// The end of an IPv6 packet: no header follows.
    pub const NONE: Self = Self(59);
    /// IPv6 destination options.
    pub const DESTINATION: Self = Self(60);
    /// Stream control transmission protocol.
    pub const SCTP: Self = Self(132);
    /// IPv6 mobility header.
    pub const MOBILITY: Self = Self(135);
}

impl fmt::Display for IpProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ICMP => f.write_str("ICMP"),
            Self::IGMP => f.write_str("IGMP"),
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::ICMPV6 => f.write_str("ICMPv6"),
            Self::SCTP => f.write_str("SCTP"),
            Self(other) => write!(f, "ip-proto-{other}"),
        }
    }
}

/// The 16 bits of control information in a VLAN tag: priority, drop eligibility, VLAN id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VlanTag(pub u16);

impl VlanTag {
    /// Creates a tag. Only the lower 12 bits of `vid` and the lower 3 bits of `priority` are used.
    #[must_use]
    pub const fn new(vid: u16, priority: u8) -> Self {
        Self(vid & 0xfff | (priority as u16 & 7) << 13)
    }

    /// Returns the VLAN id, 0 to 4095. 0 means that the tag has only a priority.
    #[must_use]
    pub const fn vid(self) -> u16 {
        self.0 & 0xfff
    }

    /// Returns the priority code point, 0 to 7.
    #[must_use]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Returns whether the frame may be dropped first in a congestion (drop eligible indicator).
    #[must_use]
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }
}
