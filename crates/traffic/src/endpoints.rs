//! Sets of (address, port) pairs, and the notations in which users write them.
//!
//! ```text
//!   10.0.0.1                        one address, port 1234
//!   10.0.0.1:1000-10.0.0.9:2000     addresses times ports
//!   10.0.0.0/24:80                  all addresses of a prefix
//!   [fd00::/120]:80-99              the same for IPv6, times ports
//!   [fd00::1]:1000-[fd00::ff]:2000  IPv6
//!   3@[2001:db8::1]-[2001:db8:0:9::1]   counts up only 16-bit group 3
//!   10.0.0.1:80,10.0.7.7:443        a list of any of these
//! ```
//!
//! # Invariants
//! 1. There is at least one block, and the addresses of all blocks have the same IP version.
//! 2. In each block, `first + last_index * step` is a valid address, and `first_port <= last_port`.

mod cursor;
mod parse;

use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_wire::view::IpVersion;

pub(crate) use cursor::{EndpointCursor, TrafficEndpoint};
pub use parse::{EndpointError, EndpointFault};

/// A set of (address, port) pairs in a fixed order. The port counts up first, then the address,
/// then the item of the list.
///
/// ```
/// let web: slipring_traffic::Endpoints = "10.0.0.0/24:80,10.1.0.1:8000-8009".parse()?;
/// assert_eq!(web.count(), 256 + 10);
/// # Ok::<(), slipring_traffic::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    blocks: Vec<EndpointBlock>,
    family: IpVersion,
}

/// Addresses at equal distances, each with the same consecutive ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EndpointBlock {
    first: u128,
    step: u128,
    last_index: u128,
    first_port: u16,
    last_port: u16,
}

impl Endpoints {
    /// The port of an endpoint that the user gives without a port.
    pub const DEFAULT_PORT: u16 = 1234;

    /// Creates a set with one pair: this address and port.
    #[must_use]
    pub fn one(address: IpAddr, port: u16) -> Self {
        let (family, first) = match address {
            IpAddr::V4(v4) => (IpVersion::V4, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (IpVersion::V6, v6.to_bits()),
        };
        let block =
            EndpointBlock { first, step: 1, last_index: 0, first_port: port, last_port: port };
        Self { blocks: Vec::from([block]), family }
    }

    /// Returns the IP version of all addresses.
    #[must_use]
    pub fn family(&self) -> IpVersion {
        self.family
    }

    /// Returns the number of pairs, or `u128::MAX` if it is larger.
    #[must_use]
    pub fn count(&self) -> u128 {
        let counts = self.blocks.iter().map(EndpointBlock::count);
        counts.fold(0, u128::saturating_add)
    }

    /// Returns the set from which random endpoints are drawn. If the set has more than one pair, it
    /// is used unchanged. A single IPv4 pair becomes all ports of all IPv4 addresses. A single IPv6
    /// pair becomes all ports of all addresses with the same first 64 bits.
    #[must_use]
    pub fn widened(self) -> Self {
        if self.count() > 1 {
            return self;
        }
        let host_bits: u128 = match self.family {
            IpVersion::V4 => u128::from(u32::MAX),
            IpVersion::V6 => u128::from(u64::MAX),
        };
        let block = EndpointBlock {
            first: self.blocks[0].first & !host_bits,
            step: 1,
            last_index: host_bits,
            first_port: 0,
            last_port: u16::MAX,
        };
        Self { blocks: Vec::from([block]), ..self }
    }
}

impl EndpointBlock {
    fn count(&self) -> u128 {
        let addresses = self.last_index.saturating_add(1);
        addresses.saturating_mul(self.ports())
    }

    fn ports(&self) -> u128 {
        u128::from(self.last_port - self.first_port) + 1
    }

    #[cfg(test)]
    fn address(&self, index: u128) -> u128 {
        self.first + index * self.step
    }
}
