//! Tests of rules for packets of VLANs that the kernel does not have.

use std::net::IpAddr;

use crate::host::Frame;
use crate::icmp::IcmpError;
use crate::packet::{ICMP, Packet, UDP};
use crate::rig::{Rig, Setup, families, ip};
use crate::topology::launch;
use crate::vlan::{ONE, TWO, Vlan, start};
use crate::vlan_workers::{FLOWS, TwoQueues};

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    rules_name_a_vlan_as_the_interface_of_a_packet,
    a_packet_of_a_vlan_that_no_rule_matches_is_dropped,
    a_state_admits_answers_into_a_vlan_and_nothing_else,
    packets_for_a_vlan_wait_in_a_pipe_and_for_their_neighbour,
    a_rejected_packet_of_a_vlan_is_answered_in_the_vlan,
    packets_for_this_machine_from_a_vlan_meet_no_rules,
    a_vlan_that_is_named_first_is_the_one_of_the_rules
}

crate::instances! {
    two_xsk: crate::vlan_workers::TwoQueues = crate::rig::Subject::Slipring("xsk"),
    a_state_admits_answers_from_a_vlan_whichever_thread_receives_them
}

/// A rule that admits port 9, which fences (see `rig`) and the rig's other packets use.
const PLAIN: &str = "add 10 allow ip from any to any 9";

/// A router with both VLANs and these rules.
fn with_rules(setup: Setup, rules: &str) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    std::fs::write(&path, format!("{PLAIN}\n{rules}\n")).unwrap();
    start(setup, &format!("--rules {}", path.display()))
}

fn to_port(src: IpAddr, dst: IpAddr, port: u16) -> Packet {
    Packet::udp_ports(src, dst, [4000, port], b"rules")
}

/// Makes the router learn the MAC address of the VLAN's host.
fn introduce(rig: &Rig, vlan: &Vlan, family: usize) {
    let host = ip(vlan.host[family]);
    let packet = Packet::udp(families()[family].a, host, b"hello");
    rig.a.send(&packet);
    vlan.answer(rig, host, vlan.request(rig, host));
    vlan.receive(rig, &packet.forwarded());
}

/// Returns which of these packets from A arrive in the VLAN, whose host the router knows. After
/// them, A sends a packet that every list of rules admits, so its arrival shows that no earlier
/// packet is still on its way.
fn arrives_in(rig: &Rig, vlan: &Vlan, packets: &[Packet]) -> Vec<Packet> {
    let last = Packet::udp(packets[0].src, packets[0].dst, b"the last one");
    packets.iter().chain([&last]).for_each(|packet| rig.a.send(packet));
    let mut arrived = Vec::new();
    loop {
        let packet = rig.b.receive("the last packet", |frame| {
            let packet = vlan.untagged(frame)?.packet()?;
            ((packet.src, packet.dst, packet.proto) == (last.src, last.dst, UDP)).then_some(packet)
        });
        if packet == last.forwarded() {
            return arrived;
        }
        arrived.push(packet);
    }
}

fn rules_name_a_vlan_as_the_interface_of_a_packet(setup: Setup) {
    let rules = "add 100 deny udp from any to any 53 recv e1.100
add 200 deny udp from any to any 54 out xmit e1.100
add 300 allow ip from any to any";
    let rig = with_rules(setup, rules);
    for (family, net) in families().into_iter().enumerate() {
        let host = ip(ONE.host[family]);
        let from_vlan = [53, 54].map(|port| to_port(host, net.a, port));
        from_vlan.iter().for_each(|packet| ONE.send(&rig, packet));
        // The same packet arrives on the interface that carries the VLAN.
        let from_parent = to_port(net.b, net.a, 53);
        rig.b.send(&from_parent);
        let seen = rig.observe([2, 0, 0]);
        let mut got: Vec<_> = seen.a.iter().map(|arrival| &arrival.packet).collect();
        got.sort_by_key(|packet| packet.src == host);
        assert_eq!(got, [&from_parent.forwarded(), &from_vlan[1].forwarded()]);
        introduce(&rig, &ONE, family);
        let into_vlan = [53, 54, 55].map(|port| to_port(net.a, host, port));
        let arrived = arrives_in(&rig, &ONE, &into_vlan);
        assert_eq!(arrived, [into_vlan[0].forwarded(), into_vlan[2].forwarded()]);
        rig.forwards(&[to_port(net.a, net.b, 54)]);
    }
    let list = rig.ipfw("-a list");
    for number in ["00100 2 ", "00200 2 "] {
        assert!(list.lines().any(|line| with_single_spaces(line).starts_with(number)), "{list}");
    }
}

