//! Tests with messages captured from Linux 6.18, which must have the contents that the commands
//! requested.
//!
//! `captured.txt` contains the messages of a session in a network namespace: the notifications
//! after each command (`ip addr add`, `ip route add`, …), dumps, and an error. Each message has the
//! name of its step.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use slipring_rtnetlink::*;

fn captured(step: &str) -> Vec<Vec<u8>> {
    let lines = include_str!("captured.txt").lines().filter(|line| !line.starts_with('#'));
    let steps = lines.map(|line| line.split_once(' ').unwrap()).filter(|(name, _)| *name == step);
    let byte = |hex: &str, at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    steps.map(|(_, hex)| (0..hex.len() / 2).map(|at| byte(hex, at)).collect()).collect()
}

/// Runs `check` on all messages of a step, which must be well-formed.
fn each(step: &str, mut check: impl FnMut(NetlinkMessage<'_>)) {
    let buffers = captured(step);
    assert!(!buffers.is_empty(), "{step}");
    for buffer in &buffers {
        for message in Messages::new(buffer) {
            check(message.unwrap());
        }
    }
}

/// Runs `check` on the only route of a step and its next hops.
fn route(step: &str, check: impl Fn(Change, RouteMessage<'_>, Vec<RouteHop>)) {
    let mut count = 0;
    each(step, |message| {
        if let MessageBody::Route(change, route) = message.body {
            check(change, route, route.hops().collect());
            count += 1;
        }
    });
    assert_eq!(count, 1, "{step}");
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_route_by_a_gateway_has_its_metric_mtu_and_protocol() {
    route("via", |change, route, hops| {
        assert_eq!(change, Change::New);
        assert_eq!((route.destination, route.prefix_len), (ip("10.9.0.0"), 16));
        assert_eq!(
            (route.table, route.kind, route.protocol),
            (TABLE_MAIN, RouteKind::Unicast, 186)
        );
        assert_eq!((route.metric, route.mtu, route.has_unknown), (7, 1400, false));
        assert_eq!(hops.len(), 1);
        assert_eq!((hops[0].gateway, hops[0].ifindex), (Some(ip("10.1.0.2")), 3));
    });
}

#[test]
fn weights_of_next_hops_begin_at_one() {
    route("multi", |_, _, hops| {
        let found: Vec<_> =
            hops.iter().map(|hop| (hop.gateway.unwrap(), hop.weight, hop.ifindex)).collect();
        assert_eq!(found, [(ip("10.1.0.2"), 3, 3), (ip("10.2.0.2"), 1, 2)]);
    });
}

#[test]
fn an_ipv4_route_can_have_an_ipv6_gateway() {
    route("viav6", |_, route, hops| {
        assert_eq!((route.family, hops[0].gateway), (RouteFamily::V4, Some(ip("fd01::2"))));
    });
}

#[test]
fn routes_that_refuse_packets_have_their_kinds_and_tables() {
    let mut found = vec![];
    each("black", |message| {
        if let MessageBody::Route(_, route) = message.body {
            found.push((route.kind, route.table));
        }
    });
    use RouteKind::{Blackhole, Prohibit, Throw, Unreachable};
    assert_eq!(found, [(Blackhole, 254), (Unreachable, 100), (Prohibit, 254), (Throw, 300)]);
}

#[test]
fn an_appended_ipv6_route_tells_all_next_hops_and_a_deleted_one_only_itself() {
    each("multi6", |message| assert!(message.header.flags.has(HeaderFlags::APPEND)));
    route("multi6", |_, route, hops| {
        assert_eq!((hops.len(), route.metric), (2, 5));
    });
    route("del6", |change, _, hops| {
        assert_eq!(change, Change::Deleted);
        assert_eq!(
            hops.iter().map(|hop| hop.gateway.unwrap()).collect::<Vec<_>>(),
            [ip("fd01::3")]
        );
    });
}

#[test]
fn next_hop_objects_and_groups_are_read() {
    let mut groups = vec![];
    each("nh", |message| {
        let MessageBody::NextHop(Change::New, next_hop) = message.body else {
            panic!("{message:?}")
        };
        assert!(!next_hop.has_unknown);
        match next_hop.group {
            Some(group) => {
                groups.push((next_hop.id, next_hop.group_kind, group.collect::<Vec<_>>()))
            }
            None if next_hop.id == 8 => assert!(next_hop.is_blackhole),
            None => assert!(next_hop.gateway.is_some() && next_hop.ifindex != 0),
        }
    });
    let expected = [
        (7, GroupKind::HashThreshold, vec![(5, 3), (6, 2)]),
        (9, GroupKind::Resilient, vec![(5, 1), (6, 1)]),
    ];
    assert_eq!(groups, expected);
    route("nhroute", |_, route, _| assert_eq!(route.next_hop_id, Some(7)));
}

#[test]
fn neighbours_have_states_and_addresses() {
    let mut found = vec![];
    each("neigh", |message| {
        if let MessageBody::Neighbour(change, it) = message.body {
            found.push((change, it.address, it.state.is_valid(), it.mac));
        }
    });
    let of = ip("10.1.0.2");
    let expected = [
        (Change::New, of, true, Some([2, 0, 0, 0, 0, 9])),
        (Change::New, of, false, None),
        (Change::Deleted, of, false, None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_rule_with_other_selectors_says_so() {
    let mut found = vec![];
    each("rule", |message| {
        if let MessageBody::Rule(change, rule) = message.body {
            found.push((
                change,
                rule.priority,
                rule.table,
                rule.input.to_owned(),
                rule.has_other_selectors,
            ));
        }
    });
    let expected = [
        (Change::New, 1000, 100, "a0".to_owned(), false),
        (Change::New, 1001, 100, String::new(), true),
        (Change::Deleted, 1001, 100, String::new(), true),
    ];
    assert_eq!(found, expected);
    each("dumprule", |message| {
        if let MessageBody::Rule(_, rule) = message.body {
            assert!(!rule.has_other_selectors && rule.action == RoutingAction::Table);
        }
    });
}

#[test]
fn an_interface_that_goes_down_loses_its_flags() {
    let mut down = 0;
    each("down", |message| {
        if let MessageBody::Link(Change::New, link) = message.body
            && link.name == "b0"
        {
            assert!(!link.flags.has(LinkFlags::UP) && !link.flags.has_carrier());
            assert_eq!(
                (link.mtu, link.mac, link.driver_kind),
                (1500, Some([2, 0, 0, 0, 0, 2]), "veth")
            );
            down += 1;
        }
    });
    assert_eq!(down, 1);
}

#[test]
fn a_port_that_leaves_its_bridge_is_not_a_deleted_interface() {
    let mut deleted = vec![];
    each("dellink", |message| {
        if let MessageBody::Link(Change::Deleted, link) = message.body {
            deleted.push(link.name.to_owned());
        }
    });
    // The kernel also sends an RTM_DELLINK of AF_BRIDGE for b0, which does not mean that b0 was
    // deleted.
    assert_eq!(deleted, ["br0"]);
}

#[test]
fn dead_and_linkdown_next_hops_are_flagged_in_dumps() {
    let mut found = vec![];
    each("dumproute4", |message| {
        if let MessageBody::Route(_, route) = message.body
            && route.multipath.is_some()
        {
            found.extend(route.hops().map(|hop| hop.flags));
        }
    });
    assert_eq!(
        found,
        [HopFlags(HopFlags::LINK_DOWN), HopFlags(HopFlags::LINK_DOWN | HopFlags::DEAD)]
    );
}

#[test]
fn a_dump_ends_with_done() {
    for step in ["dumpaddr", "dumproute4", "dumproute6", "dumpnh", "dumpneigh", "dumprule"] {
        let mut last = false;
        each(step, |message| {
            assert!(message.header.flags.has(HeaderFlags::MULTI) && message.header.sequence == 77);
            last = matches!(message.body, MessageBody::Done(DoneMessage { errno: 0, .. }));
        });
        assert!(last, "{step}");
    }
}

#[test]
fn an_error_has_the_kernels_text() {
    each("err", |message| {
        let MessageBody::Error(error) = message.body else { panic!("{message:?}") };
        assert_eq!(
            error,
            ErrorMessage { errno: 101, request: 77, text: "Nexthop has invalid gateway" }
        );
    });
}

/// The settings of a step, in order.
fn settings(step: &str) -> Vec<(Change, NetconfMessage)> {
    let mut found = Vec::new();
    each(step, |message| {
        if let MessageBody::Netconf(change, settings) = message.body {
            assert_eq!(settings.family, RouteFamily::V4);
            found.push((change, settings));
        }
    });
    found
}

#[test]
fn a_changed_setting_is_told_alone_and_a_dump_has_all() {
    use NetconfScope::{All, Default, Interface};
    let told: Vec<_> = settings("rpfilter").iter().map(|it| (it.1.scope, it.1.rp_filter)).collect();
    assert_eq!(told, [(Interface(3), Some(2)), (All, Some(1))]);
    let [(_, linkdown)] = settings("linkdown")[..] else { panic!("one message") };
    assert_eq!((linkdown.rp_filter, linkdown.ignores_routes_with_linkdown), (None, Some(true)));
    let [(_, forwarding)] = settings("forwarding")[..] else { panic!("one message") };
    assert_eq!((forwarding.scope, forwarding.forwarding), (Interface(3), Some(true)));
    let dumped = settings("netconf");
    let scopes: Vec<_> = dumped.iter().map(|(_, settings)| settings.scope).collect();
    assert_eq!(scopes, [Interface(1), Interface(2), Interface(3), All, Default]);
    let of_r0 = dumped[2].1;
    let all = (of_r0.rp_filter, of_r0.forwarding, of_r0.ignores_routes_with_linkdown);
    assert_eq!(all, (Some(2), Some(true), Some(true)));
}

#[test]
fn settings_go_with_their_interface() {
    let gone: Vec<_> = settings("delnetconf").iter().map(|it| (it.0, it.1.scope)).collect();
    let deleted = |ifindex| (Change::Deleted, NetconfScope::Interface(ifindex));
    assert_eq!(gone, [deleted(3), deleted(2)]);
}
