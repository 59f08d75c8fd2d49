//! A running `slipring bridge`, observed through its JSON lines.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::{FinishedProgram, Lab, Namespace, Program};

use super::SLIPRING;

/// A bridge that has opened its ports. After a panic it prints its counters on drop.
pub(crate) struct Bridge {
    /// The running program; `None` after the bridge was ended.
    program: Option<Program>,
}

/// The counters of a report.
#[derive(Debug, Clone)]
pub(crate) struct Report(pub(crate) Value);

impl Bridge {
    /// Starts `slipring bridge` with these arguments and waits until its ports are open.
    pub(crate) fn start(namespace: &Namespace, words: &str) -> Self {
        let mut command = Command::new(SLIPRING);
        command.args(["bridge", "--json=lines", "-T", "0"]).args(words.split_ascii_whitespace());
        let program = Program::launch(namespace, command);
        program.wait_for("start", |output| output.stdout.contains('\n').then_some(()));
        Self { program: Some(program) }
    }

    /// Starts a bridge in the middle of a lab with additional arguments, and waits until both sides
    /// can be used.
    pub(crate) fn between(lab: &Lab, words: &str) -> Self {
        let bridge = Self::start(&lab.mid, &format!("{} {words}", lab.ports()));
        lab.adopt_taps();
        bridge
    }

    /// Returns the report of the start, which contains the modes of the ports.
    pub(crate) fn start_report(&self) -> Report {
        Report::of(self.program().so_far().stdout.lines().next().unwrap())
    }

    /// Returns the current counters.
    pub(crate) fn now(&self) -> Report {
        Report::now(self.program())
    }

    /// Returns the program.
    pub(crate) fn program(&self) -> &Program {
        self.program.as_ref().unwrap()
    }

    /// Ends the bridge as a user would; returns its last report.
    pub(crate) fn stop(self) -> Report {
        Report::last(&self.end(Signal::INT).well())
    }

    /// Ends the bridge by `signal`.
    pub(crate) fn end(mut self, signal: Signal) -> FinishedProgram {
        self.program.take().unwrap().stop(signal)
    }

    /// Waits for the program's end.
    pub(crate) fn finish(mut self) -> FinishedProgram {
        self.program.take().unwrap().finish()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let Some(program) = self.program.as_ref().filter(|_| std::thread::panicking()) else {
            return;
        };
        program.signal(Signal::USR1);
        let before = program.so_far().stdout.len();
        for _ in 0..100 {
            if program.so_far().stdout.len() > before {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Report {
    fn of(line: &str) -> Self {
        Self(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Requests a report from a program that writes JSON lines, and returns the report.
    pub(crate) fn now(program: &Program) -> Self {
        let lines = |text: &str| text.matches('\n').count();
        let before = lines(&program.so_far().stdout);
        program.signal(Signal::USR1);
        program.wait_for("interim report", |output| {
            let newer = lines(&output.stdout) > before;
            newer.then(|| Self::of(output.stdout.lines().last().unwrap()))
        })
    }

    /// Returns the last report of an ended program.
    pub(crate) fn last(ended: &FinishedProgram) -> Self {
        let line = ended.stdout.lines().last();
        Self::of(line.unwrap_or_else(|| panic!("no report: {ended:#?}")))
    }

    /// Returns the packets received by port `i`.
    pub(crate) fn rx(&self, i: usize) -> u64 {
        self.0["ports"][i]["rx"]["packets"].as_u64().unwrap()
    }

    /// Returns the packets sent by port `i`.
    pub(crate) fn tx(&self, i: usize) -> u64 {
        self.0["ports"][i]["tx"]["packets"].as_u64().unwrap()
    }

    /// Returns the bytes received by port `i`.
    pub(crate) fn rx_bytes(&self, i: usize) -> u64 {
        self.0["ports"][i]["rx"]["bytes"].as_u64().unwrap()
    }

    /// Returns the packets that port `i` lost for this cause.
    pub(crate) fn drops_for(&self, i: usize, cause: &str) -> u64 {
        self.0["ports"][i]["drops"][cause].as_u64().unwrap_or(0)
    }

    /// Returns the packets that port `i` lost on reception (`rx`) or transmission (`tx`).
    pub(crate) fn drops(&self, i: usize, direction: &str) -> u64 {
        let drops = self.0["ports"][i]["drops"].as_object().unwrap();
        let ours = drops.iter().filter(|(cause, _)| cause.starts_with(direction));
        ours.map(|(_, count)| count.as_u64().unwrap()).sum()
    }

    /// Returns the packets lost by any port for any cause.
    pub(crate) fn all_drops(&self) -> u64 {
        let ports = self.0["ports"].as_array().unwrap();
        let drops = ports.iter().flat_map(|port| port["drops"].as_object().unwrap().values());
        drops.map(|count| count.as_u64().unwrap()).sum()
    }

    /// Returns the packets in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.0["in_flight"].as_u64().unwrap()
    }

    /// Returns the value of `key` in the start report of port `i`: its mode, its kind, or one of
    /// its settings; `-` if it has no such setting.
    pub(crate) fn setting(&self, i: usize, key: &str) -> &str {
        match key {
            "mode" | "kind" => self.0["ports"][i][key].as_str().unwrap(),
            _ => self.0["ports"][i]["settings"][key].as_str().unwrap_or("-"),
        }
    }

    /// Asserts that each port sent, or dropped by a named cause, the frames that the other port
    /// received.
    pub(crate) fn balanced(&self) -> &Self {
        assert_eq!(self.in_flight(), 0, "{self:?}");
        for (from, to) in [(0, 1), (1, 0)] {
            let lost = self.drops(to, "tx");
            assert_eq!(self.rx(from), self.tx(to) + lost, "{from} to {to}: {self:?}");
        }
        self
    }

    /// Asserts that no port dropped anything.
    pub(crate) fn lossless(&self) -> &Self {
        assert_eq!(self.all_drops(), 0, "{self:?}");
        self
    }
}
