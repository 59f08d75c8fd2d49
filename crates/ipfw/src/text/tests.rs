mod bounds;
mod translators;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use slipring_test_support::skip;

use super::*;
use crate::rule::Rule;

fn rule(text: &str) -> Rule {
    match parse_command(&format!("add {text}")) {
        Ok(IpfwCommand::Add(add)) => add.rule,
        other => panic!("{text}: {other:?}"),
    }
}

fn error(text: &str) -> RuleTextError {
    parse_command(text).unwrap_err()
}

/// Rules as written, each with its canonical text, which is empty if it is the same. `!` marks a
/// text that is no rule; the tests skip it.
const RULES: &[(&str, &str)] = &[
    ("allow ip from any to any", ""),
    ("allow all from any to any", "allow ip from any to any"),
    ("pass tcp from any to any 80", "allow tcp from any to any dst-port 80"),
    ("permit tcp from any 1024-65535 to me ssh", "allow tcp from any 1024-65535 to me dst-port 22"),
    ("drop ip from 10.1.2.3/8 to any", "deny ip from 10.0.0.0/8 to any"),
    ("deny ip from 10.0.0.0:255.0.0.0 to any", "deny ip from 10.0.0.0/8 to any"),
    ("deny ip from 10.0.0.1:255.0.255.1 to any", "deny ip from 10.0.0.1:255.0.255.1 to any"),
    ("allow ip from { 1.2.3.4 or 2.3.4.5 } to any", ""),
    ("allow ip from {1.2.3.4 or 2.3.4.5} to any", "allow ip from { 1.2.3.4 or 2.3.4.5 } to any"),
    ("allow ip from { 1.2.3.4, 2.3.4.5} to any", "allow ip from 1.2.3.4,2.3.4.5 to any"),
    ("allow ip from {1.2.3.4, 2.3.4.5} to any", "allow ip from 1.2.3.4,2.3.4.5 to any"),
    ("allow ip from 1.2.3.4, 2.3.4.5 to any", "allow ip from 1.2.3.4,2.3.4.5 to any"),
    (
        "allow ip from 1.2.3.0/24{128,35-55,89} to any",
        "allow ip from 1.2.3.0/24{35-55,89,128} to any",
    ),
    ("allow ip from any to any 57-59,41", "allow ip from any to any dst-port 57-59,41"),
    ("allow { tcp or udp } from any to any", ""),
    ("allow udp from any any to any any", "allow udp from any to any"),
    ("allow udp from any to any src-port any dst-port 53", "allow udp from any to any dst-port 53"),
    ("allow udp from any to any dst-port any in", "allow udp from any to any in"),
    ("allow pfsync from any to any", ""),
    ("allow { carp or PFSYNC } from any to any", "allow { carp or pfsync } from any to any"),
    ("allow 112 from any to any", "allow carp from any to any"),
    ("allow vrrp from any to any", "allow carp from any to any"),
    ("allow tcp from any to any tcpflags syn,!ack", "allow tcp from any to any setup"),
    ("prob .25 deny icmp from any to any", "prob 0.250000 deny icmp from any to any"),
    ("unreach host ip from any to any", "reject ip from any to any"),
    ("unreach 13 ip from any to any", "unreach filter-prohib ip from any to any"),
    ("unreach needfrag 1400 ip from any to any", ""),
    (
        "count ip from any to any mac-type ipv4,0x86dd",
        "count ip from any to any mac-type 0x0800,0x86dd",
    ),
    ("allow tcp from any to any established", ""),
    ("allow icmp6 from any to any", "allow ipv6-icmp from any to any"),
    ("allow icmpv6 from any to any", "allow ipv6-icmp from any to any"),
    ("allow ip4 from any to any", ""),
    ("allow log logdst ipfw0 ip from any to any", ""),
    ("allow ip from any to any ipver 4", ""),
    ("allow ip from any to any ipversion 6", "allow ip from any to any ipver 6"),
    ("allow ip from table(1) to any tagged tablearg", ""),
    ("allow ip from table(1) to any mark tablearg", ""),
    ("allow ip from any to any mark 0x7", ""),
    ("deny ip from any to any not out", "deny ip from any to any in"),
    ("allow ip from any to any lookup dst-ip:255.255.0.0 1", ""),
    ("allow ip from any to any lookup src-ip:ffff:: 1", ""),
    ("allow ip from any to any lookup dst-mac:ff:ff:ff:00:00:00 1", ""),
    ("allow ip from any to any // no # 1", ""),
    (
        "allow tcp from any to any tcpflags syn,fin,!rst,!psh",
        "allow tcp from any to any tcpflags syn,fin,!psh,!rst",
    ),
    ("allow ip from not 1.2.3.4 to not me", ""),
    ("allow ip from any to any not in", "allow ip from any to any out"),
    ("allow ip from any to any recv em0 xmit em1 in", ""),
    ("allow ip from table(1) to table(hosts,5)", ""),
    ("pipe tablearg ip from table(1) to any", ""),
    ("allow ip from any to table(x,skipto=100)", ""),
    (
        "allow tcp from any to me 22 keep-state",
        "allow tcp from any to me dst-port 22 keep-state :default",
    ),
    ("allow tcp from any to any setup keep-state :OUT", ""),
    (
        "allow tcp from me to any setup limit src-addr 4",
        "allow tcp from me to any setup limit src-addr 4 :default",
    ),
    (
        "allow tcp from me to any limit src-addr src-port 10 :x",
        "allow tcp from me to any limit src-addr,src-port 10 :x",
    ),
    (
        "allow ip from any to any record-state defer-action",
        "allow ip from any to any record-state :default defer-immediate-action",
    ),
    ("allow ip from any to any set-limit all tablearg :y", ""),
    ("check-state", "check-state :default"),
    ("check-state :any", ""),
    ("check-state :OUT", ""),
    ("skipto 300 ip from any to any", ""),
    ("call 1000 ip from any to any", ""),
    ("return", ""),
    ("return next-rule via em0", ""),
    ("count log logamount 5 tag 7 untag 9 ip from any to any tagged 3-5,9", ""),
    ("log logdst syslog,rtsock allow ip from any to any", "!"),
    ("allow log logdst syslog,rtsock ip from any to any", ""),
    ("fwd 10.0.0.1 ip from any to any", ""),
    ("fwd 10.0.0.1,8080 tcp from any to any", ""),
    ("fwd 2001:db8::1 ip6 from any to any", ""),
    ("fwd tablearg ip from any to table(2)", ""),
    ("fwd port:em1 ip from any to any", ""),
    ("setdscp 9 ip from any to any", ""),
    ("setdscp ef ip from any to any", ""),
    (
        "setmark 0x10 ip from any to any mark 0x1:0xff",
        "setmark 0x10 ip from any to any mark 0x1:0xff",
    ),
    ("tcp-setmss 1400 tcp from any to any setup", ""),
    ("reass ip from any to any in", ""),
    ("allow ip6 from 2001:db8::/32 to any flow-id 47789", ""),
    ("allow ip6 from any to any ext6hdr frag,route", ""),
    ("allow ipv6-icmp from any to any icmp6types 133,134,135,136", ""),
    ("allow icmp from any to any icmptypes 0,8", ""),
    ("allow ip from any to any iplen 0-64,1500 ipttl 1-5 ipid 7", ""),
    (
        "allow ip from any to any iptos lowdelay,!congestion ipprecedence 5",
        "allow ip from any to any iptos lowdelay,!mincost,!congestion ipprecedence 5",
    ),
    ("allow ip from any to any dscp 32,ef", "allow ip from any to any dscp cs4,ef"),
    ("allow ip from any to any ipoptions ssrr,!lsrr frag", ""),
    ("allow ip from any to any frag df,!mf", ""),
    ("allow ip from any to any lookup src-ip4:255.255.253.255 1", ""),
    ("allow ip from any to any lookup dscp:0xFE 1", "allow ip from any to any lookup dscp:0xfe 1"),
    ("allow ip from any to any flow table(f)", ""),
    (
        "allow ip from any to any MAC any 00:11:22:33:44:55/24",
        "allow ip from any to any MAC any 00:11:22:00:00:00/24",
    ),
    ("allow ip from any to any src-mac table(m) vlan 5 inner-vlan 6-9", ""),
    ("allow via em*", ""),
    ("allow proto tcp dst-port 22 src-ip 1.2.3.4", ""),
    ("allow { dst-port 80 or src-port 80 } not layer2", ""),
    ("// only a comment", "count // only a comment"),
    ("allow ip from any to any // say  two words", ""),
    ("deny tcp from any to any not dst-port 80", ""),
    ("deny tcp from any not 53 to any", ""),
    ("deny tcp from any to any not 80", "deny tcp from any to any not dst-port 80"),
    ("unreach6 admin-prohib ip6 from any to me6", ""),
    ("nat 1 ip from any to any", ""),
    ("nptv6 x ip6 from any to any", ""),
    (
        "allow tcp from any to any tcpwin 100 tcpseq 1 tcpack 2 tcpdatalen 0-10 tcpmss 536 tcpoptions mss,!sack",
        "",
    ),
];

