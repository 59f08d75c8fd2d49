//! Executes commands: reads the tables of the routing thread, and asks the kernel to change its
//! tables.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustix::io::Errno;
use slipring_fib::{RouteEntry, VrfIndex};
use slipring_privileged::{HelperRequest, PrivilegedHelper};
use slipring_rtnetlink::{NudState, RouteFamily, RouteKind, TABLE_LOCAL, TABLE_MAIN};

use super::columns;
use super::command::CompatCommand;
use super::kernel_counters::KernelCounters;
use crate::pages::{self, PAGE, RoutePlace};
use crate::router_figures::RouterFigures;
use crate::routing::{Routing, RoutingHandle};

/// Each counter of `status`, with the kernel's counters whose sum it is. A counter with an empty
/// list does not exist here, and is shown as `-`.
const STATUS: [(&str, &[&str]); 20] = [
    ("arp_whohas", &[]),
    ("arp_reply_sent", &[]),
    ("arp_reply", &[]),
    ("arp_request", &[]),
    ("arp_drop", &[]),
    ("icmp_badaddr", &[]),
    ("icmp_echo", &["Icmp.InEchos"]),
    ("icmp_error", &["Icmp.OutDestUnreachs", "Icmp.OutTimeExcds", "Icmp.OutParmProbs"]),
    ("icmp_drop", &["Icmp.InErrors"]),
    ("icmp_old", &[]),
    ("icmp_reply", &["Icmp.OutEchoReps"]),
    ("icmp_unknown", &[]),
    ("ip_icmp", &["Icmp.InMsgs"]),
    ("ip_drop", &["Ip.InHdrErrors", "Ip.InAddrErrors", "Ip.InDiscards", "Ip.OutNoRoutes"]),
    ("ip_fwd", &["Ip.ForwDatagrams"]),
    ("rx_arp", &[]),
    ("rx_ip", &["Ip.InReceives"]),
    ("rx_drop", &[]),
    ("tx_drop", &["Ip.OutDiscards"]),
    ("tx_pkts", &["Ip.OutRequests", "Ip.ForwDatagrams"]),
];
/// Counters that also include the packets that the router has forwarded in place of the kernel.
const FORWARDED: [&str; 3] = ["ip_fwd", "rx_ip", "tx_pkts"];

const HELP: &str = "\
arp - show neighbours; arp -d HOST, arp -d -a remove them
route - show and change routes; see help route
ifconfig - show the interfaces
status - show counters
cli - show the number of clients
quit - end this connection
shutdown - end the router
";
const ROUTE_HELP: &str = "\
route [show]
route get DESTINATION
route add NETWORK/LENGTH GATEWAY
route delete NETWORK/LENGTH [GATEWAY]
";

/// The router's parts that commands use.
pub(crate) struct CompatAnswers {
    pub(crate) routing: RoutingHandle,
    /// The helper that changes routes and neighbours; `None` if it could not be started.
    pub(crate) helper: Option<Arc<PrivilegedHelper>>,
    counters: Option<KernelCounters>,
}

impl CompatAnswers {
    pub(crate) fn new(routing: RoutingHandle, helper: Option<Arc<PrivilegedHelper>>) -> Self {
        Self { routing, helper, counters: KernelCounters::open().ok() }
    }

    /// Writes the answer to a command. `clients` is the number of clients.
    ///
    /// # Errors
    /// If the answer cannot be written.
    pub(crate) fn answer(
        &self,
        command: CompatCommand,
        clients: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let text = match command {
            CompatCommand::Routes => {
                out.write_all(columns::ROUTES_HEAD.as_bytes())?;
                return self.pages(out, route_page);
            }
            CompatCommand::Neighbours => {
                out.write_all(self.ask(own_neighbours).as_bytes())?;
                return self.pages(out, neighbour_page);
            }
            CompatCommand::RouteGet(address, len) => self.ask(move |routing| {
                let found = found_route(routing, address, len);
                found.unwrap_or_else(|| "route has not been found\n".to_owned())
            }),
            CompatCommand::RouteAdd(prefix, gateway) => self.add(prefix, gateway),
            CompatCommand::RouteDelete(prefix, gateway) => self.delete(prefix, gateway),
            CompatCommand::NeighbourDelete(address) => self.delete_neighbours(address),
            CompatCommand::Ifconfig => self.ask(interfaces),
            CompatCommand::Status => self.status(),
            CompatCommand::Clients => format!("cli clients: {clients}\n"),
            CompatCommand::Help => HELP.to_owned(),
            CompatCommand::RouteHelp => ROUTE_HELP.to_owned(),
            CompatCommand::Quit | CompatCommand::Shutdown => String::new(),
        };
        out.write_all(text.as_bytes())
    }

