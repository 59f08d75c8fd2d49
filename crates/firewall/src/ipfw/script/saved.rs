//! What `ipfw save` prints makes the same firewall.

use super::site::Site;

const PORTS: &str = "netmap:em0 netmap:em1 --me 203.0.113.9=2";

const COMMANDS: &[&str] = &[
    "sysctl net.link.bridge.ipfw_arp=1",
    "disable one_pass",
    "sysctl net.inet.ip.fw.dyn_udp_lifetime=30",
    "sysctl net.inet.ip.dummynet.pipe_slot_limit=500",
    "pipe 1 config bw 10Mbit/s delay 20ms queue 300 plr 0.01 mask src-ip 0xff",
    "pipe 2 config bw 5Mbit/s red 0.002/5/15/0.1",
    "pipe 4 config bw 1Mb type rr",
    "sched 2 config type fq_codel target 3ms flows 77",
    "queue 3 config sched 2 weight 7 mask dst-ip6 /64",
    "nat 1 config if em1 same_ports redirect_port tcp 10.0.0.80:80 80",
    "nat 2 config ip 203.0.113.10 deny_in",
    "nptv6 home create int_prefix fd00:: ext_prefix 2001:db8:: prefixlen 48",
    "table hosts create type addr valtype skipto,pipe limit 9",
    "table hosts add 10.0.0.0/8 100,1 2001:db8::/32 200,2",
    "table flows create type flow:src-ip,proto,dst-port",
    "table flows add 10.0.0.1,udp,53 5",
    "table hash create type addr algo addr:hash masks=/24,/64",
    "table hash add 192.0.2.0/24 1",
    "table macs create type mac locked",
    "set disable 4 5",
    "add 100 set 4 prob 0.25 deny log logamount 5 tcp from table(hosts) to me 22 // told off",
    "add 100 allow { tcp or udp } from any to 10.0.0.0/8 keep-state :here",
    "add 200 skipto tablearg ip from table(hosts) to any",
    "add 300 set 30 queue 3 ip from any to any",
    "add 400 nat 1 ip from any to any via em1",
    "add 500 nptv6 home ip6 from any to any",
];

#[test]
fn what_save_prints_makes_the_same_firewall() {
    let one = Site::new(PORTS);
    for command in COMMANDS {
        let said = one.command(&format!("ipfw -q {command}"));
        assert!(!said.contains("exit"), "{command}: {said}");
    }
    let saved = one.command("ipfw save");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved.rules");
    std::fs::write(&path, &saved).unwrap();
    let other = Site::new(PORTS);
    let said = other.command(&format!("ipfw -q {}", path.display()));
    assert!(!said.contains("exit"), "{said}\n{saved}");
    for listing in [
        "-S list",
        "pipe show",
        "queue show",
        "sched show",
        "table all list",
        "set show",
        "nat show config",
        "nptv6 all list",
        "sysctl -a",
        "save",
    ] {
        let listing = format!("ipfw {listing}");
        assert_eq!(other.command(&listing), one.command(&listing), "{listing}\n{saved}");
    }
}
