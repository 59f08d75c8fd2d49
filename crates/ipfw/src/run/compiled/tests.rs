//! Runs the same rules and frames through the plain interpreter and through compiled rules, and the
//! same frames one by one and in batches.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use slipring_wire::frame::{
    EchoKind, EchoSpec, FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
};

use super::super::*;
use super::CompiledRules;
use crate::packet::MalformedReason;
use crate::text::{IpfwCommand, parse_command, parse_file};

/// The actions of the generated rules. This and the next lists are short, so that rules often match
/// packets.
const ACTIONS: &[&str] = &[
    "allow",
    "allow",
    "deny",
    "deny",
    "count",
    "count",
    "count",
    "skipto 300",
    "skipto 700",
    "skipto tablearg",
    "call 500",
    "call tablearg",
    "return",
    "return next-rule",
    "check-state",
    "check-state :two",
    "reject",
    "reset",
    "unreach port",
    "setdscp 9",
    "setdscp tablearg",
    "setmark 7",
    "tcp-setmss 500",
    "reass",
    "pipe 3",
    "queue tablearg",
    "fwd 10.0.0.9",
    "fwd tablearg",
    "fwd 192.0.2.1,80",
];
const BEFORE: &[&str] = &["", "", "", "", "", "prob 0.5 ", "set 3 ", "set 4 "];
const AFTER: &[&str] =
    &["", "", "", "", "", " log", " log logamount 2", " tag 5", " untag 5", " tag tablearg"];
const PROTOCOLS: &[&str] =
    &["ip", "ip", "tcp", "udp", "icmp", "ip6", "ip4", "{ tcp or udp }", "not tcp", "ipv6-icmp"];
const ADDRESSES: &[&str] = &[
    "any",
    "any",
    "any",
    "10.0.0.1",
    "10.0.0.0/30",
    "not 10.0.0.0/31",
    "10.0.0.0/8,192.0.2.0/24",
    "10.0.0.0:255.0.0.1",
    "not 10.0.0.1:255.0.0.3",
    "10.0.0.4:255.255.0.4",
    "0.0.0.3:0.0.0.7,10.0.0.4",
    "2001:db8::1/ffff::1",
    "10.0.0.0/24{1,3-5}",
    "2001:db8::/64",
    "2001:db8::1",
    "table(1)",
    "table(1,2)",
    "not table(1)",
    "me",
    "me6",
    "{ 10.0.0.2 or table(1) }",
    "{ me or 10.0.0.3 }",
    "{ 10.0.0.1 or 2001:db8::1 }",
    "0.0.0.0/0",
];
const PORTS: &[&str] = &["", "", "", " 53", " 1-1024", " not 80", " 53,80,1000-2000"];
const OPTIONS: &[&str] = &[
    "",
    "",
    "",
    "",
    " in",
    " out",
    " recv em0",
    " recv em*",
    " xmit em1",
    " via em0",
    " via 10.0.0.2",
    " not recv any",
    " recv table(3)",
    " iplen 0-50",
    " ipttl 64",
    " ipid 7",
    " established",
    " setup",
    " tcpflags ack",
    " icmptypes 8",
    " dscp 9",
    " not dscp 9",
    " tagged 5",
    " mark 7",
    " keep-state",
    " keep-state :two",
    " limit src-addr 2",
    " record-state",
    " frag mf",
    " mac-type ipv4",
    " { proto udp or dst-port 80 }",
    " lookup dst-port 2",
    " tagged tablearg",
    " keep-state defer-action",
    " ipoptions rr",
    " not layer2",
    " src-port 1000 dst-port 53",
    " MAC any 02:00:00:00:00:01",
    " in recv em0 src-ip 10.0.0.0/29",
    " ipversion 4",
    " flow-id 1",
    " lookup src-ip 1",
    " set-limit dst-port 1",
    " not ipversion 6",
    " tcpmss 0-900",
];

