//! Tests of rules for forwarded packets: `--rules`, and `slipring ipfw` while the router runs.

use std::process::Command;

use slipring_test_support::Program;
use slipring_test_support::program::output;

use crate::packet::{MF, Packet, UDP};
use crate::rig::{Addresses, Rig, Setup, families, v4};
use crate::topology::SLIPRING;

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    a_denied_packet_is_dropped_and_others_are_forwarded,
    a_range_of_ports_ends_where_it_says,
    flags_of_tcp_choose_the_packets_of_a_rule,
    fragments_are_chosen_by_a_rule,
    a_thousand_rules_each_find_their_packets,
    a_rejected_packet_is_answered_as_prohibited,
    a_packet_that_no_rule_matches_is_dropped,
    each_rule_counts_its_packets,
    a_direction_and_an_interface_choose_the_packets_of_a_rule,
    a_rule_that_is_added_to_a_running_router_is_obeyed,
    rules_are_replaced_without_a_packet_between_old_and_new,
    a_state_admits_answers_and_nothing_else,
    a_table_is_looked_up_and_can_be_changed,
    packets_leave_a_pipe_after_its_delay,
    packets_with_options_meet_rules_too,
    an_explained_packet_meets_copies_of_the_rules,
    a_packet_is_explained_beyond_its_pipe,
    rules_are_explained_next_to_a_router,
    packets_that_meet_no_rules_are_said_to_be_the_kernels,
    packets_that_left_a_pipe_count_as_forwarded,
    a_rule_for_an_interface_that_the_router_does_not_have_is_warned_of,
    ipfw_metrics_are_those_of_the_router,
    what_rules_and_pipes_have_done_is_in_the_status
}

crate::instances! {
    auto: crate::rig::Setup = crate::rig::Subject::Slipring("auto"),
    a_denied_packet_is_dropped_and_others_are_forwarded
}

/// A rule that admits port 9, which fences (see `rig`) and other plain packets use. Every list of
/// rules contains it.
const PLAIN: &str = "add 10 allow ip from any to any 9";

/// A router with these rules.
pub(crate) fn with_rules(setup: Setup, rules: &str) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    std::fs::write(&path, format!("{PLAIN}\n{rules}\n")).unwrap();
    let flags = format!("{} --rules {}", setup.flags, path.display());
    setup.with_flags(&flags).start()
}

fn to_port(net: Addresses, port: u16) -> Packet {
    Packet::udp_ports(net.a, net.b, [4000, port], b"ports")
}

/// Returns a rule's counters of packets and bytes.
pub(crate) fn counted(rig: &Rig, number: &str) -> [u64; 2] {
    let list = rig.ipfw("-a list");
    let line =
        list.lines().find(|line| line.starts_with(number)).unwrap_or_else(|| panic!("{list}"));
    let mut words = line.split_ascii_whitespace().skip(1).map(|word| word.parse().unwrap());
    [words.next().unwrap(), words.next().unwrap()]
}

fn a_denied_packet_is_dropped_and_others_are_forwarded(setup: Setup) {
    let rig = with_rules(setup, "add deny udp from any to any 53\nadd allow ip from any to any");
    for net in families() {
        rig.ignores(&[to_port(net, 53)]);
        rig.forwards(&[to_port(net, 54), Packet::echo(net.a, net.b, 1)]);
    }
}

fn a_range_of_ports_ends_where_it_says(setup: Setup) {
    let rig = with_rules(setup, "add allow udp from any to any 5000-5010");
    for net in families() {
        let ports = [4999, 5000, 5005, 5010, 5011].map(|port| to_port(net, port));
        ports.iter().for_each(|packet| rig.a.send(packet));
        rig.only_b_receives(&[ports[1].forwarded(), ports[2].forwarded(), ports[3].forwarded()]);
    }
}

const TCP: u8 = 6;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A TCP segment without data. Its checksum does not matter, because a router does not check it.
fn segment(net: Addresses, flags: u8) -> Packet {
    let mut header = [4000_u16, 80].map(u16::to_be_bytes).concat();
    header.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    Packet::new(net.a, net.b, TCP, header)
}

