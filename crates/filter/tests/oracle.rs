//! libpcap's own compiler is the oracle: the same expression, compiled by it and by us, must
//! accept the same frames. Its programs come from `tcpdump -ddd` and run in our interpreter.

#![allow(clippy::unwrap_used)]

mod frames;

use std::process::Command;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use slipring_filter::{Filter, Insn, Program};

/// Expressions that both compile.
const ACCEPTED: &[&str] = &[
    "",
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "igmp",
    "igrp",
    "pim",
    "vrrp",
    "carp",
    "ah",
    "esp",
    "atalk",
    "aarp",
    "decnet",
    "lat",
    "sca",
    "moprc",
    "mopdl",
    "iso",
    "stp",
    "ipx",
    "netbeui",
    "pppoed",
    "host 10.0.0.1",
    "src 10.0.0.1",
    "dst host 10.0.0.1",
    "src or dst host 10.0.0.1",
    "dst or src host 10.0.0.1",
    "src and dst host 10.0.0.1",
    "src and dst 10.0.0.1",
    "ip host 10.0.0.1",
    "arp host 10.0.0.1",
    "arp src 10.0.0.1",
    "rarp dst host 10.0.0.1",
    "host 10",
    "host 10.1",
    "host 0",
    "src 10",
    "host 010.0.0.1",
    "net 10",
    "net 0",
    "net 10.1",
    "net 10.1.2",
    "net 10.1.2.3",
    "net 0x0a0102",
    "src net 192.168.0.0/16",
    "dst net 10.0.0.0/30",
    "net 0.0.0.0/0",
    "net 10.0.0.0/32",
    "net 10.0.0.0 mask 255.0.0.0",
    "net 10.0 mask 255.255",
    "net 0.0.0.1 mask 0.0.0.255",
    "ip net 10.0.0.0/8",
    "arp net 10.0",
    "host 2001:db8::1",
    "src host 2001:db8::1",
    "src and dst host 2001:db8::1",
    "ip6 host 2001:db8::1",
    "ip6 dst 2001:db8::2",
    "host 2001:db8::1/128",
    "host ::",
    "host ::ffff:10.0.0.1",
    "net 2001:db8::/32",
    "src net 2001:db8::/33",
    "dst net 2001:db8:0:0::/64",
    "net ff01:db8::8/127 or net ff01:db8::8/125",
    "net ::/0",
    "not net 2001:db8::/31",
    "ether host 02:00:00:00:00:01",
    "ether src 2:0:0:0:0:1",
    "ether dst host 02-00-00-00-00-02",
    "ether dst 0200.0000.0002",
    "ether src host 020000000001",
    "ether src 2.0.0.0.0.1",
    "ether src and dst 02:00:00:00:00:01",
    "link host 02:00:00:00:00:01",
    "fddi src 02:00:00:00:00:01",
    "wlan dst 02:00:00:00:00:01",
    "ether host 1:2:3:4:5:66",
    "broadcast",
    "ether broadcast",
    "multicast",
    "ether multicast",
    "ip multicast",
    "ip6 multicast",
    "port 80",
    "src port 80",
    "dst port 53",
    "src and dst port 80",
    "tcp port 80",
    "udp dst port 53",
    "sctp src port 80",
    "port http",
    "port domain",
    "tcp port domain",
    "udp port domain",
    "sctp port domain",
    "port ssh or 443",
    "port \\http",
    "portrange 6000-6008",
    "portrange 6008-6000",
    "portrange 80",
    "portrange 0-65535",
    "portrange 53-53",
    "tcp src portrange 80-81",
    "tcp portrange ssh-http",
    "portrange ssh-http",
    "proto 6",
    "proto \\tcp",
    "ip proto 17",
    "ip proto \\udp",
    "ip proto ospf",
    "ip proto 300",
    "ip6 proto 6",
    "ip6 proto \\sctp",
    "ip6 proto ipv6-icmp",
    "ip6 proto 44",
    "ether proto 0x800",
    "ether proto \\ip",
    "ether proto \\ip6",
    "ether proto \\arp",
    "ether proto \\stp",
    "ether proto loopback",
    "ether proto \\loopback",
    "ether proto 0x88cc",
    "ether proto 5",
    "ether proto 6",
    "ether proto 0xe0",
    "ether proto 1500",
    "ether proto 1501",
    "ether proto 70000",
    "vlan",
    "vlan 5",
    "vlan (5)",
    "vlan 0x64",
    "vlan 4095",
    "vlan and ip",
    "vlan 5 and tcp port 80",
    "vlan 5 and vlan 6",
    "vlan and vlan and udp",
    "vlan 5 and host 2001:db8::1",
    "vlan or ip",
    "not vlan and ip",
    "ip or vlan and arp",
    "vlan and ether host 02:00:00:00:00:01",
    "vlan and ether[0] & 1 = 1",
    "vlan and tcp[tcpflags] & tcp-syn != 0",
    "vlan and tcp[0:2] = 80 or vlan and tcp[0:2] = 80",
    "vlan and vlan and ip[ip[0] & 0xf] > 3",
    "vlan and stp",
    "vlan and ipx",
    "mpls",
    "mpls 100",
    "mpls and ip",
    "mpls and ip6",
    "mpls 100 and mpls 1024 and ip host 10.0.0.1",
    "mpls and mpls and tcp",
    "mpls and host 10.0.0.1",
    "mpls and port 80",
    "mpls and ether host 02:00:00:00:00:01",
    "mpls and ip multicast",
    "mpls and icmp6[icmp6type] = icmp6-echo",
    "mpls and tcp[0:2] > 79",
    "vlan and mpls and ip[9] = 6",
    "vlan 5 and mpls 16",
    "pppoes",
    "pppoes 2",
    "pppoes and ip",
    "pppoes 1 and tcp port 80",
    "pppoes and ip6",
    "pppoes and host 10.0.0.1",
    "pppoes and ether[0:2] = 0x21",
    "pppoes and ether proto 0xc021",
    "pppoes and atalk",
    "pppoes and iso or stp or ipx or decnet",
    "pppoes and mpls and ip",
    "pppoes and pppoes",
    "vlan and pppoes 3 and udp",
    "less 100",
    "greater 100",
    "less 0x80",
    "len > 100",
    "length <= 200",
    "len != 160",
    "len = len",
    "(len) = 160",
    "((len >= 100))",
    "ip[0] = 0x45",
    "ip[2:2] > 100",
    "ip[12:4] = 0x0a000001",
    "ip[6:2] & 0x1fff = 0",
    "ip[0] & 0xf != 5",
    "ip[ip[0] & 0xf] = 0",
    "ip[8] - 1 = 63",
    "ip6[6] = 6",
    "ip6[40:2] = 80",
    "arp[6:2] = 1",
    "rarp[7] = 1",
    "atalk[0] = 0 or lat[0] > 3",
    "ether[0] & 1 != 0",
    "ether[12:2] = 0x800",
    "ether[len - 1] = 0",
    "ether[13:4] > 5",
    "link[0] = 2",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[tcpflags] & (tcp-rst|tcp-ack) == (tcp-rst|tcp-ack)",
    "tcp[13] & 2 != 0",
    "tcp[0:2] = 80",
    "tcp[ip[0] & 3] >= 80",
    "udp[2:2] = 53",
    "sctp[0:4] != 0",
    "icmp[icmptype] = icmp-echo",
    "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
    "icmp6[icmp6type] = icmp6-echo",
    "icmp6[icmp6code] < 100",
    "icmp6[ip6[7] - 64] > 127",
    "igmp[0] > 10",
    "igrp[1] > 10",
    "pim[0] > 10",
    "vrrp[0] > 10",
    "carp[0] > 10",
    "decnet[0] > 10",
    "ip[2:2] - 20 > ip[0] * 4 + 8",
    "ip[0] + ip[1] + ip[2] + ip[3] + ip[4] + ip[5] + ip[6] + ip[7] + ip[8] = 0x117",
    "1 + 2 * 3 = 7",
    "1 + 2 * 3 - 4 / 2 = len",
    "len % 2 + 3 = 3",
    "10 % 3 * 2 = len % 160 + 4",
    "1 | 2 ^ 3 = 3",
    "2 ^ 3 | 1 = 1",
    "len & 0xf0 | 1 = 161",
    "len << 1 >> 2 = 80",
    "1 << 2 + 1 = 8",
    "100 - 10 - 5 = 85",
    "100 / 10 / 5 = 2",
    "-1 > 5",
    "-len + 160 = 0",
    "- - len = 160",
    "-5 % 3 = -2",
    "len * -1 = -160",
    "7 = 7",
    "7 > 8",
    "017 = 15",
    "0xffffffff + 1 = 0",
    "4294967295 = -1",
    "5 < len",
    "(5) < len",
    "(5 + 1) * 2 < len",
    "not tcp",
    "! tcp",
    "not not tcp",
    "not (tcp or udp)",
    "tcp and port 80 or arp",
    "arp or tcp and port 80",
    "tcp && port 80 || arp",
    "(tcp or udp) and (port 53 or port 80) and not host 10.0.0.1",
    "(((((tcp)))))",
    "port 53 or 80",
    "port 53 or 80 or 443",
    "tcp port 80 or 443 and host 10.0.0.1 or 10.0.0.2",
    "host 10.0.0.1 and 10.0.0.2",
    "host 10.0.0.1 and not 10.0.0.2",
    "not host 10.0.0.1 and 10.0.0.2",
    "host 10.0.0.1 and (10.0.0.2 or 10.1.2.3)",
    "host 10.0.0.1 or not (10.0.0.2 or not 10.1.2.3)",
    "host (10.0.0.1 or 10.0.0.2)",
    "host not 10.0.0.1",
    "port (80 or 443)",
    "port not 80",
    "port (not 80)",
    "port 80 or (53)",
    "port 80 or ((53))",
    "port 80 or (host 10.0.0.1) or 53",
    "port 80 or (5 < len) or 53",
    "port 80 or ((53) < len)",
    "net 10 or 192.168",
    "net 10.0.0.0/8 or 192.168.0.0/16",
    "ether host 02:00:00:00:00:01 or 02:00:00:00:00:02",
    "ether proto \\arp or 0x800",
    "ip proto 6 or \\udp",
    "portrange 80-81 or 6000-6008",
    "ip host 10.0.0.1 or 10.0.0.2 and tcp",
    "host 10.0.0.1 or 2001:db8::1",
    "tcp\tport\n80",
    "tcp[ 13 ]&7!=0",
    "!(tcp)&&!udp",
];

