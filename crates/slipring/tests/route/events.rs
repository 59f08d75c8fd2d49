//! Tests of `slipring route ctl monitor`, `drop` and `punt`: changes, dropped packets, and packets
//! that the kernel gets.

use serde_json::Value;
use slipring_test_support::Program;

use crate::packet::Packet;
use crate::rig::{Rig, Setup, ip, v4};
use crate::settings::{SettingsRig, start};

crate::program_checks! {
    for crate::rig::Setup:
    routes_and_neighbours_are_told_as_they_change,
    a_link_that_goes_down_is_told,
    drops_are_told_with_their_cause,
    a_reload_is_told,
    a_monitor_ends_with_the_router,
    a_kind_of_events_that_does_not_exist_is_refused,
    drops_are_counted_from_the_last_reset
}

crate::instances! {
    only_xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    what_the_kernel_gets_is_listed_by_class_with_its_rate
}

crate::instances! {
    only_xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"),
    a_program_in_the_kernel_has_no_rates
}

/// Starts a monitor, and waits until events are recorded for it.
fn monitor(rig: &Rig, words: &[&str]) -> Program {
    let program = rig.start_ctl(&[&["monitor"], words].concat());
    program.wait_for_text("watching");
    program
}

/// Waits for the end of a monitor, and returns its output.
fn told(monitor: Program) -> String {
    monitor.finish().well().stdout
}