#[test]
fn rules_are_written_in_their_canonical_form() {
    for (text, canonical) in RULES.iter().filter(|(_, canonical)| *canonical != "!") {
        let expected = if canonical.is_empty() { text } else { canonical };
        assert_eq!(rule(text).to_string(), *expected);
    }
}

#[test]
fn what_is_written_reads_back_as_the_same_rule() {
    for (text, _) in RULES.iter().filter(|(_, canonical)| *canonical != "!") {
        let first = rule(text);
        assert_eq!(rule(&first.to_string()), first, "{text}");
    }
}

#[test]
fn number_and_set_stand_before_the_rule() {
    let Ok(IpfwCommand::Add(add)) =
        parse_command("add 00400 set 7 prob 0.5 allow ip from any to any")
    else {
        panic!()
    };
    assert_eq!((add.number, add.rule.set), (Some(400), 7));
    let Ok(IpfwCommand::Add(add)) = parse_command("400 add allow ip from any to any") else {
        panic!()
    };
    assert_eq!(add.number, Some(400));
    let Ok(IpfwCommand::Add(add)) = parse_command("add 0 allow ip from any to any") else {
        panic!()
    };
    assert_eq!(add.number, None);
}

#[test]
fn a_mistake_is_told_with_its_column_and_what_was_expected() {
    let wrong = error("add 400 alow ip from any to any");
    assert_eq!((wrong.line, wrong.column, wrong.exit_code()), (1, 9, 65));
    assert!(wrong.expected.contains("allow"), "{wrong}");
    let wrong = error("add allow tcp from any to any 80,ninety,100");
    assert_eq!(wrong.column, 34, "{wrong}");
    assert_eq!(error("add allow tcp form any").column, 15);
    assert_eq!(error("frobnicate").exit_code(), 64);
    assert_eq!(error("add allow ip from any").expected, "`to`, or source ports");
    assert_eq!(error("add 70000 allow ip from any to any").column, 5);
    assert_eq!(error("add allow ip from 1.2.3.400 to any").column, 19);
}

