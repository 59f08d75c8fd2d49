//! Tests of `slipring demo`.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::Value;
use slipring_test_support::{
    FinishedProgram, Namespace, Program, eventually, oracle, skip, user_namespaces_allowed,
};

use super::{as_ordinary_user, document, link_names};
use crate::support::SLIPRING;

/// A variable that a demo passes on to all its children.
const MARK: &str = "SLIPRING_DEMO_OF_TEST";

fn demo(namespace: &Namespace, mut command: Command, mark: &str, words: &str) -> Program {
    command.arg("demo").args(words.split_ascii_whitespace()).env(MARK, mark);
    Program::launch(namespace, command)
}

fn as_root(namespace: &Namespace, mark: &str, words: &str) -> Program {
    demo(namespace, Command::new(SLIPRING), mark, words)
}

/// Returns the processes of the demo with this mark.
fn processes(mark: &str) -> Vec<Pid> {
    let wanted = format!("{MARK}={mark}\0");
    let marked = |dir: &fs::DirEntry| {
        let environment = fs::read(dir.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&wanted)
    };
    let all = fs::read_dir("/proc").unwrap().flatten().filter(marked);
    all.filter_map(|dir| Pid::from_raw(dir.file_name().to_str()?.parse().ok()?)).collect()
}

/// Asserts that both probes saw traffic over ports of this kind, at the delay and the rate of the
/// link, and that each received frame was sent, was counted as dropped, or is still in flight.
fn is_well(ended: &FinishedProgram, kind: &str) {
    let report = document(ended);
    assert_eq!(ended.code(), 0, "{ended:#?}");
    oracle::assert_valid("demo-1.json", &report);
    assert_eq!(report["ping"]["received"], 5, "{report}");
    // The link must never deliver a packet early, and never exceed its configured rate.
    assert!(report["ping"]["rtt_min_ns"].as_u64().unwrap() >= 40_000_000, "{report}");
    let data = report["tcp"]["bits_per_sec"].as_u64().unwrap();
    assert!((1..10_000_000).contains(&data), "{report}");
    let ports = report["ports"].as_array().unwrap();
    assert!(ports.iter().all(|port| port["kind"] == kind), "{report}");
    let sum =
        |side: &str| ports.iter().map(|port| port[side]["packets"].as_u64().unwrap()).sum::<u64>();
    let lost: u64 = ports.iter().map(lost_inside).sum();
    assert_eq!(sum("rx"), sum("tx") + lost + report["in_flight"].as_u64().unwrap(), "{report}");
}

/// Returns the number of frames that were lost after a port had received them.
fn lost_inside(port: &Value) -> u64 {
    let drops = port["drops"].as_object().unwrap().iter();
    drops
        .filter(|(cause, _)| !cause.starts_with("rx"))
        .map(|(_, count)| count.as_u64().unwrap())
        .sum()
}

#[test]
fn traffic_passes_over_every_kind_of_port_and_nothing_stays() {
    let Some(namespace) = Namespace::new() else { return };
    let before = link_names(&namespace);
    for kind in ["xdp", "packet", "tap"] {
        let words = format!("--ports {kind} -t 1 --json");
        is_well(&as_root(&namespace, kind, &words).finish(), kind);
        assert_eq!(processes(kind), []);
    }
    assert_eq!(link_names(&namespace), before);
}

#[test]
fn root_gets_xdp_in_the_driver_and_a_story() {
    let Some(namespace) = Namespace::new() else { return };
    let ended = as_root(&namespace, "story", "-t 1").finish().well();
    for part in [
        "10.77.0.1",
        "xdp:left",
        "mode=native",
        "5 of ",
        " answered",
        "bit/s of data",
        "asked 40 ms, measured ",
        "asked 10 Mbit/s",
        "Nothing is left behind",
    ] {
        assert!(ended.stdout.contains(part), "no {part}: {ended:#?}");
    }
}

#[test]
fn an_ordinary_user_sees_it_over_tap_ports_and_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let (Some(namespace), Some(command)) = (Namespace::new(), as_ordinary_user(&dir)) else {
        return;
    };
    let ended = demo(&namespace, command, "ordinary", "-t 1").finish();
    if ended.code() == 3 && ended.stderr.contains("SR0301") {
        return skip!("this system forbids user namespaces");
    }
    let ended = ended.well();
    assert!(
        ended.stdout.contains("You are not root") && ended.stdout.contains("tap:left"),
        "{ended:#?}"
    );
    assert!(ended.stdout.contains("5 of "), "{ended:#?}");
}

#[test]
fn the_root_of_a_container_is_told_why_it_gets_tap_ports() {
    let Some(namespace) = Namespace::new() else { return };
    if !user_namespaces_allowed() {
        return;
    }
    let mut command = Command::new("unshare");
    command.arg("-Ur").arg(SLIPRING);
    let ended = demo(&namespace, command, "container", "-t 1").finish().well();
    assert!(ended.stdout.contains("AF_XDP cannot be had"), "{ended:#?}");
    assert!(ended.stdout.contains("tap:left"), "{ended:#?}");
}

#[test]
fn without_installed_programs_our_own_witnesses_stand_in() {
    let Some(namespace) = Namespace::new() else { return };
    let mut command = Command::new(SLIPRING);
    command.env("PATH", "/nowhere");
    let ended = demo(&namespace, command, "own", "-t 1 --json").finish();
    is_well(&ended, "xdp");
    let report = document(&ended);
    assert_eq!(report["ping"]["by"], "slipring's own echo");
    assert_eq!(report["tcp"]["by"], "slipring's own sockets");
}

/// Returns a demo in the middle of its transfer.
fn in_the_middle(namespace: &Namespace, mark: &str) -> Program {
    let program = as_root(namespace, mark, "-t 600");
    program.wait_for_text("2. TCP");
    program.wait_for_text("left to right");
    program
}

#[test]
fn signals_end_it_with_a_summary_and_all_that_it_started() {
    let Some(namespace) = Namespace::new() else { return };
    for (signal, mark) in [(Signal::INT, "int"), (Signal::TERM, "term")] {
        let ended = in_the_middle(&namespace, mark).stop(signal).well();
        assert!(ended.stdout.contains("4. What the ports counted"), "{ended:#?}");
        assert_eq!(processes(mark), []);
    }
}

#[test]
fn a_kill_takes_all_that_it_started_along() {
    let Some(namespace) = Namespace::new() else { return };
    let program = in_the_middle(&namespace, "kill");
    let open = |pid: Pid| pidfd_open(pid, PidfdFlags::empty()).ok();
    let all: Vec<_> = processes("kill").into_iter().filter_map(open).collect();
    assert!(!all.is_empty());
    assert_eq!(program.stop(Signal::KILL).code(), -1);
    all.iter().for_each(ends);
}

fn ends(process: &OwnedFd) {
    eventually("the end of a process of the demo", || {
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        (poll(&mut fds, Some(&Timespec::default())) == Ok(1)).then_some(())
    });
}