/// Expressions that read outside of frames or divide by zero, which libpcap's optimizer does not
/// care to keep; only its plain program is compared.
const FAULTING: &[&str] = &[
    "ip[0xffffffff] = 1",
    "ip[0x7fffffff] = 1",
    "not ip[200] = 1",
    "tcp[0xffffffff] > 0",
    "udp[0xfffffff0:4] = 0 or ip",
    "not tcp[200:2] = 5",
    "not ip[0] / ip[1] = 5",
    "ip[0] % ip[1] = 5 or arp",
];

/// Expressions that index a header in a right operand. The manual says that indexing implies a
/// check for the header; libpcap forgets it there, so the second text writes the check out.
const CHECKED_RIGHT_OPERANDS: &[(&str, &str)] = &[
    ("100 - ip[0] > 5", "ip and 100 - ip[0] > 5"),
    ("not 100 - ip[0] > 5", "not (ip and 100 - ip[0] > 5)"),
    ("len / ip[1] = 5", "ip and len / ip[1] = 5"),
    ("len >> ip[0] = 0", "ip and len >> ip[0] = 0"),
    ("len << ip[9] = 0", "ip and len << ip[9] = 0"),
    ("ip[0] + tcp[0] > 69", "tcp[0] >= 0 and ip[0] + tcp[0] > 69"),
    ("1 + (2 + udp[1]) > 50", "udp[0] >= 0 and 1 + (2 + udp[1]) > 50"),
    (
        "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
        "tcp[0] >= 0 and port 80 and (ip[2:2] - ((ip[0]&0xf)<<2) - ((tcp[12]&0xf0)>>2) != 0)",
    ),
];