#[test]
fn a_rule_without_a_body_is_refused_unless_it_needs_none() {
    for text in ["allow", "deny", "count", "skipto 500", "100 allow", "call 5", "deny // all"] {
        let error = error(&format!("add {text}"));
        assert!(error.to_string().contains("does not say for which packets"), "{error}");
        assert!(error.expected.contains("ip from any to any"), "{error}");
    }
    for text in ["log", "tag 5"] {
        assert!(parse_command(&format!("add allow {text}")).is_err(), "{text}");
    }
    for text in [
        "check-state",
        "check-state :any",
        "return",
        "return next-rule",
        "// a comment",
        "count // a comment",
        "allow in",
        "allow keep-state",
        "deny ip from any to any",
    ] {
        rule(text);
    }
}

#[test]
fn what_never_matches_is_refused() {
    for (text, column) in [
        ("prob 0 allow ip from any to any", 10),
        ("prob 0.0 allow ip from any to any", 10),
        ("prob 0.0000000001 allow ip from any to any", 10),
        ("allow ip from not any to any", 19),
        ("allow ip from any to not any", 26),
        ("allow ip from { not any } to any", 19),
        ("allow not ip from any to any", 11),
        ("allow ip from any to any not src-ip any", 30),
        ("allow { not proto ip or not dst-ip any }", 11),
    ] {
        let error = error(&format!("add {text}"));
        assert!(error.to_string().contains("never matches"), "{text}: {error}");
        assert_eq!(error.column, column, "{text}: {error}");
    }
    rule("allow ip from { not any or 10.0.0.1 } to any");
    rule("prob 0.00001 allow ip from any to any");
}

