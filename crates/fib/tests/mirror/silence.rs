//! Tests of events that the kernel does not report, or reports in a misleading order.

use slipring_fib::*;

use crate::kernel::{self, dump, dumped, interrupted, tell};
use crate::*;

fn default_by_1() -> kernel::KernelMessage {
    kernel::via("0.0.0.0/0", "10.1.0.2", 1)
}

#[test]
fn routes_of_an_interface_that_goes_down_are_the_kernels_at_once_and_gone_after_the_dump() {
    let mut mirror = mirror();
    tell(
        &mut mirror,
        &[default_by_1(), kernel::via("20.0.0.0/8", "10.2.0.2", 2), default_by_1().metric(9)],
    );
    publish(&mut mirror);
    // The kernel announces the state of the interface, but not the IPv4 routes that it removes,
    // however many they are.
    tell(&mut mirror, &[kernel::link(1, kernel::DOWN)]);
    let tables = publish(&mut mirror);
    assert_eq!(action(&tables, "8.8.8.8"), TargetAction::Kernel);
    assert_eq!(action(&tables, "10.1.0.5"), TargetAction::Kernel);
    assert_eq!(gateway(&tables, "20.1.1.1"), "10.2.0.2");
    assert!(mirror.needs_resync().contains(DumpKind::Ipv4Routes));
    assert!(
        !mirror
            .routes(slipring_rtnetlink::RouteFamily::V4)
            .any(|route| route.leads[0].ifindex == 1)
    );
    dump(&mut mirror, DumpKind::Ipv4Routes, &[kernel::via("20.0.0.0/8", "10.2.0.2", 2)]);
    let tables = publish(&mut mirror);
    assert_eq!(action(&tables, "8.8.8.8"), TargetAction::NoRoute);
    assert_eq!(mirror.counters().silent_removals, 5);
}

#[test]
fn a_route_with_a_next_hop_that_is_alive_survives_and_the_other_returns_without_a_message() {
    let mut mirror = mirror();
    let route = kernel::multipath("20.0.0.0/8", &[(1, "10.1.0.2", 1), (1, "10.2.0.2", 2)]);
    tell(&mut mirror, &[route]);
    assert!(matches!(action(&publish(&mut mirror), "20.1.1.1"), TargetAction::Balance(_)));
    tell(&mut mirror, &[kernel::link(1, kernel::DOWN)]);
    assert_eq!(gateway(&publish(&mut mirror), "20.1.1.1"), "10.2.0.2");
    tell(&mut mirror, &[kernel::link(1, kernel::UP)]);
    assert!(matches!(action(&publish(&mut mirror), "20.1.1.1"), TargetAction::Balance(_)));
}

#[test]
fn next_hop_objects_vanish_with_the_carrier_of_their_interface() {
    let mut mirror = mirror();
    tell(&mut mirror, &[kernel::next_hop(5, "10.1.0.2", 1), kernel::next_hop(6, "10.2.0.2", 2)]);
    tell(&mut mirror, &[kernel::group(7, &[(5, 1), (6, 1)]), kernel::group(8, &[(5, 1)])]);
    let routes = [("20.0.0.0/8", 5), ("21.0.0.0/8", 7), ("22.0.0.0/8", 8), ("23.0.0.0/8", 6)];
    tell(&mut mirror, &routes.map(|(prefix, id)| kernel::bare_route(prefix).next_hop_id(id)));
    assert_eq!(gateway(&publish(&mut mirror), "20.1.1.1"), "10.1.0.2");
    tell(&mut mirror, &[kernel::link(1, kernel::NO_CARRIER)]);
    let tables = publish(&mut mirror);
    assert_eq!(action(&tables, "20.1.1.1"), TargetAction::Kernel);
    assert_eq!(gateway(&tables, "21.1.1.1"), "10.2.0.2");
    assert_eq!(action(&tables, "22.1.1.1"), TargetAction::Kernel);
    assert_eq!(gateway(&tables, "23.1.1.1"), "10.2.0.2");
    // Connected routes stay if only the carrier is lost.
    assert_eq!(gateway(&tables, "10.1.0.5"), "link");
    assert!(mirror.needs_resync().contains(DumpKind::NextHops));
}

