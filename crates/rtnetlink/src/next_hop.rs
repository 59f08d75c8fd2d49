//! Next-hop objects and groups of them: `struct nhmsg`, `linux/nexthop.h`.

use core::net::IpAddr;

use crate::attributes::{Attribute, Attributes, Malformed, read_u32};
use crate::{HopFlags, RouteFamily, message::kind};

/// How a group distributes flows: `NEXTHOP_GRP_TYPE_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupKind {
    /// The next hop is chosen by hash and weight.
    #[default]
    HashThreshold,
    /// The flow's hash selects a bucket. A bucket keeps its next hop as long as flows use the
    /// bucket (resilient).
    Resilient,
    /// A kind with another number.
    Other(u16),
}

/// A next-hop object.
#[derive(Clone, Copy, Debug)]
pub struct NextHopMessage<'a> {
    /// The number by which routes and groups refer to the object.
    pub id: u32,
    /// The family of a next hop; `None` for groups.
    pub family: Option<RouteFamily>,
    /// The creator of the object: `RTPROT_*`.
    pub protocol: u8,
    /// The state at the time of the message.
    pub flags: HopFlags,
    /// The members of a group.
    pub group: Option<NextHopGroup<'a>>,
    /// How a group distributes flows.
    pub group_kind: GroupKind,
    /// Whether packets are dropped.
    pub is_blackhole: bool,
    /// Whether the object belongs to a bridge's forwarding database, not to routes.
    pub is_fdb: bool,
    /// The index of the interface, or 0.
    pub ifindex: u32,
    /// The gateway; `None` if destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// Whether the object has a property that changes forwarding and is not represented here, such
    /// as an encapsulation.
    pub has_unknown: bool,
}

/// `sizeof(struct nhmsg)`.
pub(crate) const NEXT_HOP_LEN: usize = 8;

/// Attributes of a next-hop object: `NHA_*`.
mod nha {
    pub(super) const ID: u16 = 1;
    pub(super) const GROUP: u16 = 2;
    pub(super) const GROUP_TYPE: u16 = 3;
    pub(super) const BLACKHOLE: u16 = 4;
    pub(super) const OIF: u16 = 5;
    pub(super) const GATEWAY: u16 = 6;
    pub(super) const FDB: u16 = 11;
    pub(super) const RES_GROUP: u16 = 12;
    /// `NHA_OP_FLAGS`, `NHA_GROUP_STATS`, `NHA_HW_STATS_ENABLE`, `NHA_HW_STATS_USED`.
    pub(super) const STATISTICS: core::ops::RangeInclusive<u16> = 14..=17;
}

impl<'a> NextHopMessage<'a> {
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let Some((fixed, rest)) = payload.split_first_chunk::<NEXT_HOP_LEN>() else {
            return Err(Malformed::Truncated { kind: kind::NEXT_HOP });
        };
        let flags = read_u32(fixed, 4).unwrap_or_default();
        let mut next_hop = Self {
            id: 0,
            family: RouteFamily::of(fixed[0]),
            protocol: fixed[2],
            flags: HopFlags(flags as u8),
            group: None,
            group_kind: GroupKind::HashThreshold,
            is_blackhole: false,
            is_fdb: false,
            ifindex: 0,
            gateway: None,
            has_unknown: false,
        };
        for attribute in Attributes(rest) {
            next_hop.take(attribute?)?;
        }
        Ok(next_hop)
    }

    fn take(&mut self, attribute: Attribute<'a>) -> Result<(), Malformed> {
        match attribute.kind {
            nha::ID => self.id = attribute.u32()?,
            nha::GROUP => self.group = Some(NextHopGroup(attribute.value)),
            nha::GROUP_TYPE => self.group_kind = GroupKind::of(attribute.u16()?),
            nha::BLACKHOLE => self.is_blackhole = true,
            nha::OIF => self.ifindex = attribute.u32()?,
            nha::GATEWAY => self.gateway = Some(attribute.address()?),
            nha::FDB => self.is_fdb = true,
            nha::RES_GROUP => {}
            other if nha::STATISTICS.contains(&other) => {}
            _ => self.has_unknown = true,
        }
        Ok(())
    }
}

impl GroupKind {
    const fn of(number: u16) -> Self {
        match number {
            0 => Self::HashThreshold,
            1 => Self::Resilient,
            other => Self::Other(other),
        }
    }
}

/// The members of a group: identifiers of next-hop objects with weights from 1, in the kernel's
/// order.
#[derive(Clone, Copy, Debug)]
pub struct NextHopGroup<'a>(&'a [u8]);

impl Iterator for NextHopGroup<'_> {
    type Item = (u32, u16);

    /// Parses a `struct nexthop_grp`: the identifier, and the weight minus one. Since Linux 6.12,
    /// the byte after the weight is the weight's upper byte. In older kernels it is 0.
    fn next(&mut self) -> Option<(u32, u16)> {
        let (&[a, b, c, d, low, high, _, _], rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        let weight = u16::from_le_bytes([low, high]).saturating_add(1);
        Some((u32::from_ne_bytes([a, b, c, d]), weight))
    }
}