/// Expressions that both refuse.
const REFUSED: &[&str] = &[
    "1.2.3.4",
    "foo",
    "80",
    "net 10/8",
    "net 10 mask 255.0.0.0",
    "net 10.0 mask 10",
    "len-4 > 5",
    "len",
    "5",
    "tcp[0]",
    "tcp[tcpflags] & tcp-syn",
    "host 0x0a.1",
    "host 300.1.1.1",
    "host 1.2.3.256",
    "host 1.2.3.4.5",
    "host foo",
    "net foo",
    "ether host foo",
    "host \\tcp",
    "host tcp",
    "port 70000",
    "port 1.2",
    "port ::1",
    "port nosuchport",
    "portrange 1-70000",
    "portrange http",
    "udp portrange ssh-http",
    "portrange ftp-data-http",
    "udp port http",
    "sctp port ssh",
    "ip proto tcp",
    "ip proto icmp",
    "ip proto foo",
    "ip proto 1.2",
    "ether proto arp",
    "ether proto foo",
    "tcp proto 6",
    "arp proto 6",
    "src proto 6",
    "src or tcp",
    "src or src host 10.0.0.1",
    "src or dst or host 10.0.0.1",
    "ah[0] = 1",
    "aarp[0] = 1",
    "esp[0] = 1",
    "iso[0] = 1",
    "stp[0] = 1",
    "ipx[0] = 1",
    "netbeui[0] = 1",
    "ether",
    "link",
    "ip6 broadcast",
    "tcp multicast",
    "arp multicast",
    "port 80 or (53 or tcp)",
    "port 80 or (udp and 53)",
    "port 80 or tcp or 53",
    "(tcp port 80) or 53",
    "port (80 or tcp)",
    "host 1.2.3.4 mask 255.0.0.0",
    "host 1.2.3.0/24",
    "net 1.2.3.4 mask 255.255.255.0",
    "net 1.2.3.4/24",
    "net 1.2.3.0/33",
    "net 1.2.3.0/0",
    "net 1.2.3.0/",
    "net 1.2.3.0/x",
    "host 2001:db8::/32",
    "net 2001:db8::1/32",
    "net 2001:db8::/129",
    "ip net ::/0",
    "ip6 host 1.2.3.4",
    "tcp host 1.2.3.4",
    "arp host ::1",
    "ether host 1.2.3.4",
    "ether host ::1",
    "ether host 10",
    "dst 1:2:3:4:5:6",
    "ether net 1:2:3:4:5:6",
    "ether port 80",
    "ip port 80",
    "icmp port 80",
    "vlan 4096",
    "vlan foo",
    "mpls 1048576",
    "mpls and vlan",
    "mpls and arp",
    "mpls and arp host 10.0.0.1",
    "mpls and arp[0] = 1",
    "mpls and pppoes",
    "mpls and pppoed",
    "mpls and ether proto 5",
    "pppoes and vlan",
    "pppoes and ether host 1:2:3:4:5:6",
    "pppoes and ether broadcast",
    "pppoes and multicast",
    "pppoes 65536",
    "pppoes and mpls and ether host 1:2:3:4:5:6",
    "pppoes and mpls and vlan",
    "len / 0 = 1",
    "len / (0) = 1",
    "len % 0 = 1",
    "len << 32 = 1",
    "len >> 33 = 1",
    "ip[0:3] = 1",
    "ip[0:(2)] = 1",
    "ip[0:2:3] = 5",
    "ip[0:] = 5",
    "ip[] = 5",
    "ip[0 = 5",
    "08 = 8",
    "0x = 0",
    "4294967296 = 0",
    "less (5)",
    "less",
    "greater len",
    "tcp[0] => 1",
    "tcp[0] = 1 = 1",
    "tcp and",
    "and tcp",
    "tcp tcp",
    "tcp not udp",
    "()",
    "(tcp",
    "tcp)",
    "tcp)(",
    "not",
    "host",
    "tcp port",
    "port 80,81",
    "host 1::2::3",
    "host fe80::1%1",
    "ether host 1:2:3",
    "ether host 1:2:3:4:5:6:7",
    "ether host 1:2:3:4:5:600",
    "radio",
    "type mgt",
    "gateway foo",
    "#",
    "tcp ; udp",
    "\\",
    "port \\",
];