#[test]
fn without_next_hop_objects_a_lost_carrier_asks_for_no_dump() {
    let mut mirror = mirror();
    publish(&mut mirror);
    tell(&mut mirror, &[kernel::link(1, kernel::NO_CARRIER)]);
    assert!(mirror.needs_resync().is_empty());
    assert!(!publish(&mut mirror).ports[0].is_up);
}

#[test]
fn routes_of_a_deleted_next_hop_object_are_the_kernels_at_once() {
    let mut mirror = mirror();
    let object = kernel::next_hop(5, "10.1.0.2", 1);
    tell(&mut mirror, &[object.clone(), kernel::bare_route("20.0.0.0/8").next_hop_id(5)]);
    publish(&mut mirror);
    tell(&mut mirror, &[object.clone().deleted()]);
    assert_eq!(action(&publish(&mut mirror), "20.1.1.1"), TargetAction::Kernel);
    assert!(mirror.needs_resync().contains(DumpKind::Ipv4Routes));
    // A new object with the same number does not restore the old route; only a new route does.
    tell(&mut mirror, &[object]);
    mirror.publish();
    assert_eq!(
        mirror.route_get(VrfIndex(0), kernel::ip("20.1.1.1")).unwrap().target.action,
        TargetAction::Kernel
    );
    tell(&mut mirror, &[kernel::bare_route("20.0.0.0/8").next_hop_id(5)]);
    assert_eq!(gateway(&publish(&mut mirror), "20.1.1.1"), "10.1.0.2");
}

#[test]
fn a_replaced_next_hop_object_moves_its_routes_and_their_repeated_messages_change_nothing() {
    let mut mirror = mirror();
    let route = kernel::bare_route("20.0.0.0/8").next_hop_id(5);
    tell(&mut mirror, &[kernel::next_hop(5, "10.1.0.2", 1), route.clone()]);
    publish(&mut mirror);
    tell(&mut mirror, &[kernel::next_hop(5, "10.2.0.2", 2).flagged(kernel::REPLACE)]);
    assert_eq!(gateway(&publish(&mut mirror), "20.1.1.1"), "10.2.0.2");
    // After the replacement, the kernel announces each of the object's routes again (sysctl
    // `nexthop_compat_mode`).
    tell(&mut mirror, &[route.flagged(kernel::REPLACE)]);
    assert!(mirror.publish().is_none());
    assert!(mirror.needs_resync().is_empty());
}

#[test]
fn routes_that_prefer_a_deleted_address_are_the_kernels_at_once() {
    let mut mirror = mirror();
    tell(
        &mut mirror,
        &[kernel::address(1, "10.1.0.1", 16, 0), default_by_1().address(7, kernel::ip("10.1.0.1"))],
    );
    assert_eq!(gateway(&publish(&mut mirror), "8.8.8.8"), "10.1.0.2");
    tell(&mut mirror, &[kernel::address(1, "10.1.0.1", 16, 0).deleted()]);
    assert_eq!(action(&publish(&mut mirror), "8.8.8.8"), TargetAction::Kernel);
    assert!(mirror.needs_resync().contains(DumpKind::Ipv4Routes));
}

#[test]
fn a_route_before_its_interface_waits_for_the_interface() {
    let mut config = config();
    config.ports[0].ifindex = 9;
    let mut mirror = mirror_of(config);
    tell(&mut mirror, &[kernel::via("20.0.0.0/8", "10.9.0.2", 9)]);
    assert_eq!(action(&publish(&mut mirror), "20.1.1.1"), TargetAction::Kernel);
    tell(&mut mirror, &[kernel::link(9, kernel::UP)]);
    assert_eq!(gateway(&publish(&mut mirror), "20.1.1.1"), "10.9.0.2");
}

#[test]
fn lost_notifications_ask_for_all_dumps() {
    let mut mirror = mirror();
    assert!(mirror.needs_resync().is_empty());
    mirror.overrun();
    assert_eq!(mirror.needs_resync(), DumpSet::ALL);
    assert_eq!(mirror.counters().overruns, 1);
}