fn with_single_spaces(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn a_packet_of_a_vlan_that_no_rule_matches_is_dropped(setup: Setup) {
    let rig = with_rules(setup, "add 100 allow udp from any to any 53 recv e1.200.7");
    for (family, net) in families().into_iter().enumerate() {
        for (vlan, is_allowed) in [(&ONE, false), (&TWO, true)] {
            let packet = to_port(ip(vlan.host[family]), net.a, 53);
            vlan.send(&rig, &packet);
            let seen = rig.observe([usize::from(is_allowed), 0, 0]);
            assert_eq!(seen.a.len(), usize::from(is_allowed), "{seen:?}");
        }
    }
}

fn a_state_admits_answers_into_a_vlan_and_nothing_else(setup: Setup) {
    let rules = "add 100 check-state
add 200 allow udp from any to any recv e1.100 keep-state";
    let rig = with_rules(setup, rules);
    for (family, net) in families().into_iter().enumerate() {
        let host = ip(ONE.host[family]);
        introduce(&rig, &ONE, family);
        let answer = Packet::udp_ports(net.a, host, [53, 4000], b"answer");
        assert_eq!(arrives_in(&rig, &ONE, std::slice::from_ref(&answer)), []);
        ONE.send(&rig, &to_port(host, net.a, 53));
        assert_eq!(rig.observe([1, 0, 0]).a.len(), 1);
        let other = Packet::udp_ports(net.a, host, [54, 4000], b"no answer");
        let arrived = arrives_in(&rig, &ONE, &[other, answer.clone()]);
        assert_eq!(arrived, [answer.forwarded()]);
    }
}

fn packets_for_a_vlan_wait_in_a_pipe_and_for_their_neighbour(setup: Setup) {
    let rules = "pipe 1 config delay 20ms
add 100 pipe 1 udp from any to any 53 out xmit e1.100
add 200 allow ip from any to any";
    let rig = with_rules(setup, rules);
    for (family, net) in families().into_iter().enumerate() {
        let to = ip(["10.100.0.77", "fd64::77"][family]);
        let packets = [1, 2, 3].map(|number| Packet::udp_ports(net.a, to, [number, 53], b"pipe"));
        packets.iter().for_each(|packet| rig.a.send(packet));
        ONE.answer(&rig, to, ONE.request(&rig, to));
        for packet in &packets {
            let got = rig.b.receive("a packet that has waited", |frame| {
                let packet = ONE.untagged(frame)?.packet()?;
                ((packet.dst, packet.proto) == (to, UDP)).then_some(packet)
            });
            assert_eq!(got, packet.forwarded());
        }
    }
}

fn a_rejected_packet_of_a_vlan_is_answered_in_the_vlan(setup: Setup) {
    let rules = "add 100 unreach filter-prohib ip4 from any to any 53 recv e1.200.7
add 200 allow ip from any to any";
    let rig = with_rules(setup, rules);
    introduce(&rig, &TWO, 0);
    let packet = to_port(ip(TWO.host[0]), families()[0].a, 53);
    TWO.send(&rig, &packet);
    let error = rig.b.receive("an ICMP error", |frame| {
        let packet = TWO.untagged(frame)?.packet()?;
        (packet.proto == ICMP).then(|| IcmpError::parse(packet))
    });
    assert_eq!((error.kind, error.packet.src), ((3, 13), ip(TWO.router[0])));
    error.assert_quotes(&packet);
}

fn packets_for_this_machine_from_a_vlan_meet_no_rules(setup: Setup) {
    let rig = with_rules(setup, "add 100 deny ip from any to any");
    for (family, own) in ONE.router.map(ip).into_iter().enumerate() {
        introduce(&rig, &ONE, family);
        let host = ip(ONE.host[family]);
        ONE.send(&rig, &Packet::echo(host, own, 1));
        rig.b.receive("an answer", |frame| {
            let packet = ONE.untagged(frame)?.packet()?;
            let reply = if family == 0 { 0 } else { 129 };
            ((packet.src, packet.payload.first()?) == (own, &reply)).then_some(())
        });
    }
    let answer = rig.why("udp 10.100.0.9 10.100.0.1 recv e1.100");
    assert_eq!(answer["action"], "to the kernel", "{answer}");
    let denied = rig.why("udp 10.100.0.9:4000 10.1.0.2:53 recv e1.100");
    assert_eq!((&denied["action"], &denied["reason"]), (&"dropped".into(), &"rules".into()));
}

/// The forwarding tables number the ports in another order than the command line names them. The
/// parent itself is not an interface of the router.
fn a_vlan_that_is_named_first_is_the_one_of_the_rules(setup: Setup) {
    setup.wait_until_settled();
    let Setup { subject, router, a, b, .. } = setup;
    b.namespace.wait_for_carrier("e0");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    let rules =
        "add 100 deny udp from any to any 53 recv e1.100\nadd 200 allow ip from any to any\n";
    std::fs::write(&path, rules).unwrap();
    let words = format!("e1.100 e0 --rules {}", path.display());
    let program = launch(&router, subject, &words, dir.path()).unwrap();
    let packets = [53, 54].map(|port| to_port(ip(ONE.host[0]), families()[0].a, port));
    for packet in &packets {
        let frame = Frame::of(ONE.mac, b.router_mac, packet);
        b.send_frame(&Frame { tags: ONE.tags.to_vec(), ..frame });
    }
    let first = a.receive("a packet of the VLAN", |frame| {
        frame.packet().filter(|packet| packet.src == packets[0].src)
    });
    assert_eq!(first, packets[1].forwarded());
    drop(program);
}

/// All flows are between the same two hosts, so one thread checks them. Half of the frames, tagged
/// or not, arrive at the other thread.
fn a_state_admits_answers_from_a_vlan_whichever_thread_receives_them(TwoQueues(setup): TwoQueues) {
    let rules = "add 100 check-state
add 200 allow udp from any to any 53 recv e0 keep-state
add 300 deny ip from any to any";
    let rig = with_rules(setup, rules);
    introduce(&rig, &ONE, 0);
    let (a, host) = (families()[0].a, ip(ONE.host[0]));
    let there = |of| Packet::udp_ports(a, host, [1000 + of, 53], b"ask");
    let asked: Vec<_> = (0..FLOWS).map(there).collect();
    let mut arrived = arrives_in(&rig, &ONE, &asked);
    // The last packet may have overtaken some packets in the other thread, so these are awaited
    // too.
    while arrived.len() < asked.len() {
        let more = rig.b.receive("the rest of the flows", |frame| {
            let packet = ONE.untagged(frame)?.packet()?;
            ((packet.dst, packet.proto) == (host, UDP)).then_some(packet)
        });
        arrived.push(more);
    }
    for of in 0..FLOWS {
        ONE.send(&rig, &Packet::udp_ports(host, a, [53, 1000 + of], b"answer"));
    }
    assert_eq!(rig.observe([FLOWS.into(), 0, 0]).a.len(), usize::from(FLOWS));
    let status = rig.ask(&["status"]);
    let handed = |worker: &serde_json::Value| worker["handed"].as_u64().unwrap();
    let handed: u64 = status["workers"].as_array().unwrap().iter().map(handed).sum();
    assert!(handed > 0, "{status}");
}
