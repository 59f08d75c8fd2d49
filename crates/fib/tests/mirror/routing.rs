//! Tests which route applies, and to which target it leads.

use slipring_fib::*;
use slipring_rtnetlink::RouteFamily;

use crate::kernel::{self, tell};
use crate::*;

#[test]
fn the_lowest_metric_wins_and_the_next_takes_over() {
    let mut mirror = mirror();
    let low = kernel::via("20.0.0.0/8", "10.1.0.2", 1).metric(5);
    tell(&mut mirror, &[kernel::via("20.0.0.0/8", "10.2.0.2", 2).metric(10), low.clone()]);
    assert_eq!(gateway(&publish(&mut mirror), "20.1.1.1"), "10.1.0.2");
    tell(&mut mirror, &[low.deleted()]);
    assert_eq!(gateway(&publish(&mut mirror), "20.1.1.1"), "10.2.0.2");
}

#[test]
fn this_machines_addresses_come_before_the_main_table() {
    let mut mirror = mirror();
    let host = kernel::via("10.1.0.1/32", "10.2.0.2", 2);
    let own = [
        kernel::table_route("10.1.0.1/32", 255, 2),
        kernel::table_route("10.1.255.255/32", 255, 3),
    ];
    tell(&mut mirror, &[host]);
    tell(&mut mirror, &own);
    let tables = publish(&mut mirror);
    assert_eq!(action(&tables, "10.1.0.1"), TargetAction::Kernel);
    assert_eq!(action(&tables, "10.1.255.255"), TargetAction::Kernel);
    assert_eq!(gateway(&tables, "10.1.0.3"), "link");
}

#[test]
fn routes_that_refuse_packets_do_what_they_say() {
    let mut mirror = mirror();
    let kinds = [
        (6, TargetAction::Blackhole),
        (7, TargetAction::Unreachable),
        (8, TargetAction::Prohibit),
        (9, TargetAction::Kernel),
    ];
    for (at, (kind, expected)) in kinds.into_iter().enumerate() {
        tell(&mut mirror, &[kernel::table_route(&format!("2{at}.0.0.0/8"), 254, kind)]);
        assert_eq!(action(&publish(&mut mirror), &format!("2{at}.1.1.1")), expected);
    }
}

#[test]
fn what_the_tables_cannot_represent_is_the_kernels() {
    let mut mirror = mirror();
    let routes = [
        kernel::via("20.0.0.0/8", "10.1.0.2", 1).attribute(21, &[1, 0]).attribute(22, &[]), // RTA_ENCAP
        kernel::via("21.0.0.0/8", "10.1.0.2", 1).attribute(99, &[0; 4]),
        kernel::via("22.0.0.0/8", "10.1.0.2", 1).tos(8),
        kernel::via("23.0.0.0/8", "10.3.0.2", 3),
        kernel::multipath("24.0.0.0/8", &[(1, "10.1.0.2", 1), (1, "10.3.0.2", 3)]),
        kernel::bare_route("25.0.0.0/8").next_hop_id(77),
    ];
    tell(&mut mirror, &routes);
    let tables = publish(&mut mirror);
    for first in 20..26 {
        assert_eq!(action(&tables, &format!("{first}.1.1.1")), TargetAction::Kernel, "{first}");
    }
    assert_eq!(mirror.route_count(RouteFamily::V4), 9);
}

#[test]
fn destinations_that_no_router_forwards_are_the_kernels_whatever_routes_say() {
    let mut mirror = mirror();
    tell(
        &mut mirror,
        &[kernel::via("0.0.0.0/0", "10.1.0.2", 1), kernel::via("::/0", "fd01::2", 1)],
    );
    let tables = publish(&mut mirror);
    for address in
        ["0.0.0.1", "127.0.0.1", "224.0.0.5", "255.255.255.255", "::", "::1", "fe80::1", "ff02::1"]
    {
        assert_eq!(action(&tables, address), TargetAction::Kernel, "{address}");
    }
    assert_eq!(gateway(&tables, "126.0.0.1"), "10.1.0.2");
    assert_eq!(gateway(&tables, "fec0::1"), "fd01::2");
}

