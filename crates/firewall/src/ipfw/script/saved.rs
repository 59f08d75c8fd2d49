//! What `ipfw save` prints makes the same firewall, wherever it is loaded.

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

/// A firewall that has carried out [`COMMANDS`].
fn configured() -> Site {
    let site = Site::new(PORTS);
    for command in COMMANDS {
        let said = site.command(&format!("ipfw -q {command}"));
        assert!(!said.contains("exit"), "{command}: {said}");
    }
    site
}

/// Has a firewall load a text as a file.
fn load(site: &Site, text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved.rules");
    std::fs::write(&path, text).unwrap();
    let said = site.command(&format!("ipfw -q {}", path.display()));
    assert!(!said.contains("exit"), "{said}\n{text}");
    said
}

fn listings(site: &Site) -> Vec<String> {
    LISTINGS.iter().map(|listing| site.command(&format!("ipfw {listing}"))).collect()
}

#[test]
fn what_save_prints_makes_the_same_firewall() {
    let one = configured();
    let saved = one.command("ipfw save");
    let other = Site::new(PORTS);
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
        let said = site.command(&format!("ipfw {command}"));
        assert!(!said.contains("exit"), "{command}: {said}");
    }
    assert_ne!(listings(&site), before);
    load(&site, &saved);
    assert_eq!(listings(&site), before, "{saved}");
    load(&site, &saved);
    assert_eq!(listings(&site), before, "and again");
}

#[test]
fn values_are_saved_as_they_were_typed() {
    let site = Site::new(PORTS);
    let typed = [
        "pipe 1 config bw 10Mbit/s delay 20ms burst 10K queue 50KBytes plr 0.1",
        "pipe 2 config bw 2.5Gbit/s delay 1.5s plr 0.01,0.25,0.9,0.333 red 0.002/5/15/0.1",
        "add 00100 prob 0.0000001 deny ip from any to any",
        "add 00200 prob 0.123456789 allow ip from any to any",
    ];
    for command in typed {
        let said = site.command(&format!("ipfw -q {command}"));
        assert!(!said.contains("exit"), "{command}: {said}");
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
    let mut one = Site::new(ports);
    RULES.iter().for_each(|rule| drop(one.command(&format!("ipfw -q {rule}"))));
    assert_eq!(one.frames("em0 tcp:S 10.0.0.1:1002 10.1.0.1:80 seq=100"), "em1");
    assert_eq!(one.frames("em1 tcp:SA 10.1.0.1:80 10.0.0.1:1002 seq=500 ack=101"), "em0");
    assert_eq!(one.frames(&format!("em0 {out} seq=101 ack=501")), "em1");
    assert_eq!(one.frames("em0 udp 10.0.0.1:1000 10.1.0.1:53"), "em1");
    let (saved, plain) = (one.command("ipfw save --states"), one.command("ipfw save"));
    assert!(!plain.contains("\nstate "), "{plain}");
    assert_eq!(saved.matches("\nstate ").count(), 2, "{saved}");
    // After a minute the question's time is over, and the connection has four.
    let mut other = Site::new(ports);
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
    // Without states there is none to pass by.
    let mut third = Site::new(ports);
    load(&third, &plain);
    assert_eq!(third.frames(&format!("em1 {back} seq=501 ack=102")), "lost denied");
    let without = saved.replace("add 00200", "# add 00200");
    let said = load(&third, &without);
    let named = "state tcp 10.0.0.1 1002 <-> 10.1.0.1 80 :web: there is no rule 200";
    assert!(said.contains(named), "{said}");
}

mod any {
    use proptest::prelude::*;

    use super::*;

    fn share() -> impl Strategy<Value = String> {
        (1u32..1_000_000, 1usize..=6).prop_map(|(share, digits)| {
            format!("0.{:0digits$}", (share % 10_u32.pow(digits as u32)).max(1))
        })
    }

    fn command() -> impl Strategy<Value = String> {
        let number = || 1u16..6;
        prop_oneof![
            (number(), 1u32..5000, share(), 0u32..300).prop_map(|(n, bw, plr, delay)| {
                format!("pipe {n} config bw {bw}.5Kbit/s delay {delay}.25ms plr {plr}")
            }),
            (number(), 1u32..400, share()).prop_map(|(n, size, p)| {
                format!("pipe {n} config queue {size}KBytes gred {p}/5/40/{p} burst {size}K")
            }),
            (number(), share()).prop_map(|(n, p)| {
                format!("sched {n} config type fq_pie alpha {p} beta {p} target 1234us")
            }),
            (number(), number(), 1u32..100).prop_map(|(n, to, weight)| {
                format!("queue {n} config sched {to} weight {weight} mask src-ip /{}", weight % 33)
            }),
            (number(), share()).prop_map(|(n, p)| {
                format!(
                    "add {n}00 set {n} prob {p} deny log tcp from table(t{n}) to any {n} // {p}"
                )
            }),
            (number(), 0u8..32).prop_map(|(n, len)| {
                format!("table t{n} create type addr missing limit {}", 9 + len)
            }),
            (number(), 0u8..=32, any::<u32>()).prop_map(|(n, len, value)| {
                format!("table t{n} add 10.{len}.0.0/{len} {value}")
            }),
            (number(), number())
                .prop_map(|(one, two)| format!("set disable {one} enable {}", two + 9)),
            number().prop_map(|n| format!("nat {n} config ip 192.0.2.{n} same_ports")),
            (1u32..900).prop_map(|n| format!("sysctl net.inet.ip.fw.dyn_udp_lifetime={n}")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Into an empty one, over itself, and over any other one.
        #[test]
        fn any_firewall_is_made_again_by_what_it_saves(
            commands in proptest::collection::vec(command(), 0..24),
            others in proptest::collection::vec(command(), 0..6),
        ) {
            let one = Site::new(PORTS);
            // Some are refused, as a scheduler type that does not suit: what took hold counts.
            for command in &commands {
                one.command(&format!("ipfw -q {command}"));
            }
            let saved = one.command("ipfw save");
            let again = Site::new(PORTS);
            load(&again, &saved);
            prop_assert_eq!(again.command("ipfw save"), saved.clone());
            load(&again, &saved);
            prop_assert_eq!(again.command("ipfw save"), saved.clone());
            for command in others.iter().filter(|one| one.starts_with("add") || one.starts_with("table")) {
                again.command(&format!("ipfw -q {command}"));
            }
            load(&again, &saved);
            prop_assert_eq!(again.command("ipfw save"), saved);
        }
    }
}
