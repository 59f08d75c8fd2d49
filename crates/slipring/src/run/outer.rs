//! The state of the outer network namespace that matters for a link into it.
//!
//! It is read from netlink, `/proc` and `/etc/resolv.conf`. Nothing is changed.

use std::env;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use slipring_port::netlink::Netlink;

use super::addresses::LinkSubnet;

/// The environment variable that lists the subnet numbers of the links around a command: the link
/// of its run and, if runs are nested, the links of the outer runs.
const SUBNETS_VARIABLE: &str = "SLIPRING_SUBNETS";

/// The network namespace in which the user called `slipring run`.
#[derive(Debug)]
pub(super) struct OuterNamespace {
    /// Names of its interfaces.
    links: Vec<String>,
    /// Destinations of its IPv4 routes: network and mask.
    routes: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Numbers of the subnets of the links around this run, if it is nested in other runs. A name
    /// server may be behind any of these links.
    outer_subnets: Vec<u8>,
    /// Whether the namespace forwards IPv4 between its interfaces.
    pub(super) forwards_v4: bool,
    /// Whether the namespace forwards IPv6 between its interfaces.
    pub(super) forwards_v6: bool,
    /// Whether the namespace has a default route for IPv6.
    pub(super) reaches_v6: bool,
    /// The namespace's name servers.
    pub(super) resolvers: Resolvers,
}

/// The contents of `/etc/resolv.conf`, parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Resolvers {
    /// Addresses of name servers.
    pub(super) servers: Vec<IpAddr>,
    /// All lines that name no server, in their original form.
    pub(super) rest: String,
}

impl OuterNamespace {
    /// Reads the state of the current namespace.
    pub(super) fn read_current() -> io::Result<Self> {
        let links = Netlink::open()?.links()?.into_iter().map(|link| link.name).collect();
        let v6 = read("/proc/thread-self/net/ipv6_route");
        Ok(Self {
            links,
            routes: routes_in(&read("/proc/thread-self/net/route")),
            outer_subnets: numbers(&env::var(SUBNETS_VARIABLE).unwrap_or_default()),
            forwards_v4: is_on("/proc/sys/net/ipv4/ip_forward"),
            forwards_v6: is_on("/proc/sys/net/ipv6/conf/all/forwarding"),
            reaches_v6: v6.lines().any(is_default_v6),
            resolvers: Resolvers::parse(&read("/etc/resolv.conf")),
        })
    }

    /// Returns the first free subnet whose number is at least `first`. A subnet is free if neither
    /// the outer namespace nor a link around this run uses it, no name server is in it, and no
    /// interface has the name of its link.
    pub(super) fn free_subnet(&self, first: u8) -> Option<LinkSubnet> {
        (first..=u8::MAX).map(LinkSubnet::number).find(|subnet| {
            let taken = self.links.iter().any(|name| *name == subnet.link());
            let further_out = self.outer_subnets.contains(&subnet.as_number())
                || self.resolvers.servers.iter().any(|server| subnet.holds(server));
            !taken
                && !further_out
                && !self.routes.iter().any(|&route| is_route_into(route, subnet.network()))
        })
    }
}

impl OuterNamespace {
    /// Returns the environment variable that lists the links around a command, and its value for
    /// the command of a run whose link has the subnet `subnet`.
    pub(super) fn nested_variable(&self, subnet: LinkSubnet) -> (&'static str, String) {
        let own = subnet.as_number();
        let numbers: Vec<_> = self.outer_subnets.iter().chain([&own]).map(u8::to_string).collect();
        (SUBNETS_VARIABLE, numbers.join(","))
    }
}

impl Resolvers {
    pub(super) fn parse(text: &str) -> Self {
        let mut resolvers = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let server = match words.next() {
                Some("nameserver") => words.next().and_then(|word| word.parse().ok()),
                _ => None,
            };
            match server {
                Some(server) => resolvers.servers.push(server),
                None => resolvers.rest += &format!("{line}\n"),
            }
        }
        resolvers
    }

    /// Returns whether a name server answers only programs in the outer namespace. If none is
    /// configured, programs query the loopback address, which counts as such a server.
    pub(super) fn are_local(&self) -> bool {
        self.servers.is_empty() || self.servers.iter().any(IpAddr::is_loopback)
    }

    /// Returns the server that is queried first.
    pub(super) fn first(&self) -> IpAddr {
        self.servers.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Returns the text of the file with `server` as its only name server.
    pub(super) fn with_server(&self, server: IpAddr) -> String {
        format!("nameserver {server}\n{}", self.rest)
    }
}

