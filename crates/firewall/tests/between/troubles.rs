//! Tests that frames pass whatever goes wrong: clients that die, a full disk, endless changes. Also
//! tests of names, run directories and state files that a firewall cannot have.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use slipring_test_support::eventually;

use super::*;

impl FirewallLab {
    /// Connects to the firewall's control socket.
    fn knock(&self) -> UnixStream {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let sockets = entries.map(|entry| entry.unwrap().path());
        let mut sockets = sockets.filter(|path| path.extension().is_some_and(|end| end == "sock"));
        UnixStream::connect(sockets.next().expect("a socket")).unwrap()
    }
}

#[test]
fn clients_that_die_or_never_read_stop_neither_frames_nor_other_clients() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("--default accept");
    assert!(site.pings());
    // There are three bad clients. One sends half a request, one sends many requests and reads no
    // answer, one sends garbage.
    let mut half = site.knock();
    half.write_all(br#"{"id":1,"do":"ipfw","text":"show"#).unwrap();
    let mut deaf = site.knock();
    deaf.set_nonblocking(true).unwrap();
    let question = b"{\"id\":1,\"do\":\"metrics\"}\n";
    while deaf.write(question).is_ok_and(|written| written == question.len()) {}
    let mut garbage = site.knock();
    garbage.write_all(b"\x00\xff nonsense\n").unwrap();
    assert!(garbage.read(&mut [0; 64]).unwrap() > 0, "it is told");
    assert!(site.pings(), "frames pass");
    assert_eq!(site.ipfw("list").lines().count(), 1, "others are answered");
    drop((half, deaf, garbage));
    assert!(site.pings());
    site.ipfw("add 100 count icmp from any to any");
    assert!(site.pings());
    assert_eq!(site.count(100), 2);
}

#[test]
fn a_log_on_a_full_disk_stops_no_frames_and_what_it_misses_is_counted() {
    let Some(site) = FirewallLab::new() else { return };
    let firewall = site.firewall("--default accept --log /dev/full --json");
    site.ipfw("add 100 count log logdst syslog icmp from any to any");
    assert!(site.pings());
    assert_eq!(site.count(100), 2);
    let ended = firewall.stop(Signal::INT).well();
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let output = &report["firewall"];
    assert_eq!((&output["log_lines"], &output["log_missed"]), (&2.into(), &2.into()), "{output}");
}

#[test]
fn who_monitors_and_does_not_read_holds_nothing_up() {
    let Some(site) = FirewallLab::new() else { return };
    let firewall = site.firewall("--default accept");
    site.ipfw("add 100 count log icmp from any to any");
    let monitor = Program::launch(&site.lab.mid, site.command("ipfw", "monitor"));
    // A monitor receives only lines that are written after its first request.
    let pinged = eventually("a line", || {
        assert!(site.pings());
        monitor.so_far().stdout.lines().next().map(str::to_owned)
    });
    assert!(pinged.starts_with("ipfw: 100 Count ICMP:"), "{pinged}");
    monitor.signal(Signal::STOP);
    assert!(site.pings());
    monitor.signal(Signal::KILL);
    assert!(site.pings());
    firewall.stop(Signal::INT).well();
}

#[test]
fn sets_that_change_places_under_load_show_each_packet_one_or_the_other() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("--default accept");
    site.ipfw("set disable 2");
    for (number, set) in [(100, 1), (200, 1), (300, 2), (400, 2)] {
        site.ipfw(&format!("add {number} set {set} count icmp from any to any"));
    }
    let load = Program::start(&site.lab.left, "ping", "-n -q -f -c 2000 10.9.0.2");
    eventually("the first ping", || (site.count(100) > 0).then_some(()));
    for _ in 0..20 {
        site.ipfw("set swap 1 2");
    }
    load.finish().well();
    let count = |number: u32| {
        let row = site.ipfw(&format!("-aS list {number}"));
        let row = row.trim_start_matches("# DISABLED ").to_owned();
        row.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    // Ping does not wait long for the last answer, so that answer may still be in transit.
    eventually("each packet to see one of both, and none to be lost", || {
        (count(100) + count(300) == 4000).then_some(())
    });
    let counts = [100, 200, 300, 400].map(count);
    assert_eq!((counts[0], counts[2]), (counts[1], counts[3]), "no packet saw a mix");
}

