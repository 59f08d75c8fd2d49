//! Rules in several threads: links with two queues, and a thread for each queue.
//!
//! The kernel distributes flows over the queues by a hash that differs between both directions, so
//! about half of all packets arrive at a thread that must hand them over. Packets of different
//! flows can overtake each other. So only the counters show that a packet was dropped.

use std::net::{IpAddr, Ipv4Addr};

use crate::packet::Packet;
use crate::rig::{Rig, Setup, Subject, v4};
use crate::rules::{counted, with_rules};

/// Links with two queues.
struct TwoQueues(Setup);

impl TwoQueues {
    fn new(subject: Subject) -> Option<Self> {
        Setup::with_queues(subject, 2).map(Self)
    }

    /// Starts a router with two threads and these rules, and a network of hosts behind B.
    fn start(self, rules: &str) -> Rig {
        let setup = self.0.ip("route add 10.4.0.0/16 via 10.3.0.2").with_flags("--threads 2");
        let lifetime = "sysctl net.inet.ip.fw.dyn_udp_lifetime=600";
        with_rules(setup, &format!("{lifetime}\n{rules}"))
    }
}

crate::instances! {
    xsk: crate::threads::TwoQueues = crate::rig::Subject::Slipring("xsk"),
    states_admit_answers_whichever_thread_receives_them,
    a_limit_counts_what_all_threads_receive,
    an_address_is_translated_for_the_packets_of_all_threads,
    packets_of_all_threads_share_a_pipe_in_their_order,
    packets_of_a_flow_stay_in_order,
    states_move_with_the_flows_when_rules_come_and_go,
    rules_that_change_under_traffic_keep_states_and_lose_no_packet,
    an_explained_packet_meets_the_states_of_all_threads,
    rules_without_states_are_checked_where_packets_arrive
}

const FLOWS: u8 = 32;
const STATEFUL: &str = "add 100 check-state
add 200 allow udp from any to any 7000 recv e0 keep-state
add 300 deny ip from any to any";

/// The far host of a flow.
const fn far(flow: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 4, 0, flow))
}

/// A datagram of a flow.
fn there(flow: u8, port: u16, data: &[u8]) -> Packet {
    Packet::udp_ports(v4().a, far(flow), [4000 + u16::from(flow), port], data)
}

/// An answer to the datagrams of a flow.
fn back(flow: u8, port: u16) -> Packet {
    Packet::udp_ports(far(flow), v4().a, [port, 4000 + u16::from(flow)], b"answer")
}

impl Rig {
    /// Sends packets from A, and asserts that they arrive at B in any order.
    #[track_caller]
    fn all_reach_b(&self, packet: impl Fn(u8) -> Packet) {
        let packets: Vec<_> = (1..=FLOWS).map(packet).collect();
        self.forwards_in_any_order(&packets);
    }

    /// Sends packets from B, and asserts that they arrive at A in any order.
    #[track_caller]
    fn all_reach_a(&self, packet: impl Fn(u8) -> Packet) {
        let packets: Vec<_> = (1..=FLOWS).map(packet).collect();
        packets.iter().for_each(|packet| self.b.send(packet));
        let seen = self.observe([packets.len(), 0, 0]);
        let mut arrived: Vec<_> = seen.a.iter().map(|arrival| arrival.packet.dst_port()).collect();
        arrived.sort_unstable();
        let expected: Vec<_> = packets.iter().map(Packet::dst_port).collect();
        assert_eq!(arrived, expected);
    }

    /// Waits until a rule has counted this number of packets.
    #[track_caller]
    fn counts(&self, rule: &str, packets: u64) {
        self.until(|| {
            let [count, _] = counted(self, rule);
            assert!(count <= packets, "rule {rule} has counted {count}");
            (count == packets).then_some(())
        });
    }

    /// Returns how many frames the threads have handed over to each other.
    fn handed(&self) -> u64 {
        let status = self.ask(&["status"]);
        let workers = status["workers"].as_array().unwrap();
        assert_eq!(workers.len(), 2, "{status}");
        workers.iter().map(|worker| worker["handed"].as_u64().unwrap()).sum()
    }
}

fn states_admit_answers_whichever_thread_receives_them(setup: TwoQueues) {
    let rig = setup.start(STATEFUL);
    let before = counted(&rig, "00300")[0];
    (1..=FLOWS).for_each(|flow| rig.b.send(&back(flow, 7000)));
    rig.counts("00300", before + u64::from(FLOWS));
    rig.all_reach_b(|flow| there(flow, 7000, b"ask"));
    (1..=FLOWS).for_each(|flow| rig.b.send(&back(flow, 7001)));
    rig.counts("00300", before + 2 * u64::from(FLOWS));
    rig.all_reach_a(|flow| back(flow, 7000));
    assert!(rig.handed() > 0);
    assert_eq!(counted(&rig, "00200")[0], 2 * u64::from(FLOWS), "a hit counts at its rule");
    let states = rig.ipfw("-d list");
    assert_eq!(states.matches("STATE udp").count(), usize::from(FLOWS), "{states}");
}

fn a_limit_counts_what_all_threads_receive(setup: TwoQueues) {
    let rig = setup.start("add 200 allow udp from any to any 7000 limit src-addr 5");
    (1..=FLOWS).for_each(|flow| rig.a.send(&there(flow, 7000, b"ask")));
    rig.until(|| {
        let status = rig.ask(&["status"]);
        let dropped = |worker: &serde_json::Value| worker["rules"]["dropped"].as_u64().unwrap();
        let dropped: u64 = status["workers"].as_array().unwrap().iter().map(dropped).sum();
        (dropped == u64::from(FLOWS) - 5).then_some(())
    });
    assert_eq!(rig.observe([0, 5, 0]).b.len(), 5);
}