fn flags_of_tcp_choose_the_packets_of_a_rule(setup: Setup) {
    let rules =
        "add deny tcp from any to any tcpflags syn,!ack recv e0\nadd allow ip from any to any";
    let rig = with_rules(setup, rules);
    for net in families() {
        rig.ignores(&[segment(net, SYN)]);
        rig.forwards(&[segment(net, SYN | ACK), segment(net, ACK)]);
    }
}

/// Later fragments have no ports, so rules with ports do not choose them; `frag` does.
fn fragments_are_chosen_by_a_rule(setup: Setup) {
    let rules = "add 100 deny ip from any to any frag\nadd 200 allow udp from any to any 5000";
    let (rig, net) = (with_rules(setup, rules), v4());
    let first = to_port(net, 5000).with(|packet| packet.fragment = MF);
    let later = Packet::new(net.a, net.b, UDP, vec![7; 64]).with(|packet| packet.fragment = 185);
    rig.forwards(std::slice::from_ref(&first));
    rig.ignores(&[later]);
    assert_eq!(counted(&rig, "00100")[0], 1);
}

fn a_thousand_rules_each_find_their_packets(setup: Setup) {
    let deny = |number: u16| format!("add {number} deny udp from any to any {}\n", 5000 + number);
    let rules: String = (100..1100).map(deny).collect();
    let rig = with_rules(setup, &format!("{rules}add 2000 allow ip from any to any"));
    for net in families() {
        rig.ignores(&[100, 600, 1099].map(|number| to_port(net, 5000 + number)));
        rig.forwards(&[to_port(net, 5099), to_port(net, 6100)]);
    }
    let counts = ["00100", "00600", "01099", "00101"].map(|number| counted(&rig, number)[0]);
    assert_eq!(counts, [2, 2, 2, 0]);
}

/// The codes are those of RFC 1812, section 5.2.7.1, and RFC 4443, section 3.1.
fn a_rejected_packet_is_answered_as_prohibited(setup: Setup) {
    let rules = "add unreach filter-prohib ip4 from any to any 53
add unreach6 admin-prohib ip6 from any to any 53
add allow ip from any to any";
    let rig = with_rules(setup, rules);
    let [four, six] = families().map(|net| rig.refuses(&to_port(net, 53)).kind);
    assert_eq!((four, six), ((3, 13), (1, 1)));
}

fn a_packet_that_no_rule_matches_is_dropped(setup: Setup) {
    let rig = with_rules(setup, "add allow udp from any to any 5000");
    for net in families() {
        rig.ignores(&[to_port(net, 5001), Packet::echo(net.a, net.b, 1)]);
    }
}

fn each_rule_counts_its_packets(setup: Setup) {
    let rules = "add 100 count udp from any to any 5000,5001
add 200 deny udp from any to any 5001
add 300 allow udp from any to any 5000";
    let (rig, net) = (with_rules(setup, rules), v4());
    let packets = [to_port(net, 5000), to_port(net, 5001), to_port(net, 5000)];
    let len = packets[0].bytes().len() as u64;
    packets.iter().for_each(|packet| rig.a.send(packet));
    rig.only_b_receives(&[packets[0].forwarded(), packets[2].forwarded()]);
    let all = ["00100", "00200", "00300"].map(|number| counted(&rig, number));
    assert_eq!(all, [[3, 3 * len], [1, len], [2, 2 * len]]);
}

fn a_direction_and_an_interface_choose_the_packets_of_a_rule(setup: Setup) {
    let rules = "add deny udp from any to any 5000 in recv e1
add deny udp from any to any 5001 out xmit e1
add allow ip from any to any";
    let rig = with_rules(setup, rules);
    for net in families() {
        rig.forwards(&[to_port(net, 5000)]);
        rig.ignores(&[to_port(net, 5001)]);
        rig.b.send(&Packet::udp_ports(net.b, net.a, [4000, 5000], b"back"));
        rig.is_silent();
    }
}

fn a_rule_that_is_added_to_a_running_router_is_obeyed(setup: Setup) {
    let (rig, net) = (with_rules(setup, "add 500 allow ip from any to any"), v4());
    rig.forwards(&[to_port(net, 53)]);
    rig.ipfw("add 100 deny udp from any to any 53");
    rig.ignores(&[to_port(net, 53)]);
    rig.ipfw("-q delete 100");
    rig.forwards(&[to_port(net, 53)]);
}