#[test]
fn an_interrupted_dump_removes_nothing_and_is_needed_again() {
    let mut mirror = mirror();
    tell(&mut mirror, &[default_by_1()]);
    publish(&mut mirror);
    mirror.begin_dump(DumpKind::Ipv4Routes);
    tell(&mut mirror, &[interrupted(kernel::connected("10.1.0.0/16", 1))]);
    mirror.end_dump(DumpKind::Ipv4Routes);
    assert!(mirror.needs_resync().contains(DumpKind::Ipv4Routes));
    mirror.publish();
    let answer = mirror.route_get(VrfIndex(0), kernel::ip("8.8.8.8")).unwrap();
    assert_eq!(answer.route.unwrap().leads[0].gateway, Some(kernel::ip("10.1.0.2")));
}

#[test]
fn an_address_that_is_never_forwarded_has_no_route_beside_a_default_route() {
    let mut mirror = mirror();
    tell(&mut mirror, &[default_by_1()]);
    publish(&mut mirror);
    for address in ["224.0.0.5", "127.0.0.1", "255.255.255.255"] {
        let answer = mirror.route_get(VrfIndex(0), kernel::ip(address)).unwrap();
        assert_eq!((answer.route, answer.target.action), (None, TargetAction::Kernel), "{address}");
    }
}

#[test]
fn a_route_deleted_while_a_dump_runs_does_not_return_with_it() {
    let mut mirror = mirror();
    tell(&mut mirror, &[default_by_1()]);
    publish(&mut mirror);
    mirror.begin_dump(DumpKind::Ipv4Routes);
    tell(&mut mirror, &[default_by_1().deleted(), dumped(default_by_1())]);
    for route in connected_v4() {
        tell(&mut mirror, &[dumped(route)]);
    }
    mirror.end_dump(DumpKind::Ipv4Routes);
    assert_eq!(action(&publish(&mut mirror), "8.8.8.8"), TargetAction::NoRoute);
}

#[test]
fn a_route_added_while_a_dump_runs_survives_its_end() {
    let mut mirror = mirror();
    publish(&mut mirror);
    mirror.begin_dump(DumpKind::Ipv4Routes);
    tell(&mut mirror, &[default_by_1()]);
    mirror.end_dump(DumpKind::Ipv4Routes);
    assert_eq!(gateway(&publish(&mut mirror), "8.8.8.8"), "10.1.0.2");
}

#[test]
fn a_dump_that_is_older_than_an_interface_event_does_not_bring_its_routes_back() {
    let mut mirror = mirror();
    mirror.begin_dump(DumpKind::Ipv4Routes);
    tell(
        &mut mirror,
        &[kernel::link(1, kernel::DOWN), dumped(default_by_1()), kernel::link(1, kernel::UP)],
    );
    mirror.end_dump(DumpKind::Ipv4Routes);
    assert_eq!(action(&publish(&mut mirror), "8.8.8.8"), TargetAction::Kernel);
    assert!(mirror.needs_resync().contains(DumpKind::Ipv4Routes));
}

#[test]
fn nothing_is_published_before_every_table_was_dumped() {
    let mut mirror = Mirror::new(config(), vec![ranges::RangeTable::boxed()]);
    for kind in DumpKind::ALL {
        assert!(mirror.publish().is_none());
        dump(&mut mirror, kind, &[]);
    }
    assert!(mirror.publish().is_some());
}

#[test]
fn a_table_that_never_rests_does_not_keep_the_router_from_starting() {
    let mut mirror = Mirror::new(config(), vec![ranges::RangeTable::boxed()]);
    for kind in DumpKind::ALL.into_iter().filter(|kind| *kind != DumpKind::Ipv4Routes) {
        dump(&mut mirror, kind, &[]);
    }
    for _ in 0..3 {
        assert!(mirror.publish().is_none());
        mirror.begin_dump(DumpKind::Ipv4Routes);
        tell(&mut mirror, &[interrupted(kernel::connected("10.1.0.0/16", 1))]);
        mirror.end_dump(DumpKind::Ipv4Routes);
    }
    assert!(mirror.publish().is_some());
}