    /// Returns the routing thread's answer; an empty answer if the thread has ended.
    fn ask<T: Default + Send + 'static>(
        &self,
        question: impl FnOnce(&mut Routing) -> T + Send + 'static,
    ) -> T {
        self.routing.ask(question).unwrap_or_default()
    }

    /// Writes a list page by page. `page` returns the text of the page after a place, and the place
    /// at which the next page begins.
    fn pages<P: Copy + Send + 'static>(
        &self,
        out: &mut impl Write,
        page: fn(&Routing, Option<P>) -> (String, Option<P>),
    ) -> io::Result<()> {
        let mut place = None;
        loop {
            let (text, next) =
                self.routing.ask(move |routing| page(routing, place)).unwrap_or_default();
            out.write_all(text.as_bytes())?;
            if next.is_none() {
                return Ok(());
            }
            place = next;
        }
    }

    fn add(&self, prefix: (Ipv4Addr, u8), gateway: Ipv4Addr) -> String {
        let Some(ifindex) = self.ask(move |routing| link_of(routing, gateway)) else {
            return "Network is unreachable\n".to_owned();
        };
        let (destination, prefix_len) = prefix;
        let request = HelperRequest::AddRoute { ifindex, destination, prefix_len, gateway };
        let by_hand = format!("ip route add {destination}/{prefix_len} via {gateway}");
        self.change(&request, "cannot add route", &by_hand)
    }

    fn delete(&self, prefix: (Ipv4Addr, u8), gateway: Option<Ipv4Addr>) -> String {
        let found = self.ask(move |routing| exact_route(routing, prefix));
        let lead = found.as_ref().and_then(|route| {
            let meant = |via: Option<IpAddr>| gateway.is_none_or(|it| via == Some(it.into()));
            route.leads.iter().find(|lead| meant(lead.gateway))
        });
        let (Some(route), Some(lead)) = (&found, lead) else {
            return "route has not been found\n".to_owned();
        };
        if !columns::is_static(route) {
            return "cannot remove non static route\n".to_owned();
        }
        let gateway = match lead.gateway {
            Some(IpAddr::V4(gateway)) => gateway,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let (ifindex, (destination, prefix_len)) = (lead.ifindex, prefix);
        let request = HelperRequest::RemoveRoute { ifindex, destination, prefix_len, gateway };
        let by_hand = format!("ip route delete {destination}/{prefix_len}");
        self.change(&request, "route could not be deleted", &by_hand)
    }

    /// Asks the kernel to change a table; returns the message for the client, which is empty if the
    /// table was changed.
    fn change(&self, request: &HelperRequest, failure: &str, by_hand: &str) -> String {
        let Some(helper) = &self.helper else {
            return format!("{failure}: there is no helper; use {by_hand}\n");
        };
        match helper.request(request, None) {
            Ok(_) => String::new(),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
                format!("{failure}: its interface is not the router's; use {by_hand}\n")
            }
            Err(error) => format!("{failure}: {error}\n"),
        }
    }

    fn delete_neighbours(&self, only: Option<Ipv4Addr>) -> String {
        let found = self.ask(move |routing| neighbours_to_delete(routing, only));
        let mut text = String::new();
        for &(ifindex, address) in &found {
            let request = HelperRequest::RemoveNeighbour { ifindex, address };
            let failure = format!("cannot remove {address}");
            let told = self.change(&request, &failure, &format!("ip neigh flush to {address}"));
            text +=
                &if told.is_empty() { format!("{address} ({address}) deleted\n") } else { told };
        }
        match only {
            Some(address) if found.is_empty() => format!("cannot locate {address}\n"),
            _ => text,
        }
    }

    fn status(&self) -> String {
        let figures = RouterFigures::ask(&self.routing);
        let figures = figures.iter().flat_map(|figures| &figures.interfaces);
        let forwarded: u64 = figures.map(|of| of.forwarded.packets).sum();
        let line = |&(name, parts): &(&str, &[&str])| {
            let kernel = self.counters.as_ref().filter(|_| !parts.is_empty());
            let more = if FORWARDED.contains(&name) { forwarded } else { 0 };
            columns::counter(name, kernel.and_then(|it| it.sum(parts)).map(|sum| sum + more))
        };
        STATUS.iter().map(line).collect()
    }
}