fn rules() -> impl Strategy<Value = Vec<String>> {
    let head = (0..11_u32, select(BEFORE), select(ACTIONS), select(AFTER));
    let ends =
        (select(PROTOCOLS), select(ADDRESSES), select(PORTS), select(ADDRESSES), select(PORTS));
    let rule = (head, ends, select(OPTIONS), select(OPTIONS));
    let text = rule.prop_map(|((number, before, action, after), ends, one, other)| {
        let (proto, src, src_ports, dst, dst_ports) = ends;
        let number = number * 100 + 1;
        let bare = action.starts_with("check-state");
        let (before, after) = if bare { ("", "") } else { (before, after) };
        let body = format!("{proto} from {src}{src_ports} to {dst}{dst_ports}{one}{other}");
        let body = if bare { String::new() } else { body };
        format!("add {number} {before}{action}{after} {body}")
    });
    // Some combinations are rules that the grammar refuses; these are skipped.
    let text = text.prop_filter("refused by the grammar", |rule| parse_command(rule).is_ok());
    prop::collection::vec(text, 1..60)
}

const TABLES: &str = "table 1 create
table 1 add 10.0.0.0/31 2 10.0.0.4 300 2001:db8::/65 5 192.0.2.0/24 700
table 2 create type number
table 2 add 53 2 80 700 1000 5
table 3 create type iface
table 3 add em1 5";

/// Generates frames, and the direction in which each is checked.
fn frames() -> impl Strategy<Value = (Vec<u8>, CheckPass)> {
    let host = 0..6_u8;
    let port = || select(vec![53_u16, 80, 1000, 1500, 40000]);
    let flags = select(vec![0x02_u8, 0x12, 0x10, 0x11, 0x04, 0x18]);
    let l4 = prop_oneof![
        3 => (port(), port()).prop_map(|(src, dst)| L4Spec::Udp(PortPair { src, dst })),
        3 => (port(), port(), flags).prop_map(|(src, dst, flags)| {
            L4Spec::Tcp(TcpSpec { ports: PortPair { src, dst }, flags, seq: 1, ack: 1, ..Default::default() })
        }),
        1 => Just(L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 })),
    ];
    let pass = select(vec![CheckPass::In, CheckPass::In, CheckPass::Out]);
    let frame = (host.clone(), host, 0..8_u8, l4, any::<[Index; 2]>(), 0..12_u8, pass);
    frame.prop_map(|(src, dst, shape, l4, at, value, pass)| {
        let v6 = |host: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into());
        let ip = if shape == 0 {
            IpSpec::V6(Ipv6Spec {
                src: v6(src),
                dst: v6(dst),
                flow_label: dst.into(),
                ..Default::default()
            })
        } else {
            let (src, dst) = (Ipv4Addr::new(10, 0, 0, src), Ipv4Addr::new(10, 0, 0, dst));
            IpSpec::V4(Ipv4Spec { src, dst, ..Default::default() })
        };
        let spec = FrameSpec {
            src_mac: slipring_wire::MacAddr([2, 0, 0, 0, 0, src]),
            dst_mac: slipring_wire::MacAddr([2, 0, 0, 0, 0, dst]),
            ip,
            l4,
            ..Default::default()
        };
        let mut bytes = spec.build(spec.header_len().max(60)).unwrap().bytes.to_vec();
        match shape {
            // Changes one of the 30 bytes from the EtherType on, such as fragment fields, lengths
            // or types.
            1 => bytes[12 + at[0].index(30)] ^= value,
            2 => bytes[20] = 0x20,
            3 => (bytes[20], bytes[21]) = (0, 5),
            4 if value == 0 => bytes.truncate(at[1].index(60)),
            5 if value == 0 => bytes[12..14].copy_from_slice(&[8, 6]),
            _ => {}
        }
        (bytes, pass)
    })
}

fn firewall(rules: &[String], plain: bool) -> Firewall {
    firewall_of(&parse_file(&rules.join("\n")).unwrap(), plain)
}

/// Like [`firewall`], but with rules that are already parsed. Compiles the rules at most once, at
/// the end.
fn firewall_of(rules: &[(u32, IpfwCommand)], plain: bool) -> Firewall {
    let mut firewall = Firewall::open(5, [1, 2]);
    firewall.set_plain(true);
    firewall.set_ports(vec!["em0".into(), "em1".into(), "x".into()]);
    firewall.set_me(vec![
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), Some(0)),
        (IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)), None),
    ]);
    firewall.load(TABLES, 0).unwrap();
    firewall.batch(rules, 0, CommandFlags::default()).unwrap();
    firewall.load("set disable 4", 0).unwrap();
    firewall.set_plain(plain);
    firewall
}

