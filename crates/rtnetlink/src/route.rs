//! Routes: `struct rtmsg` and its attributes, `linux/rtnetlink.h`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::attributes::{
    Attribute, Attributes, Malformed, aligned, read_address, read_u16, read_u32,
};
use crate::{RouteFamily, message::kind};

/// `RT_TABLE_DEFAULT`: the table of the last default rule.
pub const TABLE_DEFAULT: u32 = 253;
/// `RT_TABLE_MAIN`: the table of routes for which no table is given.
pub const TABLE_MAIN: u32 = 254;
/// `RT_TABLE_LOCAL`: addresses of this machine, and broadcast addresses.
pub const TABLE_LOCAL: u32 = 255;

/// What a route does with packets: `RTN_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteKind {
    /// Sends packets to the next hop (`RTN_UNICAST`).
    Unicast,
    /// Delivers packets to this machine (`RTN_LOCAL`).
    Local,
    /// Delivers and sends packets as broadcasts (`RTN_BROADCAST`).
    Broadcast,
    /// Delivers packets to this machine, which is one of several with the address (`RTN_ANYCAST`).
    Anycast,
    /// Multicast (`RTN_MULTICAST`).
    Multicast,
    /// Drops packets silently (`RTN_BLACKHOLE`).
    Blackhole,
    /// Answers that the host is unreachable (`RTN_UNREACHABLE`).
    Unreachable,
    /// Answers that communication is prohibited (`RTN_PROHIBIT`).
    Prohibit,
    /// Ends the lookup in this table, as if it had no route (`RTN_THROW`).
    Throw,
    /// A kind with another number.
    Other(u8),
}

impl RouteKind {
    const fn of(number: u8) -> Self {
        match number {
            1 => Self::Unicast,
            2 => Self::Local,
            3 => Self::Broadcast,
            4 => Self::Anycast,
            5 => Self::Multicast,
            6 => Self::Blackhole,
            7 => Self::Unreachable,
            8 => Self::Prohibit,
            9 => Self::Throw,
            other => Self::Other(other),
        }
    }
}

/// The state of a next hop: `RTNH_F_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopFlags(pub u8);

impl HopFlags {
    /// `RTNH_F_DEAD`: the next hop's interface is down.
    pub const DEAD: u8 = 1;
    /// `RTNH_F_ONLINK`: the gateway is on the link although there is no connected route to it.
    pub const ON_LINK: u8 = 4;
    /// `RTNH_F_LINKDOWN`: the next hop's interface has no carrier.
    pub const LINK_DOWN: u8 = 16;

    /// Returns whether all bits of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }
}

/// One next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteHop {
    /// The index of the interface; 0 if the route names none.
    pub ifindex: u32,
    /// The gateway, of either family; `None` if destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// The weight, from 1, which only matters among several next hops.
    pub weight: u16,
    /// The state at the time of the message.
    pub flags: HopFlags,
    /// Whether the hop has a property that changes forwarding and is not represented here, such as
    /// an encapsulation.
    pub has_unknown: bool,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct RouteMessage<'a> {
    /// The family of the destination.
    pub family: RouteFamily,
    /// The destination. In hostile messages, bits after the prefix may be set.
    pub destination: IpAddr,
    /// The length of the destination's prefix; at most [`RouteFamily::bits`].
    pub prefix_len: u8,
    /// The DSCP and ECN bits that packets must have, or 0 for any.
    pub tos: u8,
    /// The table that contains the route.
    pub table: u32,
    /// What the route does with packets.
    pub kind: RouteKind,
    /// The creator of the route: `RTPROT_*`.
    pub protocol: u8,
    /// The distance to the destination: `RT_SCOPE_*`.
    pub scope: u8,
    /// The metric (`RTA_PRIORITY`): of several routes for a prefix, the one with the lowest metric
    /// is used.
    pub metric: u32,
    /// The only next hop, if `multipath` is `None`.
    pub hop: RouteHop,
    /// The next hops, if the route has several.
    pub multipath: Option<Multipath<'a>>,
    /// The identifier of the route's next-hop object. The kernel also sends the object's present
    /// content as `hop` or `multipath`, unless it is configured otherwise.
    pub next_hop_id: Option<u32>,
    /// The path MTU that the route sets (`RTAX_MTU`), or 0.
    pub mtu: u32,
    /// The source address of this machine's own packets by this route.
    pub preferred_source: Option<IpAddr>,
    /// Whether this is an entry of the kernel's cache, not of a table (`RTM_F_CLONED`).
    pub is_cached: bool,
    /// Whether the route has a property that changes forwarding and is not represented here.
    /// This includes such properties of its next hops.
    pub has_unknown: bool,
}

