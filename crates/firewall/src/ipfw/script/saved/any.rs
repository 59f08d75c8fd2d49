//! Tests that save and load random firewalls, which are built from all kinds of commands.

use proptest::prelude::*;

use super::*;

/// Templates of commands. They have placeholders for numbers: `{s}` for a small one, `{p}` for a
/// probability, `{b}` for a byte, `{w}` for 16 bits, `{l}` for 32 bits.
const TEMPLATES: &[&str] = &[
    "pipe {s} config bw {w}.5Kbit/s delay {b}.25ms plr {p}",
    "pipe {s} config queue 9{s}KBytes gred {p}/5/40/{p} burst {b}K",
    "pipe {s} config bw {w}Mbit/s codel target {w}us interval {w}ms ecn",
    "pipe {s} config bw {s}Gbit/s pie target {w}us tupdate {b}ms alpha {p} beta {p} ecn",
    "pipe {s} config plr {p},{p},{p},{p} noerror buckets {w}",
    "pipe {s} config mask proto 0x{b} dst-ip 0x{w} src-port 0x{s}",
    "pipe {s} config mask src-ip6 /{b} flow-id 0x{s} type wf2q+",
    "pipe {s} config profile-values n%2f{s}/{s}/{l}x{s},{b},{w}x9 delay {b}us",
    "sched {s} config type fq_pie alpha {p} beta {p} target {w}us quantum {w} flows {w}",
    "sched {s} config type fq_codel target {b}ms limit {w} noecn",
    "sched {s} config type qfq mask dst-ip 0xff",
    "sched {s} config type rr pie onoff dre capdrop max_burst {b}ms max_ecnth {p}",
    "sched {s} config type prio queue {s}{s} red {p}/3/9/{p}",
    "queue {s} config sched {s} weight {b} mask src-ip /{s}",
    "queue {s} config sched {s} lmax {w} pri {s} plr {p} codel noecn",
    "add {s}00 set {s} prob {p} deny log tcp from table(t{s}) to any {w} // said {b}",
    "add {s}01 set 31 count log logamount {w} ip from any to any frag",
    "add {s}02 allow tag {w} tcp from any 1{s}-6{s},{w} to not me setup keep-state :n{s}",
    "add {s}03 skipto {s}50 ip from any to any",
    "add {s}05 count untag {w} ip from any to any tagged {w}",
    "add {s}06 setdscp {s} ip from 10.0.0.0/24{{s},1{s}-20{s}} to any dscp af11,{s}",
    "add {s}07 unreach port udp from any to 10.{b}.0.0/1{s} in recv em{s}",
    "add {s}08 unreach6 port ip6 from fd00::{w} to any ext6hdr frag,dstopt",
    "add {s}09 call {s}50 ip from any to any iplen {b},{w}",
    "add {s}10 return ip from any to any ipttl {b}",
    "add {s}11 allow udp from any to any {w} limit src-addr,dst-port {s} :n{s}",
    "add {s}12 fwd 10.{b}.0.1,{w} tcp from any to any tcpflags syn,!ack",
    "add {s}13 nat {s} ip from any to any via em1",
    "add {s}14 pipe {s} ip from { 10.{b}.0.0/16 or 192.0.2.{b} } to any",
    "add {s}15 queue tablearg ip from table(t{s}) to any out",
    "add {s}16 setmark {l} ip from any to any",
    "add {s}17 count ip from any to any mark 0x{b}:0xfff",
    "add {s}18 tcp-setmss {w} tcp from any to any tcpmss {w}",
    "add {s}19 deny icmp from any to any icmptypes 8,{s} // // {l} \"'",
    "add {s}20 set {s} allow ip from any to any MAC any 02:00:00:00:00:0{s}/40",
    "add {s}21 check-state :n{s}",
    "add {s}22 reass ip from any to any in",
    "add {s}23 count ip from any to any lookup dst-port t{s} not out",
    "add {s}24 allow { tcp or udp } from any to any record-state :n{s} defer-action",
    "add {s}25 reset tcp from any to table(t{s},{w}) established",
    "add {s}26 count ip4 from any to any iptos lowdelay ipid {w} ipoptions ssrr",
    "add {s}27 abort ip from any to any tcpseq {l} tcpack {l} tcpwin {w}",
    "add {s}28 nptv6 p{s} ip6 from any to any",
    "add {s}29 count ip from any to any ipversion 4 ipprecedence {s}",
    "add {s}30 nat global ip from any to any",
    "table t{s} create type addr missing limit 9{s}",
    "table t{s} create type addr valtype skipto,pipe,fib,nat,dscp,tag,limit,ipv4,ipv6,mark",
    "table t{s} create type number valtype dscp",
    "table t{s} create type iface valtype ipv4 locked",
    "table t{s} create type flow:src-ip,proto,dst-port valtype fib",
    "table t{s} create type mac",
    "table t{s} create type addr algo addr:hash masks=/24,/64",
    "set {s} table t{s} create type addr",
    "set {s} table t{s} add 10.{b}.0.0/16 {w}",
    "table t{s} add 10.{b}.0.0/1{s} {l}",
    "table t{s} add 2001:db8:{w}::/48 {w}",
    "table t{s} add {w} {s}",
    "table t{s} add em{b} 192.0.2.{b}",
    "table t{s} add 02:00:00:00:00:0{s} {w}",
    "table t{s} add 10.0.{b}.1,udp,{w} {s}",
    "table t{s} swap t{s}",
    "table t{s} lock",
    "table t{s} modify limit {w}",
    "set disable {s} enable {s}{s}",
    "set move rule {s}00 to {s}",
    "set move {s} to {s}",
    "set swap {s} {s}",
    "delete {s}00",
    "pipe delete {s}",
    "nat {s} config ip 192.0.2.{b} same_ports log",
    "nat {s} config if em{s} deny_in unreg_only reset reverse port_range 4{s}00-5{s}000",
    "nat {s} config ip 192.0.2.{b} redirect_port tcp 10.0.0.{b}:{w} {w} redirect_addr 10.0.0.{b} 192.0.2.{b}",
    "nat {s} config redirect_port udp 10.0.0.{b}:7{s},10.0.0.{b}:8{s} 9{s} redirect_proto gre 10.0.0.{b}",
    "nat {s} config ip 10.0.0.{b} unreg_cgn skip_global proxy_only",
    "nptv6 p{s} create int_prefix fd00:{s}:: ext_prefix 2001:db8:{s}:: prefixlen 48",
    "sysctl net.inet.ip.fw.dyn_udp_lifetime={b}",
    "sysctl net.inet.ip.fw.dyn_max={w}",
    "sysctl net.inet.ip.fw.verbose_limit={w}",
    "sysctl net.inet.ip.dummynet.red_avg_pkt_size={w}",
    "sysctl net.inet.ip.dummynet.pipe_slot_limit={w}",
    "sysctl net.inet.ip.dummynet.expire={s}",
    "disable one_pass",
    "disable dyn_keepalive",
    "enable verbose",
];

