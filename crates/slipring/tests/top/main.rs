//! Tests of `slipring top` with running commands, in the tests' own network namespaces and run
//! directories.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::lab::RIGHT;
use slipring_test_support::pty::{CURSOR, GIVEN_BACK, OnTerminal, TAKEN};
use slipring_test_support::{FinishedProgram, Lab, LabPort, Namespace, Program, eventually};

use support::SLIPRING;

/// The run directory in which the commands of a test publish their counters.
struct TopSandbox {
    run_dir: tempfile::TempDir,
}

impl TopSandbox {
    fn new() -> Self {
        Self { run_dir: tempfile::tempdir().unwrap() }
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(SLIPRING);
        command.args(words.split_ascii_whitespace()).env("SLIPRING_RUN", self.run_dir.path());
        command
    }

    /// Starts a command and waits until it publishes its counters.
    fn start(&self, namespace: &Namespace, words: &str) -> Program {
        let program = Program::launch(namespace, self.command(words));
        let path = self.path(program.pid());
        eventually("its counters", || path.exists().then_some(()));
        program
    }

    fn path(&self, pid: u32) -> PathBuf {
        self.run_dir.path().join(format!("{pid}.stats"))
    }

    fn ask(&self, namespace: &Namespace, words: &str) -> FinishedProgram {
        Program::launch(namespace, self.command(words)).finish()
    }

