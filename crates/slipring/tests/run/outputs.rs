//! Tests of the files and control requests of a run. No socket remains after the run.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_pcap::PcapFileReader;
use slipring_test_support::{FinishedProgram, Namespace, Program, accepts, eventually};

use crate::support::SLIPRING;
use crate::users::both;
use crate::{run, start, world};

const PING: &str = "ping -n -q -c 5 -i 0.05 10.9.0.1";

#[test]
fn every_frame_of_a_run_is_logged_with_its_fate() {
    let Some(world) = world() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (log, prefix) = (dir.path().join("run.pcapng"), dir.path().join("mm"));
    let flags = format!(
        "--delay 5ms --rate 10Mbit --up loss=pattern(10101) --seed 7 --json --log {} \
         --mahimahi-log {}",
        log.display(),
        prefix.display()
    );
    let ended = run(&world, &flags, &format!("{PING} || true")).well();
    let report: Value = serde_json::from_str(ended.stderr.lines().last().unwrap()).unwrap();
    let count = |link: usize, what: &str| report["links"][link][what]["packets"].as_u64().unwrap();
    let frames = count(0, "input") + count(1, "input");
    let fates = frames - count(0, "inside") - count(1, "inside");
    let bytes = std::fs::read(&log).unwrap();
    let packets: Vec<_> = PcapFileReader::new(&bytes).map(Result::unwrap).collect();
    assert_eq!(packets.len() as u64, frames + fates, "each comes in once and has one fate");
    for (link, name) in ["up", "down"].into_iter().enumerate() {
        let text = std::fs::read_to_string(dir.path().join(format!("mm.{name}"))).unwrap();
        assert!(text.contains("# base timestamp:"), "{text}");
        let came = text.lines().filter(|line| line.contains(" + ")).count() as u64;
        assert_eq!(came, count(link, "input"), "{text}");
    }
}

#[test]
fn a_run_serves_its_metrics_while_it_lasts() {
    let Some(world) = world() else { return };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("metrics.sock");
    let flags = format!("-q --delay 1ms --metrics {}", socket.display());
    let program = start(&world, &flags, &format!("{PING}; echo pinged; exec sleep 600"));
    program.wait_for_text("pinged");
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("link=\"up\"") && answer.ends_with("# EOF\n"), "{answer}");
    program.stop(Signal::TERM);
    assert!(!socket.exists());
}

#[test]
fn all_figures_of_a_run_are_said_where_that_is_asked() {
    let Some(world) = world() else { return };
    let plain = run(&world, "--delay 1ms", "true").well().stderr;
    let all = run(&world, "--delay 1ms --stats", "true").well().stderr;
    assert!(all.contains("# TYPE slipring_") && !plain.contains("# TYPE"), "{all}");
}

/// Runs `slipring emulate ctl WORDS` on the run.
fn ctl(run_dir: &Path, words: &str) -> FinishedProgram {
    let world = Namespace::new().unwrap();
    let mut command = Command::new(SLIPRING);
    command.args(["emulate", "ctl"]).args(words.split_ascii_whitespace());
    command.arg("--run-dir").arg(run_dir);
    Program::launch(&world, command).finish()
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_run_is_asked_and_changed_by_its_name_and_leaves_no_socket() {
    let Some(world) = world() else { return };
    let dir = tempfile::tempdir().unwrap();
    let flags = format!("-q --delay 1ms --seed 7 --name lab --run-dir {}", dir.path().display());
    let script = format!("{PING}; echo pinged; exec sleep 600");
    let program = start(&world, &flags, &script);
    program.wait_for_text("pinged");
    let json = |words: &str| -> Value {
        let ended = ctl(dir.path(), &format!("{words} --name lab --json")).well();
        let mut value: Value = serde_json::from_str(&ended.stdout).unwrap();
        match value.get_mut("answer") {
            Some(answer) => answer.take(),
            None => value,
        }
    };
    assert!(json("stats")["links"][0]["output"]["packets"].as_u64().unwrap() >= 5);
    assert_eq!(
        (json("hello")["seed"].as_u64(), json("hello")["name"].as_str()),
        (Some(7), Some("lab"))
    );
    ctl(dir.path(), "set up.delay=40ms --name lab").well();
    assert_eq!(json("history").as_array().unwrap().len(), 2);
    assert!(json("explain").to_string().contains("40000000"));
    // `quit` ends the command, as TERM would.
    ctl(dir.path(), "quit --name lab").well();
    assert_eq!(program.finish().code(), 128 + 15);
    assert!(is_empty(dir.path()));
}

#[test]
fn a_name_that_is_taken_starts_no_command() {
    let Some(world) = world() else { return };
    let dir = tempfile::tempdir().unwrap();
    let flags = format!("-q --name lab --run-dir {}", dir.path().display());
    let first = start(&world, &flags, "echo ready; exec sleep 600");
    first.wait_for_text("ready");
    let second = run(&world, &flags, "echo started");
    assert_eq!((second.code(), second.stdout.as_str()), (2, ""), "{second:#?}");
    assert!(second.stderr.contains("a run is called `lab` already"), "{second:#?}");
    first.stop(Signal::TERM);
    assert!(is_empty(dir.path()));
}

#[test]
fn a_run_of_an_ordinary_user_is_asked_by_that_user() {
    let Some((world, person)) = both() else { return };
    let dir = person.own_dir();
    let socket = dir.path().join("lab.sock");
    let flags = format!("-q --delay 1ms --name lab --run-dir {}", dir.path().display());
    let program = person.start(&world, &flags, "echo ready; exec sleep 600");
    program.wait_for_text("ready");
    eventually("the control socket", || accepts(&socket).then_some(()));
    let words = format!("emulate ctl stats --json --name lab --run-dir {}", dir.path().display());
    let stats = person.slipring(&world, &words).finish().well();
    let stats: Value = serde_json::from_str(&stats.stdout).unwrap();
    assert_eq!(stats["links"][0]["name"], "up", "{stats}");
    program.stop(Signal::TERM);
    assert!(is_empty(dir.path()));
}
