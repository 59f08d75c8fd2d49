//! Compiled rules must give the same result as the plain interpreter, for frames one by one and in
//! batches: the same verdicts, frames, log lines, states and counters, for any rules and any
//! frames.
//!
//! The first byte is the number of bytes that describe rules, six bytes for each rule; they select
//! parts of the rule from the lists below. If the lowest three bits of the first byte are set, the
//! rules are repeated until there are [`LONG`] rules. The remaining bytes are frames. Each frame is
//! preceded by a byte with its length, and with a bit that ends the batch. The frame's bytes are
//! used as they are, or change [`WELL_FORMED`].
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use slipring_ipfw::run::{
    CheckOutputs, CheckResult, CheckedBatch, CommandFlags, DenyReason, Firewall, PacketMetadata,
    RuleVerdict,
};
use slipring_ipfw::text::{IpfwCommand, parse_command, parse_file};

const ACTIONS: &[&str] = &[
    "allow",
    "deny",
    "count",
    "skipto 300",
    "call 300",
    "return",
    "prob 0.5 count",
    "reject",
    "setdscp 9",
    "setmark 7",
    "reass",
    "pipe 3",
    "count tag 5",
    "set 4 deny",
    "count log",
    "skipto tablearg",
    "tcp-setmss 500",
    "set 3 allow",
    "nat 1",
    "nat global",
    "nptv6 x",
    "prob 0.5 skipto 300",
    "check-state",
    "check-state :any",
];
const SOURCES: &[&str] = &[
    "any",
    "10.0.0.0/8",
    "not 10.0.0.0/9",
    "me",
    "table(1)",
    "10.0.0.0:255.0.0.1",
    "2001:db8::/32",
    "{ 10.0.0.1 or table(1) }",
    "10.0.0.0/24{1-5,9}",
    "any 0-1023",
    "any 53,80",
    "0.0.0.1:0.0.0.3",
    "10.0.0.0:255.0.1.1",
];
const TARGETS: &[&str] =
    &["any", "10.0.0.0/30", "192.0.2.0/24", "any 53", "not me", "any 1000-60000", "table(1)"];
const PROTOCOLS: &[&str] = &["ip", "tcp", "udp", "icmp", "ip6", "not tcp", "{ udp or icmp }"];
const OPTIONS: &[&str] = &[
    "",
    "in",
    "recv em0",
    "not recv em*",
    "iplen 0-60",
    "established",
    "setup",
    "frag mf",
    "keep-state",
    "limit src-addr 2",
    "tagged 5",
    "mark 7",
    "dscp 9",
    "mac-type ipv4",
    "ipttl 1-9",
    "icmptypes 8,0",
    "not ipversion 4",
    "{ proto udp or dst-port 80 }",
    "ext6hdr frag",
    "ipid 7",
    "keep-state :two",
    "record-state :two",
    "limit dst-port 1 :two",
    "keep-state defer-action",
];

/// More rules than the classifier searches in one step, so the list is searched in parts.
const LONG: usize = 300;

fuzz_target!(|data: &[u8]| {
    let Some((&split, data)) = data.split_first() else { return };
    let (picks, frames) = data.split_at(usize::from(split).min(data.len()));
    let rules: Vec<String> = picks.chunks_exact(6).map(rule).collect();
    let mut commands: Vec<_> = rules.iter().filter_map(|rule| parse_command(rule).ok()).collect();
    if split % 8 == 7 {
        commands = commands.into_iter().cycle().take(LONG).collect();
    }
    let made = [true, false, false].map(|is_plain| firewall(&commands, is_plain));
    let [mut plain, mut ready, mut together] = made;
    let mut now_ns = 0;
    for burst in &bursts(frames) {
        now_ns += 300_000_000;
        let expected = each(&mut plain, burst, now_ns);
        assert_eq!(expected, each(&mut ready, burst, now_ns), "{rules:#?}");
        assert_eq!(expected, all(&mut together, burst, now_ns), "{rules:#?}");
    }
    let counted = |firewall: &Firewall| {
        let rules = firewall.config().list.iter().map(|(entry, counted)| (entry.number, *counted));
        (rules.collect::<Vec<_>>(), *firewall.drops(), *firewall.malformed())
    };
    assert_eq!(counted(&plain), counted(&ready), "{rules:#?}");
    assert_eq!(counted(&plain), counted(&together), "{rules:#?}");
});

