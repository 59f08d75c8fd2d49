//! Several next hops for one prefix.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::host::Mac;
use crate::packet::{MF, Packet, UDP};
use crate::rig::{Rig, Setup, families, host_mac, ip, v4};

checks! {
    flows_are_spread_over_all_next_hops,
    the_packets_of_a_flow_take_one_next_hop,
    weights_share_the_flows,
    all_fragments_of_a_packet_take_one_next_hop,
    a_next_hop_that_is_removed_gets_no_more_packets,
    next_hops_on_two_links_are_both_used_until_one_goes_down,
    a_group_of_next_hop_objects_spreads_flows_and_loses_a_member,
    flows_of_other_next_hops_stay_when_a_resilient_group_loses_one,
}

/// Destinations with several next hops, one in each family.
fn destinations() -> [(IpAddr, IpAddr); 2] {
    let [first, second] = families();
    [(first.a, ip("10.80.0.9")), (second.a, ip("fd80::9"))]
}

/// Routes with two next hops on B's link, whose addresses end with 2 and 3.
const TWO: &str = "route add 10.80.0.0/16 nexthop via 10.3.0.2 nexthop via 10.3.0.3
                   route add fd80::/64 nexthop via fd03::2 nexthop via fd03::3";
const SECOND: Mac = host_mac(3, 3);

fn flow(src: IpAddr, dst: IpAddr, number: u16) -> Packet {
    Packet::udp_ports(src, dst, [10_000 + number, 9], b"flow")
}

/// Sends `count` flows. Returns the destination MAC address with which each arrives at B or C.
fn spread(rig: &Rig, src: IpAddr, dst: IpAddr, count: u16) -> BTreeMap<u16, Mac> {
    let mut chosen = BTreeMap::new();
    // Sends one window at a time, because the queues of sockets and interfaces are finite.
    let flows: Vec<_> = (0..count).collect();
    for window in flows.chunks(64) {
        window.iter().for_each(|&number| rig.a.send(&flow(src, dst, number)));
        let seen = rig.observe_until("every flow at B or C", |seen| {
            seen.b.len() + seen.c.len() >= window.len()
        });
        assert_eq!(seen.a, []);
        for arrival in seen.b.into_iter().chain(seen.c) {
            let number = u16::from_be_bytes([arrival.packet.payload[0], arrival.packet.payload[1]]);
            assert_eq!(arrival.packet, flow(src, dst, number - 10_000).forwarded());
            assert_eq!(chosen.insert(number, arrival.dst), None, "twice: {arrival:?}");
        }
    }
    chosen
}

fn share(chosen: &BTreeMap<u16, Mac>, mac: Mac) -> usize {
    chosen.values().filter(|&&to| to == mac).count()
}

fn flows_are_spread_over_all_next_hops(setup: Setup) {
    let rig = setup.ip(TWO).start();
    for (src, dst) in destinations() {
        let chosen = spread(&rig, src, dst, 256);
        // A fair hash gives 128 flows to each next hop; a deviation of more than 8 standard
        // deviations shows that it is not fair.
        let second = share(&chosen, SECOND);
        assert!((64..=192).contains(&second), "{second} of 256 flows");
        assert_eq!(second + share(&chosen, rig.b.mac), 256);
    }
}

fn the_packets_of_a_flow_take_one_next_hop(setup: Setup) {
    let rig = setup.ip(TWO).start();
    for (src, dst) in destinations() {
        for number in 0..16 {
            (0..16).for_each(|_| rig.a.send(&flow(src, dst, number)));
            let seen = rig.observe([0, 16, 0]);
            assert_eq!(seen.b.len(), 16);
            assert!(seen.b.windows(2).all(|pair| pair[0].dst == pair[1].dst), "{seen:?}");
        }
    }
}

