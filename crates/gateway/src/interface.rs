//! The addresses of the router at one port, and the next hops from there.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use slipring_wire::MacAddr;

/// An address of the router, and the prefix length of its subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    prefix_len: u8,
}

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
    /// The prefix is longer than an address.
    #[error("{address} has no prefix of {prefix_len} bits")]
    Prefix {
        /// The address.
        address: IpAddr,
        /// The prefix length.
        prefix_len: u8,
    },
    /// The address cannot belong to a host.
    #[error("{address} is no address of a host")]
    NoHost {
        /// The address.
        address: IpAddr,
    },
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

impl Subnet {
    /// Makes the subnet around an address.
    ///
    /// # Errors
    /// [`RouterInterfaceError::Prefix`], or [`RouterInterfaceError::NoHost`] for a broadcast or
    /// multicast address.
    pub fn new(address: IpAddr, prefix_len: u8) -> Result<Self, RouterInterfaceError> {
        let subnet = Self { address, prefix_len };
        if u32::from(prefix_len) > width(address) {
            return Err(RouterInterfaceError::Prefix { address, prefix_len });
        }
        let nobody = address.is_unspecified() || address.is_multicast();
        if nobody || subnet.is_broadcast(address) {
            return Err(RouterInterfaceError::NoHost { address });
        }
        Ok(subnet)
    }

    /// The router's address in the subnet.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether an address is in the subnet.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let hosts = width(self.address) - u32::from(self.prefix_len);
        let same_kind = self.address.is_ipv4() == address.is_ipv4();
        let differing = bits(self.address) ^ bits(address);
        same_kind && differing.checked_shr(hosts).unwrap_or(0) == 0
    }

    /// Whether `address` is the subnet's IPv4 broadcast address, or the old one with all zeros.
    #[must_use]
    pub fn is_broadcast(&self, address: IpAddr) -> bool {
        if !self.address.is_ipv4() || self.prefix_len >= 31 || !self.contains(address) {
            return false;
        }
        let hosts = u128::MAX >> (128 - (32 - u32::from(self.prefix_len)));
        let host = bits(address) & hosts;
        host == hosts || host == 0
    }
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

    /// Its MAC address.
    #[must_use]
    pub const fn mac(&self) -> MacAddr {
        self.mac
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

    /// Whether a host with this address would be a neighbour.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address))
    }

    /// Whether an address is the router's.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.address == address)
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

    /// The router's address in a neighbour's subnet.
    #[must_use]
    pub fn address_towards(&self, neighbour: IpAddr) -> Option<IpAddr> {
        let around = self.subnets.iter().find(|subnet| subnet.contains(neighbour));
        around.map(Subnet::address)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Whether routers never forward packets to this address: it is link-local, or the host itself.
pub(crate) fn is_link_scope(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_link_local() || address.is_loopback() || address.is_unspecified()
        }
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.is_loopback() || address.is_unspecified()
        }
    }
}
