//! Texts that explain why the kernel gets packets that the router could forward.

use slipring_fib::{FibPortIndex, RouteEntry};
use slipring_rtnetlink::RouteKind;

use crate::names::{InterfaceNames, port_name};
use crate::routing::Routing;

/// Returns why packets of all queues, or of some, are left to the kernel at present; `None` if the
/// router forwards.
pub(crate) fn of_router(routing: &Routing) -> Option<String> {
    let reason = if !routing.has_current_tables() {
        "the tables are not complete"
    } else if !routing.has_heartbeat() {
        "a thread of the router is late"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// Lists interfaces for which packets are left to the kernel because their drivers do not send
/// redirected frames, or have not been probed yet. Only interfaces that are up and not left to the
/// kernel for another reason are listed.
pub(crate) fn of_silent(routing: &Routing) -> Vec<String> {
    let ports = 0..routing.engine.interfaces().len() as u16;
    let is_silent = |port: &FibPortIndex| of_interface(routing, *port).is_none();
    ports.map(FibPortIndex).filter(is_silent).filter_map(|port| of_egress(routing, port)).collect()
}

/// Returns why packets that arrive on an interface are left to the kernel.
pub(crate) fn of_ingress(routing: &Routing, port: FibPortIndex) -> Option<String> {
    let at = usize::from(port.0);
    let name = &routing.engine.interfaces()[at].iface.name;
    let is_ruled = routing.ruled[at];
    of_interface(routing, port)
        .or_else(|| is_ruled.then(|| format!("routing rules apply to packets from {name}")))
}

/// Returns why packets that would leave by an interface are left to the kernel.
pub(crate) fn of_egress(routing: &Routing, port: FibPortIndex) -> Option<String> {
    let of = routing.engine.interfaces().get(usize::from(port.0))?;
    of_interface(routing, port)
        .or_else(|| (!of.sends).then(|| format!("{} sends no redirected frames", of.iface.name)))
}

/// Why packets that arrive on other interfaces and would leave by this port are left to the kernel.
pub(crate) fn of_next_hop(routing: &Routing, port: FibPortIndex) -> Option<String> {
    // XDP programs do not write VLAN tags; workers do.
    let made = made_by_router(routing, port).filter(|_| routing.workers.is_empty());
    made.or_else(|| of_egress(routing, port))
}

/// Whether a port is a subinterface that the router has created.
pub(crate) fn is_own(routing: &Routing, port: FibPortIndex) -> bool {
    usize::from(port.0) >= routing.engine.interfaces().len()
}

/// Why the kernel gets packets for a subinterface that the router has created; `None` for an
/// interface of the kernel.
pub(crate) fn made_by_router(routing: &Routing, port: FibPortIndex) -> Option<String> {
    let name = port_name(routing, port).filter(|_| is_own(routing, port))?;
    Some(format!("the router makes {name}, and the kernel routes to its device"))
}

fn of_interface(routing: &Routing, port: FibPortIndex) -> Option<String> {
    let at = usize::from(port.0);
    let of = routing.engine.interfaces().get(at)?;
    let is_up = routing.tables().is_some_and(|tables| tables.ports[at].is_up);
    let what = match of {
        _ if routing.deleted[at] => "was deleted",
        _ if of.is_left => "is left to the kernel",
        _ if !is_up => "is down",
        _ => return None,
    };
    Some(format!("{} {what}", of.iface.name))
}

/// Returns why the packets of a route are left to the kernel.
pub(crate) fn of_route(routing: &Routing, route: Option<&RouteEntry>) -> String {
    let Some(route) = route else {
        return "such addresses are not forwarded".to_owned();
    };
    match route.kind {
        RouteKind::Local => "it is an address of this machine".to_owned(),
        RouteKind::Broadcast => "it is a broadcast address".to_owned(),
        RouteKind::Multicast => "it is a multicast address".to_owned(),
        _ if route.has_unknown => "the route has properties that the tables lack".to_owned(),
        _ => of_leads(routing, route)
            .unwrap_or_else(|| "the route is not in the tables, or they have no space".to_owned()),
    }
}

fn of_leads(routing: &Routing, route: &RouteEntry) -> Option<String> {
    let ports = || routing.engine.interfaces();
    let names = InterfaceNames::of(routing);
    route.leads.iter().find_map(|lead| {
        match ports().iter().position(|of| of.iface.index == lead.ifindex) {
            Some(at) => of_egress(routing, FibPortIndex(at as u16)),
            None => Some(format!("{} is not an interface of the router", names.get(lead.ifindex))),
        }
    })
}