/// Compares the verdicts on frames that are checked one by one with the verdicts on the same frames
/// in one batch.
fn both_ways(rules: &[String], frames: &[(Vec<u8>, CheckPass)]) {
    both_ways_of(firewall(rules, false), rules, frames);
    // With the limit 0, no list is short, so packets run by their classes wherever they can.
    let mut many = firewall(rules, false);
    many.program = Some(CompiledRules::with_limits(many.config(), 0, 0).into());
    both_ways_of(many, rules, frames);
}

/// Like [`both_ways`], with the firewall that checks the batch.
fn both_ways_of(mut many: Firewall, rules: &[String], frames: &[(Vec<u8>, CheckPass)]) {
    let mut one = firewall(rules, false);
    let (mut one_out, mut many_out) = (CheckOutputs::default(), CheckOutputs::default());
    let mut bytes: Vec<_> = frames.iter().map(|(bytes, _)| bytes.clone()).collect();
    let mut batch = CheckedBatch::default();
    many.check_all(&mut bytes[..], frames.len(), (0, 0), &mut many_out, &mut batch);
    for (((bytes, _), checked), changed) in frames.iter().zip(batch.drain()).zip(&bytes) {
        let (mut frame, mut crossing) = (bytes.clone(), PacketMetadata::incoming(0));
        let expected = match one.check(&mut frame, &mut crossing, 0, &mut one_out) {
            RuleVerdict::Accept => CheckResult::Accepted,
            RuleVerdict::Deny(DenyReason::Rule) => CheckResult::Denied,
            other => CheckResult::Other(other, crossing),
        };
        assert_eq!(checked, expected);
        assert_eq!(frame, *changed);
    }
    assert_eq!(one_out, many_out);
    assert_eq!(one.drops(), many.drops());
    assert!(
        one.config().list.iter().map(|(_, counters)| *counters).eq(many
            .config()
            .list
            .iter()
            .map(|(_, counters)| *counters))
    );
}

#[test]
fn the_first_of_many_rules_decides_for_none_but_the_packets_that_it_is_about() {
    let of = |src: [u8; 4]| {
        let ip = IpSpec::V4(Ipv4Spec { src: src.into(), ..Ipv4Spec::default() });
        let spec = FrameSpec { ip, ..FrameSpec::default() };
        (spec.build(64).unwrap().bytes.to_vec(), CheckPass::In)
    };
    let frames = [of([10, 0, 0, 1]), of([192, 0, 2, 1])];
    for count in [1, 3, 10, 300] {
        let others = (0..count).map(|n| format!("add deny ip from 203.0.113.{} to any", n % 250));
        let last = String::from("add allow ip from any to any");
        let rules: Vec<_> = std::iter::once(String::from("add deny ip from 10.0.0.1 to any"))
            .chain(others)
            .chain([last])
            .collect();
        both_ways(&rules, &frames);
    }
}

#[test]
fn packets_together_find_in_tables_what_each_finds_alone_however_many_are_asked() {
    let of = |ip: IpSpec| {
        let spec = FrameSpec { ip, ..FrameSpec::default() };
        (spec.build(80).unwrap().bytes.to_vec(), CheckPass::In)
    };
    let v4 = |n| of(IpSpec::V4(Ipv4Spec { src: [10, 0, n, 1].into(), ..Ipv4Spec::default() }));
    let v6 = |n| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 1);
    let v6 = |n| of(IpSpec::V6(Ipv6Spec { src: v6(n), ..Ipv6Spec::default() }));
    let mut arp = v4(0);
    arp.0[12..14].copy_from_slice(&[8, 6]);
    let frames: Vec<_> = (0..40).flat_map(|n| [v4(n), v6(n.into()), arp.clone()]).collect();
    let tables = (0..7).flat_map(|t| {
        let create = format!("table near{t} create");
        let add = move |n: u32| {
            let (v4, v6) = (format!("10.0.{n}.0/24 {}", n % 3), format!("2001:db8:{n:x}::/48 {n}"));
            format!("table near{t} add {v4} {v6}")
        };
        std::iter::once(create).chain((t..40).step_by(t as usize + 2).map(add))
    });
    let rules = (0..7).flat_map(|t| {
        let value = move |n: u32| format!("add count ip from table(near{t},{n}) to any");
        let not = format!("add count ip from any to not table(near{t})");
        (0..9).map(value).chain([not, format!("add skipto 60000 ip from table(near{t}) to any")])
    });
    let last = ["add deny ip from any to any", "add 60000 allow ip from any to any"];
    let rules: Vec<String> = tables.chain(rules).chain(last.map(String::from)).collect();
    both_ways(&rules, &frames);
}