/// Parses subnet numbers; words that are not numbers are skipped.
fn numbers(text: &str) -> Vec<u8> {
    text.split(',').filter_map(|word| word.parse().ok()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn is_on(path: &str) -> bool {
    // The IPv4 setting is 0 or 1; the IPv6 setting may also be 2, which means on as well.
    !matches!(read(path).trim(), "" | "0")
}

/// Parses the routes. Columns: Iface Destination Gateway Flags RefCnt Use Metric Mask …; addresses
/// are little-endian numbers.
fn routes_in(table: &str) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    let address = |text: &str| {
        let number = u32::from_str_radix(text, 16).ok()?;
        Some(Ipv4Addr::from(number.swap_bytes()))
    };
    let route = |line: &str| {
        let columns: Vec<_> = line.split_ascii_whitespace().collect();
        Some((address(columns.get(1)?)?, address(columns.get(7)?)?))
    };
    table.lines().skip(1).filter_map(route).collect()
}

/// Returns whether a route other than the default one leads to some of the 256 addresses of
/// `network`.
fn is_route_into((to, mask): (Ipv4Addr, Ipv4Addr), network: Ipv4Addr) -> bool {
    let shared = u32::from(mask) & 0xffff_ff00;
    u32::from(mask) != 0 && u32::from(to) & shared == u32::from(network) & shared
}

/// Returns whether the line is a default route. Columns: destination, its prefix length, source,
/// its prefix length, gateway, metric, references, uses, flags, interface. A default route of the
/// loopback interface means "unreachable", and does not count.
fn is_default_v6(line: &str) -> bool {
    let columns: Vec<_> = line.split_ascii_whitespace().collect();
    let column = |i: usize| columns.get(i).copied().unwrap_or_default();
    column(0).chars().all(|c| c == '0') && column(1) == "00" && !matches!(column(9), "lo" | "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
                          eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\n\
                          eth0\t00004064\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
                          vpn\t00024064\t00000000\t0001\t0\t0\t0\t00FEFFFF\t0\n";

    fn outer(routes: &str, links: &[&str]) -> OuterNamespace {
        OuterNamespace {
            links: links.iter().map(|name| (*name).to_owned()).collect(),
            routes: routes_in(routes),
            outer_subnets: Vec::new(),
            forwards_v4: true,
            forwards_v6: true,
            reaches_v6: false,
            resolvers: Resolvers::default(),
        }
    }

    #[test]
    fn a_subnet_is_free_when_no_route_leads_into_it_and_no_link_has_its_name() {
        assert_eq!(outer("", &[]).free_subnet(0), Some(LinkSubnet::number(0)));
        // 100.64.0.0/24 belongs to eth0, 100.64.2.0/23 to the VPN; the default route is ignored.
        assert_eq!(outer(ROUTES, &["slip1"]).free_subnet(0), Some(LinkSubnet::number(4)));
        assert_eq!(outer(ROUTES, &[]).free_subnet(0), Some(LinkSubnet::number(1)));
        assert_eq!(outer("", &["slip255"]).free_subnet(255), None);
    }

    #[test]
    fn a_subnet_of_a_link_further_out_or_with_a_name_server_is_not_free() {
        let around = |around: &str, servers: &str| {
            let resolvers = Resolvers::parse(servers);
            OuterNamespace { outer_subnets: numbers(around), resolvers, ..outer("", &[]) }
        };
        let inside = around("0,1", "");
        assert_eq!(inside.free_subnet(0), Some(LinkSubnet::number(2)));
        assert_eq!(inside.nested_variable(LinkSubnet::number(2)).1, "0,1,2");
        assert_eq!(around("", "").nested_variable(LinkSubnet::number(0)).1, "0");
        let asks = around("", "nameserver 100.64.0.3\nnameserver fd00::1\n");
        assert_eq!(asks.free_subnet(0), Some(LinkSubnet::number(1)));
        assert_eq!(around("x,300,,1", "").outer_subnets, [1], "what is no number was not ours");
    }

    #[test]
    fn a_resolver_on_loopback_is_local_and_is_replaced() {
        let parsed = Resolvers::parse("search lan\nnameserver 127.0.0.53\noptions edns0\n");
        assert!(parsed.are_local() && Resolvers::default().are_local());
        assert!(!Resolvers::parse("nameserver 9.9.9.9\n").are_local());
        let text = parsed.with_server(Ipv4Addr::new(100, 64, 0, 1).into());
        assert_eq!(text, "nameserver 100.64.0.1\nsearch lan\noptions edns0\n");
    }

    #[test]
    fn only_a_real_default_route_leads_out() {
        let zeros = "0".repeat(32);
        let line = |to: &str, dev: &str| {
            format!("{zeros} {to} {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200 {dev}")
        };
        assert!(is_default_v6(&line("00", "eth0")));
        assert!(!is_default_v6(&line("00", "lo")) && !is_default_v6(&line("40", "eth0")));
    }
}
