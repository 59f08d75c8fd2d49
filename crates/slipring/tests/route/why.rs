//! Tests of `slipring route ctl why`: the outcome of a described packet. Explaining a packet has no
//! other effect.

use std::net::IpAddr;

use serde_json::Value;

use crate::packet::Packet;
use crate::rig::{Rig, Setup, Subject, families, host_mac, ip, v4};
use crate::topology::words;

crate::program_checks! {
    for crate::rig::Setup:
    a_packet_is_explained_as_it_is_forwarded,
    a_packet_that_is_not_forwarded_is_explained_with_the_cause,
    the_explained_next_hop_is_the_one_that_the_flow_takes,
    an_interface_that_is_left_to_the_kernel_explains_its_packets,
    a_source_that_the_reverse_path_filter_refuses_is_explained_as_dropped,
    a_mistake_in_a_described_packet_is_told,
}

impl Rig {
    /// Asks `why` about a packet until the answer does not depend on a late thread or on incomplete
    /// tables, and returns the answer.
    pub(crate) fn why(&self, packet: &str) -> Value {
        let words: Vec<_> = packet.split_ascii_whitespace().collect();
        self.until(|| {
            let answer = self.ask(&[&["why"], &words[..]].concat());
            let passing = ["a thread of the router is late", "the tables are not complete"];
            let is_passing = passing.iter().any(|reason| answer["reason"] == *reason);
            (!is_passing).then_some(answer)
        })
    }
}

/// Returns the answer of `why` about a packet that arrives on `e0`.
fn why(rig: &Rig, packet: &str) -> Value {
    rig.why(&format!("{packet} recv e0"))
}

/// Number of packets that the kernel got because a thread of the router was late.
pub(crate) fn left_for_lateness(rig: &Rig) -> u64 {
    let answer = rig.ask(&["interface", "e0"]);
    answer["interfaces"][0]["passed"]["no-heartbeat"].as_u64().unwrap_or_default()
}

fn udp(src: IpAddr, dst: IpAddr, ports: [u16; 2]) -> String {
    let end = |address, port| std::net::SocketAddr::new(address, port).to_string();
    format!("udp {} {}", end(src, ports[0]), end(dst, ports[1]))
}

fn stage<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let stages = answer["stages"].as_array().unwrap();
    stages.iter().find(|stage| stage["stage"] == name).unwrap_or_else(|| panic!("{answer}"))
}

fn a_packet_is_explained_as_it_is_forwarded(setup: Setup) {
    let rig = setup.start();
    let counters = |rig: &Rig| {
        let answer = rig.ask(&["interface"]);
        let interfaces = answer["interfaces"].as_array().unwrap().clone();
        let counted = |of: &Value| [of["forwarded"].clone(), of["dropped"].clone()];
        interfaces.iter().map(counted).collect::<Vec<_>>()
    };
    // Fence packets that were sent at the start may still be in flight and change the counters.
    rig.until(|| {
        let before = counters(&rig);
        explains_forwarded_packets(&rig);
        (counters(&rig) == before).then_some(())
    });
    assert_eq!(rig.observe([0; 3]).b, [], "nothing is sent");
    let outcome = format!("forwarded by e1 to {}\n", words(host_mac(3, 2)));
    rig.until(|| {
        let words = ["why", "icmp", "10.1.0.2", "10.3.0.2", "recv", "e0"];
        rig.tell(&words).well().stdout.ends_with(&outcome).then_some(())
    });
}

fn explains_forwarded_packets(rig: &Rig) {
    for (net, prefix) in families().into_iter().zip(["10.3.0.0/24", "fd03::/64"]) {
        let answer = why(rig, &udp(net.a, net.b, [4000, 53]));
        assert_eq!((&answer["action"], &answer["dev"]), (&"forwarded".into(), &"e1".into()));
        assert_eq!(answer["mac"], words(host_mac(3, 2)), "{answer}");
        assert_eq!(stage(&answer, "parse")["verdict"], "accepted");
        assert_eq!(stage(&answer, "route")["verdict"], prefix);
        let hop = stage(&answer, "next hop");
        assert_eq!((&hop["state"], &hop["by_flow"]), (&"PERMANENT".into(), &false.into()));
    }
}

