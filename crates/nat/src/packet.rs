//! Parses IPv4 packets as far as translation needs it.

use core::net::Ipv4Addr;

use slipring_wire::assigned::IpProto;

use crate::flow::NatEndpoint;

const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET_MASK: u16 = 0x1fff;

/// Whether a packet is not fragmented, the first fragment, or a later fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentPart {
    Whole,
    First,
    Later,
}

/// The fields of the IP header that translation reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ipv4View {
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    pub(crate) proto: IpProto,
    pub(crate) id: u16,
    pub(crate) part: FragmentPart,
    /// Offset of the first byte after the header.
    pub(crate) l4: usize,
}

/// The content after the IP header, as far as translation distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum L4Content {
    /// Source and destination port.
    Ports(u16, u16),
    /// The identifier of an ICMP query or reply.
    Query(u16),
    /// The offset of the packet that an ICMP error quotes.
    Error(usize),
    /// Another ICMP message, whose addresses are not translated.
    Message,
    /// A protocol without ports.
    Bare,
}

/// One of the two ends of a packet: source or destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SrcOrDst {
    Src,
    Dst,
}

impl Ipv4View {
    /// Parses the IP header at the start of `packet`, which may be truncated after the header.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        let head = packet.first_chunk::<20>()?;
        let l4 = usize::from(head[0] & 0xf) * 4;
        if head[0] >> 4 != 4 || l4 < 20 || packet.len() < l4 {
            return None;
        }
        let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
        let part = match u16::from_be_bytes([head[6], head[7]])
            & (MORE_FRAGMENTS | FRAGMENT_OFFSET_MASK)
        {
            0 => FragmentPart::Whole,
            MORE_FRAGMENTS => FragmentPart::First,
            _ => FragmentPart::Later,
        };
        let id = u16::from_be_bytes([head[4], head[5]]);
        Some(Self { src: address(12), dst: address(16), proto: IpProto(head[9]), id, part, l4 })
    }

    /// Parses what follows the header of an unfragmented packet or first fragment; `None` if the
    /// packet is too short.
    pub(crate) fn load(&self, packet: &[u8]) -> Option<L4Content> {
        if self.proto == IpProto::ICMP {
            let head = packet.get(self.l4..)?.first_chunk::<8>()?;
            let id = u16::from_be_bytes([head[4], head[5]]);
            return Some(match head[0] {
                0 | 8 | 13..=18 => L4Content::Query(id),
                3 | 4 | 11 | 12 => L4Content::Error(self.l4 + 8),
                _ => L4Content::Message,
            });
        }
        if !has_ports(self.proto) {
            return Some(L4Content::Bare);
        }
        let &[a, b, c, d] = packet.get(self.l4..)?.first_chunk::<4>()?;
        Some(L4Content::Ports(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// Returns both ends of the packet, starting with the end at `side`. The identifier of a query
    /// counts as the port of the end at `side`; the port of the other end is then 0.
    pub(crate) fn ends(&self, load: L4Content, side: SrcOrDst) -> [NatEndpoint; 2] {
        let (src, dst) = match load {
            L4Content::Ports(src, dst) => (src, dst),
            L4Content::Query(id) if side == SrcOrDst::Src => (id, 0),
            L4Content::Query(id) => (0, id),
            _ => (0, 0),
        };
        let (src, dst) = (NatEndpoint::new(self.src, src), NatEndpoint::new(self.dst, dst));
        match side {
            SrcOrDst::Src => [src, dst],
            SrcOrDst::Dst => [dst, src],
        }
    }

    /// The flags of a TCP segment in an unfragmented packet or first fragment; 0 if the packet ends
    /// before the flags.
    pub(crate) fn tcp_flags(&self, packet: &[u8]) -> u8 {
        packet.get(self.l4 + 13).copied().unwrap_or(0)
    }
}

const UDP_LITE: IpProto = IpProto(136);
const DCCP: IpProto = IpProto(33);

const fn has_ports(proto: IpProto) -> bool {
    matches!(proto, IpProto::TCP | IpProto::UDP | IpProto::SCTP | UDP_LITE | DCCP)
}

/// Returns whether the port or identifier of the inside host's end may be changed for this
/// protocol.
pub(crate) const fn can_change_port(proto: IpProto) -> bool {
    matches!(proto, IpProto::TCP | IpProto::UDP | IpProto::ICMP | UDP_LITE | DCCP)
}

/// The offset of the checksum from the start of a protocol's header, and whether the checksum
/// covers the IP addresses; `None` if the protocol has no checksum that translation must update.
pub(crate) const fn checksum_at(proto: IpProto) -> Option<(usize, bool)> {
    match proto {
        IpProto::TCP => Some((16, true)),
        IpProto::UDP | UDP_LITE | DCCP => Some((6, true)),
        IpProto::ICMP => Some((2, false)),
        _ => None,
    }
}
