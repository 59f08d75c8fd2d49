//! The options of an engine.

use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_fib::ReversePathMode;
use slipring_neighbour::icmp::{IcmpLimits, QuoteLength};

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// Seed of the hash by which a flow chooses among several next hops.
    pub seed: u64,
    /// Limits on the rate of ICMP errors.
    pub icmp_limits: IcmpLimits,
    /// How much of an IPv4 packet an ICMP error quotes.
    pub quote: QuoteLength,
    /// Whether ICMP and ICMPv6 redirects are sent (RFC 1812, 5.2.7.2; RFC 4861, 8.2).
    pub sends_redirects: bool,
    /// Whether the IPv6 flow label is part of the hash that chooses among several next hops (RFC
    /// 6438).
    pub uses_flow_label: bool,
    /// Whether the routes of the router's ICMP errors and redirects are looked up in the tables of
    /// the first VRF, as Linux does unless a VRF device is involved. Otherwise they are looked up
    /// in the tables of the port at which the answered packet arrived.
    pub answers_in_first_vrf: bool,
    /// Whether unicast frames for MAC addresses that are not the router's go to the kernel, which
    /// may have further devices on the interface (macvlan). Otherwise they are dropped.
    pub punts_other_macs: bool,
    /// Further addresses of the router, which belong to none of its ports, such as those of the
    /// loopback interface. Packets from outside with such a source are dropped.
    pub own_addresses: Vec<IpAddr>,
}

impl Default for RouteConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            icmp_limits: IcmpLimits::default(),
            quote: QuoteLength::Full,
            sends_redirects: false,
            uses_flow_label: false,
            answers_in_first_vrf: false,
            punts_other_macs: false,
            own_addresses: Vec::new(),
        }
    }
}

/// Options of a port.
#[derive(Clone, Debug, Default)]
pub struct PortPolicy {
    /// How the sources of packets from the port are checked, for both families. The tables' setting
    /// ([`FibPort::reverse_path`](slipring_fib::FibPort::reverse_path),
    /// [`FibPort::reverse_path_v6`](slipring_fib::FibPort::reverse_path_v6)) applies instead if it
    /// is stricter.
    pub reverse_path: ReversePathMode,
    /// The priority code points of tagged frames that leave by the port, indexed by the upper three
    /// bits of the DSCP (the class selector, RFC 2474).
    pub priorities: [u8; 8],
    /// Whether IPv4 redirects about packets from the port are suppressed
    /// (`net.ipv4.conf.IF.send_redirects` is 0), even with [`RouteConfig::sends_redirects`].
    pub withholds_v4_redirects: bool,
}

/// A token bucket, and what happens to packets within and beyond its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicerSpec {
    /// Rate in bits per second of whole frames without CRC.
    pub bps: u64,
    /// Burst in bytes, at least 1.
    pub burst_bytes: u64,
    /// The new DSCP of packets within the rate; `None` leaves it unchanged.
    pub conform_dscp: Option<u8>,
    /// What happens to packets beyond the rate.
    pub exceed: ExceedAction,
}

/// What happens to packets beyond a policer's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceedAction {
    /// The packets are dropped.
    Drop,
    /// The packets get this DSCP.
    Remark(u8),
}