/// Each list of rules admits the packets that the test sends at that time, and denies all others.
fn rules_are_replaced_without_a_packet_between_old_and_new(setup: Setup) {
    let (rig, net) = (with_rules(setup, "add 200 allow udp from any to any 5000"), v4());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("next");
    let burst: Vec<_> =
        (0..20).map(|number| Packet::udp_ports(net.a, net.b, [4000, 5000], &[number])).collect();
    for number in 300..305 {
        let list = format!("-f flush\n{PLAIN}\nadd {number} allow udp from any to any 5000\n");
        std::fs::write(&path, list).unwrap();
        let change = rig.start_ipfw(&format!("-q {}", path.display()));
        while !change.has_ended() {
            rig.forwards(&burst);
        }
        change.finish().well();
    }
    assert!(rig.ipfw("list").contains("00304 allow udp"));
}

fn a_state_admits_answers_and_nothing_else(setup: Setup) {
    let rules = "add 100 check-state
add 200 allow udp from any to any 7000 recv e0 keep-state";
    let rig = with_rules(setup, rules);
    for net in families() {
        let answer = |port| Packet::udp_ports(net.b, net.a, [7000, port], b"answer");
        rig.b.send(&answer(4000));
        rig.is_silent();
        rig.forwards(&[to_port(net, 7000)]);
        [4001, 4000].iter().for_each(|port| rig.b.send(&answer(*port)));
        let seen = rig.observe([1, 0, 0]);
        let arrived: Vec<_> = seen.a.into_iter().map(|arrival| arrival.packet).collect();
        assert_eq!(arrived, [answer(4000).forwarded()]);
    }
}

fn a_table_is_looked_up_and_can_be_changed(setup: Setup) {
    let rules = "table blocked create type addr
table blocked add 10.1.0.0/24
add 100 deny udp from table(blocked) to any 5000
add 200 allow ip from any to any";
    let (rig, net) = (with_rules(setup, rules), v4());
    rig.ignores(&[to_port(net, 5000)]);
    rig.ipfw("table blocked delete 10.1.0.0/24");
    rig.forwards(&[to_port(net, 5000)]);
}

fn packets_leave_a_pipe_after_its_delay(setup: Setup) {
    let rules = "pipe 1 config delay 20ms
add 100 pipe 1 udp from any to any 5000";
    let rig = with_rules(setup, rules);
    for net in families() {
        rig.forwards(&[to_port(net, 5000), to_port(net, 5000)]);
    }
    assert_eq!(counted(&rig, "00100")[0], 4);
}

fn packets_with_options_meet_rules_too(setup: Setup) {
    let rules = "add 100 deny udp from any to any 5000\nadd 200 allow ip from any to any";
    let (rig, net) = (with_rules(setup, rules), v4());
    let optional = |port| to_port(net, port).with(|packet| packet.options = vec![1; 4]);
    rig.ignores(&[optional(5000)]);
    rig.forwards(&[optional(5001)]);
}

fn an_explained_packet_meets_copies_of_the_rules(setup: Setup) {
    let rules = "add 100 check-state
add 200 deny udp from any to any 53
add 300 allow udp from any to any 7000 recv e0 keep-state";
    let rig = with_rules(setup, rules);
    for net in families() {
        let why =
            |src: &str, dst: &str, port: &str| rig.why(&format!("udp {src} {dst} recv {port}"));
        let end = |address, port| std::net::SocketAddr::new(address, port).to_string();
        let to = |port| why(&end(net.a, 4000), &end(net.b, port), "e0");
        let answer = || why(&end(net.b, 7000), &end(net.a, 4000), "e1");
        let decisive = |answer: &serde_json::Value| {
            let check = &answer["stages"][1];
            assert_eq!(check["stage"], "rules in", "{answer}");
            let rule = check["rules"].as_array().unwrap().last().unwrap().clone();
            (rule["number"].as_u64().unwrap(), rule["why"].as_str().unwrap().to_owned())
        };
        let denied = to(53);
        assert_eq!((&denied["action"], &denied["reason"]), (&"dropped".into(), &"rules".into()));
        assert_eq!(decisive(&denied), (200, "matches, and ends the search".to_owned()));
        let allowed = to(7000);
        assert_eq!((&allowed["action"], &allowed["dev"]), (&"forwarded".into(), &"e1".into()));
        assert_eq!(decisive(&allowed).0, 300);
        // The packet did not create a state.
        assert_eq!(answer()["action"], "dropped");
        // A state ends after some seconds without packets.
        let known = rig.until(|| {
            rig.forwards(&[to_port(net, 7000)]);
            Some(answer()).filter(|answer| answer["action"] == "forwarded")
        });
        assert_eq!(decisive(&known), (100, "a state of rule 300: its action is run".to_owned()));
        // Packets for this machine are not checked by rules.
        let own = why(&end(net.a, 4000), &end(net.router_b, 53), "e0");
        assert_eq!((&own["action"], &own["stages"][0]), (&"to the kernel".into(), &().into()));
    }
    assert_eq!(counted(&rig, "00200"), [0, 0], "nothing is counted");
}