/// The engine in user space drops such packets, and answers some of them. The XDP program leaves
/// them to the kernel. `why` gives the same reason for both.
fn a_packet_that_is_not_forwarded_is_explained_with_the_cause(setup: Setup) {
    let is_program = setup.subject == Subject::Slipring("xdp");
    let rig = setup.ip("route add blackhole 10.66.0.0/16").start();
    let explain = |packet: &str| {
        let answer = why(&rig, packet);
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        (text("action"), text("reason"))
    };
    for (packet, action, reason) in [
        ("udp 10.1.0.2 10.3.0.2 ttl 1", "dropped and answered", "ttl-expired"),
        ("udp fd01::2 fd03::2 ttl 1", "dropped and answered", "hop-limit-expired"),
        ("udp 10.1.0.2 10.3.0.2 len 1501", "dropped and answered", "v4-too-big"),
        ("udp fd01::2 fd03::2 len 1501", "dropped and answered", "v6-too-big"),
        ("tcp 10.1.0.2 10.99.0.1", "dropped and answered", "no-route"),
        ("tcp 10.1.0.2 10.66.0.1", "dropped", "blackhole"),
        ("tcp 127.0.0.1 10.3.0.2", "dropped", "v4-source-loopback"),
        ("tcp 10.3.0.1 10.3.0.2", "dropped", "v4-source-own"),
    ] {
        let action = if is_program { "to the kernel" } else { action };
        assert_eq!(explain(packet), (action.to_owned(), reason.to_owned()), "{packet}");
    }
    let resolve = if is_program { "to the kernel, to resolve" } else { "held, to resolve" };
    assert_eq!(explain("udp 10.1.0.2 10.3.0.77").0, resolve);
    let own = ("to the kernel".to_owned(), "it is an address of this machine".to_owned());
    assert_eq!(explain("udp 10.1.0.2 10.3.0.1"), own);
    assert_eq!(explain("udp 10.1.0.2 224.0.0.5").0, "to the kernel");
    assert_eq!(explain("udp 0.0.0.1 10.3.0.2").0, "to the kernel");
    let same_link = if is_program { "to the kernel" } else { "forwarded" };
    assert_eq!(explain("udp 10.1.0.9 10.1.0.2").0, same_link);
    rig.all_arrive_at_b(&[Packet::udp(v4().a, v4().b, b"no neighbour was asked for")]);
    assert!(rig.router.ip("neigh show").lines().all(|line| !line.contains("10.3.0.77")));
}

fn the_explained_next_hop_is_the_one_that_the_flow_takes(setup: Setup) {
    let rig = setup
        .ip("route add 10.80.0.0/16 nexthop via 10.3.0.2 nexthop via 10.3.0.3
             route add fd80::/64 nexthop via fd03::2 nexthop via fd03::3")
        .start();
    let mut chosen = std::collections::BTreeSet::new();
    for (net, dst) in families().into_iter().zip([ip("10.80.0.9"), ip("fd80::9")]) {
        for port in 4000..4010 {
            let to = rig.until(|| {
                let before = left_for_lateness(&rig);
                let answer = why(&rig, &udp(net.a, dst, [port, 9]));
                assert_eq!(stage(&answer, "next hop")["by_flow"], true, "{answer}");
                rig.a.send(&Packet::udp_ports(net.a, dst, [port, 9], b"flow"));
                let to = rig.observe([0, 1, 0]).b[0].dst;
                let is_explained = answer["mac"] == words(to);
                assert!(is_explained || left_for_lateness(&rig) > before, "{to:?}: {answer}");
                is_explained.then_some(to)
            });
            chosen.insert(to);
        }
    }
    assert_eq!(chosen.len(), 2, "both next hops");
}

fn an_interface_that_is_left_to_the_kernel_explains_its_packets(setup: Setup) {
    let rig = setup.start();
    rig.ip("rule add iif e0 table 100");
    rig.until(|| {
        rig.all_arrive_at_b(&[Packet::udp(v4().a, v4().b, b"time passes")]);
        let answer = why(&rig, "udp 10.1.0.2 10.3.0.2");
        let reason = "routing rules apply to packets from e0";
        (answer["action"] == "to the kernel" && answer["reason"] == reason).then_some(())
    });
}

fn a_mistake_in_a_described_packet_is_told(setup: Setup) {
    let rig = setup.start();
    for (packet, parts) in [
        ("udp 10.1.0.2 10.3.0.2", &["SR0002", "`recv` must name the interface"][..]),
        ("udp 10.1.0.2 recv e0", &["SR0002", "`e0` is one word too many", "PROTO SOURCE[:PORT]"]),
        ("udp 10.1.0.2 fd03::2 recv e0", &["SR0002", "one address is of IPv4"]),
        ("udp 10.1.0.2 10.3.0.2 recv e7", &["SR0102", "e7", "e0, e1"]),
    ] {
        let words: Vec<_> = packet.split_ascii_whitespace().collect();
        let refused = rig.tell(&[&["why"], &words[..]].concat());
        assert_ne!(refused.code(), 0, "{packet}");
        for part in parts {
            assert!(refused.stderr.contains(part), "{packet}: {part}: {}", refused.stderr);
        }
    }
}

fn a_source_that_the_reverse_path_filter_refuses_is_explained_as_dropped(setup: Setup) {
    let rig = setup.set("ipv4/conf/e0/rp_filter", "1").start();
    let answer = why(&rig, &udp(ip("10.3.0.9"), v4().b, [4000, 53]));
    assert_eq!(
        (&answer["action"], &answer["reason"]),
        (&"dropped".into(), &"reverse-path-strict".into()),
        "{answer}"
    );
}
