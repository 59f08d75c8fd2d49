//! Translates the kernel's netlink notifications into events.

use serde_json::{Value, json};
use slipring_fib::Mirror;
use slipring_rtnetlink::{
    AddressMessage, Change, LinkFlags, LinkMessage, MessageBody, NeighbourMessage, NetlinkMessage,
    RouteHop, RouteMessage, TABLE_LOCAL, TABLE_MAIN,
};
use slipring_wire::mac::MacAddr;

use crate::kernel_words::{kind_name, state_name};

/// Returns the event that describes the change in a notification; `None` if such a change is not
/// reported as an event. `mirror` has already received the notification.
pub(crate) fn event_of(message: &NetlinkMessage<'_>, mirror: &Mirror) -> Option<Value> {
    let (kind, change, object) = match &message.body {
        MessageBody::Route(change, route) if !route.is_cached && route.table != TABLE_LOCAL => {
            ("route", change, route_value(route, mirror))
        }
        MessageBody::Neighbour(change, of) => ("neighbour", change, neighbour_value(of, mirror)),
        MessageBody::Link(change, link) => ("link", change, link_value(link)),
        MessageBody::Address(change, of) => ("address", change, address_value(of, mirror)),
        _ => return None,
    };
    let change = match change {
        Change::Deleted => "removed",
        _ => "set",
    };
    Some(json!({ "event": kind, "change": change, kind: object }))
}

fn dev(ifindex: u32, mirror: &Mirror) -> Option<String> {
    let known = || mirror.interface_name(ifindex).map(str::to_owned);
    (ifindex != 0).then(|| known().unwrap_or_else(|| format!("if{ifindex}")))
}

fn route_value(route: &RouteMessage<'_>, mirror: &Mirror) -> Value {
    let hop = |hop: RouteHop, is_one_of_several: bool| {
        json!({
            "via": hop.gateway,
            "dev": dev(hop.ifindex, mirror),
            "weight": is_one_of_several.then_some(hop.weight),
        })
    };
    let hops: Vec<_> = match route.multipath {
        Some(hops) => hops.map(|of| hop(of, true)).collect(),
        None if route.hop.ifindex == 0 => Vec::new(),
        None => vec![hop(route.hop, false)],
    };
    json!({
        "prefix": format!("{}/{}", route.destination, route.prefix_len),
        "table": (route.table != TABLE_MAIN).then_some(route.table),
        "kind": kind_name(route.kind),
        "metric": (route.metric != 0).then_some(route.metric),
        "nexthops": hops,
    })
}

fn neighbour_value(of: &NeighbourMessage, mirror: &Mirror) -> Value {
    json!({
        "address": of.address,
        "dev": dev(of.ifindex, mirror),
        "mac": of.mac.map(|mac| MacAddr(mac).to_string()),
        "state": state_name(of.state),
    })
}

fn link_value(link: &LinkMessage<'_>) -> Value {
    json!({
        "dev": link.name,
        "up": link.flags.has(LinkFlags::UP),
        "carrier": link.flags.has_carrier(),
        "mtu": link.mtu,
        "mac": link.mac.map(|mac| MacAddr(mac).to_string()),
    })
}

fn address_value(of: &AddressMessage, mirror: &Mirror) -> Value {
    json!({
        "address": format!("{}/{}", of.local, of.prefix_len),
        "dev": dev(of.ifindex, mirror),
    })
}
