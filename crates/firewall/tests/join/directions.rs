//! Tests of the checks on input and on output, of port maps, and of next hops.

use super::*;

#[test]
fn a_frame_is_checked_once_where_no_rule_asks_for_directions() {
    let mut fixture =
        Fixture::new("add 100 count ip from any to any\nadd 200 allow ip from any to any");
    assert_eq!(fixture.offer(udp(9, 60), 0), Some(1));
    assert_eq!(fixture.offer(udp(9, 60), 1), Some(0));
    assert_eq!((fixture.count(100), fixture.count(200)), (2, 2));
}

#[test]
fn a_frame_is_checked_as_it_goes_out_too_where_a_rule_asks() {
    for rule in [
        "deny udp from any to any out",
        "deny ip from any to any xmit em1",
        "deny ip from any to any out via em1",
    ] {
        let mut fixture =
            Fixture::new(&format!("add 100 {rule}\nadd 200 allow ip from any to any"));
        assert!(fixture.dataplane.checks_out());
        assert_eq!(fixture.offer(udp(9, 60), 0), None, "{rule}");
        assert_eq!((fixture.count(100), fixture.count(200)), (1, 1), "{rule}");
        assert_eq!(fixture.dataplane.counters().of(DataplaneLoss::Denied), 1);
    }
}

#[test]
fn rules_of_disabled_sets_ask_for_nothing() {
    let mut fixture =
        Fixture::new("add 100 set 3 deny ip from any to any out\nadd 200 allow ip from any to any");
    assert!(fixture.dataplane.checks_out());
    fixture.load("set disable 3");
    assert!(!fixture.dataplane.checks_out());
    assert_eq!(fixture.offer(udp(9, 60), 0), Some(1));
}

#[test]
fn who_asks_for_it_has_frames_checked_once_or_twice() {
    let rules = "add 100 allow ip from any to any";
    for (passes, count) in
        [(RuleCheckPasses::In, 1), (RuleCheckPasses::Auto, 1), (RuleCheckPasses::Both, 2)]
    {
        let mut fixture = Fixture::with(rules, PortMap::crossed(), passes);
        assert_eq!(fixture.offer(udp(9, 60), 0), Some(1));
        assert_eq!(fixture.count(100), count, "{passes:?}");
    }
    let mut fixture = Fixture::with(
        "add 1 deny ip from any to any out\nadd 2 allow ip from any to any",
        PortMap::crossed(),
        RuleCheckPasses::In,
    );
    assert_eq!(fixture.offer(udp(9, 60), 0), Some(1));
}

#[test]
fn frames_go_to_all_ports_of_the_map_and_each_copy_is_checked_for_itself() {
    let map = PortMap::read(["1=2,3", "2=1", "3=1"], 3).unwrap();
    let mut fixture =
        Fixture::with("add 100 allow ip from any to any", map.clone(), RuleCheckPasses::Auto);
    assert_eq!(fixture.offer(udp(9, 60), 0), Some(2));
    assert_eq!(fixture.sink.sent, [(1, udp(9, 60))]);
    assert_eq!(fixture.dataplane.counters().copies, 1);
    let rules = "add 100 deny ip from any to any out xmit em1\nadd 200 allow ip from any to any";
    let mut fixture = Fixture::with(rules, map, RuleCheckPasses::Auto);
    assert_eq!(fixture.offer(udp(9, 60), 0), Some(2));
    assert_eq!((fixture.sink.sent.len(), fixture.count(100)), (0, 1));
}