fn a_packet_is_explained_beyond_its_pipe(setup: Setup) {
    let rules = "pipe 1 config bw 1bit/s
add 100 pipe 1 udp from any to any 5000 out xmit e1
add 200 allow ip from any to any";
    let rig = with_rules(setup, rules);
    let answer = rig.why("udp 10.1.0.2 10.3.0.2:5000 recv e0");
    let stages: Vec<_> = answer["stages"].as_array().unwrap().iter().collect();
    let verdicts: Vec<_> = stages
        .iter()
        .map(|stage| (stage["stage"].as_str().unwrap(), stage["verdict"].as_str().unwrap()))
        .collect();
    let expected = [
        ("parse", "accepted"),
        ("rules in", "accepted"),
        ("police", "accepted"),
        ("route", "10.3.0.0/24"),
        ("next hop", "10.3.0.2"),
        ("rules out", "into pipe 1"),
    ];
    assert_eq!(verdicts, expected);
    assert_eq!((&answer["action"], &answer["dev"]), (&"forwarded".into(), &"e1".into()));
}

fn rules_are_explained_next_to_a_router(setup: Setup) {
    let rules = "add 200 deny udp from any to any 53
add 300 allow udp from any to any out ttl 3
add 400 allow ip from any to any in";
    let rig = with_rules(setup, &rules.replace("ttl 3", "ipttl 3"));
    let denied = rig.ipfw("explain udp 10.1.0.2:4000 10.3.0.2:53 recv e0");
    assert!(denied.contains("00200 deny udp from any to any dst-port 53   <- matches"), "{denied}");
    assert!(denied.ends_with("dropped: denied\n"), "{denied}");
    let passed = rig.ipfw("explain udp 10.1.0.2:4000 10.3.0.2:54 recv e0 ttl 3");
    assert!(passed.contains("and out by e1\n") && passed.ends_with("accepted\n"), "{passed}");
    assert!(!passed.contains("and out by e0"), "{passed}");
    assert_eq!(counted(&rig, "00200"), [0, 0]);
}

fn packets_that_meet_no_rules_are_said_to_be_the_kernels(setup: Setup) {
    let rig = with_rules(setup, "add 200 deny udp from any to any 53");
    for own in ["10.1.0.1", "10.3.0.1", "224.0.0.5"] {
        let explained = rig.ipfw(&format!("explain udp 10.1.0.2:4000 {own}:53 recv e0"));
        assert!(explained.contains("to the kernel: "), "{own}: {explained}");
        assert!(explained.ends_with("meets no rules\n"), "{own}: {explained}");
        assert!(!explained.contains("00200"), "{own}: {explained}");
    }
}

