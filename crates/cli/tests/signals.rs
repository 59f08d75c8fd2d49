//! Tests of signals. The receiving program is a separate process: this test binary, started again
//! with a marker in its environment.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use slipring_cli::Signals;

const CHILD: &str = "SLIPRING_SIGNALS_CHILD";

/// Not a test of its own: the code of the child process. It prints each request that it gets.
#[test]
fn child() {
    let Ok(stubborn) = std::env::var(CHILD) else {
        return;
    };
    let signals = Signals::install().unwrap();
    println!("\nready");
    loop {
        wait(&signals);
        signals.acknowledge();
        if signals.take_interim() {
            println!("interim");
        }
        if signals.take_reload() {
            println!("reload");
        }
        if signals.stopping() {
            println!("stop");
            if stubborn == "no" {
                // The request stays set for every other waiter.
                wait(&signals);
                std::process::exit(7);
            }
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

fn wait(signals: &Signals) {
    let mut fds = [PollFd::from_borrowed_fd(signals.wake_fd(), PollFlags::IN)];
    while poll(&mut fds, None).is_err() {}
}

struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(stubborn: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, stubborn)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, lines };
        running.hear("ready");
        running
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Reads the child's output up to this line.
    fn hear(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            let read = self.lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the child ended before `{wanted}`");
        }
    }

    fn end(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

#[test]
fn usr1_asks_for_a_report_and_hup_for_a_reload_any_number_of_times() {
    let mut running = Running::start("no");
    for _ in 0..3 {
        running.send(Signal::USR1);
        running.hear("interim");
        running.send(Signal::HUP);
        running.hear("reload");
    }
    running.send(Signal::TERM);
    running.hear("stop");
    assert_eq!(running.end().code(), Some(7));
}

#[test]
fn the_first_int_stops_with_a_summary() {
    let mut running = Running::start("no");
    running.send(Signal::INT);
    running.hear("stop");
    assert_eq!(running.end().code(), Some(7));
}

#[test]
fn the_second_int_ends_at_once() {
    let mut running = Running::start("yes");
    running.send(Signal::INT);
    running.hear("stop");
    running.send(Signal::INT);
    assert_eq!(running.end().code(), Some(130));
}

#[test]
fn the_second_term_ends_at_once_and_one_beside_an_int_does_not() {
    let mut running = Running::start("yes");
    running.send(Signal::TERM);
    running.hear("stop");
    running.send(Signal::TERM);
    assert_eq!(running.end().code(), Some(143));
    let mut running = Running::start("no");
    running.send(Signal::INT);
    running.send(Signal::TERM);
    running.hear("stop");
    assert_eq!(running.end().code(), Some(7));
}