#[test]
fn packets_run_by_their_classes_up_to_the_first_rule_with_a_check() {
    let frames: Vec<_> = (0..70_u8)
        .map(|at| {
            let ports = PortPair { src: 1000, dst: 53 };
            let l4 = match at % 3 {
                0 => L4Spec::Udp(ports),
                _ => L4Spec::Tcp(TcpSpec { ports, flags: at % 3, ..TcpSpec::default() }),
            };
            let ip = IpSpec::V4(Ipv4Spec { dst: [10, 1, at, 1].into(), ..Ipv4Spec::default() });
            let spec = FrameSpec { ip, l4, ..FrameSpec::default() };
            (spec.build(64).unwrap().bytes.to_vec(), CheckPass::In)
        })
        .collect();
    let rule = |at: usize| match at % 3 {
        0 => format!("add count ip from any to 10.1.{}.0/24", at % 64),
        1 => format!("add count tcp from any to 10.1.{}.0/24 tcpflags syn", at % 64),
        _ => format!("add deny udp from 192.0.2.{} to any", at % 250),
    };
    let last = ["add deny tcp from any to 10.1.7.0/24", "add allow ip from any to any"];
    let rules: Vec<_> = (0..400).map(rule).chain(last.map(String::from)).collect();
    assert!(firewall(&rules, false).program.unwrap().runs_by_class());
    both_ways(&rules, &frames);
}

/// Frames of which the second becomes shorter after it was parsed, as can happen in shared memory.
struct Shrinking {
    frames: Vec<Vec<u8>>,
    asked: usize,
}

impl FrameBatch for Shrinking {
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self.asked += usize::from(at == 1);
        let len = if at == 1 && self.asked > 1 { 20 } else { self.frames[at].len() };
        &mut self.frames[at][..len]
    }
}

#[test]
fn a_frame_that_gets_shorter_between_two_looks_is_read_again() {
    let frame = FrameSpec::default().build(64).unwrap().bytes.to_vec();
    let mut frames = Shrinking { frames: vec![frame; 3], asked: 0 };
    let mut firewall = firewall(&["add setdscp 9 ip from any to any".into()], false);
    let mut batch = CheckedBatch::default();
    firewall.check_all(&mut frames, 3, (0, 0), &mut CheckOutputs::default(), &mut batch);
    let malformed = RuleVerdict::Deny(DenyReason::Malformed(MalformedReason::ShortIp));
    let malformed = CheckResult::Other(malformed, PacketMetadata::incoming(0));
    assert!(batch.drain().eq([CheckResult::Accepted, malformed, CheckResult::Accepted]));
}

/// Returns a firewall's verdicts and outputs for frame after frame, and its counters and states
/// after the last one.
fn trace(firewall: &mut Firewall, frames: &[(Vec<u8>, CheckPass)]) -> Vec<String> {
    let mut trace = Vec::new();
    for (now, (bytes, pass)) in (0_u64..).zip(frames) {
        let (mut frame, mut outputs) = (bytes.clone(), CheckOutputs::default());
        let mut crossing = PacketMetadata::incoming((now % 4) as u16);
        if *pass == CheckPass::Out {
            crossing = crossing.outgoing(1);
        }
        let now = now * 700_000_000;
        for _ in 0..3 {
            let verdict = firewall.check(&mut frame, &mut crossing, now, &mut outputs);
            trace.push(format!("{verdict:?} {frame:?} {crossing:?} {outputs:?}"));
            if crossing.resume.is_none() {
                break;
            }
        }
        firewall.tick(now, &mut outputs);
        trace.push(format!("{outputs:?}"));
    }
    trace.extend(
        firewall
            .config()
            .list
            .iter()
            .map(|(entry, counters)| format!("{} {counters:?}", entry.number)),
    );
    trace.push(format!("{:?} {:?}", firewall.drops(), firewall.malformed()));
    trace.push(format!("{:?} {:?}", firewall.states().sorted(), firewall.states().counters()));
    trace
}