/// Replaces the placeholders of a template by numbers.
fn filled(template: &str, numbers: &[u32]) -> String {
    let mut numbers = numbers.iter().cycle();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, sign) = rest.split_at(at);
        text += before;
        let number = *numbers.next().unwrap();
        let filling = match sign.get(..3) {
            Some("{s}") => (1 + number % 5).to_string(),
            Some("{b}") => (number % 256).to_string(),
            Some("{w}") => (number % 65536).to_string(),
            Some("{l}") => number.to_string(),
            Some("{p}") => format!("0.{:05}", 1 + number % 99999),
            _ => {
                text.push('{');
                rest = &sign[1..];
                continue;
            }
        };
        text += &filling;
        rest = &sign[3..];
    }
    text + rest
}

fn command() -> impl Strategy<Value = String> {
    let numbers = proptest::collection::vec(any::<u32>(), 7);
    (0..TEMPLATES.len(), numbers).prop_map(|(at, numbers)| filled(TEMPLATES[at], &numbers))
}

const PACKETS: &[&str] = &[
    "em0 udp 10.0.0.1:1000 10.1.0.1:53",
    "em1 udp 10.1.0.1:53 10.0.0.1:1000",
    "em0 tcp:S 10.0.0.1:1024 10.1.0.1:22 x3",
    "em1 tcp:SA 10.1.0.1:22 10.0.0.1:1024",
    "em0 tcp:A 192.0.2.7:1024 203.0.113.9:80",
    "em1 tcp:S 10.77.0.1:1024 192.0.2.7:80 x2",
];

/// Returns the words of `fates` without the ports that `nat` instances have chosen at random.
fn verdicts(fates: &str) -> Vec<&str> {
    fates.split(", ").map(|fate| fate.split(" as ").next().unwrap()).collect()
}

/// Tests that the syntax of each template is valid. The firewall may refuse the command for another
/// reason.
#[test]
fn every_template_of_a_random_firewall_is_a_command() {
    let site = ScriptFirewall::new(PORTS);
    let mut wrong = String::new();
    for template in TEMPLATES {
        let command = filled(template, &[7, 31, 1023]);
        let output = site.command(&format!("ipfw -n '{command}'"));
        if output.contains("exit 64") || output.contains("column") {
            wrong += &format!("{command}\n{output}");
        }
    }
    assert_eq!(wrong, "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Loads the output of `ipfw save` into an empty firewall twice, and once more after random
    /// commands. After each load, the firewall must save the same. After the first two, frames must
    /// get the same verdicts as in the firewall that wrote the output.
    #[test]
    fn any_firewall_is_made_again_by_what_it_saves(
        commands in proptest::collection::vec(command(), 0..80),
        others in proptest::collection::vec(command(), 0..8),
    ) {
        let mut one = ScriptFirewall::new(PORTS);
        // Some commands are refused, for example those with an unsuitable scheduler type. Only
        // accepted commands count.
        for command in &commands {
            one.command(&format!("ipfw -q '{command}'"));
        }
        let saved = one.command("ipfw save");
        let mut again = ScriptFirewall::new(PORTS);
        load(&again, &saved);
        prop_assert_eq!(listings(&again), listings(&one), "{}", saved);
        load(&again, &saved);
        prop_assert_eq!(again.command("ipfw save"), saved.clone());
        for packet in PACKETS {
            let fates = [again.frames(packet), one.frames(packet)];
            let fates = [verdicts(&fates[0]), verdicts(&fates[1])];
            prop_assert_eq!(&fates[0], &fates[1], "{}\n{}", packet, saved);
        }
        prop_assert_eq!(again.command("ipfw -a list"), one.command("ipfw -a list"), "{}", saved);
        for command in others.iter().filter(|one| one.starts_with("add") || one.starts_with("table")) {
            again.command(&format!("ipfw -q '{command}'"));
        }
        load(&again, &saved);
        prop_assert_eq!(again.command("ipfw save"), saved);
    }
}
