//! Tests of VLANs that the kernel does not have, with several forwarding threads, and of their
//! counters.

use serde_json::Value;

use crate::host::Frame;
use crate::packet::{Packet, UDP};
use crate::rig::{Rig, Setup, Subject, families, ip, v4};
use crate::vlan::{ONE, TWO, start};

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    all_packets_of_a_vlan_are_counted_once
}

crate::instances! {
    packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"),
    all_packets_of_a_vlan_are_counted_once
}

crate::instances! {
    two_xsk: crate::vlan_workers::TwoQueues = crate::rig::Subject::Slipring("xsk"),
    threads_share_the_neighbours_of_a_vlan
}

crate::instances! {
    two_packet: crate::vlan_workers::TwoQueues = crate::rig::Subject::Slipring("packet"),
    threads_share_the_neighbours_of_a_vlan
}

/// A rig whose links have two queues at both ends.
pub(crate) struct TwoQueues(pub(crate) Setup);

impl TwoQueues {
    pub(crate) fn new(subject: Subject) -> Option<Self> {
        Setup::with_queues(subject, 2).map(Self)
    }
}

/// Number of flows; a hash spreads them over two queues.
pub(crate) const FLOWS: u16 = 64;

/// Packets of all threads wait for a neighbour, there is one request for all, and any thread may
/// receive the answer.
fn threads_share_the_neighbours_of_a_vlan(TwoQueues(setup): TwoQueues) {
    let rig = start(setup, "--threads 2");
    for (family, net) in families().into_iter().enumerate() {
        let to = ip(ONE.host[family]);
        let data = |flow: u16| flow.to_be_bytes();
        let flow = |src, dst, of: u16| Packet::udp_ports(src, dst, [1000 + of, 53], &data(of));
        let there: Vec<_> = (0..FLOWS).map(|of| flow(net.a, to, of)).collect();
        there.iter().for_each(|packet| rig.a.send(packet));
        ONE.answer(&rig, to, ONE.request(&rig, to));
        let mut arrived: Vec<_> = (0..FLOWS)
            .map(|_| {
                rig.b.receive("a packet that has waited", |frame| {
                    let packet = ONE.untagged(frame)?.packet()?;
                    ((packet.dst, packet.proto) == (to, UDP)).then_some(packet)
                })
            })
            .collect();
        arrived.sort_by_key(|packet| packet.payload.clone());
        let mut expected: Vec<_> = there.iter().map(Packet::forwarded).collect();
        expected.sort_by_key(|packet| packet.payload.clone());
        assert_eq!(arrived, expected);
        let back: Vec<_> = (0..FLOWS).map(|of| flow(to, net.a, of)).collect();
        back.iter().for_each(|packet| ONE.send(&rig, packet));
        let seen = rig.observe([FLOWS.into(), 0, 0]);
        assert_eq!(seen.a.len(), usize::from(FLOWS), "{seen:?}");
    }
    let status = rig.ask(&["status"]);
    let workers = status["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2, "{status}");
    assert!(workers.iter().all(|worker| worker["frames"].as_u64() > Some(0)), "{status}");
}

/// Returns the count of packets that arrived in VLAN 100, by outcome.
fn counted(rig: &Rig) -> [u64; 3] {
    let row = rig.ask(&["interface", "e1.100"])["interfaces"][0].clone();
    let sum = |of: &Value| {
        let counts = of.as_object().map(|of| of.values().filter_map(Value::as_u64).sum());
        counts.unwrap_or_default()
    };
    [row["forwarded"]["packets"].as_u64().unwrap(), sum(&row["passed"]), sum(&row["dropped"])]
}

fn all_packets_of_a_vlan_are_counted_once(setup: Setup) {
    let rig = start(setup, "");
    let (host, a) = (ip(ONE.host[0]), v4().a);
    // The router must know the host's MAC address, so that it can send errors to the host.
    let first = Packet::udp(a, host, b"hello");
    rig.a.send(&first);
    ONE.answer(&rig, host, ONE.request(&rig, host));
    ONE.receive(&rig, &first.forwarded());
    let before = counted(&rig);
    let plain = Packet::udp(host, a, b"forwarded");
    // Packets that are forwarded, dropped with and without an answer, for this machine, for a
    // group, and ARP.
    for packet in [
        plain.clone(),
        plain.clone(),
        plain.clone().hops(1),
        Packet::udp(ip("127.0.0.1"), a, b"no source"),
        Packet::udp(host, ip("203.0.113.9"), b"no route"),
        Packet::echo(host, ip(ONE.router[0]), 1),
    ] {
        ONE.send(&rig, &packet);
    }
    let hello = Packet::new(host, ip("224.0.0.5"), 89, vec![2; 44]).hops(1);
    ONE.send_frame(&rig, Frame::of(ONE.mac, [1, 0, 0x5e, 0, 0, 5], &hello));
    ONE.ask(&rig, host, ip(ONE.router[0]));
    // Packets of other VLANs do not count, whether or not the router serves the VLAN.
    TWO.send(&rig, &Packet::udp(ip(TWO.host[0]), a, b"of the other VLAN"));
    let packet = Packet::udp(host, a, b"unknown");
    let frame = Frame::of(ONE.mac, rig.b.router_mac, &packet);
    rig.b.send_frame(&Frame { tags: vec![[0x8100, 100], [0x8100, 9]], ..frame });
    rig.observe([3, 0, 0]);
    let sent = 8;
    let total = rig.until(|| {
        rig.all_arrive_at_b(&[Packet::udp(a, v4().b, b"time passes")]);
        let now = counted(&rig);
        let counts: Vec<_> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        (counts.iter().sum::<u64>() >= sent).then_some(counts)
    });
    assert_eq!(total.iter().sum::<u64>(), sent, "{total:?}");
    assert_eq!(total, [2, 3, 3]);
}
