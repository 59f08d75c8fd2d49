//! The router's addresses at one port, and the next hops of packets that leave by this port.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use slipring_neighbour::{Subnet, SubnetError, is_link_scope};
use slipring_wire::MacAddr;

/// The router's interface at one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterInterface {
    mac: MacAddr,
    subnets: Vec<Subnet>,
    gateways: Vec<IpAddr>,
}

/// Why an interface was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouterInterfaceError {
    /// An address and its prefix length do not form a subnet.
    #[error(transparent)]
    Subnet(#[from] SubnetError),
    /// The MAC address cannot belong to an interface, because it is a group address or zero.
    #[error("{mac} is no address of an interface")]
    Mac {
        /// The MAC address.
        mac: MacAddr,
    },
    /// The interface has no subnet.
    #[error("it has no address")]
    NoSubnet,
    /// A gateway is in none of the interface's subnets, or its address is the router's own or a
    /// broadcast address.
    #[error("the gateway {gateway} is in none of its subnets, or is itself")]
    Gateway {
        /// The address of the rejected gateway.
        gateway: IpAddr,
    },
}

impl RouterInterface {
    /// Makes an interface with the MAC address `mac` in these subnets. Packets to other
    /// destinations go to the gateway of their address family, if there is one.
    ///
    /// # Errors
    /// [`RouterInterfaceError`] if `mac`, a subnet or a gateway is not valid for an interface.
    pub fn new(
        mac: MacAddr,
        subnets: Vec<Subnet>,
        gateways: Vec<IpAddr>,
    ) -> Result<Self, RouterInterfaceError> {
        if mac.is_multicast() || mac == MacAddr::ZERO {
            return Err(RouterInterfaceError::Mac { mac });
        }
        if subnets.is_empty() {
            return Err(RouterInterfaceError::NoSubnet);
        }
        let side = Self { mac, subnets, gateways };
        let lost = |gateway: &&IpAddr| {
            !side.contains(**gateway) || side.is_own(**gateway) || side.is_broadcast(**gateway)
        };
        match side.gateways.iter().find(lost) {
            Some(&gateway) => Err(RouterInterfaceError::Gateway { gateway }),
            None => Ok(side),
        }
    }

    /// Returns the interface's MAC address.
    #[must_use]
    pub const fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Returns the interface's addresses, each with its subnet.
    #[must_use]
    pub fn subnets(&self) -> &[Subnet] {
        &self.subnets
    }

    /// Returns an address, other than a link-local one, that is on one of the two interfaces and
    /// also in a subnet of the other one; `None` if there is no such address. The router could not
    /// decide which of its ports leads to this address.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Option<IpAddr> {
        let foreign = |side: &Self, subnets: &[Subnet]| {
            let mut addresses = subnets.iter().map(Subnet::address);
            addresses.find(|address| side.contains(*address) && !is_link_scope(*address))
        };
        foreign(self, &other.subnets).or_else(|| foreign(other, &self.subnets))
    }

    /// Returns whether `address` is in one of the interface's subnets.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address))
    }

    /// Returns whether `address` is the router's own address on this interface.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.address() == address)
    }

    /// Returns whether `address` is a broadcast or multicast address.
    #[must_use]
    pub fn is_broadcast(&self, address: IpAddr) -> bool {
        let everyone = address == IpAddr::V4(Ipv4Addr::BROADCAST) || address.is_multicast();
        everyone || self.subnets.iter().any(|subnet| subnet.is_broadcast(address))
    }

    /// Returns the next hop for packets to `address`. This is `address` itself if it is in one of
    /// the subnets, and otherwise the gateway of its address family. Returns `None` if there is no
    /// gateway.
    #[must_use]
    pub fn next_hop(&self, address: IpAddr) -> Option<IpAddr> {
        if self.contains(address) {
            return Some(address);
        }
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == address.is_ipv4())
    }

    /// Returns the source address that the router uses for packets to `host`: its address in the
    /// subnet of `host`, or otherwise any address of the same family.
    #[must_use]
    pub fn address_towards(&self, host: IpAddr) -> Option<IpAddr> {
        let same_family = |subnet: &&Subnet| subnet.address().is_ipv4() == host.is_ipv4();
        let around = self.subnets.iter().find(|subnet| subnet.contains(host));
        around.or_else(|| self.subnets.iter().find(same_family)).map(Subnet::address)
    }
}