fn routes_and_neighbours_are_told_as_they_change(setup: Setup) {
    let rig = setup.start();
    let started = monitor(&rig, &["route", "-c", "3"]);
    rig.ip("route add 10.9.0.0/16 via 10.3.0.3
            route add fd09::/64 via fd03::3 metric 7
            route del 10.9.0.0/16 via 10.3.0.3");
    let lines = told(started);
    // Events of the two families are not ordered relative to each other, so each family is compared
    // by itself.
    let (of_v6, of_v4): (Vec<_>, Vec<_>) = lines.lines().partition(|line| line.contains("fd09"));
    assert_eq!(
        of_v4,
        [
            "route set 10.9.0.0/16 via 10.3.0.3 dev e1",
            "route removed 10.9.0.0/16 via 10.3.0.3 dev e1",
        ]
    );
    assert_eq!(of_v6, ["route set fd09::/64 via fd03::3 dev e1 metric 7"]);
    let started = monitor(&rig, &["neighbour", "-c", "1", "--json"]);
    let mac = "02:00:00:00:03:33";
    rig.ip(&format!("neigh add 10.3.0.33 lladdr {mac} dev e1 nud permanent"));
    let event: Value = serde_json::from_str(&told(started)).unwrap();
    let event = &event["answer"];
    assert_eq!((&event["event"], &event["change"]), (&"neighbour".into(), &"set".into()));
    let of = &event["neighbour"];
    let shown = ["address", "dev", "mac", "state"].map(|key| of[key].as_str().unwrap());
    assert_eq!(shown, ["10.3.0.33", "e1", mac, "PERMANENT"]);
}

fn a_link_that_goes_down_is_told(setup: Setup) {
    let rig = setup.with_c().start();
    let started = monitor(&rig, &["link"]);
    rig.ip("link set e2 down");
    started.wait_for_text("link set e2: down");
    rig.tell(&["shutdown"]).well();
    told(started);
}

/// Sends packets that rp_filter refuses.
fn send_refused(rig: &Rig) {
    rig.ignores(&[(); 20].map(|()| Packet::udp(ip("10.3.0.9"), v4().b, b"refused")));
}

fn drops_are_told_with_their_cause(setup: Setup) {
    let rig = setup.set("ipv4/conf/e0/rp_filter", "1").start();
    let started = monitor(&rig, &["drop"]);
    rig.until(|| {
        send_refused(&rig);
        started.so_far().stdout.contains(" reverse-path-strict").then_some(())
    });
    rig.tell(&["shutdown"]).well();
    let lines = told(started);
    let told = lines.lines().filter_map(|line| line.strip_prefix("drop e0: "));
    let counts = told.filter_map(|it| it.strip_suffix(" reverse-path-strict"));
    assert!(counts.map(|count| count.parse::<u64>().unwrap()).sum::<u64>() > 0, "{lines}");
}

fn a_reload_is_told(setup: Setup) {
    let started = start(setup, "");
    let monitor = monitor(&started.rig, &["router"]);
    started.reload("[icmp]\nerrors_per_s = 5\n");
    monitor.wait_for_text("router: reload of ");
    started.rig.tell(&["shutdown"]).well();
    told(monitor);
}

fn a_monitor_ends_with_the_router(setup: Setup) {
    let rig = setup.start();
    let started = monitor(&rig, &[]);
    rig.tell(&["shutdown"]).well();
    rig.take_program().finish().well();
    told(started);
}

fn a_kind_of_events_that_does_not_exist_is_refused(setup: Setup) {
    let rig = setup.start();
    let refused = rig.tell(&["monitor", "drops"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("neighbour"), "{}", refused.stderr);
}

/// Returns how many packets that arrived on e0 were dropped for a cause, according to `ctl drop`.
fn counted(answer: &Value, cause: &str) -> u64 {
    let rows = answer["drops"].as_array().unwrap().iter();
    let of_cause = rows.filter(|row| row["dev"] == "e0" && row["cause"] == cause);
    of_cause.map(|row| row["packets"].as_u64().unwrap()).sum()
}

fn drops_are_counted_from_the_last_reset(setup: Setup) {
    const CAUSE: &str = "reverse-path-strict";
    let rig = setup.set("ipv4/conf/e0/rp_filter", "1").start();
    rig.until(|| {
        send_refused(&rig);
        (counted(&rig.ask(&["drop"]), CAUSE) > 0).then_some(())
    });
    let first = rig.ask(&["drop", "reset"]);
    let shown = counted(&first, CAUSE);
    assert_eq!(first["reset"], true);
    let after = rig.ask(&["drop"]);
    assert_eq!((counted(&after, CAUSE), after["reset_s"].is_u64()), (0, true), "{after}");
    let mut sent = 0;
    let again = rig.until(|| {
        send_refused(&rig);
        let found = counted(&rig.ask(&["drop"]), CAUSE);
        (found > 0).then_some(found)
    });
    sent += again;
    // The reset has not changed the counters of the interface, which still include all drops.
    let interface = rig.ask(&["interface", "e0"]);
    let total = interface["interfaces"][0]["dropped"][CAUSE].as_u64().unwrap();
    assert_eq!(total, shown + sent);
    let text = rig.tell(&["drop"]).well().stdout;
    assert!(text.contains("packets dropped since the reset ") && text.contains("e0: "), "{text}");
}

/// Returns the row of `ctl punt` for the class `name`.
fn class(rig: &Rig, name: &str) -> Value {
    let answer = rig.ask(&["punt"]);
    let rows = answer["classes"].as_array().unwrap();
    rows.iter().find(|row| row["class"] == name).unwrap().clone()
}

fn what_the_kernel_gets_is_listed_by_class_with_its_rate(setup: Setup) {
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(rules.path(), "add allow ip from any to any\n").unwrap();
    let text = |rate| format!("rules = {:?}\n[punt]\nicmp = {rate}\n", rules.path());
    let started = start(setup, &text(1));
    let rig = &started.rig;
    // Only the kernel forwards packets with options; with rules, it gets them from a worker.
    let send = || {
        for seq in 0..50 {
            let optional = |packet: &mut Packet| packet.options = vec![1; 4];
            rig.a.send(&Packet::echo(v4().a, v4().b, seq).with(optional));
        }
        rig.observe([0; 3]);
    };
    let row = rig.until(|| {
        send();
        let row = class(rig, "icmp");
        (row["limited"].as_u64() > Some(0)).then_some(row)
    });
    assert_eq!(row["rate"], 1);
    assert!(row["packets"].as_u64() > Some(0), "{row}");
    started.reload(&text(100_000));
    assert_eq!(class(rig, "icmp")["rate"], 100_000);
    let text = rig.tell(&["punt"]).well().stdout;
    assert!(text.contains("beyond 100000 a second dropped\n"), "{text}");
}

fn a_program_in_the_kernel_has_no_rates(setup: Setup) {
    let SettingsRig { rig, .. } = &start(setup, "[punt]\nicmp = 1\n");
    assert_eq!(class(rig, "icmp")["rate"], Value::Null);
}