    fn json(&self, namespace: &Namespace, words: &str) -> Value {
        let ended = self.ask(namespace, &format!("{words} --json")).well();
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

fn count(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn figures_are_those_of_the_control_socket() {
    let Some(lab) = Lab::new(LabPort::Packet) else { return };
    let site = TopSandbox::new();
    let words = format!("emulate -T 0 {} -B 10m -D 5ms -L plr,0.2 --name lab", lab.ports());
    let emulator = site.start(&lab.mid, &words);
    lab.left.attempt("ping", &format!("-n -c 40 -i 0.01 -W 1 {RIGHT}"));
    // If `top` gets no processor time, it shows older counters than the control socket.
    let (stats, run) = eventually("a moment without frames, of which top has heard", || {
        let before = site.json(&lab.mid, "emulate ctl stats");
        let top = site.json(&lab.mid, "top --once -T 300");
        let after = site.json(&lab.mid, "emulate ctl stats");
        let is_new = |link: usize| {
            let (seen, asked) = (&top["run"]["links"][link], &after["links"][link]);
            seen["output"] == asked["output"] && seen["rate_bps"] == 0.0
        };
        let all = before["links"] == after["links"] && is_new(0) && is_new(1);
        all.then(|| (after, top["run"].clone()))
    });
    assert_eq!((&run["name"], &run["pid"]), (&"lab".into(), &emulator.pid().into()));
    for (link, shown) in [(0, "up"), (1, "down")] {
        let (asked, seen) = (&stats["links"][link], &run["links"][link]);
        assert_eq!((&seen["name"], &asked["name"]), (&shown.into(), &shown.into()));
        for key in ["input", "output"] {
            assert_eq!(seen[key], asked[key], "{shown} {key}");
        }
        assert_eq!(seen["inside"], asked["inside"]);
        assert_eq!(seen["lost"]["loss"].as_u64(), asked["lost"]["loss"]["packets"].as_u64());
        assert_eq!(seen["asked"]["rate"]["bps"], asked["asked"]["rate_bps"]);
        assert_eq!(seen["asked"]["loss_share"], 0.2);
        assert_eq!(seen["total_delay_ns"]["p50"], asked["delay_ns"]["p50"]);
        assert_eq!(seen["rate_bps"], 0.0, "nothing passed");
    }
    assert!(run["links"][0]["lost"]["loss"].as_u64() > Some(0), "{run}");
    assert_eq!(run["ports"][0]["rx"], stats["ports"][0]["rx"]);
    let text = site.ask(&lab.mid, "top lab -T 100").well();
    assert!(text.stderr.contains("stdout is no terminal"), "{text:?}");
    assert!(text.stdout.starts_with("lab, process "), "{text:?}");
    assert!(text.stdout.contains("10 Mbit/s"), "{text:?}");
    emulator.stop(Signal::INT).well();
    assert_eq!(count(site.run_dir.path()), 0, "nothing is left behind");
}

#[test]
fn what_passes_is_seen_while_it_passes() {
    let Some(lab) = Lab::new(LabPort::Packet) else { return };
    let site = TopSandbox::new();
    let _emulator = site.start(&lab.mid, &format!("emulate -T 0 {} -D 5ms", lab.ports()));
    let _ping = Program::start(&lab.left, "ping", &format!("-n -i 0.01 {RIGHT}"));
    let top = Program::launch(&lab.mid, site.command("top --json=lines -T 200"));
    let fast = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let up = &value["run"]["links"][0];
        let delayed = up["delay_ns"]["p50"].as_u64() >= Some(5_000_000);
        delayed && up["rate_pps"].as_f64() > Some(0.0) && up["asked"]["rate"] == "unlimited"
    };
    top.wait_for("a rate and a delay", |output| output.stdout.lines().any(fast).then_some(()));
    top.stop(Signal::TERM).well();
}

#[test]
fn every_running_command_is_seen_and_one_of_several_is_named() {
    let Some(namespace) = Namespace::new() else { return };
    let site = TopSandbox::new();
    assert_eq!(site.ask(&namespace, "top --once").code(), 2);
    let generator = site.start(&namespace, "gen -i null: -f tx --rate 1kpps -T 0");
    let only = eventually("a rate", || {
        let only = site.json(&namespace, "top --once -T 300");
        let pps = only["run"]["ports"][0]["tx_rate"]["pps"].as_f64();
        (pps > Some(0.0)).then_some(only)
    });
    assert_eq!(only["run"]["pid"], generator.pid());
    assert_eq!(only["run"]["ports"][0]["name"], "null:");
    let bridge = site.start(&namespace, "bridge -i tap:ta -i tap:tb -T 0");
    let several = site.ask(&namespace, "top --once");
    assert_eq!(several.code(), 2);
    for pid in [generator.pid(), bridge.pid()] {
        assert!(several.stderr.contains(&pid.to_string()), "{several:?}");
        let named = site.json(&namespace, &format!("top {pid} --once -T 100"));
        assert_eq!(named["run"]["pid"], pid);
    }
    let killed = bridge.stop(Signal::KILL);
    assert_eq!(killed.code(), -1);
    let left = site.json(&namespace, "top --once -T 100");
    assert_eq!(left["run"]["pid"], generator.pid(), "the dead are not counted");
    let unknown = site.ask(&namespace, "top nobody --once");
    assert!(unknown.stderr.contains("nothing called `nobody` runs"), "{unknown:?}");
}

#[test]
fn a_terminal_is_drawn_on_and_given_back() {
    let Some(lab) = Lab::new(LabPort::Packet) else { return };
    let site = TopSandbox::new();
    let emulator = site.start(&lab.mid, &format!("emulate -T 0 {} -B 10m -D 5ms", lab.ports()));
    let spawn = |command| lab.mid.spawn(command);
    let mut top = OnTerminal::start(&mut site.command("top -T 100"), spawn);
    top.wait_for("slipring");
    top.wait_for("measured");
    assert!(top.seen().contains(TAKEN) && top.is_raw());
    top.press("p");
    top.wait_for("paused");
    top.press("?");
    top.wait_for("Help");
    top.press("?q");
    assert!(top.end().success());
    top.wait_for(GIVEN_BACK);
    top.wait_for(CURSOR);
    assert!(!top.is_raw());
    emulator.stop(Signal::INT).well();
}

#[test]
fn a_person_chooses_among_several_and_sees_the_end() {
    let Some(namespace) = Namespace::new() else { return };
    let site = TopSandbox::new();
    let first = site.start(&namespace, "gen -i null: -f tx --rate 1kpps -T 0");
    let second = site.start(&namespace, "gen -i null: -f tx --rate 2kpps -T 0");
    let spawn = |command| namespace.spawn(command);
    let mut top = OnTerminal::start(&mut site.command("top -T 100"), spawn);
    top.wait_for("Several");
    top.press("\x1b[B\r");
    top.wait_for("received");
    let last = first.pid().max(second.pid());
    let (chosen, _other) = if last == first.pid() { (first, second) } else { (second, first) };
    chosen.stop(Signal::KILL);
    top.wait_for("[ended]");
    top.press("q");
    assert!(top.end().success());
    assert!(!top.is_raw());
}
