//! Tests of capture files as ports.

use slipring_pcap::{LinkType, PcapFileReader, PcapWriter};
use slipring_wire::frame::{IpSpec, Ipv4Spec, L4Spec, PortPair};
use slipring_wire::{FrameSpec, MacAddr};

use super::*;

/// Writes a capture file with UDP datagrams to the ports 1 to `count`; returns its path.
fn capture(site: &FirewallLab, count: u16) -> String {
    let from = site.write("from.pcap", "");
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 65_535);
    for port in 1..=count {
        let l4 = L4Spec::Udp(PortPair { src: 9, dst: port });
        let ip = IpSpec::V4(Ipv4Spec {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            ..Default::default()
        });
        let (src_mac, dst_mac) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let frame = FrameSpec { src_mac, dst_mac, ip, l4, ..Default::default() }.build(60).unwrap();
        writer.packet(&mut bytes, 0, frame.bytes.len() as u32, &frame.bytes).unwrap();
    }
    std::fs::write(&from, &bytes).unwrap();
    from
}

/// Runs a firewall that reads one capture and writes another, until it ends. Returns the ended
/// program and the number of frames in the written capture.
fn pass(site: &FirewallLab, count: u16, words: &str) -> (FinishedProgram, usize) {
    let (from, to) = (capture(site, count), site.dir.path().join("to.pcap"));
    let _ = std::fs::remove_file(&to);
    let words = format!("-T 0 --json pcap:{from} pcap:{} {words}", to.display());
    let ended = Program::launch(&site.lab.mid, site.command("firewall", &words)).finish().well();
    let passed = PcapFileReader::new(&std::fs::read(to).unwrap()).count();
    (ended, passed)
}

fn firewall_report(ended: &FinishedProgram) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()["firewall"].clone()
}

#[test]
fn the_rules_to_begin_with_hold_before_the_first_frame() {
    let Some(site) = FirewallLab::new() else { return };
    // There are many rules, so that loading them takes a while.
    let mut rules: String =
        (0..5000).map(|at| format!("add deny udp from any to any {}\n", 20_000 + at)).collect();
    rules += "add 60000 allow ip from any to any\n";
    let rules = site.write("rules", &rules);
    for words in ["", "--threads 2"] {
        let (ended, passed) = pass(&site, 1000, &format!("--rules {rules} {words}"));
        assert_eq!((passed, &firewall_report(&ended)["sent"]), (1000, &1000.into()), "{ended:?}");
    }
}

#[test]
fn no_frame_is_taken_where_the_rules_are_refused() {
    let Some(site) = FirewallLab::new() else { return };
    let rules = site.write("rules", "add fwd port:nosuch ip from any to any\n");
    for words in ["", "--threads 2"] {
        let (from, to) = (capture(&site, 20), site.dir.path().join("none.pcap"));
        let words =
            format!("-T 0 --overwrite pcap:{from} pcap:{} --rules {rules} {words}", to.display());
        let ended = Program::launch(&site.lab.mid, site.command("firewall", &words)).finish();
        assert_ne!(ended.code(), 0);
        assert!(ended.stdout.contains("received 0 packets"), "{ended:?}");
        assert!(ended.stderr.contains("there is no port nosuch"), "{ended:?}");
        assert!(ended.stderr.contains("the same command line with --check"), "{ended:?}");
    }
}

#[test]
fn an_answer_toward_a_capture_is_lost_with_its_cause_and_holds_nothing_up() {
    let Some(site) = FirewallLab::new() else { return };
    let rules = site.write(
        "rules",
        // The rules reject 50 packets. The limit on ICMP errors allows at least 50 in a burst to one
        // destination, so the firewall makes an error for each rejected packet.
        "add 10 reject udp from any to any 1-50\nadd 20 allow ip from any to any\n",
    );
    for words in ["", "--threads 2"] {
        let (ended, passed) = pass(&site, 2000, &format!("--rules {rules} {words}"));
        let report = firewall_report(&ended);
        assert_eq!((passed, &report["made"], &report["sent"]), (1950, &50.into(), &1950.into()));
        assert_eq!((&report["lost"]["no_tx"], &report["lost"]["denied"]), (&50.into(), &50.into()));
    }
}
