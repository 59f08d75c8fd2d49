//! Tests of the keys of the configuration file.

use slipring_fib::ReversePathMode;

use super::*;

fn read(text: &str) -> Result<RouterConfig, String> {
    let read = SettingsFile::new("edge.toml", text)
        .read(|root| RouterConfig::of(root, Path::new("/etc/slipring/route")));
    read.map_err(|error| error.to_text(false))
}

#[test]
fn an_empty_file_says_nothing() {
    assert_eq!(read(""), Ok(RouterConfig::default()));
}

#[test]
fn every_key_is_read() {
    let text = "interfaces = ['eth0', 'eth1.100']\nio = 'xsk'\nfallback = false\n\
                bypass_netfilter = true\nrules = 'edge.rules'\n\
                [threads]\nworkers = 1\nbusy_poll = 'never'\n\
                [fib]\nmax_routes = 1_000\ncoalesce_ms = 5\nvrfs = 4\n\
                [urpf]\neth0 = 'loose'\n'eth1.100' = 'strict'\n\
                [[vrf]]\nname = 'red'\ntable = 100\ninterfaces = ['eth1.100']\n\
                [neigh]\nhold_packets = 16\nmax_entries = 100\nmax_incomplete = 10\n\
                [icmp]\nerrors_per_s = 100\nper_source_per_s = 5\nredirects = false\n\
                [punt]\narp = 1\nnd = 2\nbgp = 3\nigp = 4\nbfd = 5\nicmp = 6\nother = 7\n\
                [vlan]\npriorities = [0, 1, 2, 3, 4, 5, 6, 7]\n\
                [control]\nname = 'edge'\n[metrics]\nlisten = '127.0.0.1:9477'\n\
                [sandbox]\nuser = '4711'\n";
    let icmp_limits = slipring_neighbour::icmp::IcmpLimits {
        per_second: 100,
        burst: 5,
        destination_per_second: 5,
        destination_burst: 5,
    };
    let expected = RouterConfig {
        interfaces: Some(vec!["eth0".into(), "eth1.100".into()]),
        io: Some(IoChoice::Xsk),
        fallback: Some(false),
        bypass: Some(true),
        rules: Some("/etc/slipring/route/edge.rules".into()),
        workers: Some(1),
        max_routes: Some(1000),
        priorities: Some([0, 1, 2, 3, 4, 5, 6, 7]),
        name: Some("edge".into()),
        metrics: Some("127.0.0.1:9477".into()),
        user: Some(SandboxUser::find("4711").unwrap()),
        policers: Vec::new(),
        source_checks: vec![
            SourceCheck { interface: "eth0".into(), mode: ReversePathMode::Loose },
            SourceCheck { interface: "eth1.100".into(), mode: ReversePathMode::Strict },
        ],
        vrfs: vec![NamedVrf {
            name: "red".into(),
            table: 100,
            interfaces: vec!["eth1.100".into()],
        }],
        min_vrfs: Some(4),
        engine: EngineSettings {
            wait: WaitStrategy::Sleep,
            hold_packets: 16,
            max_entries: 100,
            max_incomplete: 10,
        },
        live: LiveSettings {
            punt_rates: [1, 2, 3, 4, 5, 6, 7],
            icmp_limits,
            sends_redirects: false,
            coalesce_ns: 5_000_000,
        },
    };
    assert_eq!(read(text), Ok(expected));
}

#[test]
fn a_mistake_is_told_with_its_line_and_a_suggestion() {
    for (text, parts) in [
        ("\ninterfaecs = []", ["there is no key `interfaecs`", "line 2", "`interfaces`?"]),
        ("interfaces = ['eth0']", ["needs two interfaces", "line 1", "\"eth0\", \"eth1\""]),
        ("interfaces = ['a', 'a']", ["interfaces cannot be", "column 20", "each once"]),
        ("io = 'xks'", ["io cannot be 'xks'", "line 1", "did you mean `xsk`?"]),
        ("rules = 'a'\nio = 'xdp'", ["executed by a thread", "line 2", "io = \"xsk\""]),
        ("[threads]\nworkers = 0", ["threads.workers", "line 2", "from 1 to 1024"]),
        ("[threads]\nbusy_poll = 'adaptiv'", ["busy_poll", "line 2", "`adaptive`?"]),
        ("[fib]\nmax-routes = 5", ["`max-routes`", "line 2", "`max_routes`?"]),
        ("[punt]\nicmpv6 = 5", ["punt has no key `icmpv6`", "line 2", "`icmp`?"]),
        ("[punt]\narp = 'x'", ["punt.arp cannot be 'x'", "line 2", "without quotes"]),
        ("[vlan]\npriorities = [1]", ["eight priorities", "line 2", "class selector"]),
        ("[control]\nname = 'a/b'", ["control.name cannot be 'a/b'", "line 2", "letters, digits"]),
        ("[control]\nname = '12'", ["control.name cannot be '12'", "line 2", "not digits alone"]),
        ("[fib]\nvrfs = 17", ["fib.vrfs cannot be 17", "line 2", "from 1 to 16"]),
        (
            "interfaces = ['eth0', 'eth1']\n[urpf]\netg1 = 'loose'",
            ["urpf: etg1 is not among the interfaces", "line 3", "did you mean `eth1`?"],
        ),
        (
            "interfaces = ['e0', 'e1']\n[[vrf]]\nname = 'red'\ntable = 9\ninterfaces = ['x9']",
            ["vrf: x9 is not among the interfaces", "line 5", "allowed: e0, e1"],
        ),
        ("[sandbox]\nuser = 'deamon'", ["sandbox.user cannot be 'deamon'", "line 2", "`daemon`?"]),
        ("[sandbox]\nuesr = '1'", ["sandbox has no key `uesr`", "line 2", "`user`?"]),
        ("[metrics]\nlisten = '9477'", ["metrics.listen", "line 2", "127.0.0.1:9100"]),
    ] {
        let error = read(text).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{text}: no `{part}` in {error}");
        }
    }
}