/// Returns the frames of the input, as batches.
fn bursts(mut rest: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut bursts = vec![Vec::new()];
    while let Some((&how, after)) = rest.split_first() {
        let (frame, after) = after.split_at(usize::from(how & 0x7f).min(after.len()));
        rest = after;
        bursts.last_mut().expect("there is always one").push(changed(frame, how));
        if how & 0x80 != 0 {
            bursts.push(Vec::new());
        }
    }
    bursts
}

/// A frame with Ethernet and IPv4 headers, from 10.0.0.0 to 10.0.0.0, with space for a TCP header.
const WELL_FORMED: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[12], frame[14], frame[17], frame[22], frame[23]) = (8, 0x45, 46, 64, 17);
    (frame[26], frame[30], frame[46]) = (10, 10, 0x50);
    frame
};

fn changed(bytes: &[u8], how: u8) -> Vec<u8> {
    if how % 4 == 0 {
        return bytes.to_vec();
    }
    let mut frame = WELL_FORMED.to_vec();
    frame[12..].iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    frame
}

fn rule(picks: &[u8]) -> String {
    let pick = |from: &[&'static str], at: usize| from[usize::from(picks[at]) % from.len()];
    let number = 100 + u16::from(picks[0] >> 4) * 20;
    let action = pick(ACTIONS, 1);
    let (proto, src, dst) = (pick(PROTOCOLS, 0), pick(SOURCES, 2), pick(TARGETS, 3));
    let (one, other) = (pick(OPTIONS, 4), pick(OPTIONS, 5));
    if action.starts_with("check-state") {
        return format!("add {number} {action}");
    }
    format!("add {number} {action} {proto} from {src} to {dst} {one} {other}")
}

fn firewall(commands: &[IpfwCommand], is_plain: bool) -> Firewall {
    let mut firewall = Firewall::open(1, [1, 2]);
    firewall.set_plain(true);
    firewall.set_ports(vec!["em0".into(), "em1".into()]);
    firewall.set_me(vec![([10, 0, 0, 2].into(), Some(0))]);
    let rules = (0..).zip(commands.iter().cloned());
    let commands: Vec<_> = SETTINGS.iter().cloned().chain(rules).collect();
    firewall.batch(&commands, 0, CommandFlags::default()).expect("each of the rules was taken");
    firewall.load("set disable 4", 0).expect("a set");
    firewall.set_plain(is_plain);
    firewall
}

/// Commands that create a table and translators, and disable `one_pass`.
static SETTINGS: LazyLock<Vec<(u32, IpfwCommand)>> = LazyLock::new(|| {
    let text = "table 1 create\ntable 1 add 10.0.0.0/30 300 192.0.2.0/25 400\n\
        nat 1 config ip 192.0.2.9 same_ports\n\
        nptv6 x create int_prefix 2001:db8:: ext_prefix fd00:: prefixlen 32\ndisable one_pass";
    parse_file(text).expect("text of its own")
});

/// Checks the frames of a batch one by one; returns all results as text.
fn each(firewall: &mut Firewall, burst: &[Vec<u8>], now_ns: u64) -> String {
    let (mut frames, mut outputs) = (burst.to_vec(), CheckOutputs::default());
    let checked = frames.iter_mut().map(|frame| {
        let mut crossing = PacketMetadata::incoming(0);
        match firewall.check(frame, &mut crossing, now_ns, &mut outputs) {
            RuleVerdict::Accept => CheckResult::Accepted,
            RuleVerdict::Deny(DenyReason::Rule) => CheckResult::Denied,
            other => CheckResult::Other(other, crossing),
        }
    });
    let checked: Vec<_> = checked.collect();
    firewall.tick(now_ns, &mut outputs);
    format!("{checked:?} {frames:?} {outputs:?}")
}

/// Checks the frames of a batch together; returns all results as text.
fn all(firewall: &mut Firewall, burst: &[Vec<u8>], now_ns: u64) -> String {
    let (mut frames, mut outputs) = (burst.to_vec(), CheckOutputs::default());
    let mut batch = CheckedBatch::default();
    firewall.check_all(&mut frames[..], burst.len(), (0, now_ns), &mut outputs, &mut batch);
    let checked: Vec<_> = batch.drain().collect();
    firewall.tick(now_ns, &mut outputs);
    format!("{checked:?} {frames:?} {outputs:?}")
}