#[test]
fn a_resolved_host_has_an_adjacency_of_its_own_only_on_its_subnet() {
    let mut mirror = mirror();
    tell(
        &mut mirror,
        &[
            kernel::via("10.1.9.0/24", "10.2.0.2", 2).path_mtu(1300),
            kernel::connected("10.1.0.0/16", 1),
        ],
    );
    // One host is on the interface of the connected route, one is on another interface, and one is
    // inside a longer route.
    let hosts = [
        kernel::neighbour(1, "10.1.0.5", 2, 7),
        kernel::neighbour(2, "10.1.0.6", 2, 8),
        kernel::neighbour(1, "10.1.9.1", 2, 9),
    ];
    tell(&mut mirror, &hosts);
    let tables = publish(&mut mirror);
    assert_eq!(
        (gateway(&tables, "10.1.0.5"), adjacency(&tables, "10.1.0.5").mac.unwrap().0[5]),
        ("10.1.0.5".into(), 7)
    );
    assert_eq!(gateway(&tables, "10.1.0.6"), "link");
    assert_eq!(
        (gateway(&tables, "10.1.9.1"), target_of(&tables, "10.1.9.1").mtu),
        ("10.2.0.2".into(), 1300)
    );
    tell(&mut mirror, &[kernel::via("10.1.9.0/24", "10.2.0.2", 2).path_mtu(1300).deleted()]);
    assert_eq!(gateway(&publish(&mut mirror), "10.1.9.1"), "10.1.9.1");
    tell(
        &mut mirror,
        &[
            kernel::neighbour(1, "10.1.0.5", 0x20, 0),
            kernel::neighbour(1, "10.1.9.1", 2, 9).deleted(),
        ],
    );
    let tables = publish(&mut mirror);
    assert_eq!(
        (gateway(&tables, "10.1.0.5"), gateway(&tables, "10.1.9.1")),
        ("link".into(), "link".into())
    );
}

#[test]
fn hosts_of_a_subnet_follow_it_when_its_interface_goes() {
    let mut mirror = mirror();
    tell(&mut mirror, &[kernel::neighbour(1, "10.1.0.5", 2, 7)]);
    assert_eq!(gateway(&publish(&mut mirror), "10.1.0.5"), "10.1.0.5");
    tell(&mut mirror, &[kernel::link(1, kernel::DOWN)]);
    assert_eq!(action(&publish(&mut mirror), "10.1.0.5"), TargetAction::Kernel);
}

#[test]
fn removing_one_next_hop_moves_only_its_buckets() {
    let mut mirror = mirror();
    let gateways = ["10.1.0.2", "10.1.0.3", "10.2.0.2", "10.2.0.3"];
    let objects: Vec<_> =
        (0..4).map(|at| kernel::next_hop(at + 1, gateways[at as usize], at / 2 + 1)).collect();
    tell(&mut mirror, &objects);
    tell(
        &mut mirror,
        &[
            kernel::group(9, &[(1, 1), (2, 2), (3, 1), (4, 3)]),
            kernel::bare_route("20.0.0.0/8").next_hop_id(9),
        ],
    );
    let owners = |tables: &ForwardingTables| {
        let TargetAction::Balance(at) = action(tables, "20.1.1.1") else { panic!("one next hop") };
        tables.buckets[usize::from(at)]
            .map(|index| tables.adjacencies[usize::from(index.0)].next_hop)
    };
    let before = owners(&publish(&mut mirror));
    tell(&mut mirror, &[kernel::group(9, &[(1, 1), (2, 2), (4, 3)])]);
    let after = owners(&publish(&mut mirror));
    let gone = NextHopAddress::Via(kernel::ip("10.2.0.2"));
    for (before, after) in before.into_iter().zip(after) {
        assert!(before == after || before == gone);
        assert_ne!(after, gone);
    }
}

#[test]
fn an_ipv4_route_forwards_by_an_ipv6_gateway() {
    let mut mirror = mirror();
    let via = [&10_u16.to_ne_bytes()[..], &kernel::octets(kernel::ip("fd01::2"))].concat();
    tell(
        &mut mirror,
        &[
            kernel::bare_route("20.0.0.0/8").attribute(18, &via).number(4, 1),
            kernel::neighbour(1, "fd01::2", 2, 5),
        ],
    );
    let tables = publish(&mut mirror);
    assert_eq!(
        (gateway(&tables, "20.1.1.1"), adjacency(&tables, "20.1.1.1").mac.unwrap().0[5]),
        ("fd01::2".into(), 5)
    );
}

#[test]
fn an_ipv6_route_loses_the_next_hop_that_is_deleted_and_no_other() {
    let mut mirror = mirror();
    tell(&mut mirror, &[kernel::via("2001:db8::/32", "fd01::2", 1)]);
    tell(
        &mut mirror,
        &[kernel::multipath("2001:db8::/32", &[(1, "fd02::2", 2), (1, "fd01::2", 1)])
            .flagged(kernel::APPEND)],
    );
    assert!(matches!(action(&publish(&mut mirror), "2001:db8::1"), TargetAction::Balance(_)));
    assert_eq!(mirror.route_count(RouteFamily::V6), 4);
    tell(&mut mirror, &[kernel::via("2001:db8::/32", "fd01::2", 1).deleted()]);
    assert_eq!(gateway(&publish(&mut mirror), "2001:db8::1"), "fd02::2");
}