/// Expressions that libpcap compiles and we refuse by name.
const REFUSED_BY_US: &[&str] = &[
    "ip broadcast",
    "protochain 6",
    "ip protochain 6",
    "inbound",
    "outbound",
    "ifindex 5",
    "byte 0 = 5",
    "geneve",
    "llc",
    "esis",
    "isis",
    "iso proto 6",
    "decnet host 1.2",
];

/// The program that libpcap compiles, or `None` if it refuses the expression.
fn libpcap(expression: &str, flags: &[&str]) -> Option<Program> {
    decimal(expression, flags).map(|text| decimal_program(&text))
}

/// What tcpdump prints for `-ddd`, or `None` if it refuses the expression.
fn decimal(expression: &str, flags: &[&str]) -> Option<String> {
    let output = Command::new("tcpdump")
        .args(flags)
        .args(["-y", "EN10MB", "-ddd", "--", expression])
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Reads a count line, then `code jt jf k` on each line.
fn decimal_program(text: &str) -> Program {
    let mut lines = text.lines();
    let count: usize = lines.next().unwrap().trim().parse().unwrap();
    let insns: Vec<Insn> = lines.map(decimal_insn).collect();
    assert_eq!(insns.len(), count);
    Program::from_raw(insns).unwrap()
}

fn decimal_insn(line: &str) -> Insn {
    let fields: Vec<u32> = line.split_whitespace().map(|field| field.parse().unwrap()).collect();
    let [code, jt, jf, k] = fields[..] else { panic!("{line}") };
    Insn { code: code as u16, jt: jt as u8, jf: jf as u8, k }
}

static HAS_TCPDUMP: LazyLock<bool> = LazyLock::new(|| {
    let found = Command::new("tcpdump").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: tcpdump is not installed");
    }
    found
});

