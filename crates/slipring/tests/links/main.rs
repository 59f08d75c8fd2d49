//! Tests of `slipring emulate` between real interfaces, in the tests' own network namespaces.
//!
//! Tests in virtual time prove the effects of links on frames; these tests show that real traffic
//! passes the same links, and that every lost frame is counted.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod http;
mod pipeline;
mod replay;
mod route;

use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::frames::{assert_same, numbered};
use slipring_test_support::lab::RIGHT;
use slipring_test_support::{FinishedProgram, Lab, LabPort, Program, eventually};

use support::bridge::Report;
use support::frames::{Sender, cross};
use support::{SLIPRING, ping};

/// Starts an emulator between the sides of a lab and waits until its ports are open.
fn emulate(lab: &Lab, words: &str) -> Program {
    let mut command = Command::new(SLIPRING);
    command.args(["emulate", "--json=lines", "-T", "0"]);
    command.args(lab.ports().split_ascii_whitespace()).args(words.split_ascii_whitespace());
    let program = Program::launch(&lab.mid, command);
    program.wait_for("start", |output| output.stdout.contains('\n').then_some(()));
    program
}

fn last_report(ended: FinishedProgram) -> Report {
    Report::last(&ended.well())
}

/// Asserts that each received frame was sent, was counted as lost with a cause, or is still in the
/// emulator.
fn balanced(report: &Report) {
    let copies = report.0["copies"].as_u64().unwrap();
    let (rx, tx) = (report.rx(0) + report.rx(1), report.tx(0) + report.tx(1));
    assert_eq!(rx + copies, tx + report.all_drops() + report.in_flight(), "{report:?}");
}

#[test]
fn a_ping_takes_the_delay_of_both_ways_and_never_less() {
    ping_takes_both_delays("-D 20ms");
}

/// Pings through an emulator with these flags, which delays frames by 20 ms in each direction.
fn ping_takes_both_delays(flags: &str) {
    for port in [LabPort::Native, LabPort::Packet] {
        let Some(lab) = Lab::new(port) else { return };
        let emulator = emulate(&lab, flags);
        let least = ping::shortest(&lab.left, RIGHT, 5);
        assert!(least >= 40.0, "{least} ms");
        balanced(&last_report(emulator.stop(Signal::INT)));
    }
}

#[test]
fn every_frame_crosses_a_delay_whole_and_in_order_both_ways() {
    frames_cross_whole("-D 3ms");
}

/// Sends frames in both directions through an emulator with these flags.
fn frames_cross_whole(flags: &str) {
    for port in [LabPort::Native, LabPort::Packet] {
        let Some(lab) = Lab::quiet(port) else { return };
        let emulator = emulate(&lab, flags);
        for (from, to, first) in [(&lab.left, &lab.right, 0), (&lab.right, &lab.left, 800)] {
            let sent: Vec<_> = (first..first + 800).map(numbered).collect();
            assert_same("arrived", &cross(from, to, &sent), &sent);
        }
        let report = last_report(emulator.stop(Signal::INT));
        balanced(&report);
        report.lossless();
        assert_eq!((report.rx(0), report.rx(1), report.in_flight()), (800, 800, 0), "{report:?}");
    }
}

#[test]
fn frames_inside_when_it_is_told_to_stop_are_counted_as_in_flight() {
    frames_inside_are_counted("-D 60s");
}

/// Stops an emulator with these flags while it holds frames.
fn frames_inside_are_counted(flags: &str) {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(lab) = Lab::quiet(LabPort::Packet) else { return };
        let emulator = emulate(&lab, flags);
        let sent: Vec<_> = (0..500).map(numbered).collect();
        Sender::open(&lab.left, "e0").send(&sent);
        eventually("all frames inside", || {
            (Report::now(&emulator).in_flight() == 500).then_some(())
        });
        let report = last_report(emulator.stop(signal));
        balanced(&report);
        assert_eq!((report.rx(0), report.tx(1), report.in_flight()), (500, 0, 500), "{report:?}");
    }
}

#[test]
fn losses_are_named_and_the_counters_balance_to_the_packet() {
    let Some(lab) = Lab::quiet(LabPort::Packet) else { return };
    let emulator = emulate(&lab, "-D 1ms -L plr,0.25 --seed 7");
    let sent: Vec<_> = (0..1000).map(numbered).collect();
    Sender::open(&lab.left, "e0").send(&sent);
    eventually("all frames through", || {
        let report = Report::now(&emulator);
        (report.rx(0) == 1000 && report.in_flight() == 0).then_some(())
    });
    let report = last_report(emulator.stop(Signal::INT));
    balanced(&report);
    let lost = report.drops_for(0, "loss");
    assert!((150..350).contains(&lost), "{report:?}");
    assert_eq!(report.tx(1), 1000 - lost, "{report:?}");
}

#[test]
fn jumbo_frames_cross_in_several_slots() {
    let Some(lab) = Lab::with_mtu(LabPort::Packet, 9000) else { return };
    let emulator = emulate(&lab, "-D 1ms");
    for _ in 0..3 {
        ping::echo(&lab.left, RIGHT, "-s 8900 -M do");
    }
    balanced(&last_report(emulator.stop(Signal::INT)));
}

#[test]
fn a_port_that_goes_away_ends_the_run_with_its_name_and_a_summary() {
    let Some(lab) = Lab::quiet(LabPort::Packet) else { return };
    let emulator = emulate(&lab, "-D 1ms");
    lab.mid.ip("link del la");
    let ended = emulator.finish();
    assert_ne!(ended.code(), 0, "{ended:?}");
    assert!(ended.stderr.contains("la"), "{ended:?}");
    assert_eq!(Report::last(&ended).0["event"], "end");
}