#[test]
fn tables_that_change_all_the_time_neither_crash_nor_hold_a_ping() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("");
    site.ipfw("add 100 deny ip from table(one) to table(two)");
    site.ipfw("add 200 allow icmp from any to any");
    let load = Program::start(&site.lab.left, "ping", "-n -q -f -c 2000 10.9.0.2");
    eventually("the first ping", || (site.count(200) > 0).then_some(()));
    let lines: String = (0..200)
        .map(|at| {
            format!(
                "-q table one add 192.0.2.{at} {at}\n-q table two add 198.51.100.0/{} 1\n\
                 table one swap two\n-f table two delete 192.0.2.{}\n",
                24 + at % 8,
                at / 2
            )
        })
        .collect();
    let path = site.write("changes", &lines);
    for _ in 0..10 {
        site.ipfw("table one flush");
        site.ipfw("table two flush");
        // With `-q`, it is no error to add an entry that already exists, or to delete one that does
        // not exist.
        site.ipfw(&format!("-f -q {path}"));
        site.ipfw("table one swap two");
    }
    load.finish().well();
    // Ping does not wait long for the last answer. So that answer may still be in transit.
    eventually("all pings and answers", || (site.count(200) == 4000).then_some(()));
    assert_eq!(site.count(100), 0);
}

#[test]
fn a_name_or_a_run_directory_that_cannot_be_had_is_told_before_any_port_is_opened() {
    let Some(site) = FirewallLab::new() else { return };
    let first = site.firewall("--name edge");
    let ports = site.lab.ports();
    // The ports of these firewalls are those of the first firewall, or do not exist. The name and
    // the run directory are checked before the ports, so no error is about a port.
    let closed = site.write("file", "");
    for (words, cause) in [
        (format!("{ports} --name edge"), "edge"),
        (format!("{ports} --name 42"), "42"),
        ("netmap:nosuch0 netmap:nosuch1 --name a/b".to_owned(), "a/b"),
        (format!("netmap:nosuch0 netmap:nosuch1 --run-dir {closed}"), closed.as_str()),
    ] {
        let refused = Program::launch(&site.lab.mid, site.command("firewall", &words)).finish();
        assert_ne!(refused.code(), 0, "{refused:?}");
        assert!(refused.stderr.contains(cause), "{refused:?}");
        assert!(!refused.stderr.contains("nosuch"), "{refused:?}");
        for port in ports.split_whitespace() {
            assert!(!refused.stderr.contains(port), "{port}: {refused:?}");
        }
    }
    assert_eq!(site.ipfw("list").lines().count(), 1, "the first one goes on");
    first.stop(Signal::INT).well();
}

#[test]
fn a_state_file_has_one_firewall_and_a_place_where_it_can_be_written() {
    let Some(site) = FirewallLab::new() else { return };
    let state = site.dir.path().join("state").display().to_string();
    let first = site.firewall(&format!("--state {state}"));
    let second = |state: &str| {
        let mut command = std::process::Command::new(SLIPRING);
        command.args(["firewall", "null:", "null:", "-t", "10ms", "--state", state]);
        command.arg("--run-dir").arg(site.dir.path().join("other"));
        let ended = command.output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let (code, output) = second(&state);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("another firewall keeps its rules in"), "{output}");
    first.stop(Signal::INT).well();
    assert_eq!(second(&state).0, Some(0));
    let left: Vec<_> = std::fs::read_dir(site.dir.path()).unwrap().collect();
    assert!(left.iter().all(|entry| entry.as_ref().unwrap().file_name() != "state.lock"));
    let (code, output) = second("/nodir/x");
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("ls -ld /nodir"), "{output}");
}

#[test]
fn a_firewall_writes_neither_its_state_nor_its_log_over_its_rules() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules");
    for flag in ["--state", "--log"] {
        std::fs::write(&rules, "add 100 allow ip from any to any\n").unwrap();
        let mut command = std::process::Command::new(SLIPRING);
        command.args(["firewall", "null:", "null:", "-t", "10ms", flag]).arg(&rules);
        let refused = command.arg("--rules").arg(&rules).output().unwrap();
        let output = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{output}");
        assert!(output.contains("give each output a file of its own"), "{output}");
        assert_eq!(std::fs::read_to_string(&rules).unwrap().lines().count(), 1);
    }
}