fn samples<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

static FRAMES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| samples(frames::frame(), 4000));
static SHORT: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| samples(frames::short_frame(), 2000));

/// Compares verdicts on all frames; true if some frame was accepted and some refused.
///
/// The optimizer of libpcap leaves loads out whose value it does not need, so on short frames
/// its programs may differ among themselves; there we must agree with one of them.
fn compare(expression: &str) -> bool {
    let plain = compare_plain(expression, expression);
    // The optimizer also refuses expressions that no frame can match.
    let optimized = libpcap(expression, &[]).unwrap_or_else(|| plain.clone());
    let ours = slipring_filter::compile(expression).unwrap();
    let mut accepted = 0;
    for frame in FRAMES.iter() {
        let len = frame.len() as u32;
        let verdict = ours.run(frame, len);
        assert_eq!(verdict, optimized.run(frame, len), "`{expression}` on {frame:02x?}");
        accepted += usize::from(verdict != 0);
    }
    for frame in SHORT.iter() {
        let verdict = ours.run(frame, 160);
        let theirs = [plain.run(frame, 160), optimized.run(frame, 160)];
        assert!(theirs.contains(&verdict), "`{expression}` on the short {frame:02x?}");
    }
    0 < accepted && accepted < FRAMES.len()
}

/// Compares verdicts on whole frames with the program that libpcap has not optimized.
fn compare_plain(expression: &str, theirs: &str) -> Program {
    let ours = slipring_filter::compile(expression)
        .unwrap_or_else(|error| panic!("`{expression}`: {error}"));
    let plain = libpcap(theirs, &["-O"]).unwrap_or_else(|| panic!("libpcap: `{theirs}`"));
    for frame in FRAMES.iter() {
        let len = frame.len() as u32;
        assert_eq!(ours.run(frame, len), plain.run(frame, len), "`{expression}` on {frame:02x?}");
    }
    plain
}

#[test]
fn accepts_the_frames_that_libpcap_accepts() {
    if !*HAS_TCPDUMP {
        return;
    }
    let telling = ACCEPTED.iter().filter(|expression| compare(expression)).count();
    // Most expressions must tell frames apart, or the frames are no test of them.
    assert!(telling * 10 > ACCEPTED.len() * 8, "{telling} of {}", ACCEPTED.len());
}

#[test]
fn refuses_frames_on_faults_as_libpcap_does() {
    if !*HAS_TCPDUMP {
        return;
    }
    for expression in FAULTING {
        compare_plain(expression, expression);
    }
}

#[test]
fn checks_for_every_header_that_is_indexed() {
    if !*HAS_TCPDUMP {
        return;
    }
    for (expression, checked) in CHECKED_RIGHT_OPERANDS {
        compare_plain(expression, checked);
    }
}

#[test]
fn refuses_what_libpcap_refuses() {
    if !*HAS_TCPDUMP {
        return;
    }
    for expression in REFUSED {
        assert!(decimal(expression, &["-O"]).is_none(), "libpcap accepts `{expression}`");
        assert!(Filter::parse(expression).is_err(), "we accept `{expression}`");
    }
}

#[test]
fn refuses_by_name_what_libpcap_has_beyond_us() {
    for expression in REFUSED_BY_US {
        let error = Filter::parse(expression).unwrap_err();
        assert!(
            matches!(error, slipring_filter::FilterError::Refused { .. }),
            "`{expression}`: {error}"
        );
        if *HAS_TCPDUMP {
            assert!(decimal(expression, &["-O"]).is_some(), "libpcap refuses `{expression}`");
        }
    }
}

/// Expressions of the table, joined at random.
fn joined() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(ACCEPTED[1..].to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} and {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} or {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and not ({b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn joined_expressions_mean_what_libpcap_means(expression in joined()) {
        if !*HAS_TCPDUMP {
            return Ok(());
        }
        let theirs = libpcap(&expression, &["-O"]).is_some();
        // Joining can put a `vlan` after an `mpls`, which both must refuse.
        prop_assert_eq!(Filter::parse(&expression).is_ok(), theirs, "`{}`", expression);
        if theirs {
            compare(&expression);
        }
    }
}
