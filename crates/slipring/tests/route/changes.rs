//! Tests of changes of the kernel's tables: packets take the new route instead of the old one.

use std::fmt::Write;
use std::net::IpAddr;

use slipring_test_support::Program;

use crate::host::Mac;
use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, ip, v4, v6};
use crate::routes::{SECOND, destination, next_hop};

checks! {
    the_lowest_metric_wins_until_it_is_removed,
    a_route_that_is_added_replaced_and_removed_counts_at_once,
    a_next_hop_object_that_is_replaced_moves_its_routes,
    a_next_hop_object_that_is_removed_takes_its_routes_along,
    routes_of_a_link_that_goes_down_vanish_at_once,
    routes_of_a_link_without_carrier_lead_nowhere,
    a_link_that_comes_back_gets_its_routes_again,
    the_routes_of_a_removed_address_vanish,
    an_address_that_becomes_the_routers_own_is_no_longer_forwarded,
    forwarding_that_is_switched_off_on_an_interface_stops,
    a_storm_of_route_changes_costs_other_prefixes_nothing,
}

crate::instances! {
    in_xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"),
    after_a_packet_that_takes_a_new_route_none_takes_the_old_one
}
crate::instances! {
    in_xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    after_a_packet_that_takes_a_new_route_none_takes_the_old_one
}
crate::instances! {
    in_packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"),
    after_a_packet_that_takes_a_new_route_none_takes_the_old_one
}

