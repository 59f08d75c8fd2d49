//! Numbers that standards assign: EtherTypes, IP protocols, VLAN tags.

use core::fmt;

/// The type field of an Ethernet frame (values below 0x600 are an 802.3 length).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4.
    pub const IPV4: Self = Self(0x0800);
    /// Address resolution.
    pub const ARP: Self = Self(0x0806);
    /// Customer VLAN tag, IEEE 802.1Q.
    pub const VLAN: Self = Self(0x8100);
    /// Internet Protocol version 6.
    pub const IPV6: Self = Self(0x86dd);
    /// Service VLAN tag, IEEE 802.1ad.
    pub const QINQ: Self = Self(0x88a8);
    /// The service tag as switches wrote it before 802.1ad.
    pub const QINQ_OLD: Self = Self(0x9100);

    /// Says whether a VLAN tag follows instead of a payload.
    #[inline]
    #[must_use]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ | Self::QINQ_OLD)
    }
}

impl EtherType {
    /// Whether it has a name here.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(
            self,
            Self::IPV4 | Self::ARP | Self::VLAN | Self::IPV6 | Self::QINQ | Self::QINQ_OLD
        )
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("IPv4"),
            Self::ARP => f.write_str("ARP"),
            Self::VLAN => f.write_str("802.1Q"),
            Self::IPV6 => f.write_str("IPv6"),
            Self::QINQ => f.write_str("802.1Q-QinQ"),
            Self::QINQ_OLD => f.write_str("802.1Q-9100"),
            Self(other) => write!(f, "0x{other:04x}"),
        }
    }
}

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpProto(pub u8);

impl IpProto {
    /// IPv6 hop-by-hop options, only directly after the IPv6 header.
    pub const HOP_BY_HOP: Self = Self(0);
    /// Control messages of IPv4.
    pub const ICMP: Self = Self(1);
    /// Group membership.
    pub const IGMP: Self = Self(2);
    /// Transmission control.
    pub const TCP: Self = Self(6);
    /// User datagrams.
    pub const UDP: Self = Self(17);
    /// IPv6 routing header.
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Self = Self(44);
    /// Authentication header, IPv4 and IPv6.
    pub const AUTHENTICATION: Self = Self(51);
    /// Control messages of IPv6.
    pub const ICMPV6: Self = Self(58);
    /// IPv6: nothing follows.
    pub const NONE: Self = Self(59);
    /// IPv6 destination options.
    pub const DESTINATION: Self = Self(60);
    /// Stream control transmission.
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
    /// A tag of the lower 12 bits of `vid` and the lower 3 bits of `priority`.
    #[must_use]
    pub const fn new(vid: u16, priority: u8) -> Self {
        Self(vid & 0xfff | (priority as u16 & 7) << 13)
    }

    /// VLAN id, 0 to 4095; 0 means priority only.
    #[must_use]
    pub const fn vid(self) -> u16 {
        self.0 & 0xfff
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Drop eligible indicator.
    #[must_use]
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }
}
