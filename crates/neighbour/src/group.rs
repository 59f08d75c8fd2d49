//! Group addresses: their MAC addresses (RFC 1112, 6.4; RFC 2464, 7), and the solicited-node group
//! of an IPv6 address (RFC 4291, 2.7.1).

use core::net::{IpAddr, Ipv6Addr};

use slipring_wire::MacAddr;

/// The group of all nodes on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Returns the MAC address of a multicast group or of the limited broadcast address; `None` for
/// other addresses.
///
/// ```
/// use slipring_neighbour::group;
/// use slipring_wire::MacAddr;
///
/// let mac = group::mac("224.129.2.3".parse().unwrap());
/// assert_eq!(mac, Some(MacAddr([0x01, 0x00, 0x5e, 0x01, 0x02, 0x03])));
/// ```
#[must_use]
pub fn mac(address: IpAddr) -> Option<MacAddr> {
    match address {
        IpAddr::V4(v4) if v4.is_broadcast() => Some(MacAddr::BROADCAST),
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            Some(MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
        }
        IpAddr::V6(v6) if v6.is_multicast() => {
            let [.., a, b, c, d] = v6.octets();
            Some(MacAddr([0x33, 0x33, a, b, c, d]))
        }
        _ => None,
    }
}

/// Returns the solicited-node group of an address. Every node that has this address is a member.
#[must_use]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from_octets([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// Returns whether an address is a solicited-node group.
pub(crate) fn is_solicited_node(address: Ipv6Addr) -> bool {
    solicited_node(address) == address
}