/// `sizeof(struct rtmsg)`.
pub(crate) const ROUTE_LEN: usize = 12;
/// `RTM_F_CLONED`: an entry of the kernel's cache, not a route.
const RTM_F_CLONED: u32 = 0x200;

/// Attributes of a route: `RTA_*`.
pub(crate) mod rta {
    pub(crate) const DST: u16 = 1;
    pub(crate) const IIF: u16 = 3;
    pub(crate) const OIF: u16 = 4;
    pub(crate) const GATEWAY: u16 = 5;
    pub(crate) const PRIORITY: u16 = 6;
    pub(crate) const PREFSRC: u16 = 7;
    pub(crate) const METRICS: u16 = 8;
    pub(crate) const MULTIPATH: u16 = 9;
    pub(crate) const FLOW: u16 = 11;
    pub(crate) const CACHEINFO: u16 = 12;
    pub(crate) const TABLE: u16 = 15;
    pub(crate) const MARK: u16 = 16;
    pub(crate) const VIA: u16 = 18;
    pub(crate) const PREF: u16 = 20;
    pub(crate) const EXPIRES: u16 = 23;
    pub(crate) const PAD: u16 = 24;
    pub(crate) const UID: u16 = 25;
    pub(crate) const NH_ID: u16 = 30;
}

/// `RTAX_MTU`, an attribute in `RTA_METRICS`. The other metrics concern this machine's own packets.
const RTAX_MTU: u16 = 2;
/// `ICMPV6_ROUTER_PREF_MEDIUM` of `linux/icmpv6.h`. With another preference, the choice among IPv6
/// routes does not depend on prefix and metric alone.
const PREF_MEDIUM: u8 = 0;

impl<'a> RouteMessage<'a> {
    /// Parses a route; returns `None` for families other than IPv4 and IPv6, such as those of
    /// multicast routes and of MPLS.
    #[inline]
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some((fixed, rest)) = payload.split_first_chunk::<ROUTE_LEN>() else {
            return Err(Malformed::Truncated { kind: kind::ROUTE });
        };
        let &[family, prefix_len, source_len, tos, table, protocol, scope, route_kind, ..] = fixed;
        let Some(family) = RouteFamily::of(family) else { return Ok(None) };
        if prefix_len > family.bits() {
            return Err(Malformed::PrefixLength(prefix_len));
        }
        let flags = read_u32(fixed, 8).unwrap_or_default();
        let mut route = Self {
            family,
            destination: unspecified(family),
            prefix_len,
            tos,
            table: u32::from(table),
            kind: RouteKind::of(route_kind),
            protocol,
            scope,
            metric: 0,
            hop: RouteHop::new(0, flags as u8),
            multipath: None,
            next_hop_id: None,
            mtu: 0,
            preferred_source: None,
            is_cached: flags & RTM_F_CLONED != 0,
            has_unknown: source_len != 0,
        };
        for attribute in Attributes(rest) {
            route.take(attribute?)?;
        }
        Ok(Some(route))
    }

    #[inline]
    fn take(&mut self, attribute: Attribute<'a>) -> Result<(), Malformed> {
        match attribute.kind {
            rta::DST => self.destination = attribute.address_of(self.family)?,
            rta::OIF => self.hop.ifindex = attribute.u32()?,
            rta::GATEWAY => self.hop.gateway = Some(attribute.address_of(self.family)?),
            rta::VIA => self.hop.gateway = via(attribute)?,
            rta::PRIORITY => self.metric = attribute.u32()?,
            rta::TABLE => self.table = attribute.u32()?,
            rta::METRICS => self.mtu = mtu(attribute.nested())?,
            rta::NH_ID => self.next_hop_id = Some(attribute.u32()?),
            rta::PREFSRC => self.preferred_source = Some(attribute.address_of(self.family)?),
            rta::PREF => self.has_unknown |= attribute.u8()? != PREF_MEDIUM,
            rta::MULTIPATH => {
                let multipath = Multipath { rest: attribute.value, family: self.family };
                // The hops are checked once here, so that the iteration cannot fail.
                self.has_unknown |= multipath.check()?;
                self.multipath = Some(multipath);
            }
            // Realm, lifetime, and attributes that an answer repeats from the request: they do not
            // affect forwarding.
            rta::IIF
            | rta::FLOW
            | rta::CACHEINFO
            | rta::MARK
            | rta::EXPIRES
            | rta::PAD
            | rta::UID => {}
            _ => self.has_unknown = true,
        }
        Ok(())
    }

    /// Returns the next hops: those of `multipath`, or `hop`.
    pub fn hops(&self) -> impl Iterator<Item = RouteHop> + use<'a> {
        let only = self.multipath.is_none().then_some(self.hop);
        only.into_iter().chain(self.multipath.into_iter().flatten())
    }
}

