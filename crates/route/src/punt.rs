//! Packets for the kernel: the class, by which their rate is limited (RFC 6192), and the reason.

use slipring_wire::assigned::{EtherType, IpProto};

use crate::field::{be16, byte};

/// The class of a packet that the kernel handles. Rates are limited by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PuntClass {
    /// Address resolution.
    Arp,
    /// Neighbour discovery: ICMPv6 types 133 to 137.
    Nd,
    /// BGP: TCP port 179.
    Bgp,
    /// Interior gateway protocols: OSPF, IS-IS, EIGRP, RIP, PIM.
    Igp,
    /// Bidirectional forwarding detection: UDP ports 3784, 3785, 4784 and 6784.
    Bfd,
    /// Other ICMP messages, ICMPv6 messages behind no extension header but hop-by-hop options, and
    /// packets with [`PuntReason::ErrorRoute`].
    Icmp,
    /// Everything else, and packets with [`PuntReason::Egress`].
    Other,
}

impl PuntClass {
    /// All classes, in the order of their counters.
    pub const ALL: [Self; 7] =
        [Self::Arp, Self::Nd, Self::Bgp, Self::Igp, Self::Bfd, Self::Icmp, Self::Other];
    /// Number of classes.
    pub const COUNT: usize = Self::ALL.len();

    /// The name of the class in configuration, metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arp => "arp",
            Self::Nd => "nd",
            Self::Bgp => "bgp",
            Self::Igp => "igp",
            Self::Bfd => "bfd",
            Self::Icmp => "icmp",
            Self::Other => "other",
        }
    }
}

/// Why the kernel handles a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PuntReason {
    /// The frame carries neither IPv4 nor IPv6, or its destination MAC address is another host's
    /// ([`RouteConfig::punts_other_macs`](crate::RouteConfig::punts_other_macs)).
    Protocol,
    /// No port has the frame's VLAN tags.
    UnknownVlan,
    /// The IPv4 header has options other than source routes.
    Options,
    /// The IPv6 packet has a hop-by-hop header.
    HopByHop,
    /// The destination is a multicast group or the limited broadcast address.
    Group,
    /// The IPv6 destination is link-local.
    LinkLocal,
    /// The route leads to the kernel: local addresses, broadcasts, and routes that the tables
    /// cannot represent.
    Route,
    /// The route to the source leads to the kernel. So only the kernel can check the reverse path.
    ReversePath,
    /// The route to the packet's sender leads to the kernel. So only the kernel can send the ICMP
    /// error about the packet.
    ErrorRoute,
    /// The caller leaves packets for the egress port to the kernel
    /// ([`RouteEngine::leave_to_kernel`](crate::RouteEngine::leave_to_kernel)).
    Egress,
}

impl PuntReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 10] = [
        Self::Protocol,
        Self::UnknownVlan,
        Self::Options,
        Self::HopByHop,
        Self::Group,
        Self::LinkLocal,
        Self::Route,
        Self::ReversePath,
        Self::ErrorRoute,
        Self::Egress,
    ];
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// The name of the reason in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::UnknownVlan => "unknown-vlan",
            Self::Options => "options",
            Self::HopByHop => "hop-by-hop",
            Self::Group => "group",
            Self::LinkLocal => "link-local",
            Self::Route => "route",
            Self::ReversePath => "reverse-path",
            Self::ErrorRoute => "error-route",
            Self::Egress => "egress",
        }
    }
}

/// Classifies a frame whose payload, of type `ethertype`, starts at `l3`.
#[cold]
pub(crate) fn classify(bytes: &[u8], ethertype: EtherType, l3: usize) -> PuntClass {
    match ethertype {
        EtherType::ARP => PuntClass::Arp,
        EtherType::IPV4 => {
            let l4 = l3 + usize::from(byte(bytes, l3) & 0xf) * 4;
            let is_later_fragment = be16(bytes, l3 + 6) & 0x1fff != 0;
            transport(bytes, IpProto(byte(bytes, l3 + 9)), l4, is_later_fragment)
        }
        EtherType::IPV6 => {
            let next = IpProto(byte(bytes, l3 + 6));
            let l4 = l3 + 40;
            if next == IpProto::HOP_BY_HOP {
                // Skips the hop-by-hop header, in which MLD messages have a router alert option.
                let after = l4 + (usize::from(byte(bytes, l4 + 1)) + 1) * 8;
                return transport(bytes, IpProto(byte(bytes, l4)), after, false);
            }
            transport(bytes, next, l4, false)
        }
        // A value below 0x600 is an IEEE 802.3 length. LLC with the DSAP and SSAP of OSI is IS-IS
        // (ISO 10589, 8.4.8).
        EtherType(..0x600) if be16(bytes, l3) == 0xfefe => PuntClass::Igp,
        _ => PuntClass::Other,
    }
}

fn transport(bytes: &[u8], proto: IpProto, l4: usize, is_later_fragment: bool) -> PuntClass {
    const EIGRP: IpProto = IpProto(88);
    const OSPF: IpProto = IpProto(89);
    const PIM: IpProto = IpProto(103);
    let ports = [be16(bytes, l4), be16(bytes, l4 + 2)];
    match proto {
        EIGRP | OSPF | PIM => PuntClass::Igp,
        IpProto::ICMPV6 if matches!(byte(bytes, l4), 133..=137) => PuntClass::Nd,
        IpProto::ICMP | IpProto::ICMPV6 => PuntClass::Icmp,
        _ if is_later_fragment => PuntClass::Other,
        IpProto::TCP if ports.contains(&179) => PuntClass::Bgp,
        IpProto::UDP => match ports[1] {
            3784 | 3785 | 4784 | 6784 => PuntClass::Bfd,
            520 | 521 => PuntClass::Igp,
            _ => PuntClass::Other,
        },
        _ => PuntClass::Other,
    }
}