fn packets_that_left_a_pipe_count_as_forwarded(setup: Setup) {
    let rules = "pipe 1 config delay 1ms\nadd 200 pipe 1 udp from any to any 5000";
    let (rig, net) = (with_rules(setup, rules), v4());
    let forwarded = || {
        let of = rig.ask(&["interface", "e0"]);
        let of = &of["interfaces"][0]["forwarded"];
        [of["packets"].as_u64().unwrap(), of["bytes"].as_u64().unwrap()]
    };
    let before = forwarded();
    let packet = to_port(net, 5000);
    rig.forwards(&[packet.clone(), packet]);
    let after = forwarded();
    // The fences also count as forwarded.
    let status = rig.ask(&["status"]);
    let delayed = status["workers"].as_array().unwrap().iter();
    let delayed: u64 = delayed.map(|of| of["rules"]["delayed"].as_u64().unwrap()).sum();
    assert_eq!(delayed, 2, "{status}");
    let plain: u64 = counted(&rig, "00010")[0];
    assert!(after[0] >= before[0] + 2 && after[1] > before[1], "{before:?} {after:?}");
    let all = rig.ask(&["status"]);
    let interfaces = all["interfaces"].as_array().unwrap().iter();
    let sum: u64 = interfaces.map(|of| of["forwarded"]["packets"].as_u64().unwrap()).sum();
    assert_eq!(sum, plain + 2, "each packet that the rules let pass: {all}");
}

fn a_rule_for_an_interface_that_the_router_does_not_have_is_warned_of(setup: Setup) {
    let rig = with_rules(
        setup,
        "add 200 allow ip from any to any recv r9 xmit e1\nadd 300 allow ip from any to any recv e*",
    );
    let output = rig.take_program().stop(rustix::process::Signal::TERM).well();
    let warning = "warning: rule 200: recv r9: there is no such interface, only e0, e1";
    assert!(output.stderr.contains(warning), "{output:?}");
    assert_eq!(output.stderr.matches("no such interface").count(), 1, "{output:?}");
}

fn ipfw_metrics_are_those_of_the_router(setup: Setup) {
    let rig = with_rules(setup, "add 200 allow ip from any to any");
    rig.forwards(&[to_port(v4(), 5000)]);
    let metrics = rig.ipfw("metrics");
    assert!(metrics.contains("slipring_route_forwarded_packets_total{if=\"e0\"}"), "{metrics}");
    assert!(metrics.contains("slipring_route_rule_dropped_total "), "{metrics}");
}

fn what_rules_and_pipes_have_done_is_in_the_status(setup: Setup) {
    let rules = "pipe 1 config delay 1ms
add 100 deny udp from any to any 53
add 200 pipe 1 udp from any to any 5000";
    let (rig, net) = (with_rules(setup, rules), v4());
    rig.ignores(&[to_port(net, 53), to_port(net, 53), to_port(net, 5001)]);
    rig.forwards(&[to_port(net, 5000)]);
    let status = rig.ask(&["status"]);
    let expected = serde_json::json!({
        "dropped": 3, "delayed": 1, "waiting": 0, "made": 0, "unsent": 0,
    });
    assert_eq!(status["workers"][0]["rules"], expected, "{status}");
    let text = rig.tell(&["status"]).well().stdout;
    let line = "rules: 3 dropped, 1 delayed (0 wait), 0 made (0 not sent)\n";
    assert!(text.contains(line), "{text}");
    let interfaces = rig.ask(&["interface", "e0"]);
    assert_eq!(interfaces["interfaces"][0]["dropped"]["rules"], 3, "{interfaces}");
}

/// Rules are refused with an engine that has no threads, and if they have a mistake.
#[test]
fn what_does_not_go_together_with_rules_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("good"), dir.path().join("bad"));
    std::fs::write(&good, "add allow ip from any to any\n").unwrap();
    std::fs::write(&bad, "add permit everything\n").unwrap();
    let cases =
        [(&good, "--io xdp", "choose threads: --io xsk"), (&bad, "", "the rules cannot be loaded")];
    for (rules, flags, words) in cases {
        let mut command = Command::new(SLIPRING);
        command
            .args(["route", "lo", "lo2", "--rules"])
            .arg(rules)
            .args(flags.split_ascii_whitespace());
        let ended = output(&mut command);
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && text.contains(words), "{flags}: {text}");
    }
}

impl Rig {
    /// Starts `slipring ipfw` for the running router.
    pub(crate) fn start_ipfw(&self, words: &str) -> Program {
        let mut command = Command::new(SLIPRING);
        command.arg("ipfw").args(words.split_ascii_whitespace());
        command.env("SLIPRING_RUN", self.run_dir());
        Program::launch(&self.router, command)
    }

    /// Runs `slipring ipfw`; returns its output.
    pub(crate) fn ipfw(&self, words: &str) -> String {
        self.start_ipfw(words).finish().well().stdout
    }
}