const fn unspecified(family: RouteFamily) -> IpAddr {
    match family {
        RouteFamily::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        RouteFamily::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Reads a gateway of another family than the route: `struct rtvia`.
fn via(attribute: Attribute<'_>) -> Result<Option<IpAddr>, Malformed> {
    let wrong = Malformed::AttributeValue { kind: attribute.kind };
    let family = read_u16(attribute.value, 0).ok_or(wrong)?;
    let family = u8::try_from(family).ok().and_then(RouteFamily::of).ok_or(wrong)?;
    let address = attribute.value.get(2..).and_then(read_address).ok_or(wrong)?;
    if (family == RouteFamily::V4) == address.is_ipv4() { Ok(Some(address)) } else { Err(wrong) }
}

fn mtu(metrics: Attributes<'_>) -> Result<u32, Malformed> {
    let mut mtu = 0;
    for metric in metrics {
        let metric = metric?;
        if metric.kind == RTAX_MTU {
            mtu = metric.u32()?;
        }
    }
    Ok(mtu)
}

/// The next hops of a route that has several: `struct rtnexthop`, each followed by attributes.
#[derive(Clone, Copy, Debug)]
pub struct Multipath<'a> {
    rest: &'a [u8],
    family: RouteFamily,
}

/// `sizeof(struct rtnexthop)`.
const HOP_LEN: usize = 8;

impl Multipath<'_> {
    /// Checks that all hops are well-formed; returns whether one of them has an unknown property.
    fn check(self) -> Result<bool, Malformed> {
        let mut all = self;
        let mut has_unknown = false;
        while let Some(hop) = all.take_hop()? {
            has_unknown |= hop.has_unknown;
        }
        Ok(has_unknown)
    }

    fn take_hop(&mut self) -> Result<Option<RouteHop>, Malformed> {
        if self.rest.len() < HOP_LEN {
            return Ok(None);
        }
        let len = read_u16(self.rest, 0).map_or(0, usize::from);
        let Some(attributes) = self.rest.get(HOP_LEN..len) else {
            return Err(Malformed::AttributeLength);
        };
        let mut hop = RouteHop::new(read_u32(self.rest, 4).unwrap_or_default(), self.rest[2]);
        hop.weight = u16::from(self.rest[3]) + 1;
        self.rest = self.rest.get(aligned(len)..).unwrap_or_default();
        for attribute in Attributes(attributes) {
            hop.take(attribute?, self.family)?;
        }
        Ok(Some(hop))
    }
}

impl Iterator for Multipath<'_> {
    type Item = RouteHop;

    fn next(&mut self) -> Option<RouteHop> {
        self.take_hop().unwrap_or_default()
    }
}

impl RouteHop {
    const fn new(ifindex: u32, flags: u8) -> Self {
        Self { ifindex, gateway: None, weight: 1, flags: HopFlags(flags), has_unknown: false }
    }

    fn take(&mut self, attribute: Attribute<'_>, family: RouteFamily) -> Result<(), Malformed> {
        match attribute.kind {
            rta::GATEWAY => self.gateway = Some(attribute.address_of(family)?),
            rta::VIA => self.gateway = via(attribute)?,
            rta::FLOW | rta::PAD => {}
            _ => self.has_unknown = true,
        }
        Ok(())
    }
}
