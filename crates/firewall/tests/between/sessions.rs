//! Tests of stateful rules with real sessions.

use std::time::Duration;

use slipring_test_support::lab::RIGHT6;
use slipring_test_support::{eventually, installed};

use super::*;

#[test]
fn tcp_udp_and_ping_work_through_stateful_rules_and_strangers_do_not() {
    let Some(site) = FirewallLab::new() else { return };
    if !installed("iperf3") {
        return;
    }
    let rules = "add 100 check-state\nadd 200 allow tcp from 10.9.0.1 to any setup keep-state\n\
                 add 300 allow udp from 10.9.0.1 to any keep-state\n\
                 add 400 allow icmp from 10.9.0.1 to any keep-state\nadd 500 deny ip from 10.9.0.2 to any\n";
    let _firewall = site.firewall(&format!("--rules {}", site.write("rules", rules)));
    // This ping from the right must come before the ping from the left. The latter creates a state
    // that matches both directions, so a ping from the right would then pass.
    assert!(!site.lab.right.attempt("ping", "-n -c 1 -W 1 10.9.0.1").0);
    assert!(site.pings(), "{}", site.ipfw("-ad list"));
    let server = Program::start(&site.lab.right, "iperf3", "-s -1 --forceflush");
    server.wait_for_text("listening");
    let client = Program::start(&site.lab.left, "iperf3", "-c 10.9.0.2 -n 2M");
    client.finish_after(Duration::from_secs(20)).well();
    server.finish().well();
    let server = Program::start(&site.lab.right, "iperf3", "-s -1 --forceflush");
    server.wait_for_text("listening");
    let client = Program::start(&site.lab.left, "iperf3", "-c 10.9.0.2 -u -b 2M -n 200K");
    client.finish_after(Duration::from_secs(20)).well();
    let states = site.ipfw("-d list");
    assert!(states.contains("STATE udp 10.9.0.1"), "{states}");
}

#[test]
fn a_list_of_the_handbook_without_a_word_of_arp_passes_pings_of_both_families() {
    let Some(site) = FirewallLab::new() else { return };
    let rules = "add 100 check-state\nadd 200 allow icmp from any to any icmptypes 8 keep-state\n\
                 add 300 allow ipv6-icmp from any to any icmp6types 133,134,135,136\n\
                 add 400 allow ipv6-icmp from any to any icmp6types 128 keep-state\n\
                 add 500 deny ip from any to any\n";
    let path = site.write("rules", rules);
    let firewall = site.firewall(&format!("--rules {path} --json"));
    assert!(site.pings(), "{}", site.ipfw("-a list"));
    let (answered, output) = site.lab.left.attempt("ping", &format!("-n -c 1 -W 60 {}", RIGHT6));
    assert!(answered, "{output}\n{}", site.ipfw("-a list"));
    site.ipfw("delete 300");
    let _ = site.lab.left.attempt("ip", "neigh flush dev e0");
    let _ = site.lab.right.attempt("ip", "neigh flush dev e0");
    let ping = format!("-n -c 1 -W 1 {}", RIGHT6);
    assert!(!site.lab.left.attempt("ping", &ping).0, "neighbour discovery is IPv6");
    let ended = firewall.stop(Signal::INT).well();
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let bypassed = &report["firewall"]["bypassed"];
    assert!(bypassed["arp"].as_u64().unwrap() >= 2, "a question and an answer: {bypassed}");
    assert_eq!(bypassed["non_ip"], 0, "{bypassed}");
}

#[test]
fn a_refused_connection_is_told_at_once() {
    let Some(site) = FirewallLab::new() else { return };
    if !installed("iperf3") {
        return;
    }
    let _firewall = site.firewall("--default accept");
    assert!(site.pings());
    site.ipfw("add 100 reset tcp from any to any 5201");
    let client = Program::start(&site.lab.left, "iperf3", "-c 10.9.0.2 -n 1M");
    let ended = client.finish();
    assert!(ended.stderr.contains("refused") || ended.stdout.contains("refused"), "{ended:?}");
    eventually("the rule's count", || (site.count(100) > 0).then_some(()));
}
