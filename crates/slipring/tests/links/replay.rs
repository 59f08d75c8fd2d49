//! A replay at work is asked and changed as an emulator is.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use slipring_pcap::{LinkType, PcapWriter};

use crate::support::eventually;
use crate::support::namespace::Namespace;
use crate::support::program::{Program, SLIPRING};

/// A capture of some frames, a millisecond apart.
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
    eventually("the control socket", || socket.exists().then_some(()));
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
