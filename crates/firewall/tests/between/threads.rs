//! Tests of the firewall with several threads.

use super::*;

/// Adds hosts on the right side, so that there are flows for several threads. Returns their
/// addresses.
fn hosts(site: &FirewallLab) -> Vec<String> {
    let hosts: Vec<_> = (10..18).map(|n| format!("10.9.0.{n}")).collect();
    for host in &hosts {
        site.lab.right.command("ip", &format!("address add {host}/24 dev e0"));
    }
    hosts
}

#[test]
fn both_ways_of_a_flow_meet_in_one_thread_and_counts_are_those_of_all() {
    let Some(site) = FirewallLab::new() else { return };
    let rules = "add 100 check-state\nadd 200 allow icmp from 10.9.0.1 to any keep-state\n\
                 add 400 deny icmp from any to any\n";
    let path = site.write("rules", rules);
    let firewall = site.firewall(&format!("--threads 3 --rules {path}"));
    site.ipfw("sysctl net.inet.ip.fw.dyn_short_lifetime=600");
    let hosts = hosts(&site);
    for host in &hosts {
        let words = format!("-n -c 1 -W 60 {host}");
        let (answered, output) = site.lab.left.attempt("ping", &words);
        assert!(answered, "{output}\n{}", site.ipfw("-ad list"));
    }
    let states = site.ipfw("-d list");
    assert_eq!(states.matches("STATE").count(), hosts.len(), "{states}");
    // A request creates a state that the reply matches. So rule 200 counts two packets per host.
    assert_eq!(site.count(200), 2 * hosts.len() as u64, "{}", site.ipfw("-a list"));
    assert_eq!(site.count(400), 0);
    let ended = firewall.stop(Signal::INT).well();
    assert!(ended.stdout.contains(", 0 wait"), "{}", ended.stdout);
}

#[test]
fn a_pipe_delays_frames_of_all_threads() {
    let Some(site) = FirewallLab::new() else { return };
    let firewall = site.firewall("--threads 3 --default accept");
    site.ipfw("pipe 1 config delay 30ms");
    site.ipfw("add 100 pipe 1 icmp from any to any");
    for host in hosts(&site) {
        let output = site.lab.left.command("ping", &format!("-n -c 1 -W 60 {host}"));
        let time: f64 =
            output.split("time=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(time >= 60.0, "{output}");
    }
    assert_eq!(site.count(100), 16);
    let ended = firewall.stop(Signal::INT).well();
    assert!(ended.stdout.contains("0 lost, 0 wait"), "{}", ended.stdout);
}

#[test]
fn rules_that_need_all_frames_in_one_thread_are_refused_with_the_reason() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("--threads 2 --default accept");
    for rule in
        ["add 100 allow udp from any to any limit src-addr 3", "add 100 nat 1 ip from any to any"]
    {
        let ended = site.try_ipfw(rule);
        assert_eq!(ended.code(), 65, "{ended:?}");
        assert!(ended.stderr.contains("without --threads"), "{}", ended.stderr);
        assert_eq!(site.ipfw("list").lines().count(), 1, "nothing of it was done");
    }
    site.ipfw("add 100 allow udp from any to any limit src-addr dst-addr 3");
    assert!(site.pings());
}