fn the_lowest_metric_wins_until_it_is_removed(setup: Setup) {
    let rig = setup
        .ip("route add 10.70.0.0/16 via 10.3.0.2 metric 200
             route add 10.70.0.0/16 via 10.3.0.3 metric 100
             route add fd70::/64 via fd03::2 metric 200
             route add fd70::/64 via fd03::3 metric 100")
        .start();
    let both = ["10.70.0.1", "fd70::1"].map(ip);
    both.iter().for_each(|&to| assert_eq!(next_hop(&rig, to), SECOND));
    rig.ip("route del 10.70.0.0/16 metric 100
            route del fd70::/64 metric 100");
    for to in both {
        rig.until(|| (next_hop(&rig, to) == rig.b.mac).then_some(()));
    }
    rig.ip("route add 10.70.0.0/16 via 10.3.0.3 metric 50
            route add fd70::/64 via fd03::3 metric 50");
    for to in both {
        rig.until(|| (next_hop(&rig, to) == SECOND).then_some(()));
    }
}

fn a_route_that_is_added_replaced_and_removed_counts_at_once(setup: Setup) {
    let rig = setup.start();
    for (to, gateways) in
        [("10.70.0.1/32", ["10.3.0.2", "10.3.0.3"]), ("fd70::1/128", ["fd03::2", "fd03::3"])]
    {
        let dst = ip(to.split('/').next().unwrap());
        let goes_to = |mac| {
            rig.until(|| (destination(&rig, dst) == mac).then_some(()));
        };
        goes_to(None);
        rig.ip(&format!("route add {to} via {}", gateways[0]));
        goes_to(Some(rig.b.mac));
        rig.ip(&format!("route replace {to} via {}", gateways[1]));
        goes_to(Some(SECOND));
        rig.ip(&format!("route replace blackhole {to}"));
        goes_to(None);
        rig.ip(&format!("route replace {to} via {}", gateways[0]));
        goes_to(Some(rig.b.mac));
        rig.ip(&format!("route del {to}"));
        goes_to(None);
    }
}

/// A packet that the kernel forwards may arrive after one that was sent later and that the router
/// forwards.
fn after_a_packet_that_takes_a_new_route_none_takes_the_old_one(setup: Setup) {
    let rig = setup.start();
    let b = rig.b.mac;
    for (net, to) in families().into_iter().zip(["10.70.0.1", "fd70::1"]) {
        let gateway = |number: u32| {
            if net.a.is_ipv4() { format!("10.3.0.{number}") } else { format!("fd03::{number}") }
        };
        rig.ip(&format!("route add {to} via {}", gateway(2)));
        // In XDP mode, the router leaves packets without a route to the kernel, which has the new
        // route earlier than the router.
        let without_route = || {
            let answer = rig.ask(&["interface", "e0"]);
            answer["interfaces"][0]["passed"]["no-route"].as_u64().unwrap_or_default()
        };
        rig.until(|| {
            let before = without_route();
            let arrives = destination(&rig, ip(to)) == Some(b);
            (arrives && without_route() == before).then_some(())
        });
        for (number, new) in [(3, SECOND), (2, b)].into_iter().cycle().take(8) {
            rig.ip(&format!("route replace {to} via {}", gateway(number)));
            rig.until(|| {
                let macs = next_hops(&rig, net.a, ip(to));
                let since_change = &macs[macs.iter().position(|mac| *mac == new)?..];
                assert!(since_change.iter().all(|mac| *mac == new), "{macs:?}");
                Some(())
            });
            assert_eq!(next_hops(&rig, net.a, ip(to)), [new; 8]);
        }
    }
}

/// Sends 8 packets. Returns the destination MAC addresses with which they arrive at B, in the order
/// in which they were sent.
fn next_hops(rig: &Rig, src: IpAddr, dst: IpAddr) -> Vec<Mac> {
    (0..8).for_each(|number| rig.a.send(&Packet::udp(src, dst, &[number])));
    let mut arrived = rig.observe([0, 8, 0]).b;
    arrived.sort_by_key(|arrival| arrival.packet.payload.last().copied());
    arrived.iter().map(|arrival| arrival.dst).collect()
}

const OBJECTS: &str = "nexthop add id 1 via 10.3.0.2 dev e1
                       nexthop add id 2 via fd03::2 dev e1
                       route add 10.70.0.0/16 nhid 1
                       route add fd70::/64 nhid 2";

fn a_next_hop_object_that_is_replaced_moves_its_routes(setup: Setup) {
    let rig = setup.ip(OBJECTS).start();
    let both = ["10.70.0.1", "fd70::1"].map(ip);
    both.iter().for_each(|&to| assert_eq!(next_hop(&rig, to), rig.b.mac));
    rig.ip("nexthop replace id 1 via 10.3.0.3 dev e1
            nexthop replace id 2 via fd03::3 dev e1");
    both.iter().for_each(|&to| rig.until(|| (next_hop(&rig, to) == SECOND).then_some(())));
}

/// Linux removes the object's routes without a message for each of them.
fn a_next_hop_object_that_is_removed_takes_its_routes_along(setup: Setup) {
    let rig = setup.ip(OBJECTS).start();
    let both = ["10.70.0.1", "fd70::1"].map(ip);
    both.iter().for_each(|&to| assert_eq!(next_hop(&rig, to), rig.b.mac));
    rig.ip("nexthop del id 1
            nexthop del id 2");
    both.iter().for_each(|&to| rig.until(|| destination(&rig, to).is_none().then_some(())));
}

/// Routes through C, and worse ones through B: with a higher metric, or with a shorter prefix.
const BY_C: &str = "route add 10.72.0.0/16 via 10.5.0.2 metric 10
                    route add fd72::/64 via fd05::2 metric 10";
const BY_B: &str = "route add 10.72.0.0/16 via 10.3.0.2 metric 100
                    route add 10.72.0.0/15 via 10.3.0.3
                    route add fd72::/64 via fd03::2 metric 100";

/// Linux does not send a message for each IPv4 route that it removes (`FRRouting/frr#4535`).
fn routes_of_a_link_that_goes_down_vanish_at_once(setup: Setup) {
    let rig = setup.with_c().ip(BY_C).ip(BY_B).start();
    let both = ["10.72.0.1", "fd72::1"].map(ip);
    both.iter().for_each(|&to| assert_eq!(next_hop(&rig, to), rig.c().mac));
    rig.ip("link set e2 down");
    both.iter()
        .for_each(|&to| rig.until(|| (destination(&rig, to) == Some(rig.b.mac)).then_some(())));
}

/// Without `ignore_routes_with_linkdown`, the kernel keeps routes whose link has no carrier, and no
/// packet takes the worse route. With the setting, every packet takes it.
fn routes_of_a_link_without_carrier_lead_nowhere(setup: Setup) {
    let rig = setup
        .with_c()
        .set("ipv4/conf/e2/ignore_routes_with_linkdown", "1")
        .set("ipv6/conf/e2/ignore_routes_with_linkdown", "1")
        .ip(BY_C)
        .ip(BY_B)
        .start();
    let both = ["10.72.0.1", "fd72::1"].map(ip);
    both.iter().for_each(|&to| assert_eq!(next_hop(&rig, to), rig.c().mac));
    rig.c().namespace.ip("link set e0 down");
    rig.router.wait_for_no_carrier("e2");
    let arrives_at_b = |to: IpAddr| {
        let src = if to.is_ipv4() { v4().a } else { v6().a };
        rig.all_arrive_at_b(&[Packet::udp(src, to, b"carrier")])
    };
    both.iter().for_each(|&to| rig.until(|| arrives_at_b(to)));
}

fn a_link_that_comes_back_gets_its_routes_again(setup: Setup) {
    let rig = setup.with_c().ip(BY_C).ip(BY_B).start();
    let both = ["10.72.0.1", "fd72::1"].map(ip);
    rig.ip("link set e2 down");
    both.iter()
        .for_each(|&to| rig.until(|| (destination(&rig, to) == Some(rig.b.mac)).then_some(())));
    // Linux removes IPv6 addresses and permanent neighbours when the link goes down, so they are
    // added again.
    rig.ip("link set e2 up
            addr replace fd05::1/64 dev e2 nodad
            neigh replace 10.5.0.2 lladdr 02:00:00:00:05:02 dev e2 nud permanent
            neigh replace fd05::2 lladdr 02:00:00:00:05:02 dev e2 nud permanent");
    crate::rig::wait_for_own_addresses(&rig.router);
    rig.router.wait_for_carrier("e2");
    rig.ip(BY_C);
    both.iter()
        .for_each(|&to| rig.until(|| (destination(&rig, to) == Some(rig.c().mac)).then_some(())));
}

fn the_routes_of_a_removed_address_vanish(setup: Setup) {
    let rig = setup
        .with_c()
        .ip("route add 10.73.0.0/16 via 10.5.0.2 src 10.5.0.1
             route add 10.74.0.0/16 via 10.5.0.2")
        .start();
    for to in ["10.73.0.1", "10.74.0.1", "10.5.0.2", "fd05::2"] {
        assert_eq!(next_hop(&rig, ip(to)), rig.c().mac, "to {to}");
    }
    rig.ip("addr del 10.5.0.1/24 dev e2
            addr del fd05::1/64 dev e2");
    for to in ["10.73.0.1", "10.5.0.2", "fd05::2"] {
        rig.until(|| destination(&rig, ip(to)).is_none().then_some(()));
    }
}

/// If the old neighbour entry still had effect, packets for the address would go to the host that
/// had it before.
fn an_address_that_becomes_the_routers_own_is_no_longer_forwarded(setup: Setup) {
    let rig = setup.start();
    let both = ["10.3.0.3", "fd03::3"].map(ip);
    both.iter().for_each(|&to| assert_eq!(next_hop(&rig, to), SECOND));
    rig.ip("addr add 10.3.0.3/32 dev lo
            addr add fd03::3/128 dev lo nodad");
    for (net, own) in families().iter().zip(both) {
        let echo = Packet::echo(net.a, own, 5);
        rig.until(|| {
            rig.a.send(&echo);
            let seen = rig.observe([0; 3]);
            (seen.b.is_empty() && seen.a.iter().any(|reply| reply.packet.src == own)).then_some(())
        });
    }
}

fn forwarding_that_is_switched_off_on_an_interface_stops(setup: Setup) {
    let rig = setup.with_c().start();
    let to = Packet::udp(v4().c, v4().b, b"from C");
    rig.c().send(&to);
    rig.only_b_receives(&[to.forwarded()]);
    crate::rig::set(&rig.router, "ipv4/conf/e2/forwarding", "0");
    rig.until(|| {
        rig.c().send(&to);
        rig.observe([0; 3]).b.is_empty().then_some(())
    });
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"from A still")]);
}

fn a_storm_of_route_changes_costs_other_prefixes_nothing(setup: Setup) {
    let rig = setup.start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines");
    let mut lines = String::new();
    for verb in ["add", "replace", "del"] {
        for i in 0..1000 {
            let (high, low) = (i / 250, i % 250);
            writeln!(lines, "route {verb} 10.2{high}.{low}.0/24 via 10.3.0.{}", 2 + i % 2).unwrap();
            writeln!(lines, "route {verb} fd20:{high}:{low}::/64 via fd03::{}", 2 + i % 2).unwrap();
        }
    }
    std::fs::write(&file, lines).unwrap();
    let storm = Program::start_with(&rig.router, "ip", &["-batch", file.to_str().unwrap()]);
    let mut number = 0u32;
    loop {
        let ended = storm.has_ended();
        let window: Vec<_> = (0..32)
            .map(|i| {
                let net = families()[i % 2];
                number += 1;
                Packet::udp(net.a, net.b, &number.to_be_bytes())
            })
            .collect();
        // The kernel may forward some of the packets, because the router may take long to write so
        // many changes.
        rig.forwards_in_any_order(&window);
        if ended {
            break;
        }
    }
    storm.finish().well();
}
