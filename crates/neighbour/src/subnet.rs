//! An address of an interface, and its subnet.

use core::net::IpAddr;

/// An address of an interface, and the prefix length of its subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    prefix_len: u8,
}

/// Why an address and a prefix length do not form a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// The prefix length is greater than the length of the address.
    #[error("{address} has no prefix of {prefix_len} bits")]
    Prefix {
        /// The interface's address.
        address: IpAddr,
        /// The prefix length, which is too large.
        prefix_len: u8,
    },
    /// The address cannot belong to a host.
    #[error("{address} is no address of a host")]
    NoHost {
        /// The address, which is the unspecified, a broadcast or a multicast address.
        address: IpAddr,
    },
}

impl Subnet {
    /// Creates the subnet that contains `address` and has this prefix length.
    ///
    /// # Errors
    /// [`SubnetError::Prefix`] if the prefix is longer than the address; [`SubnetError::NoHost`] if
    /// `address` is the unspecified, a broadcast or a multicast address.
    pub fn new(address: IpAddr, prefix_len: u8) -> Result<Self, SubnetError> {
        let subnet = Self { address, prefix_len };
        if u32::from(prefix_len) > width(address) {
            return Err(SubnetError::Prefix { address, prefix_len });
        }
        let names_no_host = address.is_unspecified() || address.is_multicast();
        if names_no_host || subnet.is_broadcast(address) {
            return Err(SubnetError::NoHost { address });
        }
        Ok(subnet)
    }

    /// The interface's address in the subnet.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns whether an address is in the subnet.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let hosts = width(self.address) - u32::from(self.prefix_len);
        let same_kind = self.address.is_ipv4() == address.is_ipv4();
        let differing = bits(self.address) ^ bits(address);
        same_kind && differing.checked_shr(hosts).unwrap_or(0) == 0
    }

    /// Returns whether `address` is the IPv4 broadcast address of the subnet. Its host bits are all
    /// ones or, as in old systems, all zeros.
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

/// Returns whether `address` is a link-local, loopback or unspecified address. Routers never
/// forward packets to such an address.
#[must_use]
pub fn is_link_scope(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_link_local() || address.is_loopback() || address.is_unspecified()
        }
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.is_loopback() || address.is_unspecified()
        }
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