/// The router's interfaces, as `ifconfig` shows them.
pub(crate) fn interfaces(routing: &mut Routing) -> String {
    let ours = ifindexes(routing);
    let shown = routing.mirror.interfaces().filter(|of| ours.contains(&of.ifindex));
    shown.map(|of| columns::interface(&of)).collect()
}

fn ifindexes(routing: &Routing) -> Vec<u32> {
    routing.engine.interfaces().iter().map(|of| of.iface.index).collect()
}

fn names(routing: &Routing) -> impl Fn(u32) -> String + use<> {
    let names: Vec<_> = routing.mirror.interfaces().map(|of| (of.ifindex, of.name)).collect();
    move |ifindex| {
        let found = names.iter().find(|(index, _)| *index == ifindex);
        found.map_or_else(|| format!("if{ifindex}"), |(_, name)| name.clone())
    }
}

/// Returns a page of the main table and the router's own addresses.
fn route_page(routing: &Routing, after: Option<RoutePlace>) -> (String, Option<RoutePlace>) {
    let (ours, name) = (ifindexes(routing), names(routing));
    let (page, next) = pages::routes(&routing.mirror, RouteFamily::V4, after);
    let is_own = |route: &RouteEntry| {
        let lead = route.leads.first();
        let is_local = route.table == TABLE_LOCAL && route.kind == RouteKind::Local;
        is_local && lead.is_some_and(|lead| ours.contains(&lead.ifindex))
    };
    let shown = page.iter().filter(|route| route.table == TABLE_MAIN || is_own(route));
    (shown.map(|route| columns::route_lines(route, &name)).collect(), next)
}

/// Returns the router's own addresses as neighbours.
fn own_neighbours(routing: &mut Routing) -> String {
    let (ours, mut text) = (ifindexes(routing), String::new());
    for of in routing.mirror.interfaces().filter(|of| ours.contains(&of.ifindex)) {
        for (address, _) in of.addresses.iter().filter(|(address, _)| address.is_ipv4()) {
            let state = NudState(NudState::PERMANENT);
            let _ = text.write_str(&columns::neighbour(*address, Some(of.mac), &of.name, state));
        }
    }
    text
}

/// An address on an interface. It marks the end of a page of neighbours.
type NeighbourPlace = (IpAddr, u32);

fn neighbour_page(
    routing: &Routing,
    after: Option<NeighbourPlace>,
) -> (String, Option<NeighbourPlace>) {
    let (ours, name) = (ifindexes(routing), names(routing));
    let page: Vec<_> = routing.mirror.neighbours_after(after).take(PAGE).collect();
    let shown = page.iter().filter(|of| of.address.is_ipv4() && ours.contains(&of.ifindex));
    let line = |of: &slipring_fib::NeighbourInfo| {
        columns::neighbour(of.address, of.mac, &name(of.ifindex), of.state)
    };
    let last = page.last().filter(|_| page.len() == PAGE);
    (shown.map(line).collect(), last.map(|of| (of.address, of.ifindex)))
}

fn found_route(routing: &Routing, address: Ipv4Addr, len: Option<u8>) -> Option<String> {
    let route = match len {
        Some(len) => exact_route(routing, (address, len))?,
        None => routing.mirror.route_get(VrfIndex(0), address.into())?.route?,
    };
    Some(columns::route_found(address, &route, names(routing)))
}

/// The route of a prefix in the main table.
fn exact_route(routing: &Routing, (address, len): (Ipv4Addr, u8)) -> Option<RouteEntry> {
    routing.mirror.route_for(TABLE_MAIN, (address.into(), len))
}

/// The interface on whose link a gateway is; `None` if there is no unicast route to the gateway, or
/// only one through another gateway.
fn link_of(routing: &mut Routing, gateway: Ipv4Addr) -> Option<u32> {
    let route = routing.mirror.route_get(VrfIndex(0), gateway.into())?.route?;
    let lead = route.leads.first().filter(|lead| lead.gateway.is_none())?;
    (route.kind == RouteKind::Unicast).then_some(lead.ifindex)
}

fn neighbours_to_delete(routing: &Routing, only: Option<Ipv4Addr>) -> Vec<(u32, Ipv4Addr)> {
    let ours = ifindexes(routing);
    // No interface has index 0, so the page after this place starts with the address itself.
    let from = only.map(|address| (address.into(), 0));
    let neighbours = routing.mirror.neighbours_after(from).map_while(|of| match of.address {
        IpAddr::V4(address) => Some((of.ifindex, address)),
        IpAddr::V6(_) => None,
    });
    let meant = neighbours.take_while(|of| only.is_none_or(|address| of.1 == address));
    meant.filter(|of| ours.contains(&of.0)).collect()
}
