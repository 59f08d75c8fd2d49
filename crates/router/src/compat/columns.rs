//! Formats output like netmap-fwd.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use slipring_fib::{InterfaceEntry, RouteEntry};
use slipring_rtnetlink::{LinkFlags, NudState, RouteKind};
use slipring_wire::mac::MacAddr;

use super::command::mask;

/// `RTPROT_BOOT` and `RTPROT_STATIC` of linux/rtnetlink.h: routes that a user or a script has
/// added.
const STATIC_PROTOCOLS: [u8; 2] = [3, 4];

/// A flag of Linux, netmap-fwd's number for it, and its name.
const INTERFACE_FLAGS: [(u32, u32, &str); 9] = [
    (1, 1, "UP"),
    (1 << 1, 1 << 1, "BROADCAST"),
    (1 << 3, 1 << 3, "LOOPBACK"),
    (1 << 4, 1 << 4, "POINTOPOINT"),
    (1 << 6, 1 << 6, "RUNNING"),
    (1 << 7, 1 << 7, "NOARP"),
    (1 << 8, 1 << 8, "PROMISC"),
    (1 << 9, 1 << 9, "ALLMULTI"),
    (1 << 12, 1 << 15, "MULTICAST"),
];
/// Ethernet devices do not receive their own frames. Linux has no flag for this, so all interfaces
/// except loopback get this one.
const SIMPLEX: (u32, &str) = (1 << 11, "SIMPLEX");

pub(crate) const ROUTES_HEAD: &str = "Routing tables\n\nInternet:\n\
    Destination        Gateway            Flags        Netif\n";

/// Whether a route was added by a user or a script.
pub(crate) fn is_static(route: &RouteEntry) -> bool {
    STATIC_PROTOCOLS.contains(&route.protocol)
}

/// The lines of a route: one for each next hop.
pub(crate) fn route_lines(route: &RouteEntry, name: impl Fn(u32) -> String) -> String {
    let (address, len) = route.prefix;
    let destination = if len == 32 { address.to_string() } else { format!("{address}/{len}") };
    let line = |gateway: Option<IpAddr>, netif: &str| {
        let gateway_text = gateway.map(|gateway| gateway.to_string()).unwrap_or_default();
        let flags: String = flags(route, gateway).iter().map(|flag| flag.0).collect();
        format!("{destination:<18} {gateway_text:<18} {flags:<12} {netif}\n")
    };
    match &route.leads[..] {
        [] => line(None, "-"),
        leads => leads.iter().map(|lead| line(lead.gateway, &name(lead.ifindex))).collect(),
    }
}