fn an_address_is_translated_for_the_packets_of_all_threads(setup: TwoQueues) {
    let rules = "nat 1 config ip 10.3.0.9
add 100 nat 1 udp from any to any out xmit e1
add 110 nat 1 udp from any to any in recv e1
add 200 allow ip from any to any";
    let rig = setup.start(rules);
    (1..=FLOWS).for_each(|flow| rig.a.send(&there(flow, 7000, &[flow])));
    let seen = rig.observe([0, FLOWS.into(), 0]);
    let outside: IpAddr = Ipv4Addr::new(10, 3, 0, 9).into();
    let ports: std::collections::BTreeSet<_> = seen
        .b
        .iter()
        .map(|arrival| {
            assert_eq!(arrival.packet.src, outside);
            arrival.packet.src_port()
        })
        .collect();
    assert_eq!(ports.len(), usize::from(FLOWS), "each flow has a port of its own");
    for arrival in seen.b {
        let Packet { dst, .. } = arrival.packet;
        let ports = [7000, arrival.packet.src_port()];
        rig.b.send(&Packet::udp_ports(dst, outside, ports, b"answer"));
    }
    let mut arrived: Vec<_> = rig.observe([FLOWS.into(), 0, 0]).a;
    arrived.sort_by_key(|arrival| arrival.packet.dst_port());
    let arrived: Vec<_> = arrived.into_iter().map(|arrival| arrival.packet).collect();
    let expected: Vec<_> = (1..=FLOWS).map(|flow| back(flow, 7000)).collect();
    let ends = |packets: &[Packet]| -> Vec<_> {
        packets.iter().map(|of| (of.src, of.dst, of.dst_port())).collect()
    };
    assert_eq!(ends(&arrived), ends(&expected));
}

fn packets_of_all_threads_share_a_pipe_in_their_order(setup: TwoQueues) {
    let rig = setup.start("pipe 1 config delay 20ms\nadd 100 pipe 1 udp from any to any 5000");
    sends_in_order(&rig, 5000);
    assert_eq!(counted(&rig, "00100")[0], u64::from(FLOWS) * 5);
    let shown = rig.ipfw("pipe show");
    assert!(shown.contains("00001"), "{shown}");
}

fn packets_of_a_flow_stay_in_order(setup: TwoQueues) {
    let rig = setup.start(STATEFUL);
    sends_in_order(&rig, 7000);
}

/// Sends five packets of each flow. The packets of one flow must arrive in order.
#[track_caller]
fn sends_in_order(rig: &Rig, port: u16) {
    for number in 0..5 {
        (1..=FLOWS).for_each(|flow| rig.a.send(&there(flow, port, &[number])));
    }
    let seen = rig.observe([0, usize::from(FLOWS) * 5, 0]);
    for flow in 1..=FLOWS {
        let of_flow = seen.b.iter().filter(|arrival| arrival.packet.dst == far(flow));
        let numbers: Vec<_> = of_flow.map(|arrival| arrival.packet.payload[8]).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4], "flow {flow}");
    }
}

fn states_move_with_the_flows_when_rules_come_and_go(setup: TwoQueues) {
    let rig = setup.start(STATEFUL);
    rig.all_reach_b(|flow| there(flow, 7000, b"ask"));
    for change in ["add 50 pipe 1 ip from any to 10.9.9.9", "-q delete 50"] {
        rig.ipfw(change);
        rig.all_reach_a(|flow| back(flow, 7000));
    }
}

/// Packets are under way while the rules change which thread checks them.
fn rules_that_change_under_traffic_keep_states_and_lose_no_packet(setup: TwoQueues) {
    let rig = setup.start(STATEFUL);
    rig.all_reach_b(|flow| there(flow, 7000, b"ask"));
    let to_first_thread = "add 50 pipe 1 ip from any to 10.9.9.9";
    for change in [to_first_thread, "-q delete 50"].repeat(3) {
        let running = rig.start_ipfw(change);
        loop {
            let has_ended = running.has_ended();
            rig.all_reach_a(|flow| back(flow, 7000));
            if has_ended {
                break;
            }
        }
        running.finish().well();
    }
    let states = rig.ipfw("-d list");
    assert_eq!(states.matches("STATE udp").count(), usize::from(FLOWS), "{states}");
    let dropped = rig.ask(&["interface", "e1"])["interfaces"][0]["dropped"].clone();
    assert_eq!(dropped["thread-queue-full"], serde_json::Value::Null, "{dropped}");
}

fn an_explained_packet_meets_the_states_of_all_threads(setup: TwoQueues) {
    let rig = setup.start(STATEFUL);
    rig.all_reach_b(|flow| there(flow, 7000, b"ask"));
    for flow in 1..=8u8 {
        let words = format!("udp 10.4.0.{flow}:7000 10.1.0.2:{} recv e1", 4000 + u16::from(flow));
        assert_eq!(rig.why(&words)["action"], "forwarded", "{words}");
        let explained = rig.ipfw(&format!("explain {words}"));
        assert!(explained.contains("a state of rule 200"), "{explained}");
    }
}

fn rules_without_states_are_checked_where_packets_arrive(setup: TwoQueues) {
    let rig = setup.start("add 200 allow udp from any to any 7000");
    rig.all_reach_b(|flow| there(flow, 7000, b"ask"));
    assert_eq!((rig.handed(), counted(&rig, "00200")[0]), (0, FLOWS.into()));
}
