//! The addresses on both sides of a link.
//!
//! Each link has its own subnet: 100.64.N.0/24 of the range for carrier-grade NAT (RFC 6598), which
//! does not collide with home or office networks, and a subnet of unique local IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Prefix length of IPv4 subnets.
pub(super) const PREFIX_V4: u8 = 24;
/// Prefix length of IPv6 subnets.
pub(super) const PREFIX_V6: u8 = 64;

/// The subnet of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkSubnet(u8);

/// The addresses on the command's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkAddresses {
    /// The command's address.
    pub(super) own: Ipv4Addr,
    /// The default gateway.
    pub(super) gateway: Ipv4Addr,
    /// The IPv6 addresses, if the command has any.
    pub(super) v6: Option<LinkAddressesV6>,
}

/// IPv6 on the command's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkAddressesV6 {
    /// The command's address.
    pub(super) own: Ipv6Addr,
    /// The default gateway.
    pub(super) gateway: Ipv6Addr,
    /// Whether the gateway forwards beyond this link, so that the command gets a default route.
    pub(super) reaches_beyond: bool,
}

impl LinkSubnet {
    /// Creates the subnet 100.64.`number`.0/24.
    pub(super) const fn number(number: u8) -> Self {
        Self(number)
    }

    /// Returns the number of the subnet.
    pub(super) const fn as_number(self) -> u8 {
        self.0
    }

    /// Returns the number of the next subnet; `None` after number 255.
    pub(super) fn next(self) -> Option<u8> {
        self.0.checked_add(1)
    }

    /// Returns whether the address is an IPv4 address in this subnet.
    pub(super) fn holds(self, address: &IpAddr) -> bool {
        matches!(address, IpAddr::V4(v4) if v4.octets()[..3] == self.network().octets()[..3])
    }

    /// Returns the name of the link that leads to this subnet.
    pub(super) fn link(self) -> String {
        format!("slip{}", self.0)
    }

    /// Returns the network address.
    pub(super) fn network(self) -> Ipv4Addr {
        self.v4(0)
    }

    pub(super) fn v4(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(100, 64, self.0, host)
    }

    /// Returns the subnet's IPv6 address with host number `host`; the global id of the network
    /// spells `slip`.
    pub(super) fn v6(self, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd73, 0x6c69, 0x7000, self.0.into(), 0, 0, 0, host)
    }

    /// Returns the addresses: the gateway has host number 1, the command has 2. `v6` is `None` if
    /// there is no IPv6; otherwise it says whether the gateway forwards beyond this link.
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
    /// Returns each address of the command with its prefix length.
    pub(super) fn own(&self) -> impl Iterator<Item = (IpAddr, u8)> + use<> {
        let v6 = self.v6.map(|v6| (IpAddr::V6(v6.own), PREFIX_V6));
        [(IpAddr::V4(self.own), PREFIX_V4)].into_iter().chain(v6)
    }

    /// Returns the gateways for default routes: that of IPv4, and that of IPv6 if it forwards
    /// beyond this link.
    pub(super) fn gateways(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let v6 = self.v6.filter(|v6| v6.reaches_beyond).map(|v6| IpAddr::V6(v6.gateway));
        [IpAddr::V4(self.gateway)].into_iter().chain(v6)
    }
}