#[test]
fn a_vrf_looks_into_its_own_table_first_and_then_into_the_others() {
    let mut config = config();
    config.vrfs.push(VrfConfig { v4: vec![255, 100, 254], v6: vec![255, 100, 254] });
    config.ports[1].vrf = VrfIndex(1);
    let mut mirror = mirror_of(config);
    tell(&mut mirror, &[kernel::via("0.0.0.0/0", "10.1.0.2", 1)]);
    tell(
        &mut mirror,
        &[kernel::table_route("20.0.0.0/8", 100, 1)
            .address(5, kernel::ip("10.2.0.2"))
            .number(4, 2)],
    );
    let tables = publish(&mut mirror);
    let of = |vrf: usize, address: &str| {
        let mut found = [TargetIndex::KERNEL];
        let std::net::IpAddr::V4(address) = kernel::ip(address) else { panic!("IPv4") };
        tables.vrfs[vrf].v4.lookup(&[address.to_bits()], &mut found);
        found[0]
    };
    assert_eq!(of(0, "20.1.1.1"), of(0, "8.8.8.8"));
    assert_ne!(of(1, "20.1.1.1"), of(1, "8.8.8.8"));
    assert_eq!(of(1, "8.8.8.8"), of(0, "8.8.8.8"));
}

#[test]
fn rules_select_tables_by_interface_and_others_are_named() {
    let mut mirror = mirror();
    let defaults = [
        kernel::rule(0, 255, None),
        kernel::rule(32766, 254, None),
        kernel::rule(32767, 253, None),
    ];
    tell(&mut mirror, &defaults);
    assert_eq!(mirror.tables_for(RouteFamily::V4, 1), Ok(vec![255, 254, 253]));
    tell(&mut mirror, &[kernel::rule(1000, 100, Some("eth1"))]);
    assert_eq!(mirror.tables_for(RouteFamily::V4, 1), Ok(vec![255, 100, 254, 253]));
    assert_eq!(mirror.tables_for(RouteFamily::V4, 2), Ok(vec![255, 254, 253]));
    let by_mark = kernel::rule(2000, 200, Some("eth2")).number(10, 7);
    tell(&mut mirror, std::slice::from_ref(&by_mark));
    assert_eq!(mirror.tables_for(RouteFamily::V4, 2).unwrap_err().priority, 2000);
    assert!(mirror.tables_for(RouteFamily::V4, 1).is_ok());
    tell(&mut mirror, &[by_mark.deleted()]);
    assert!(mirror.tables_for(RouteFamily::V4, 2).is_ok());
}

#[test]
fn gateways_in_use_without_an_address_are_asked_for_in_turn() {
    let mut mirror = mirror();
    let routes: Vec<_> = (2..7)
        .map(|at| kernel::via(&format!("2{at}.0.0.0/8"), &format!("10.1.0.{at}"), 1))
        .collect();
    tell(&mut mirror, &routes);
    tell(&mut mirror, &[kernel::neighbour(1, "10.1.0.3", 2, 3)]);
    publish(&mut mirror);
    let mut asked: Vec<_> = (0..2).flat_map(|_| mirror.solicit(2)).map(|one| one.address).collect();
    asked.sort();
    assert_eq!(asked, ["10.1.0.2", "10.1.0.4", "10.1.0.5", "10.1.0.6"].map(kernel::ip));
    assert_eq!(mirror.gateways().count(), 5);
}

#[test]
fn ports_show_addresses_primary_first_and_the_state_of_their_interfaces() {
    let mut mirror = mirror();
    let secondary = kernel::address(1, "10.1.0.9", 16, 1);
    tell(
        &mut mirror,
        &[secondary, kernel::address(1, "10.1.0.1", 16, 0), kernel::address(1, "fd01::1", 64, 0)],
    );
    let tables = publish(&mut mirror);
    let port = &tables.ports[0];
    let addresses: Vec<_> = port.addresses.iter().map(|address| address.0.to_string()).collect();
    assert_eq!(addresses, ["10.1.0.1", "fd01::1", "10.1.0.9"]);
    assert_eq!((port.mtu, port.mac.0, port.is_up), (1500, [2, 0, 0, 0, 0, 1], true));
}
