//! Tests of a running replay: it can be queried and changed like an emulator, and a signal ends it
//! while it waits for its input.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use slipring_pcap::{LinkType, PcapWriter};
use slipring_test_support::{Namespace, Program, accepts, eventually};

use crate::support::SLIPRING;

/// Writes a capture of some frames, a millisecond apart.
fn capture(path: &Path) {
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
    for i in 0..20u64 {
        writer.packet(&mut bytes, i * 1_000_000, 60, &[2; 60]).unwrap();
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_replay_is_asked_and_changed_while_it_lasts_and_leaves_no_socket() {
    let Some(namespace) = Namespace::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, run_dir) = (dir.path().join("in.pcap"), dir.path().join("run"));
    capture(&file);
    let slipring = |words: &str| {
        let mut command = Command::new(SLIPRING);
        command.args(words.split_ascii_whitespace()).arg("--run-dir").arg(&run_dir);
        Program::launch(&namespace, command)
    };
    let words = format!("replay -f {} -i null: --loops 0 -T 0 --name r", file.display());
    let replay = slipring(&words);
    let socket = run_dir.join("r.sock");
    eventually("the control socket", || accepts(&socket).then_some(()));
    let ask = |words: &str| -> Value {
        let ended = slipring(&format!("emulate ctl {words} --name r --json")).finish().well();
        let mut value: Value = serde_json::from_str(&ended.stdout).unwrap();
        match value.get_mut("answer") {
            Some(answer) => answer.take(),
            None => value,
        }
    };
    let link = |what: &str| {
        let stats = ask("stats");
        let amount = what.split('.').fold(&stats["links"][0], |value, key| &value[key]);
        amount["packets"].as_u64().unwrap_or(0)
    };
    eventually("frames that left", || (link("output") > 40).then_some(()));
    assert_eq!(link("lost.loss"), 0);
    ask("set up.loss=nth(2)");
    eventually("losses", || (link("lost.loss") > 5).then_some(()));
    ask("undo");
    let ended = {
        slipring("emulate ctl quit --name r").finish().well();
        replay.finish().well()
    };
    assert!(ended.stdout.contains(" in = "), "{ended:?}");
    assert_eq!(std::fs::read_dir(&run_dir).unwrap().count(), 0);
}

#[test]
fn the_first_signal_ends_a_replay_that_waits_for_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for verb in [&["replay", "-i", "null:", "-f"][..], &["emulate", "--virtual"]] {
        let mut command = Command::new(SLIPRING);
        command.args(verb).arg(&pipe).env("SLIPRING_RUN", dir.path().join("run"));
        if verb[0] == "emulate" {
            command.arg(dir.path().join("out.pcap"));
        }
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let tasks = format!("/proc/{}/task", child.id());
        // Once the reading thread exists, the signal handlers are installed, and the pipe is being
        // opened.
        eventually("the thread that reads", || {
            let names = std::fs::read_dir(&tasks).ok()?.flatten();
            let mut names =
                names.filter_map(|at| std::fs::read_to_string(at.path().join("comm")).ok());
            names.find(|name| name == "read capture\n")
        });
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::TERM).unwrap();
        let ended = eventually("its end", || child.try_wait().unwrap());
        assert_eq!(ended.code(), Some(0), "{verb:?}");
    }
}
