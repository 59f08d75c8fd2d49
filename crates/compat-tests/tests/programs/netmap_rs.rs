//! Tests of the crate netmap-rs and its programs, with slipring's headers and library.
//!
//! In netmap_rs 0.3.1, rings do not continue at slot 0 after the last slot. So each program gets
//! fewer frames than a ring has slots.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use super::builds::third_party;
use super::stage::{Stage, end};

/// Returns the directory of the netmap_rs programs, or the reason why there is none.
fn programs() -> Result<&'static Path, String> {
    static PROGRAMS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| Ok(third_party("netmap-rs")?.join("bin")));
    programs.as_deref().map_err(Clone::clone)
}

macro_rules! programs_or_skip {
    () => {
        match programs() {
            Ok(programs) => programs,
            Err(why) => return slipring_test_support::skip!("{why}"),
        }
    };
}

/// A program that runs until it is dropped.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    /// Starts the program and waits for the line that begins with `ready`.
    fn start(stage: &Stage, program: PathBuf, args: &[&str], ready: &str) -> Self {
        let mut command = stage.command(program);
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Self { child, lines };
        running.wait_for(ready);
        running
    }

    fn wait_for(&mut self, start: &str) {
        let mut last = String::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            if line.starts_with(start) {
                return;
            }
            last = line;
        }
        panic!("never said {start:?}, but last {last:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Starts the generator of netmap_rs on one port and its sink on the other, and checks that the
/// sink counts the frames.
fn generate(stage: &Stage, programs: &Path, from: &str, to: &str) {
    let sink = ["-i", to, "-f", "rx"];
    let mut sink = Running::start(stage, programs.join("pkt-gen"), &sink, "draining");
    let output = stage.run(programs.join("pkt-gen"), &["-i", from, "-f", "tx", "-n", "640"]);
    assert!(output.contains("sent 640 frames"), "{output}");
    sink.wait_for("received 640 frames");
}

#[test]
fn the_ping_of_netmap_rs_goes_through_a_pipe_and_back() {
    let programs = programs_or_skip!();
    let output = Stage::new().run(programs.join("ping"), &["-c", "5"]);
    assert!(output.contains("5 packets transmitted, 5 received"), "{output}");
}

#[test]
fn the_generator_of_netmap_rs_fills_a_pipe() {
    let programs = programs_or_skip!();
    generate(&Stage::new(), programs, "netmap:x{1", "netmap:x}1");
}

#[test]
fn the_generator_of_netmap_rs_sends_through_a_switch() {
    let programs = programs_or_skip!();
    generate(&Stage::new(), programs, "vale0:a", "vale0:b");
}

#[test]
fn the_bridge_of_netmap_rs_joins_a_pipe_and_a_switch() {
    let programs = programs_or_skip!();
    let stage = Stage::new();
    let ports = ["-a", "x}1", "-b", "vale0:bridge"];
    let _bridge = Running::start(&stage, programs.join("bridge"), &ports, "bridging");
    generate(&stage, programs, "netmap:x{1", "vale0:far");
}