#[test]
fn what_has_no_meaning_between_two_ports_is_refused_by_name() {
    let refused = [
        "divert 8668",
        "tee 1",
        "netgraph 1",
        "ngtee 1",
        "setfib 1",
        "nat64lsn x",
        "allow altq q",
        "allow uid root",
        "allow gid 0",
        "allow jail 1",
        "allow sockarg",
        "allow fib 1",
        "allow verrevpath",
        "allow versrcreach",
        "allow not antispoof",
        "allow ipsec",
        "allow diverted",
        "allow ip from any to any lookup uid 1",
    ];
    for text in refused {
        let wrong = error(&format!("add {text}"));
        assert_eq!(wrong.kind, RuleTextErrorKind::Refused, "{text}: {wrong}");
        assert!(wrong.expected.len() > 20, "{wrong}");
    }
}

#[test]
fn commands_of_the_shaper_are_handed_on_as_they_were_written() {
    for (text, wanted, column) in [
        ("pipe 1 config bw 10Mbit/s", "pipe 1 config bw 10Mbit/s", 1),
        ("  ipfw queue 1 config pipe 2 # weight", "queue 1 config pipe 2", 8),
        ("sched flush", "sched flush", 1),
    ] {
        let Ok(IpfwCommand::Shaper(command)) = parse_command(text) else { panic!("{text}") };
        assert_eq!((command.text.as_str(), command.column), (wanted, column));
    }
}

#[test]
fn a_file_of_pipes_and_rules_reads_to_its_end() {
    let text = "# a file\npipe 1 config bw 10Mbit/s\n\nipfw add 100 pipe 1 ip from any to any # in\n\
                add allow ip from any to any // note # not a comment\n";
    let commands = parse_file(text).unwrap();
    assert_eq!(commands.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 5]);
    assert_eq!(parse_file("add allow ip from any to any\nadd nonsense\n").unwrap_err().line, 2);
}

#[test]
fn commands_about_sets_and_tables_are_read() {
    for text in [
        "set show",
        "set disable 1 2 enable 3",
        "set swap 1 2",
        "set move 1 to 2",
        "set move rule 100 to 5",
        "set 5 list",
        "set 5 delete 100",
        "delete set 31",
        "delete 100 200-300",
        "show 100",
        "list 100-200",
        "zero",
        "zero 100",
        "resetlog 100",
        "flush",
        "set 3 flush",
        "table 1 create",
        "table t create type flow:src-ip,proto,dst-port valtype skipto,ipv4 limit 5 locked",
        "table t add 1.2.3.4 5 10.0.0.0/8",
        "table t atomic add 1.2.3.4 5",
        "table all list",
        "table t swap u",
        "table t lookup 1.2.3.4",
        "table t modify limit 9",
        "table t delete 1 2",
        "enable one_pass",
        "disable firewall",
        "sysctl net.inet.ip.fw.one_pass=0",
        "sysctl -a",
    ] {
        assert!(parse_command(text).is_ok(), "{text}: {:?}", parse_command(text));
    }
    assert_eq!(error("set disable 1 enable 1").column, 22);
    assert!(parse_command("table all swap u").is_err());
}

#[test]
fn a_list_of_thousands_of_addresses_is_no_rule_too_long() {
    let list: Vec<String> = (0..5000).map(|i| format!("10.{}.{}.1", i / 250, i % 250)).collect();
    let text = format!("deny ip from {} to any", list.join(","));
    assert_eq!(rule(&text).to_string(), text);
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("any".into()),
        Just("me".into()),
        Just("table(t)".into()),
        (any::<[u8; 4]>(), 1_u8..=32)
            .prop_map(|([a, b, c, d], len)| format!("{a}.{b}.{c}.{d}/{len}")),
        (any::<u32>(), 1_u32..).prop_map(|(a, m)| format!(
            "{}:{}",
            core::net::Ipv4Addr::from_bits(a),
            core::net::Ipv4Addr::from_bits(m)
        )),
        (any::<u128>(), 1_u8..=128)
            .prop_map(|(a, len)| format!("{}/{len}", core::net::Ipv6Addr::from_bits(a))),
        any::<[u8; 3]>().prop_map(|[a, b, c]| format!(
            "1.2.{a}.0/24{{{},{}-255}}",
            b.min(c),
            b.max(c)
        )),
    ]
}