fn weights_share_the_flows(setup: Setup) {
    let rig = setup
        .ip("route add 10.80.0.0/16 nexthop via 10.3.0.2 weight 1 nexthop via 10.3.0.3 weight 3
             route add fd80::/64 nexthop via fd03::2 weight 1 nexthop via fd03::3 weight 3")
        .start();
    for (src, dst) in destinations() {
        let second = share(&spread(&rig, src, dst, 512), SECOND);
        assert!((320..=450).contains(&second), "{second} of 512 flows at 3 of 4");
    }
}

/// Only the first fragment has ports, so ports of fragments must not count.
fn all_fragments_of_a_packet_take_one_next_hop(setup: Setup) {
    let rig = setup.ip(TWO).start();
    let (src, dst) = (v4().a, ip("10.80.0.9"));
    for id in 0..64 {
        let whole = flow(src, dst, id).payload;
        for (offset, payload) in [(MF, &whole[..8]), (1 | MF, &[1; 8]), (2, &[2; 8])] {
            let fragment = Packet::new(src, dst, UDP, payload.to_vec());
            rig.a.send(&fragment.with(|packet| (packet.id, packet.fragment) = (id, offset)));
        }
        let seen = rig.observe([0, 3, 0]);
        assert_eq!(seen.b.len(), 3);
        assert!(seen.b.windows(2).all(|pair| pair[0].dst == pair[1].dst), "{seen:?}");
    }
}

fn a_next_hop_that_is_removed_gets_no_more_packets(setup: Setup) {
    let rig = setup.ip(TWO).start();
    rig.ip("route replace 10.80.0.0/16 via 10.3.0.2
            route del fd80::/64 via fd03::3 dev e1");
    for (src, dst) in destinations() {
        rig.until(|| (share(&spread(&rig, src, dst, 64), SECOND) == 0).then_some(()));
        assert_eq!(share(&spread(&rig, src, dst, 64), rig.b.mac), 64);
    }
}

fn next_hops_on_two_links_are_both_used_until_one_goes_down(setup: Setup) {
    let rig = setup
        .with_c()
        .ip("route add 10.80.0.0/16 nexthop via 10.3.0.2 nexthop via 10.5.0.2
             route add fd80::/64 nexthop via fd03::2 nexthop via fd05::2")
        .start();
    let at_c = |src, dst| share(&spread(&rig, src, dst, 64), rig.c().mac);
    for (src, dst) in destinations() {
        let count = at_c(src, dst);
        assert!((8..=56).contains(&count), "{count} of 64 flows");
    }
    rig.ip("link set e2 down");
    for (src, dst) in destinations() {
        rig.until(|| rig.all_arrive_at_b(&(0..64).map(|i| flow(src, dst, i)).collect::<Vec<_>>()));
    }
}

/// Two next-hop objects for each family. Checks combine them to the groups 10 (IPv4) and 20 (IPv6).
const GROUPS: &str = "nexthop add id 1 via 10.3.0.2 dev e1
                      nexthop add id 2 via 10.3.0.3 dev e1
                      nexthop add id 3 via fd03::2 dev e1
                      nexthop add id 4 via fd03::3 dev e1";

fn a_group_of_next_hop_objects_spreads_flows_and_loses_a_member(setup: Setup) {
    let rig = setup
        .ip(GROUPS)
        .ip("nexthop add id 10 group 1/2
             nexthop add id 20 group 3/4
             route add 10.80.0.0/16 nhid 10
             route add fd80::/64 nhid 20")
        .start();
    for (src, dst) in destinations() {
        let second = share(&spread(&rig, src, dst, 128), SECOND);
        assert!((24..=104).contains(&second), "{second} of 128 flows");
    }
    rig.ip("nexthop del id 2
            nexthop del id 4");
    for (src, dst) in destinations() {
        rig.until(|| (share(&spread(&rig, src, dst, 64), SECOND) == 0).then_some(()));
    }
}

fn flows_of_other_next_hops_stay_when_a_resilient_group_loses_one(setup: Setup) {
    let rig = setup
        .ip(GROUPS)
        .ip("neigh add 10.3.0.4 lladdr 02:00:00:00:03:04 dev e1 nud permanent
             nexthop add id 5 via 10.3.0.4 dev e1
             nexthop add id 10 group 1/2/5 type resilient buckets 96
             route add 10.80.0.0/16 nhid 10")
        .start();
    let (src, dst) = destinations()[0];
    let before = spread(&rig, src, dst, 128);
    rig.ip("nexthop del id 5");
    let gone = host_mac(3, 4);
    assert!(share(&before, gone) > 0);
    // While the router reads the change, the kernel may forward packets, and it chooses other next
    // hops. So packets are sent until the router forwards all of them.
    rig.until(|| {
        let after = spread(&rig, src, dst, 128);
        let stays = |(flow, mac): (&u16, &Mac)| *mac == gone || after[flow] == *mac;
        (share(&after, gone) == 0 && before.iter().all(stays)).then_some(())
    });
}