fn flags(route: &RouteEntry, gateway: Option<IpAddr>) -> Vec<(char, &'static str)> {
    let rejects = matches!(route.kind, RouteKind::Unreachable | RouteKind::Prohibit);
    let flags = [
        (true, ('U', "UP")),
        (gateway.is_some(), ('G', "GATEWAY")),
        (route.prefix.1 == 32, ('H', "HOST")),
        (is_static(route), ('S', "STATIC")),
        (route.kind == RouteKind::Blackhole, ('B', "BLACKHOLE")),
        (rejects, ('R', "REJECT")),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect()
}

/// The answer to `route get`.
pub(crate) fn route_found(
    to: Ipv4Addr,
    route: &RouteEntry,
    name: impl Fn(u32) -> String,
) -> String {
    let lead = route.leads.first();
    let gateway = lead.and_then(|lead| lead.gateway);
    let mut text = format!("   route to: {to}\ndestination: {}\n", route.prefix.0);
    if route.prefix.1 < 32 {
        let _ = writeln!(text, "       mask: {}", mask(route.prefix.1));
    }
    if let Some(gateway) = gateway {
        let _ = writeln!(text, "    gateway: {gateway}");
    }
    let interface = lead.map_or_else(|| "-".to_owned(), |lead| name(lead.ifindex));
    let names: Vec<_> = flags(route, gateway).into_iter().map(|flag| flag.1).collect();
    let _ = writeln!(text, "  interface: {interface}\n      flags: <{}>", names.join(","));
    text
}

/// Returns the description of an interface, as `ifconfig` and the listing at the start of the
/// program print it.
pub(crate) fn interface(entry: &InterfaceEntry) -> String {
    let mut flags: Vec<_> = INTERFACE_FLAGS
        .into_iter()
        .filter(|(linux, ..)| entry.flags.has(*linux))
        .map(|(_, number, name)| (number, name))
        .collect();
    if !entry.flags.has(LinkFlags::LOOPBACK) {
        flags.push(SIMPLEX);
    }
    flags.sort_unstable();
    let number: u32 = flags.iter().map(|flag| flag.0).sum();
    let names: Vec<_> = flags.iter().map(|flag| flag.1).collect();
    let mut text = format!(
        "{}: flags={number:x}<{}> metric 0 mtu {}\n\toptions=0<>\n\tether: {}\n",
        entry.name,
        names.join(","),
        entry.mtu,
        entry.mac
    );
    for (address, len) in &entry.addresses {
        let IpAddr::V4(address) = address else { continue };
        let mask = mask(*len);
        let broadcast = Ipv4Addr::from(address.to_bits() | !mask.to_bits());
        let _ = writeln!(text, "\tinet {address} netmask {mask} broadcast {broadcast}");
    }
    text
}

/// A line of `arp`. netmap-fwd counts down the seconds of an entry; the kernel's entries have a
/// state instead.
pub(crate) fn neighbour(
    address: IpAddr,
    mac: Option<MacAddr>,
    netif: &str,
    state: NudState,
) -> String {
    let known = mac.map_or_else(|| "(incomplete)".to_owned(), |mac| mac.to_string());
    let state = match state.0 {
        _ if mac.is_none() => "",
        NudState::PERMANENT | NudState::NO_ARP => " permanent",
        NudState::REACHABLE => " reachable",
        NudState::STALE => " stale",
        NudState::DELAY | NudState::PROBE => " probed",
        _ => " failed",
    };
    format!("? ({address}) at {known} on {netif}{state}\n")
}

/// Returns a line of `status`. `value` is `None` for a counter of netmap-fwd that this router does
/// not have.
pub(crate) fn counter(name: &str, value: Option<u64>) -> String {
    let label = format!("{name}:");
    let value = value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    format!("{label:<16} {value:>10}\n")
}

#[cfg(test)]
mod tests {
    use slipring_fib::RouteLead;

    use super::*;

    fn route(prefix: (&str, u8), gateway: Option<&str>, protocol: u8) -> RouteEntry {
        let gateway = gateway.map(|text| text.parse().unwrap());
        RouteEntry {
            table: 254,
            prefix: (prefix.0.parse().unwrap(), prefix.1),
            kind: RouteKind::Unicast,
            metric: 0,
            protocol,
            leads: vec![RouteLead { ifindex: 2, gateway, weight: 1 }],
            next_hop_id: None,
            mtu: 0,
            has_unknown: false,
        }
    }

    #[test]
    fn a_route_stands_in_four_columns() {
        let name = |_| "ncxl1".to_owned();
        assert_eq!(
            route_lines(&route(("10.0.0.0", 24), None, 2), name),
            "10.0.0.0/24                           U            ncxl1\n"
        );
        assert_eq!(
            route_lines(&route(("10.9.0.1", 32), Some("10.0.0.2"), 4), name),
            "10.9.0.1           10.0.0.2           UGHS         ncxl1\n"
        );
    }

    #[test]
    fn a_found_route_is_told_line_by_line() {
        let found = route(("10.9.0.0", 16), Some("10.0.0.2"), 4);
        assert_eq!(
            route_found([10, 9, 1, 1].into(), &found, |_| "ncxl1".to_owned()),
            "   route to: 10.9.1.1\ndestination: 10.9.0.0\n       mask: 255.255.0.0\n    \
             gateway: 10.0.0.2\n  interface: ncxl1\n      flags: <UP,GATEWAY,STATIC>\n"
        );
    }

    #[test]
    fn an_interface_reads_as_in_the_start_up_listing_of_netmap_fwd() {
        let entry = InterfaceEntry {
            ifindex: 2,
            name: "ncxl0".into(),
            flags: LinkFlags(0x11043),
            mtu: 1500,
            mac: MacAddr([0, 7, 0x43, 0x2e, 0x32, 0xf1]),
            master: None,
            addresses: vec![([10, 0, 10, 1].into(), 24), ([10, 0, 10, 2].into(), 32)],
        };
        assert_eq!(
            interface(&entry),
            "ncxl0: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500\n\
             \toptions=0<>\n\tether: 00:07:43:2e:32:f1\n\
             \tinet 10.0.10.1 netmask 255.255.255.0 broadcast 10.0.10.255\n\
             \tinet 10.0.10.2 netmask 255.255.255.255 broadcast 10.0.10.2\n"
        );
    }

    #[test]
    fn neighbours_read_as_those_of_netmap_fwd() {
        let (address, mac) = (IpAddr::from([10, 0, 0, 1]), MacAddr([0, 7, 0x43, 0x2e, 0x32, 0xf9]));
        assert_eq!(
            neighbour(address, Some(mac), "ncxl1", NudState(NudState::PERMANENT)),
            "? (10.0.0.1) at 00:07:43:2e:32:f9 on ncxl1 permanent\n"
        );
        assert_eq!(
            neighbour(address, None, "ncxl1", NudState(NudState::INCOMPLETE)),
            "? (10.0.0.1) at (incomplete) on ncxl1\n"
        );
    }

    /// Our counters have 64 bits. netmap-fwd's have 32: at 5 Mpps they wrap in 14 minutes.
    #[test]
    fn counters_have_64_bits() {
        assert_eq!(counter("ip_fwd", Some(5_000_000_000)), "ip_fwd:          5000000000\n");
        assert_eq!(counter("rx_arp", None), "rx_arp:                   -\n");
    }
}