fn option() -> impl Strategy<Value = String> {
    let range =
        || (any::<u16>(), any::<u16>()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    prop_oneof![
        Just("in".into()),
        Just("out".into()),
        Just("setup".into()),
        Just("established".into()),
        Just("frag".into()),
        range().prop_map(|range| format!("dst-port {range}")),
        range().prop_map(|range| format!("src-port 7,{range}")),
        range().prop_map(|range| format!("iplen {range},9")),
        range().prop_map(|range| format!("mac-type {range}")),
        (1_u64..).prop_map(|set| format!(
            "dscp {}",
            (0..64)
                .filter(|bit| set >> bit & 1 == 1)
                .map(|bit| bit.to_string())
                .collect::<Vec<_>>()
                .join(",")
        )),
        any::<(u32, u32)>().prop_map(|(value, mask)| format!("mark {value}:{mask}")),
        any::<(u64, u8)>().prop_map(|(mac, len)| format!(
            "MAC any {}/{}",
            slipring_wire::MacAddr::from_u64(mac & 0xffff_ffff_ffff),
            len % 49
        )),
        (0_u8..16, 0_u8..16).prop_map(|(a, b)| format!("icmptypes {a},{b}")),
        "[a-z]{1,8}[0-9*]?"
            .prop_filter("a word of the language", |name| name != "any")
            .prop_map(|name| format!("via x{name}")),
        any::<u32>().prop_map(|mask| format!("lookup dst-port:{mask} tab")),
    ]
}

fn any_rule() -> impl Strategy<Value = String> {
    let action = prop_oneof![
        Just("allow".into()),
        Just("deny".into()),
        Just("count".into()),
        Just("reset".into()),
        (1_u32..65535).prop_map(|n| format!("skipto {n}")),
        (0_u32..255).prop_map(|n| format!("unreach {n}")),
        (0_u32..64).prop_map(|n| format!("setdscp {n}")),
        any::<u32>().prop_map(|n| format!("setmark {n}")),
        any::<u32>().prop_map(|n| format!("count log logamount {n}")),
        (1_u32..65535).prop_map(|n| format!("allow tag {n} untag tablearg")),
    ];
    let proto =
        prop_oneof![Just("ip"), Just("tcp"), Just("{ udp or sctp or 99 }"), Just("not ip6")];
    let block = proptest::collection::vec((any::<bool>(), option()), 1..4).prop_map(|options| {
        let each = options
            .iter()
            .map(|(not, option)| format!("{}{option}", if *not { "not " } else { "" }));
        let all: Vec<_> = each.collect();
        if all.len() == 1 { all[0].clone() } else { format!("{{ {} }}", all.join(" or ")) }
    });
    let tail = prop_oneof![
        Just(""),
        Just(" keep-state :a"),
        Just(" limit src-addr 5"),
        Just(" record-state defer-action"),
        Just(" // words  of comment")
    ];
    (
        0_u32..1_000_000,
        action,
        proto,
        address(),
        address(),
        proptest::collection::vec(block, 0..4),
        tail,
    )
        .prop_map(|(p, action, proto, from, to, options, tail)| {
            format!(
                "prob 0.{p:06} {action} {proto} from {from} to {to} {}{tail}",
                options.join(" ")
            )
        })
}

proptest! {
    #[test]
    fn every_rule_survives_being_written(text in any_rule()) {
        let first = rule(&text);
        let written = first.to_string();
        prop_assert_eq!(&rule(&written), &first, "{} wrote {}", text, written);
        prop_assert_eq!(rule(&written).to_string(), written);
    }

    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,80}") {
        let _ = parse_command(&text);
        let _ = parse_command(&format!("add {text}"));
        let _ = parse_command(&format!("add allow tcp from {text}"));
        let _ = parse_file(&text);
    }

    #[test]
    fn words_of_the_language_in_any_order_never_panic(
        words in proptest::collection::vec(prop_oneof![
            Just("add"), Just("allow"), Just("from"), Just("to"), Just("any"), Just("{"), Just("}"), Just("or"), Just("not"),
            Just("tcp"), Just("table("), Just("table(x"), Just("1.2.3.0/24{"), Just("1-"), Just(","), Just("//"),
            Just("set"), Just("table"), Just("log"), Just("limit"), Just(":"), Just("lookup"), Just("dst-ip:"),
            Just("pipe"), Just("config"), Just("bw"), Just("MAC"), Just("-"), Just("0x"), Just("mask"), Just("frag"),
            Just("é"), Just("1é/2"), Just("\\-"), Just("fwd"), Just("[::1]:80"), Just("prob"), Just("nan"),
        ], 0..12),
    ) {
        let text = words.join(" ");
        let _ = parse_command(&text);
        let _ = parse_command(&words.concat());
        let _ = parse_command(&format!("add allow ip from any to any {text}"));
    }
}

