use super::*;
use crate::action::ValeMemory;
use crate::flags::{ValePlan, ValeRequest};
use crate::settings::SettingChange;
use crate::show::DaemonRequest;
use slipring_abi::{NmreqValeNewif, NmreqValePolling};

fn plan(words: &str) -> Result<ValePlan, Failure> {
    let words = std::iter::once("vale").chain(words.split_ascii_whitespace());
    ValePlan::of(&flags::command().try_get_matches_from(words).unwrap())
}

fn action(words: &str) -> ValeAction {
    match plan(words).unwrap().action {
        ValeRequest::Device(action) => action,
        ValeRequest::Daemon(wish) => panic!("{wish:?}"),
    }
}

fn name(text: &str) -> String {
    text.to_owned()
}

#[test]
fn every_letter_of_vale_ctl_means_what_it_meant() {
    let own = ValeMemory::Own;
    let polling = |nr_mode, first, count| NmreqValePolling {
        nr_mode,
        nr_first_cpu_id: first,
        nr_num_polling_cpus: count,
        ..NmreqValePolling::default()
    };
    for (words, expected) in [
        ("", ValeAction::ListAll),
        ("-v", ValeAction::ListAll),
        ("-l vale0:a", ValeAction::List(name("vale0:a"))),
        ("-g eth0", ValeAction::Info(name("eth0"))),
        ("-d vale0:eth0", ValeAction::Detach(name("vale0:eth0"))),
        ("-r v0", ValeAction::Remove(name("v0"))),
        ("-P vale0:eth0", ValeAction::StopPolling(name("vale0:eth0"))),
        (
            "-a vale0:eth0 -m 3",
            ValeAction::Attach {
                name: name("vale0:eth0"),
                host: false,
                memory: ValeMemory::Number(3),
            },
        ),
        (
            "-h vale0:eth0",
            ValeAction::Attach { name: name("vale0:eth0"), host: true, memory: own.clone() },
        ),
        (
            "-n v0 -C 256,512,2,3 -m netmap:eth0",
            ValeAction::New {
                name: name("v0"),
                sizes: NmreqValeNewif {
                    nr_tx_slots: 256,
                    nr_rx_slots: 512,
                    nr_tx_rings: 2,
                    nr_rx_rings: 3,
                    ..NmreqValeNewif::default()
                },
                memory: ValeMemory::Of(name("eth0")),
            },
        ),
        ("-p vale0:e0", ValeAction::Poll { name: name("vale0:e0"), polling: polling(1, 0, 1) }),
        (
            "-p vale0:e0 -C 0,1",
            ValeAction::Poll { name: name("vale0:e0"), polling: polling(1, 1, 1) },
        ),
        (
            "-p vale0:e0 -C 1,0,2",
            ValeAction::Poll { name: name("vale0:e0"), polling: polling(2, 0, 2) },
        ),
    ] {
        assert_eq!(action(words), expected, "{words}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for words in [
        "-n v0 -C x",
        "-n v0 -C 1,2,3,4,5",
        "-n v0 -C 1,1,70000",
        "-p vale0:e -C 0,1,2",
        "-p vale0:e -C 1,2,3,4",
        "--set vale0 nonsense",
        "--set vale0 =on",
    ] {
        assert!(plan(words).is_err(), "{words}");
    }
    let refuses = |words: &str| {
        flags::command().try_get_matches_from(words.split_ascii_whitespace()).is_err()
    };
    for words in ["vale -a vale0:x -d vale0:x", "vale -m many", "vale -m 70000", "vale --set vale0"]
    {
        assert!(refuses(words), "{words}");
    }
}

#[test]
fn the_daemon_is_asked_what_the_device_does_not_know() {
    assert!(matches!(
        plan("--show").unwrap().action,
        ValeRequest::Daemon(DaemonRequest::Show(None))
    ));
    let ValeRequest::Daemon(DaemonRequest::Set(selector, changes)) =
        plan("--set vale0:a isolated=on vlan=5").unwrap().action
    else {
        panic!()
    };
    assert_eq!((selector.as_str(), changes.len()), ("vale0:a", 2));
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_a_way_out() {
    let error = action::perform("/nowhere/netmap".as_ref(), &ValeAction::ListAll).unwrap_err();
    let Failure::Error(error) = error else { panic!() };
    let text = error.to_text(false);
    assert!(
        text.contains("cannot open /nowhere/netmap") && text.contains("slipring daemon"),
        "{text}"
    );
}

#[test]
fn a_name_that_no_request_can_carry_is_refused_as_the_device_would() {
    let failure = |action: &ValeAction| match action::perform("/dev/null".as_ref(), action) {
        Err(Failure::Error(error)) => error.to_text(false),
        other => panic!("{other:?}"),
    };
    let (name, memory) = ("x".repeat(100), ValeMemory::Own);
    let new = ValeAction::New { name: name.clone(), sizes: NmreqValeNewif::default(), memory };
    assert!(failure(&new).contains("Invalid argument"), "{}", failure(&new));
    let gone = failure(&ValeAction::Remove(name));
    assert!(gone.contains("No such device or address"), "{gone}");
}

#[test]
fn what_monitors_saw_and_lost_stands_behind_their_port() {
    let monitors = serde_json::json!([{ "frames": 7, "lost": 0 }, { "frames": 3, "lost": 4 }]);
    let port = serde_json::json!({
        "port": "vale0:a", "port_index": 0, "tx": { "packets": 7 }, "rx": { "packets": 0 },
        "drops": { "too_long": 1 }, "monitors": monitors,
    });
    let answer = serde_json::json!({ "switches": [{ "switch": "vale0", "ports": [port] }] });
    let text = crate::show::table(&answer);
    let end = "lost 1 too_long, monitor saw 7, monitor saw 3 and lost 4\n";
    assert!(text.ends_with(end), "{text}");
}

/// The daemon's answers about a switch with the ports a and b.
mod service {
    use super::*;
    use serde_json::{Value, json};
    use slipring_control::{ControlReply, ControlRequest, ControlService};
    use slipring_netmap::{
        Adapter, AdapterRequest, CallerMemory, Domain, Errno, MemoryParams, Netmap, Notify,
        OpenHandle, Opener, Provider,
    };
    use std::sync::Arc;

    #[derive(Debug)]
    struct Nothing;

    impl Provider for Nothing {
        fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
            Err(Errno::NXIO)
        }
    }

    impl Notify for Nothing {
        fn notify(&self, _: u64) {}
    }

    impl CallerMemory for Nothing {
        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
            Err(Errno::FAULT)
        }

        fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
            Err(Errno::FAULT)
        }
    }

    fn bound(netmap: &Netmap, domain: &Arc<Domain>, name: &str) -> OpenHandle {
        use slipring_abi::{NIOCREGIF, NR_REG_ALL_NIC, Nmreq, PlainData};
        let opener = Opener { netns: 7, netns_fd: None, gids: Vec::new() };
        let open = netmap.open(domain.clone(), opener, Arc::new(Nothing));
        let mut old = Nmreq { nr_version: 14, nr_flags: NR_REG_ALL_NIC, ..Nmreq::default() };
        old.nr_name[..name.len()].copy_from_slice(name.as_bytes());
        let mut arg = vec![0; Nmreq::SIZE];
        old.write_to(&mut arg);
        netmap.ioctl(&open, NIOCREGIF, &mut arg, &mut Nothing).unwrap();
        open
    }

    fn ask(service: &dyn ControlService, what: &str, args: Value) -> Result<Value, String> {
        let Value::Object(args) = args else { panic!() };
        let request = ControlRequest { id: Value::Null, what: what.to_owned(), args };
        match service.answer(&request) {
            Ok(ControlReply::Once(value)) => Ok(value),
            Ok(_) => panic!(),
            Err(refusal) => Err(refusal.cause.unwrap_or_default()),
        }
    }

    #[test]
    fn switches_are_shown_and_changed_and_nonsense_is_refused() {
        let netmap = Netmap::new(Box::new(Nothing));
        let domain = Domain::new(5, MemoryParams::default()).unwrap();
        let ports = ["vale0:a", "vale0:b"].map(|name| bound(&netmap, &domain, name));
        let known = vec![domain.clone()];
        let service = SwitchService::new(move || known.clone());
        let shown = ask(&service, "switches", json!({ "uid": 5, "netns": 7 })).unwrap();
        assert_eq!(shown["switches"][0]["ports"][1]["port"], "vale0:b");
        assert_eq!(
            ask(&service, "switches", json!({ "uid": 6 })).unwrap(),
            json!({ "switches": [] })
        );
        let set = |switch: &str, port: Option<&str>, change: &str| {
            let args = json!({ "switch": switch, "port": port, "changes": [change] });
            ask(&service, "set", args)
        };
        for change in ["isolated=on", "learning=off", "vlan=5", "vlan=trunk:5,6", "storm=1000"] {
            assert!(set("vale0", Some("a"), change).is_ok(), "{change}");
        }
        for change in ["ageing=10s", "ageing=off", "vlans=on", "unknown=drop"] {
            assert!(set("vale0", None, change).is_ok(), "{change}");
        }
        for (switch, port, change) in [
            ("vale0", Some("a"), "isolated=maybe"),
            ("vale0", Some("a"), "vlan=4095"),
            ("vale0", Some("a"), "ageing=1s"),
            ("vale0", Some("x"), "isolated=on"),
            ("vale0", None, "isolated=on"),
            ("vale0", None, "ageing=long"),
            ("vale1", None, "vlans=on"),
        ] {
            assert!(set(switch, port, change).is_err(), "{switch} {port:?} {change}");
        }
        let shown = ask(&service, "switches", json!({})).unwrap();
        let settings = &shown["switches"][0]["ports"][0]["settings"];
        assert_eq!((&settings["isolated"], &settings["vlan"]), (&json!(true), &json!("trunk:5,6")));
        let changed = ["isolated=on", "learning=off", "vlan=trunk:5,6", "storm=1000"];
        assert_eq!(settings["changed"], json!(changed));
        let line = " vale0:a          sent 0, received 0, isolated=on, learning=off, vlan=trunk:5,6, \
                    storm=1000\n";
        assert!(crate::show::table(&shown).contains(line), "{}", crate::show::table(&shown));
        assert_eq!(shown["switches"][0]["vlans"], true);
        assert_eq!(ask(&service, "flush", json!({ "switch": "vale0" })).unwrap()["flushed"], 0);
        assert!(ask(&service, "flush", json!({ "switch": 7, "port": [] })).is_ok());
        for (what, args) in
            [("set", json!({})), ("nothing", json!({})), ("flush", json!({ "switch": "x" }))]
        {
            assert!(ask(&service, what, args).is_err(), "{what}");
        }
        drop(ports);
    }
}

#[test]
fn a_change_is_a_key_and_a_value() {
    assert_eq!(
        SettingChange::parse("vlan=5"),
        Ok(SettingChange { key: name("vlan"), value: name("5") })
    );
    assert!(SettingChange::parse("vlan").is_err());
}

#[test]
fn what_would_be_left_out_is_refused() {
    for (words, why) in [
        ("-a vale0:eth0 -C 128", "it goes with -n"),
        ("-C 128", "it goes with -n"),
        ("-d vale0:eth0 -m 3", "it goes with -n, -a and -h"),
    ] {
        let Err(Failure::Error(error)) = plan(words) else { panic!("{words} is taken") };
        assert!(error.to_text(false).contains(why), "{words}: {}", error.to_text(false));
    }
}
