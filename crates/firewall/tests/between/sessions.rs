//! Real sessions through stateful rules.

use std::time::Duration;

use super::*;
use crate::support::{eventually, installed};

#[test]
fn tcp_udp_and_ping_work_through_stateful_rules_and_strangers_do_not() {
    let Some(site) = Site::new() else { return };
    if !installed("iperf3") {
        return;
    }
    let rules = "add 100 check-state\nadd 200 allow tcp from 10.9.0.1 to any setup keep-state\n\
                 add 300 allow udp from 10.9.0.1 to any keep-state\n\
                 add 400 allow icmp from 10.9.0.1 to any keep-state\nadd 500 deny ip from 10.9.0.2 to any\n\
                 add 600 allow mac-type arp\n";
    let _firewall = site.firewall(&format!("--rules {}", site.write("rules", rules)));
    // Before there is a state: that of a ping is one of both addresses.
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
fn a_refused_connection_is_told_at_once() {
    let Some(site) = Site::new() else { return };
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
