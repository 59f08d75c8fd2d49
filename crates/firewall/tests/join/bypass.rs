//! Tests of frames that are not IP. As in FreeBSD's bridge, no rule checks ARP unless a setting
//! says so (`net.link.bridge.ipfw_arp`).

use super::*;
use slipring_firewall::dataplane::BypassCounters;

const ARP: u16 = 0x0806;
const RARP: u16 = 0x8035;
const LLDP: u16 = 0x88cc;

fn ether(kind: u16) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(kind.to_be_bytes());
    frame.resize(60, 0);
    frame
}

fn tagged(kind: u16) -> Vec<u8> {
    let mut frame = ether(0x8100);
    frame[14..18].copy_from_slice(&[0, 5, kind.to_be_bytes()[0], kind.to_be_bytes()[1]]);
    frame
}

fn neighbour_solicitation() -> Vec<u8> {
    let mut frame = ether(0x86dd);
    frame.resize(14 + 40 + 24, 0);
    // An IPv6 header without options. It is followed by 24 bytes of ICMPv6, type 135.
    frame[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 24, 58, 255]);
    frame[22..24].copy_from_slice(&[0xfe, 0x80]);
    frame[38..40].copy_from_slice(&[0xff, 0x02]);
    frame[54] = 135;
    frame
}

/// Returns the output port of each frame from the first port.
fn ways(fixture: &mut Fixture, frames: &[Vec<u8>]) -> Vec<Option<PortIndex>> {
    frames.iter().map(|frame| fixture.offer(frame.clone(), 0)).collect()
}

#[test]
fn arp_and_rarp_pass_a_list_that_denies_everything_and_are_counted() {
    let mut fixture = Fixture::new("add 100 deny ip from any to any");
    let frames = [ether(ARP), ether(RARP), tagged(ARP)];
    assert_eq!(ways(&mut fixture, &frames), [Some(1); 3]);
    let tally = fixture.dataplane.counters();
    assert_eq!((tally.bypassed, tally.sent), (BypassCounters { arp: 3, non_ip: 0 }, 3));
    assert_eq!(fixture.count(100), 0, "no rule has seen them");
}

#[test]
fn with_the_setting_on_rules_are_asked_about_arp() {
    let rules = "sysctl net.link.bridge.ipfw_arp=1\nadd 100 deny MAC any 02:00:00:00:00:01 mac-type arp\n\
                 add 200 allow mac-type rarp\nadd 300 deny ip from any to any";
    let mut fixture = Fixture::new(rules);
    let frames = [ether(ARP), ether(RARP), tagged(ARP)];
    assert_eq!(ways(&mut fixture, &frames), [None, Some(1), None]);
    assert_eq!((fixture.count(100), fixture.count(200)), (2, 1));
    assert_eq!(fixture.dataplane.counters().bypassed, BypassCounters::default());
}

#[test]
fn neighbour_discovery_is_ipv6_and_meets_the_rules() {
    let mut fixture = Fixture::new("add 100 deny ip from any to any");
    assert_eq!(fixture.offer(neighbour_solicitation(), 0), None);
    fixture.load("add 50 allow ipv6-icmp from any to any icmp6types 133,134,135,136");
    assert_eq!(fixture.offer(neighbour_solicitation(), 0), Some(1));
    assert_eq!((fixture.count(50), fixture.count(100)), (1, 1));
}

#[test]
fn other_ethertypes_meet_the_rules_pass_or_are_dropped_as_their_setting_says() {
    let mut fixture =
        Fixture::new("add 100 allow mac-type 0x88cc\nadd 200 deny ip from any to any");
    let stp = {
        // The EtherType field contains a length instead. The LLC header of the spanning tree
        // protocol follows.
        let mut frame = ether(38);
        frame[14..17].copy_from_slice(&[0x42, 0x42, 3]);
        frame
    };
    let frames = [ether(LLDP), stp];
    assert_eq!(ways(&mut fixture, &frames), [Some(1), None], "the rules are asked");
    fixture.load("sysctl net.link.bridge.pfil_onlyip=0");
    assert_eq!(ways(&mut fixture, &frames), [Some(1), Some(1)]);
    fixture.load("sysctl net.link.bridge.pfil_onlyip=1");
    assert_eq!(ways(&mut fixture, &frames), [None, None]);
    assert_eq!(fixture.offer(ether(ARP), 0), Some(1), "ARP has a setting of its own");
    let tally = fixture.dataplane.counters();
    assert_eq!(tally.bypassed, BypassCounters { arp: 1, non_ip: 2 });
    assert_eq!((tally.of(DataplaneLoss::NonIp), tally.of(DataplaneLoss::Denied)), (2, 1));
    assert_eq!((fixture.count(100), fixture.count(200)), (1, 1));
}

#[test]
fn arp_between_others_of_a_burst_keeps_its_place_and_goes_to_every_port_of_the_map() {
    let map = PortMap::read(["1=2,3", "2=1", "3=1"], 3).unwrap();
    let rules = "add 100 deny udp from any to any 2\nadd 200 allow ip from any to any";
    let mut fixture = Fixture::with(rules, map, RuleCheckPasses::Auto);
    let mut frames =
        [ether(ARP), udp(1, 60), udp(2, 60), ether(ARP), ether(ARP), udp(3, 60), vec![0; 9]];
    let mut ways = Vec::new();
    fixture.dataplane.offer_all(&mut frames[..], 7, (0, 0), &mut fixture.sink, &mut ways);
    let last = Some(2);
    assert_eq!(ways, [last, last, None, last, last, last, None]);
    let kinds: Vec<_> = fixture.sink.sent.iter().map(|(port, frame)| (*port, frame[12])).collect();
    assert_eq!(kinds, [(1, 8), (1, 8), (1, 8), (1, 8), (1, 8)], "a copy of each went to port 2");
    assert_eq!(fixture.dataplane.counters().bypassed, BypassCounters { arp: 3, non_ip: 0 });
    assert!(fixture.dataplane.is_balanced());
}

#[test]
fn a_firewall_that_is_switched_off_passes_all_of_them() {
    let mut fixture = Fixture::new("sysctl net.link.bridge.pfil_onlyip=1\ndisable firewall");
    assert_eq!(ways(&mut fixture, &[ether(LLDP), ether(ARP), udp(1, 60)]), [Some(1); 3]);
}