fn agree(rules: &[String], frames: &[(Vec<u8>, CheckPass)]) {
    let commands = parse_file(&rules.join("\n")).unwrap();
    let expected = trace(&mut firewall_of(&commands, true), frames);
    for (short, plain) in [(0, 1 << 14), (1000, 0), (0, 0)] {
        let mut firewall = firewall_of(&commands, true);
        firewall.program = Some(CompiledRules::with_limits(firewall.config(), short, plain).into());
        let got = trace(&mut firewall, frames);
        for (step, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_eq!(
                got, expected,
                "step {step}, lists up to {short} walked, {plain} plain, rules {rules:#?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_program_does_what_the_plain_interpreter_does(
        rules in rules(),
        frames in prop::collection::vec(frames(), 1..30),
    ) {
        agree(&rules, &frames);
        both_ways(&rules, &frames);
    }
}

proptest! {
    // Compiling a long list is expensive, so there are few lists with many frames each.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_long_list_too(
        rules in prop::collection::vec(rules(), 1),
        frames in prop::collection::vec(frames(), 100..140),
    ) {
        // More than a thousand further rules that do not match, so that the list is searched by its
        // index with each of the limits in `agree`.
        let far = (0..1500).map(|at| {
            let action = if at % 2 == 0 { "deny" } else { "count" };
            format!("add {} {action} udp from 172.16.{}.{} to any {at}", at, at / 250, at % 250)
        });
        let rules: Vec<_> = rules[0].iter().cloned().chain(far.skip(1)).collect();
        agree(&rules, &frames);
        both_ways(&rules, &frames);
    }
}

#[test]
fn masks_that_are_no_prefix_find_what_the_plain_interpreter_finds_also_where_fields_run_out() {
    let of = |n: u32| {
        let ip = |at: u32| Ipv4Addr::from(n.rotate_left(at).wrapping_mul(0x9e37_79b9));
        let v4 = Ipv4Spec { src: ip(0), dst: ip(7), ..Ipv4Spec::default() };
        let v6 = |at: u32| Ipv6Addr::from(u128::from(u32::from(ip(at))) << 61 | u128::from(n % 7));
        let v6 = Ipv6Spec { src: v6(3), dst: v6(9), ..Ipv6Spec::default() };
        let ip = if n.is_multiple_of(3) { IpSpec::V6(v6) } else { IpSpec::V4(v4) };
        let frame = FrameSpec { ip, ..FrameSpec::default() }.build(80).unwrap();
        (frame.bytes.to_vec(), CheckPass::In)
    };
    let frames: Vec<_> = (0..300).map(of).collect();
    let masks = ["255.0.0.1", "0.0.0.3", "240.15.0.0", "0.1.1.1", "128.0.0.1", "0.0.255.0"];
    let masks6 = ["::3", "ffff::1", "f:0:0:f::", "::ff:0:0:f", "8000:8000::", "::1:0:0:0:0"];
    for count in [1, 6, 12] {
        let rules = (0..count * 8).map(|n: usize| {
            let (mask, mask6) = (masks[n % count.min(6)], masks6[n % count.min(6)]);
            let side = ["src", "dst"][n / 2 % 2];
            match n % 3 {
                0 => format!("add count ip from any to any {side}-ip6 ::{n}/{mask6}"),
                1 => format!("add count ip from any to any {side}-ip 10.{n}.0.{n}:{mask}"),
                _ => format!("add count ip from any to any not {side}-ip 0.0.{n}.0:{mask}"),
            }
        });
        let rules: Vec<_> = rules.collect();
        agree(&rules, &frames);
        both_ways(&rules, &frames);
    }
}