#[test]
fn fwd_sends_to_a_port_or_to_the_next_hop_that_arp_told_of() {
    let mut fixture = Fixture::new(
        "add 100 fwd port:em0 udp from any to any 7\nadd 200 fwd 10.9.9.9 udp from any to any 8\nadd 300 allow ip from any to any",
    );
    assert_eq!(fixture.offer(udp(7, 60), 0), Some(0), "back where it came from");
    assert_eq!(fixture.offer(udp(8, 60), 0), None);
    assert_eq!(fixture.dataplane.counters().of(DataplaneLoss::NoHop), 1);
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    arp.extend([2, 0, 0, 0, 0, 9, 10, 9, 9, 9, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    arp.resize(60, 0);
    assert_eq!(fixture.offer(arp, 1), Some(0));
    let mut frame = udp(8, 60);
    assert_eq!(fixture.dataplane.offer(&mut frame, 0, 0, &mut fixture.sink), Some(1));
    assert_eq!(frame[..6], [2, 0, 0, 0, 0, 9]);
}

#[test]
fn fwd_believes_only_messages_that_the_rfcs_allow() {
    let mut fixture = Fixture::new(
        "add 100 fwd 10.9.9.9 udp from any to any 8\nadd 300 allow ip from any to any",
    );
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    arp.extend([2, 0, 0, 0, 0, 9, 10, 9, 9, 9, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    arp.resize(60, 0);
    // No neighbour may be learned from these three ARP packets. In the first, the sender's MAC
    // address is a group address (RFC 1812, 3.3.2). In the second, the hardware type is not
    // Ethernet. In the third, the operation is neither request nor reply.
    for (at, byte) in [(22, 1), (15, 6), (21, 9)] {
        let mut bad = arp.clone();
        bad[at] = byte;
        fixture.offer(bad, 1);
        assert_eq!(fixture.offer(udp(8, 60), 0), None, "byte {at}");
    }
    fixture.offer(arp, 1);
    assert_eq!(fixture.offer(udp(8, 60), 0), Some(1));
}

/// Returns an IP packet of 100 bytes, with a datagram to the UDP port `dst_port`, as two fragments.
fn fragments(dst_port: u16) -> [Vec<u8>; 2] {
    let whole = udp(dst_port, 114);
    [(34..82, 0x20, 0), (82..114, 0, 6)].map(|(part, more, offset)| {
        let mut frame = [&whole[..34], &whole[part]].concat();
        let len = frame.len() as u16 - 14;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        (frame[20], frame[21]) = (more, offset);
        frame[24..26].fill(0);
        let sum = slipring_wire::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    })
}

#[test]
fn what_was_put_together_is_one_packet_on_its_way_out_too() {
    let rules = "add 100 reass ip from any to any in\nadd 200 allow udp from any to any 9 out\n\
                 add 300 deny ip from any to any";
    for one_pass in ["enable", "disable"] {
        let in_rule = "add 150 allow ip from any to any in";
        let map = PortMap::read(["1=2,3", "2=1", "3=1"], 3).unwrap();
        let mut fixture = Fixture::with(
            &format!("{one_pass} one_pass\n{rules}\n{in_rule}"),
            map,
            RuleCheckPasses::Auto,
        );
        let [first, last] = fragments(9);
        assert_eq!((fixture.offer(first.clone(), 0), fixture.offer(last.clone(), 0)), (None, None));
        let to = |port| [(port, first.clone()), (port, last.clone())];
        assert_eq!(fixture.sink.sent, [to(1), to(2)].concat());
        assert_eq!(fixture.count(200), 2, "one for each port");
        assert_eq!(fragments(8).map(|part| fixture.offer(part, 0)), [None, None]);
        assert_eq!((fixture.sink.sent.len(), fixture.count(300)), (4, 2));
        assert_eq!(fixture.dataplane.counters().of(DataplaneLoss::Denied), 4);
    }
}

#[test]
fn rejects_are_answered_on_the_port_that_the_packet_came_by() {
    let mut fixture = Fixture::new("add 100 unreach port udp from any to any");
    assert_eq!(fixture.offer(udp(9, 60), 1), None);
    let [(1, answer)] = &fixture.sink.sent[..] else { panic!("{:?}", fixture.sink.sent) };
    assert_eq!((answer[23], answer[34], answer[35]), (1, 3, 3), "ICMP, unreachable, port");
    assert_eq!(fixture.dataplane.counters().made, 1);
}

#[test]
fn logged_lines_name_the_port() {
    let mut fixture = Fixture::new(
        "sysctl net.inet.ip.fw.verbose=1\nadd 100 deny log udp from any to any in recv em0",
    );
    fixture.offer(udp(9, 60), 0);
    assert_eq!(fixture.sink.lines, ["ipfw: 100 Deny UDP 10.0.0.1:1000 10.1.0.1:9 in via em0"]);
}
