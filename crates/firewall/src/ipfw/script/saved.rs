//! Tests that the output of `ipfw save` recreates the same configuration in any firewall that loads
//! it.

use super::script_firewall::ScriptFirewall;

const PORTS: &str = "netmap:em0 netmap:em1 --me 203.0.113.9=2";

const COMMANDS: &[&str] = &[
    "sysctl net.link.bridge.ipfw_arp=1",
    "disable one_pass",
    "sysctl net.inet.ip.fw.dyn_udp_lifetime=30",
    "sysctl net.inet.ip.dummynet.pipe_slot_limit=500",
    "pipe 1 config bw 10Mbit/s delay 20ms queue 300 plr 0.01 mask src-ip 0xff",
    "pipe 2 config bw 5Mbit/s red 0.002/5/15/0.1",
    "pipe 4 config bw 1Mb type rr",
    "pipe 5 config bw 2Mbit/s profile-values wifi%20two/8/200x8,300x2 queue 20",
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

const LISTINGS: &[&str] = &[
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
];

/// Returns a firewall that has executed [`COMMANDS`].
fn configured() -> ScriptFirewall {
    let site = ScriptFirewall::new(PORTS);
    for command in COMMANDS {
        let output = site.command(&format!("ipfw -q {command}"));
        assert!(!output.contains("exit"), "{command}: {output}");
    }
    site
}

/// Makes a firewall load `text` as a file; returns the output of the load.
fn load(site: &ScriptFirewall, text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved.rules");
    std::fs::write(&path, text).unwrap();
    let output = site.command(&format!("ipfw -q {}", path.display()));
    assert!(!output.contains("exit"), "{output}\n{text}");
    output
}

fn listings(site: &ScriptFirewall) -> Vec<String> {
    LISTINGS.iter().map(|listing| site.command(&format!("ipfw {listing}"))).collect()
}

#[test]
fn what_save_prints_makes_the_same_firewall() {
    let one = configured();
    let saved = one.command("ipfw save");
    let other = ScriptFirewall::new(PORTS);
    load(&other, &saved);
    assert_eq!(listings(&other), listings(&one), "{saved}");
}

#[test]
fn what_save_prints_loads_over_the_firewall_that_printed_it_and_over_what_became_of_it() {
    let mut site = configured();
    let flow = "em0 tcp 10.9.0.9:1024 10.0.0.1:80";
    assert_eq!(site.frames(flow), "em1");
    let (before, saved) = (listings(&site), site.command("ipfw save"));
    let states = site.command("ipfw -aD list");
    load(&site, &saved);
    assert_eq!(listings(&site), before);
    assert_eq!(site.command("ipfw -aD list"), states, "sessions go on");
    for command in [
        "-q delete 200",
        "-q add 100 deny ip from any to any",
        "-q add 50 set 31 allow ip from table(more) to any",
        "-q table more add 192.0.2.1",
        "-q table hosts delete 10.0.0.0/8",
        "-q table macs unlock",
        "nptv6 away create int_prefix fd01:: ext_prefix 2001:db8:1:: prefixlen 48",
        "set enable 4 disable 9",
        "pipe 1 config bw 1Mbit/s",
    ] {
        let output = site.command(&format!("ipfw {command}"));
        assert!(!output.contains("exit"), "{command}: {output}");
    }
    assert_ne!(listings(&site), before);
    load(&site, &saved);
    assert_eq!(listings(&site), before, "{saved}");
    load(&site, &saved);
    assert_eq!(listings(&site), before, "and again");
}

#[test]
fn values_are_saved_as_they_were_typed() {
    let site = ScriptFirewall::new(PORTS);
    let typed = [
        "pipe 1 config bw 10Mbit/s delay 20ms burst 10K queue 50KBytes plr 0.1",
        "pipe 2 config bw 2.5Gbit/s delay 1.5s plr 0.01,0.25,0.9,0.333 red 0.002/5/15/0.1",
        "add 00100 prob 0.0000001 deny ip from any to any",
        "add 00200 prob 0.123456789 allow ip from any to any",
    ];
    for command in typed {
        let output = site.command(&format!("ipfw -q {command}"));
        assert!(!output.contains("exit"), "{command}: {output}");
    }
    let saved = site.command("ipfw save");
    for command in typed {
        assert!(saved.lines().any(|line| line == command), "{command}\n{saved}");
    }
}

#[test]
fn states_that_are_saved_let_sessions_go_on_after_a_restart_under_a_list_that_denies() {
    const RULES: &[&str] = &[
        "add 100 check-state :web",
        "add 200 allow tcp from 10.0.0.0/24 to any setup keep-state :web",
        "add 300 allow udp from any to any 53 limit src-addr 4 :web",
    ];
    let (out, back) = ("tcp:A 10.0.0.1:1002 10.1.0.1:80", "tcp:A 10.1.0.1:80 10.0.0.1:1002");
    let ports = "netmap:em0 netmap:em1";
    let mut one = ScriptFirewall::new(ports);
    RULES.iter().for_each(|rule| drop(one.command(&format!("ipfw -q {rule}"))));
    assert_eq!(one.frames("em0 tcp:S 10.0.0.1:1002 10.1.0.1:80 seq=100"), "em1");
    assert_eq!(one.frames("em1 tcp:SA 10.1.0.1:80 10.0.0.1:1002 seq=500 ack=101"), "em0");
    assert_eq!(one.frames(&format!("em0 {out} seq=101 ack=501")), "em1");
    assert_eq!(one.frames("em0 udp 10.0.0.1:1000 10.1.0.1:53"), "em1");
    let (saved, plain) = (one.command("ipfw save --states"), one.command("ipfw save"));
    assert!(!plain.contains("\nstate "), "{plain}");
    assert_eq!(saved.matches("\nstate ").count(), 2, "{saved}");
    // After a minute, the state of the DNS query has expired. The state of the TCP connection is
    // valid for four more minutes.
    let mut other = ScriptFirewall::new(ports);
    other.wait(std::time::Duration::from_secs(60));
    load(&other, &saved);
    let listed = other.command("ipfw -aD list");
    assert!(
        listed.contains("00200 2 92 (240s) STATE tcp 10.0.0.1 1002 <-> 10.1.0.1 80 :web"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert_eq!(other.frames(&format!("em1 {back} seq=501 ack=102")), "em0");
    assert_eq!(other.frames(&format!("em0 {out} seq=102 ack=501")), "em1");
    assert_eq!(other.frames("em1 tcp:A 10.1.0.1:80 10.0.0.1:1003"), "lost denied");
    // The states were not saved here, so the packet matches no state.
    let mut third = ScriptFirewall::new(ports);
    load(&third, &plain);
    assert_eq!(third.frames(&format!("em1 {back} seq=501 ack=102")), "lost denied");
    let without = saved.replace("add 00200", "# add 00200");
    let output = load(&third, &without);
    let named = "state tcp 10.0.0.1 1002 <-> 10.1.0.1 80 :web: there is no rule 200";
    assert!(output.contains(named), "{output}");
}

#[test]
fn a_profile_is_saved_with_its_values_and_needs_its_file_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile");
    std::fs::write(
        &file,
        "name wifi\nsamples 10\nloss-level 0.86\nbw 3Mbit/s\nprob delay\n0 200\n1 300\n",
    )
    .unwrap();
    let site = ScriptFirewall::new(PORTS);
    let output = site.command(&format!("ipfw pipe 1 config delay 5ms profile {}", file.display()));
    assert_eq!(output, "");
    let (saved, before) = (site.command("ipfw save"), listings(&site));
    let values = "profile-values wifi/8/200,210,220,230,240,250,260,270,280,290";
    assert!(saved.contains(&format!("pipe 1 config bw 3Mbit/s delay 5ms {values}\n")), "{saved}");
    std::fs::remove_file(&file).unwrap();
    let other = ScriptFirewall::new(PORTS);
    load(&other, &saved);
    assert_eq!(listings(&other), before);
}

#[test]
fn what_a_saved_file_cannot_have_is_said_in_it() {
    let site = ScriptFirewall::new(PORTS);
    assert!(!site.command("ipfw save").contains("# Not kept"));
    site.command("ipfw -q nat 1 config ip 192.0.2.1");
    let saved = site.command("ipfw save");
    assert!(saved.contains("\n# Not kept: flows of nat, which end with the firewall\n"), "{saved}");
}

#[test]
fn a_saved_file_that_has_lost_its_end_is_refused_wherever_it_ends() {
    let saved = configured().command("ipfw save");
    let site = ScriptFirewall::new(PORTS);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved.rules");
    site.command("ipfw -q add 100 allow ip from any to any");
    let before = listings(&site);
    // The last byte is a line end. The file is complete even without it.
    for end in 1..saved.len() - 1 {
        std::fs::write(&path, &saved[..end]).unwrap();
        for flags in ["-qn", "-q"] {
            let output = site.command(&format!("ipfw {flags} {}", path.display()));
            assert!(output.contains("the end of what was saved is not there"), "{end}: {output}");
            assert!(output.ends_with("exit 65\n"), "{output}");
        }
    }
    assert_eq!(listings(&site), before);
    // The error message says how to load a truncated file: remove its first line, which requires
    // that the file has its end.
    let (_, rest) = saved[..saved.len() / 2].split_once('\n').unwrap();
    load(&site, rest.rsplit_once('\n').unwrap().0);
    load(&site, saved.trim_end());
    load(&site, &saved.replace('\n', "\r\n"));
    load(&site, &format!("{saved}\n\n"));
}

#[test]
fn a_rules_file_that_is_loaded_again_replaces_its_rules_of_set_31_and_does_not_double_them() {
    let mut site = ScriptFirewall::new(PORTS);
    let rules = "add 100 set 31 count ip from any to any\n\
                 add 200 set 31 allow udp from any to any\n\
                 add 300 allow tcp from any to any\n";
    site.replace(rules);
    let first = site.command("ipfw list");
    assert_eq!(first.lines().count(), 4, "{first}");
    assert_eq!(site.frames("em0 udp 10.0.0.1:1000 10.1.0.1:53"), "em1");
    site.replace(rules);
    assert_eq!(site.command("ipfw list"), first);
    let counted = site.command("ipfw -a list 100");
    assert!(counted.starts_with("00100 1 "), "rules that stay keep their counters: {counted}");
    site.replace("add 100 set 31 count ip from any to any\n");
    assert_eq!(site.command("ipfw list").lines().count(), 2);
}

mod any;