#[test]
fn errors_quote_absurdly_long_words_in_part() {
    let word = "x".repeat(5_000_000);
    for text in [format!("add 100 allow ip from {word} to any"), format!("add 100 {word}")] {
        let error = parse_file(&text).unwrap_err().to_string();
        assert!(error.len() < 700 && error.contains("x…x"), "{} bytes", error.len());
    }
}

#[test]
fn protocols_have_freebsds_names_whatever_the_machine_knows() {
    // The numbers are from IANA's list, the names from FreeBSD's protocols(5).
    for (name, number) in [
        ("ggp", 3),
        ("chaos", 16),
        ("ddp", 37),
        ("swipe", 53),
        ("mobile", 55),
        ("ipip", 94),
        ("ax.25", 93),
        ("carp", 112),
        ("pgm", 113),
        ("isis", 124),
        ("rsvp-e2e-ignore", 134),
        ("hip", 139),
        ("rohc", 142),
        ("pfsync", 240),
    ] {
        let by_name = rule(&format!("deny {name} from any to any"));
        assert_eq!(by_name, rule(&format!("deny {number} from any to any")), "{name}");
        assert_eq!(by_name.to_string(), format!("deny {name} from any to any"));
        assert_eq!(by_name, rule(&format!("deny {} from any to any", name.to_uppercase())));
    }
}

#[test]
fn protocols_have_the_numbers_of_the_machines_list() {
    let list = match std::fs::read_to_string("/etc/protocols") {
        Ok(list) => list,
        Err(error) => return skip!("no /etc/protocols: {error}"),
    };
    let mut compared = 0;
    for line in list.lines() {
        let words: Vec<_> = line.split('#').next().unwrap().split_whitespace().collect();
        let [name, number, aliases @ ..] = &words[..] else { continue };
        for name in [name].into_iter().chain(aliases).map(|name| name.to_lowercase()) {
            if let Some(known) = names::value(names::PROTOCOLS, &name) {
                assert_eq!(Ok(known), number.parse(), "{name}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "only {compared} names are in both lists");
}

#[test]
fn words_that_a_terminal_would_obey_are_refused_and_quoted_as_codes() {
    for (text, column, quoted) in [
        ("add 100 allow ip from \u{1b}[2Jany to any", 23, "\\u{1b}[2Jany"),
        ("\u{7f}ELF\u{2}\u{1}", 1, "\\u{7f}ELF\\u{2}\\u{1}"),
        ("add allow ip from any to any recv \u{202e}0hte", 35, "\\u{202e}0hte"),
        ("pipe 1 config bw \u{0}", 18, "\\u{0}"),
    ] {
        let error = error(text);
        assert_eq!(error.column, column, "{error}");
        assert!(error.message.contains(quoted), "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
    let comment = rule("allow ip from any to any // bell \u{7} rings").comment;
    assert_eq!(comment.as_deref(), Some("bell \u{fffd} rings"));
}

proptest! {
    #[test]
    fn a_probability_is_written_exactly_as_it_was_typed(digits in 1u32..1_000_000_000) {
        let typed = format!("0.{digits:09}");
        let typed = typed.trim_end_matches('0');
        let rule = rule(&format!("prob {typed} allow ip from any to any"));
        let exact = StyledRule(&rule, RuleStyle { exact: true, ..RuleStyle::default() });
        prop_assert_eq!(exact.to_string(), format!("prob {typed} allow ip from any to any"));
    }
}
