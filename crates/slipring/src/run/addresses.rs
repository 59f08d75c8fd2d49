//! The addresses on both sides of a link.
//!
//! Each link has a subnet of its own, 100.64.N.0/24 of the range for carriers (RFC 6598), which
//! collides with nobody's home or office network, and one of unique local IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of the network part.
pub(super) const PREFIX_V4: u8 = 24;
/// Bits of the network part.
pub(super) const PREFIX_V6: u8 = 64;

/// The subnet of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkSubnet(u8);

/// The addresses that a command's side needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkAddresses {
    /// The command's own.
    pub(super) own: Ipv4Addr,
    /// Where all else is.
    pub(super) gateway: Ipv4Addr,
    /// The same for IPv6, where there is any.
    pub(super) v6: Option<LinkAddressesV6>,
}

/// IPv6 on a command's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkAddressesV6 {
    /// The command's own.
    pub(super) own: Ipv6Addr,
    /// Where all else is.
    pub(super) gateway: Ipv6Addr,
    /// Whether it leads further than to the gateway itself.
    pub(super) reaches_beyond: bool,
}

impl LinkSubnet {
    /// The subnet of that number.
    pub(super) const fn number(number: u8) -> Self {
        Self(number)
    }

    /// Which number it has.
    pub(super) const fn as_number(self) -> u8 {
        self.0
    }

    /// The next one; none after the last.
    pub(super) fn next(self) -> Option<u8> {
        self.0.checked_add(1)
    }

    /// Whether an address is one of its own.
    pub(super) fn holds(self, address: &IpAddr) -> bool {
        matches!(address, IpAddr::V4(v4) if v4.octets()[..3] == self.network().octets()[..3])
    }

    /// Name of the link that leads into it.
    pub(super) fn link(self) -> String {
        format!("slip{}", self.0)
    }

    /// Its first address.
    pub(super) fn network(self) -> Ipv4Addr {
        self.v4(0)
    }

    pub(super) fn v4(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(100, 64, self.0, host)
    }

    /// The global id spells `slip`.
    pub(super) fn v6(self, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd73, 0x6c69, 0x7000, self.0.into(), 0, 0, 0, host)
    }

    /// The gateway is the first host, the command the second.
    pub(super) fn addresses(self, v6: Option<bool>) -> LinkAddresses {
        LinkAddresses {
            own: self.v4(2),
            gateway: self.v4(1),
            v6: v6.map(|leads_on| LinkAddressesV6 {
                own: self.v6(2),
                gateway: self.v6(1),
                reaches_beyond: leads_on,
            }),
        }
    }
}

impl LinkAddresses {
    /// Each own address with its prefix length.
    pub(super) fn own(&self) -> impl Iterator<Item = (IpAddr, u8)> + use<> {
        let v6 = self.v6.map(|v6| (IpAddr::V6(v6.own), PREFIX_V6));
        [(IpAddr::V4(self.own), PREFIX_V4)].into_iter().chain(v6)
    }

    /// The gateways that lead on.
    pub(super) fn gateways(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let v6 = self.v6.filter(|v6| v6.reaches_beyond).map(|v6| IpAddr::V6(v6.gateway));
        [IpAddr::V4(self.gateway)].into_iter().chain(v6)
    }
}
