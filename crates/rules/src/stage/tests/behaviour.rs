//! Tests of what rules do to packets on their way through a router.

use slipring_route::{PuntClass, RouteDropCause, RouteVerdict};

use super::kit::*;
use crate::dataplane::RuleDataplane;

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const RST_ACK: u8 = 0x14;

const DROPPED: RouteVerdict = RouteVerdict::Drop(RouteDropCause::Rules);
const ANSWERED: RouteVerdict = RouteVerdict::Answered(RouteDropCause::Rules);

#[test]
fn a_list_permits_denies_and_counts() {
    let mut router = Router::new(
        "add 100 deny udp from any to any 1000-1999
         add 150 count ip from any to any
         add 200 allow ip from any to any",
    );
    assert_eq!(router.one(&udp("10.1.0.2", "10.3.0.2", 1500)).0, DROPPED);
    assert!(router.passes(&udp("10.1.0.2", "10.3.0.2", 2000)));
    assert!(router.passes(&udp("fd01::2", "fd03::2", 999)));
    let counted = [100, 150, 200].map(|number| router.packets_of(number));
    assert_eq!(counted, [1, 2, 2]);
    assert_eq!(router.engine.counters().dropped(RouteDropCause::Rules), 1);
}

#[test]
fn a_list_without_a_matching_rule_denies() {
    let mut router = Router::new("add 100 allow tcp from any to any");
    assert_eq!(router.one(&udp("10.1.0.2", "10.3.0.2", 1)).0, DROPPED);
}

