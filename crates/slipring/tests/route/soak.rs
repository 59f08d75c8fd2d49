//! Ten thousand route changes per second, for minutes: other traffic continues, memory does not
//! grow, and the tables finally agree with the kernel's.
//!
//! Run by `make soak`; `SLIPRING_SOAK_SECONDS` sets the time.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::packet::Packet;
use crate::rig::{Rig, Setup, Subject, families};

/// Number of changes that are written at once, ten times a second.
const CHANGES_PER_PART: usize = 1000;
const PART: Duration = Duration::from_millis(100);
/// Number of prefixes that are added, changed and removed; every second one is IPv6.
const PREFIXES: usize = 20_000;
/// Step from one prefix to the next. It has no common divisor with the number of prefixes, so every
/// prefix gets its turn.
const STEP: usize = 7919;
/// Maximum growth of resident memory in KiB, from a quarter of the test's time to its end.
const MAX_GROWTH_KIB: u64 = 4096;

/// Number of changes after which another process continues: `ip -batch` keeps about 2 KiB of memory
/// per line until it ends.
const CHANGES_PER_PROCESS: usize = 100 * CHANGES_PER_PART;

/// `ip` in the router's namespace, which executes the lines that are written to it.
struct RouteChanger<'r> {
    rig: &'r Rig,
    ip: Child,
    count: usize,
}

impl<'r> RouteChanger<'r> {
    fn start(rig: &'r Rig) -> Self {
        Self { rig, ip: Self::ip(rig), count: 0 }
    }

    fn ip(rig: &Rig) -> Child {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped());
        rig.router.spawn(command)
    }

    /// Makes the next changes. First each prefix gets a route, then another gateway; then its route
    /// is removed.
    fn change(&mut self) {
        if self.count > 0 && self.count.is_multiple_of(CHANGES_PER_PROCESS) {
            self.end_process();
            self.ip = Self::ip(self.rig);
        }
        let lines: String = (self.count..self.count + CHANGES_PER_PART).map(line).collect();
        self.ip.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
        self.count += CHANGES_PER_PART;
    }

    /// Waits until all changes are made; returns their number.
    fn finish(mut self) -> usize {
        self.end_process();
        self.count
    }

    fn end_process(&mut self) {
        drop(self.ip.stdin.take());
        assert!(self.ip.wait().unwrap().success(), "ip has failed");
    }
}

fn line(number: usize) -> String {
    let at = number * STEP % PREFIXES;
    let (high, low) = (at / 200, at % 200);
    let (prefix, via) = match at % 2 {
        0 => (format!("172.{high}.{low}.0/24"), "10.3.0."),
        _ => (format!("fd77:{high}:{low}::/48"), "fd03::"),
    };
    match number / PREFIXES % 3 {
        0 => format!("route replace {prefix} via {via}2\n"),
        1 => format!("route replace {prefix} via {via}3\n"),
        _ => format!("route del {prefix}\n"),
    }
}

/// Resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
}

/// Waits until the router finds no difference between its tables and the kernel's.
fn agrees_with_the_kernel(rig: &Rig) {
    rig.until(|| {
        let answer = rig.ask(&["fib", "verify"]);
        let count = |key: &str| answer[key].as_u64().unwrap_or_else(|| panic!("{answer}"));
        (count("missing") + count("extra") + count("different") == 0).then_some(())
    });
}

#[test]
#[ignore = "takes minutes: make soak"]
fn ten_thousand_changes_a_second_leave_packets_memory_and_tables_alone() {
    let seconds = std::env::var("SLIPRING_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let Some(setup) = Setup::new(Subject::Slipring("xdp")) else { return };
    let rig = setup.start();
    let program = rig.take_program();
    let mut changer = RouteChanger::start(&rig);
    let (start, total) = (Instant::now(), Duration::from_secs(seconds));
    let mut quarter = None;
    for part in 1_u32.. {
        changer.change();
        let packet = |i: u32| {
            let net = families()[i as usize % 2];
            Packet::udp(net.a, net.b, &(part * 16 + i).to_be_bytes())
        };
        rig.forwards(&(0..16).map(packet).collect::<Vec<_>>());
        if start.elapsed() > total / 4 && quarter.is_none() {
            quarter = Some(resident_kib(program.pid()));
        }
        if start.elapsed() > total {
            break;
        }
        std::thread::sleep((PART * part).saturating_sub(start.elapsed()));
    }
    let end = resident_kib(program.pid());
    let (count, took) = (changer.finish(), start.elapsed());
    agrees_with_the_kernel(&rig);
    let status = rig.ask(&["status"]);
    program.stop(Signal::INT).well();
    let quarter = quarter.unwrap();
    println!(
        "{count} changes in {took:?}; memory {quarter} KiB at a quarter, {end} KiB at the end"
    );
    println!("{status}");
    assert!(end <= quarter + MAX_GROWTH_KIB, "memory grows from {quarter} to {end} KiB");
}
