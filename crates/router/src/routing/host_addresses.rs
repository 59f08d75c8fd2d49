//! Addresses of this machine, from the prefixes of its local routes.

use std::net::IpAddr;

/// Returns the addresses of those prefixes that consist of a single address.
pub(super) fn host_addresses(prefixes: &[(IpAddr, u8)]) -> Vec<IpAddr> {
    let is_host = |(address, len): &&(IpAddr, u8)| *len == if address.is_ipv4() { 32 } else { 128 };
    prefixes.iter().filter(is_host).map(|(address, _)| *address).collect()
}