#[test]
fn rejected_packets_are_answered_from_the_ingress_address() {
    let mut router = Router::new(
        "add 100 unreach filter-prohib udp from any to any 53
         add 200 reject ip from any to any",
    );
    for (frame, kind, code, source) in [
        (udp("10.1.0.2", "10.3.0.2", 53), 3, 13, &[10, 1, 0, 1][..]),
        (udp("10.1.0.2", "10.3.0.2", 54), 3, 1, &[10, 1, 0, 1]),
    ] {
        let (verdict, sent) = router.one(&frame);
        assert_eq!(verdict, ANSWERED);
        let [(LEFT, error)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((&error[..6], &error[6..12]), (&H1.0[..], &LEFT_MAC.0[..]));
        assert_eq!((error[34], error[35], &error[26..30]), (kind, code, source));
    }
    let (verdict, sent) = router.one(&udp("fd01::2", "fd03::2", 53));
    assert_eq!((verdict, sent.len()), (ANSWERED, 1));
    assert_eq!((sent[0].1[54], sent[0].1[55]), (1, 1), "administratively prohibited");
}

#[test]
fn a_reset_goes_to_the_sender_of_the_segment() {
    let mut router = Router::new("add 100 reset tcp from any to any 23");
    let (verdict, sent) = router.one(&tcp("10.1.0.2", "10.3.0.2", [4000, 23], SYN));
    assert_eq!(verdict, DROPPED);
    let [(LEFT, reset)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((&reset[..6], reset[47]), (&H1.0[..], RST_ACK));
    assert_eq!((router.stage.counters().made, router.stage.counters().unsent), (1, 0));
}

#[test]
fn rules_ask_for_the_ports_of_both_ways() {
    let mut router = Router::new(
        "add 100 deny ip from any to any out xmit right recv left dst-port 80
         add 200 count ip from any to any in recv left
         add 300 count ip from any to any out via right
         add 400 deny ip from any to any in recv right
         add 500 allow ip from any to any",
    );
    assert_eq!(router.one(&udp("10.1.0.2", "10.3.0.2", 80)).0, DROPPED);
    assert!(router.passes(&udp("10.1.0.2", "10.3.0.2", 81)));
    let back = udp("10.3.0.2", "10.1.0.2", 80);
    assert_eq!(router.process(RIGHT, &[back], 0).0, [DROPPED]);
    let counted = [100, 200, 300, 400, 500].map(|number| router.packets_of(number));
    assert_eq!(counted, [1, 2, 1, 1, 3]);
}

#[test]
fn me_is_every_address_of_the_ports() {
    let mut router = Router::new(
        "add 100 deny ip from any to me
         add 200 allow ip from any to any",
    );
    for own in ["10.1.0.1", "10.3.0.1"] {
        assert_eq!(router.one(&udp("10.1.0.2", own, 80)).0, DROPPED, "{own}");
    }
    assert!(router.passes(&udp("10.1.0.2", "10.3.0.2", 80)));
}

#[test]
fn what_the_kernel_would_forward_meets_the_rules_too() {
    let mut options = udp("10.1.0.2", "10.3.0.2", 80);
    options.splice(34..34, [1, 1, 1, 0]);
    options[14] += 1;
    options[16..18].copy_from_slice(&90_u16.to_be_bytes());
    options[24..26].fill(0);
    let sum = slipring_wire::checksum::of(&options[14..38]);
    options[24..26].copy_from_slice(&sum.to_be_bytes());
    for direction in ["in", "out"] {
        let list = format!(
            "add 100 deny ip from any to any {direction} dst-port 80\nadd 200 allow ip from any to any"
        );
        let mut router = Router::new(&list);
        for frame in [&options, &udp("10.1.0.2", KERNEL_NET, 80)] {
            assert_eq!(router.one(frame).0, DROPPED, "{direction}");
        }
        let other = router.one(&udp("10.1.0.2", KERNEL_NET, 81)).0;
        assert_eq!(other, RouteVerdict::Kernel(PuntClass::Other));
    }
}

#[test]
fn a_state_lets_answers_in() {
    let mut router = Router::new(
        "add 100 check-state
         add 200 allow tcp from 10.1.0.0/24 to any setup keep-state",
    );
    let answer = tcp("10.3.0.2", "10.1.0.2", [22, 4000], SYN_ACK);
    assert_eq!(router.process(RIGHT, std::slice::from_ref(&answer), 0).0, [DROPPED]);
    assert!(router.passes(&tcp("10.1.0.2", "10.3.0.2", [4000, 22], SYN)));
    let (verdicts, _) = router.process(RIGHT, &[answer], 1);
    assert!(matches!(verdicts[..], [RouteVerdict::Forward(_)]));
    assert_eq!(router.stage.firewall().states().len(), 1);
}

#[test]
fn a_table_is_looked_up() {
    let mut router = Router::new(
        "table bad create
         table bad add 10.1.0.0/30
         add 100 deny ip from table(bad) to any
         add 200 allow ip from any to any",
    );
    assert!(!router.passes(&udp("10.1.0.2", "10.3.0.2", 1)));
    assert!(router.passes(&udp("10.1.0.9", "10.3.0.2", 1)));
}

#[test]
fn fwd_sends_to_another_next_hop_on_input_and_on_output() {
    for direction in ["", "in", "out"] {
        let list = format!(
            "add 100 fwd 10.3.0.3 ip from any to 10.3.0.2 dst-port 80 {direction}
             add 200 allow ip from any to any"
        );
        let mut router = Router::new(&list);
        let (_, sent) = router.one(&udp("10.1.0.2", "10.3.0.2", 80));
        assert_eq!(&sent[0].1[..6], GATEWAY.0, "{direction}");
        assert_eq!(&sent[0].1[30..34], [10, 3, 0, 2], "the destination stays");
        let (_, sent) = router.one(&udp("10.1.0.2", "10.3.0.2", 81));
        assert_eq!(&sent[0].1[..6], H2.0);
    }
}

#[test]
fn a_pipe_delays_packets_and_passes_them_on_in_order() {
    for direction in ["", "in", "out"] {
        let list = format!(
            "add 100 pipe 1 ip from any to any {direction}\nadd 200 allow ip from any to any"
        );
        let mut router = Router::new(&list);
        router.configure("pipe 1 config delay 20ms");
        let frames = [1, 2, 3].map(|port| udp("10.1.0.2", "10.3.0.2", port));
        let (verdicts, sent) = router.process(LEFT, &frames, 0);
        assert_eq!((verdicts, sent), (vec![RouteVerdict::Delayed; 3], vec![]));
        assert!(!router.stage.is_empty());
        let due = router.stage.next_ns().unwrap();
        assert!((19_000_000..=22_000_000).contains(&due), "{due}");
        router.stage.run(&mut router.engine, due - 1_000_001);
        assert_eq!(router.made(), []);
        router.stage.run(&mut router.engine, due + 1_000_000);
        let ports: Vec<_> = router.made().iter().map(|(_, frame)| frame[37]).collect();
        assert_eq!(ports, [1, 2, 3], "{direction}");
        assert!(router.stage.is_empty());
        assert_eq!(router.engine.counters().forwarded, 3);
    }
}

#[test]
fn what_a_pipe_drops_is_counted() {
    let mut router = Router::new("add 100 pipe 1 ip from any to any");
    router.configure("pipe 1 config bw 8kbit/s queue 2");
    let frames = vec![udp("10.1.0.2", "10.3.0.2", 1); 10];
    router.process(LEFT, &frames, 0);
    let dropped = router.engine.counters().dropped(RouteDropCause::Rules);
    assert!((7..=8).contains(&dropped), "{dropped}");
    assert_eq!(router.engine.counters().delayed, 10 - dropped);
}

#[test]
fn without_one_pass_rules_go_on_after_the_pipe() {
    let mut router = Router::new(
        "sysctl net.inet.ip.fw.one_pass=0
         add 100 pipe 1 ip from any to any
         add 200 deny ip from any to any dst-port 2
         add 300 allow ip from any to any",
    );
    router.configure("pipe 1 config delay 20ms");
    let frames = [1, 2, 3].map(|port| udp("10.1.0.2", "10.3.0.2", port));
    router.process(LEFT, &frames, 0);
    router.stage.run(&mut router.engine, 30_000_000);
    assert_eq!(router.made().len(), 2);
    assert_eq!([200, 300].map(|number| router.packets_of(number)), [1, 2]);
}

#[test]
fn nat_translates_both_ways() {
    let mut router = Router::new(
        "nat 1 config ip 198.51.100.9
         add 100 nat 1 ip from any to any via right
         add 200 allow ip from any to any",
    );
    let (_, sent) = router.one(&udp("10.1.0.2", "10.3.0.2", 80));
    assert_eq!(&sent[0].1[26..30], [198, 51, 100, 9]);
    let port = u16::from_be_bytes([sent[0].1[34], sent[0].1[35]]);
    let mut answer = udp("10.3.0.2", "198.51.100.9", port);
    answer[34..36].copy_from_slice(&80_u16.to_be_bytes());
    answer[40..42].fill(0);
    let (verdicts, sent) = router.process(RIGHT, &[answer], 1);
    let [(LEFT, frame)] = &sent[..] else { panic!("{verdicts:?}") };
    assert_eq!((&frame[..6], &frame[30..34]), (&H1.0[..], &[10, 1, 0, 2][..]));
    assert_eq!(&frame[36..38], 4000_u16.to_be_bytes());
}

#[test]
fn reassembly_shows_the_ports_of_every_fragment() {
    let list = "add 100 reass ip from any to any in
         add 200 deny udp from any to any 80
         add 300 allow ip from any to any";
    let one_pass = |value: u8| format!("sysctl net.inet.ip.fw.one_pass={value}\n{list}");
    let [first, last] = fragments(&udp("10.1.0.2", "10.3.0.2", 80), 24);
    let mut router = Router::new(&one_pass(0));
    assert_eq!(router.one(&first).0, RouteVerdict::Delayed);
    assert_eq!(router.one(&last).0, DROPPED);
    assert_eq!(router.engine.counters().dropped(RouteDropCause::Rules), 2);
    let [first, last] = fragments(&udp("10.1.0.2", "10.3.0.2", 81), 24);
    assert_eq!(router.one(&first).0, RouteVerdict::Delayed);
    assert_eq!(router.one(&last).1.len(), 2, "both fragments leave");
}

#[test]
fn all_fragments_of_a_packet_go_where_a_rule_after_reassembly_sends_it() {
    let all = |action: &str| {
        format!(
            "sysctl net.inet.ip.fw.one_pass=0
             add 100 reass ip from any to any in
             add 200 {action} udp from any to any 80 in
             add 300 allow ip from any to any"
        )
    };
    let mut router = Router::new(&all("fwd 10.3.0.3"));
    let [first, last] = fragments(&udp("10.1.0.2", "10.3.0.2", 80), 24);
    assert_eq!(router.one(&first).0, RouteVerdict::Delayed);
    let (_, sent) = router.one(&last);
    let next_hops: Vec<_> = sent.iter().map(|(_, frame)| &frame[..6]).collect();
    assert_eq!(next_hops, [GATEWAY.0; 2], "fwd");

    for action in ["pipe 1", "queue 1"] {
        let mut router = Router::new(&all(action));
        router.configure("pipe 1 config delay 20ms");
        router.configure("queue 1 config pipe 1");
        let parts = fragments(&udp("10.1.0.2", "10.3.0.2", 80), 24);
        let (verdicts, sent) = router.process(LEFT, &parts, 0);
        assert_eq!((verdicts, sent), (vec![RouteVerdict::Delayed; 2], vec![]), "{action}");
        router.stage.run(&mut router.engine, 30_000_000);
        let made = router.made();
        let offsets: Vec<_> = made.iter().map(|(_, frame)| frame[21]).collect();
        assert_eq!(offsets, [0, 3], "{action}: in order");
        assert!(router.stage.is_empty());
        assert_eq!(router.engine.counters().dropped(RouteDropCause::Rules), 0, "{action}");
    }
}

#[test]
fn new_rules_are_in_force_at_once_and_rules_that_stay_keep_their_counts() {
    let mut master = firewall("add 100 count ip from any to any\nadd 200 allow ip from any to any");
    let mut router = Router::new("");
    router.stage.adopt(&mut master.ruleset());
    assert!(router.passes(&udp("10.1.0.2", "10.3.0.2", 1)));
    master.load("add 150 deny udp from any to any", 0).unwrap();
    router.stage.adopt(&mut master.ruleset());
    assert!(!router.passes(&udp("10.1.0.2", "10.3.0.2", 1)));
    assert_eq!([100, 150, 200].map(|number| router.packets_of(number)), [2, 1, 1]);
}

#[test]
fn log_lines_are_kept_for_their_readers() {
    let mut router = Router::new("add 100 deny log ip from any to any");
    router.log.watch();
    router.one(&udp("10.1.0.2", "10.3.0.2", 1));
    assert_eq!(router.log.count(), 1);
}
