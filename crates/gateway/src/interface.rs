//! The addresses of the router at one port, and the next hops from there.

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
    /// The MAC address cannot belong to an interface.
    #[error("{mac} is no address of an interface")]
    Mac {
        /// The hardware address.
        mac: MacAddr,
    },
    /// The interface has no subnet.
    #[error("it has no address")]
    NoSubnet,
    /// A gateway that is not directly reachable.
    #[error("the gateway {gateway} is in none of its subnets, or is itself")]
    Gateway {
        /// The gateway.
        gateway: IpAddr,
    },
}

impl RouterInterface {
    /// Makes an interface with the address `mac` and these subnets. Packets to other destinations
    /// go to the gateway of their address family, if there is one.
    ///
    /// # Errors
    /// [`RouterInterfaceError`] if the addresses are not valid for an interface.
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

    /// The interface's MAC address.
    #[must_use]
    pub const fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The subnets around its addresses.
    #[must_use]
    pub fn subnets(&self) -> &[Subnet] {
        &self.subnets
    }

    /// An address of one interface that is in a subnet of the other. Such an address would
    /// be ambiguous.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Option<IpAddr> {
        let foreign = |side: &Self, subnets: &[Subnet]| {
            let mut addresses = subnets.iter().map(Subnet::address);
            addresses.find(|address| side.contains(*address) && !is_link_scope(*address))
        };
        foreign(self, &other.subnets).or_else(|| foreign(other, &self.subnets))
    }

    /// Whether a host with this address is on the interface's link.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address))
    }

    /// Whether an address is the router's.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.address() == address)
    }

    /// Whether an address means all hosts of a subnet.
    #[must_use]
    pub fn is_broadcast(&self, address: IpAddr) -> bool {
        let everyone = address == IpAddr::V4(Ipv4Addr::BROADCAST) || address.is_multicast();
        everyone || self.subnets.iter().any(|subnet| subnet.is_broadcast(address))
    }

    /// The neighbour that frames for `address` go to, if there is a route.
    #[must_use]
    pub fn next_hop(&self, address: IpAddr) -> Option<IpAddr> {
        if self.contains(address) {
            return Some(address);
        }
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == address.is_ipv4())
    }

    /// The router's address towards a host: in the host's subnet, or else any of its family.
    #[must_use]
    pub fn address_towards(&self, host: IpAddr) -> Option<IpAddr> {
        let same_family = |subnet: &&Subnet| subnet.address().is_ipv4() == host.is_ipv4();
        let around = self.subnets.iter().find(|subnet| subnet.contains(host));
        around.or_else(|| self.subnets.iter().find(same_family)).map(Subnet::address)
    }
}
