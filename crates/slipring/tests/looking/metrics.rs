//! Tests of `--metrics` on every long-running program.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::Signal;
use slipring_test_support::{Namespace, Program, accepts, eventually, oracle, skip};

use super::{commands, help_of, with_links};
use crate::support::SLIPRING;

/// Programs that run long, their command lines here, and a metric family that each one serves.
const LONG: [(&str, &str, &str); 12] = [
    ("gen", "-i null: -f tx -R 100 --spin", "slipring_port_tx_packets"),
    ("bridge", "-i packet:here -i null:", "slipring_port_rx_packets"),
    ("dedup", "-i packet:here -i null:", "slipring_port_rx_packets"),
    ("lb", "-i packet:here --outputs null:", "slipring_port_rx_packets"),
    ("emulate", "-i packet:here -i null: -D 1ms", "slipring_link_input_packets"),
    ("firewall", "packet:here null:", "slipring_firewall_offered_packets"),
    ("replay", "-f @ -i null: --loops 0 -D 1ms", "slipring_link_input_packets"),
    ("trace", "-i packet:here", "slipring_captured_packets"),
    ("dump", "-i packet:here", "slipring_captured_packets"),
    ("serve", "--listen 127.0.0.1:0", "slipring_serve_connections"),
    ("route", "here there --no-fallback --bypass-netfilter", "slipring_route_forwarded_packets"),
    ("daemon", "--link off", "slipring_daemon_bound_ports"),
];

#[test]
fn every_command_that_has_metrics_is_tried_here() {
    let Some(namespace) = with_links() else { return };
    for command in commands(&namespace) {
        let has_flag = help_of(&namespace, &command).contains("--metrics <");
        // `top` has a test of its own; `run` has the metrics of `emulate`, and needs a network.
        let is_tried = LONG.iter().any(|(long, ..)| *long == command)
            || ["top", "run"].contains(&command.as_str());
        assert_eq!(has_flag, is_tried, "{command}");
    }
}

/// Asserts that Prometheus' own parser reads an answer, and finds a family in it.
fn assert_standard(answer: &str, family: &str) {
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();
    let Some(families) = oracle::openmetrics_families(text) else { return };
    let found = families.lines().any(|line| line.starts_with(&format!("{family} ")));
    assert!(found, "no {family} in {families}");
}

/// Returns the metrics that a program serves on its socket.
fn fetched(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn start(namespace: &Namespace, run_dir: &Path, words: &str) -> Program {
    let mut command = std::process::Command::new(SLIPRING);
    command.args(words.split_ascii_whitespace()).env("SLIPRING_RUN", run_dir);
    Program::launch(namespace, command)
}

/// Starts a program, and reads its metrics; `None` if it cannot run here.
fn metrics_of(namespace: &Namespace, dir: &Path, words: &str) -> Option<(Program, String)> {
    let socket = dir.join("metrics.sock");
    let program = start(namespace, dir, &format!("{words} --metrics {}", socket.display()));
    let answer = eventually(&format!("the metrics of {words}"), || {
        if accepts(&socket) {
            return Some(Some(fetched(&socket)));
        }
        program.so_far().stderr.contains("error[").then_some(None)
    });
    match answer {
        Some(answer) => Some((program, answer)),
        None => {
            let ended = program.finish();
            // The program needs a device or privileges that are missing here.
            assert!(ended.code() >= 3, "{words}: {ended:?}");
            skip!("{words}: {}", ended.stderr);
            None
        }
    }
}

#[test]
fn every_long_program_serves_figures_that_prometheus_reads() {
    let Some(namespace) = with_links() else { return };
    let capture = tempfile::tempdir().unwrap();
    let path = capture.path().join("in.pcap").display().to_string();
    super::schema::write_capture(&path);
    for (command, words, family) in LONG {
        let dir = tempfile::tempdir().unwrap();
        let words = format!("{command} {}", words.replace('@', &path));
        let Some((program, answer)) = metrics_of(&namespace, dir.path(), &words) else { continue };
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{words}: {answer}");
        assert!(answer.contains("application/openmetrics-text"), "{words}: {answer}");
        assert!(answer.contains(&format!("# TYPE {family} ")), "{words}: {answer}");
        assert_standard(&answer, family);
        let ended = program.stop(Signal::TERM);
        assert!(!dir.path().join("metrics.sock").exists(), "{words}: {ended:?}");
    }
}

#[test]
fn top_serves_the_figures_of_the_program_that_it_watches() {
    let Some(namespace) = with_links() else { return };
    let dir = tempfile::tempdir().unwrap();
    let emulator = start(&namespace, dir.path(), "emulate -i packet:here -i null: --name lab");
    // Waits for the first report: the run has its name before its ports are open.
    emulator.wait_for_text("pps");
    let words = "top lab --json=lines -T 100ms";
    let Some((top, answer)) = metrics_of(&namespace, dir.path(), words) else {
        panic!("top needs nothing that is not here")
    };
    assert!(answer.contains("slipring_link_output_packets_total{link=\""), "{answer}");
    assert!(answer.contains("slipring_port_rx_packets_total{port=\"packet:here\"}"), "{answer}");
    assert_standard(&answer, "slipring_link_output_packets");
    top.stop(Signal::TERM).well();
    emulator.stop(Signal::TERM).well();
}
