//! Two threads, a port each: the same links, and the same account of them.

use rustix::process::Signal;

use crate::support::bridge::Report;
use crate::support::eventually;
use crate::support::frames::{Sender, assert_same, cross, frame};
use crate::support::lab::{Lab, RIGHT, Way};
use crate::support::program::{Program, SLIPRING};
use crate::{balanced, emulate, last_report};

#[test]
fn a_ping_takes_the_delay_of_both_ways_through_two_threads_and_never_less() {
    for way in [Way::Native, Way::Packet] {
        let Some(lab) = Lab::new(way) else { return };
        let emulator = emulate(&lab, "-D 20ms --pipeline -C 0,1");
        let ping = Program::start(&lab.left, "ping", &format!("-n -c 5 -i 0.2 {RIGHT}"));
        let ping = ping.finish().well();
        assert_eq!(ping.stdout.matches("bytes from").count(), 5, "{ping:?}");
        let times = ping.stdout.split("rtt min/avg/max/mdev = ").nth(1).unwrap();
        let least: f64 = times.split('/').next().unwrap().parse().unwrap();
        assert!(least >= 40.0, "{ping:?}");
        balanced(&last_report(emulator.stop(Signal::INT)));
    }
}

#[test]
fn every_frame_crosses_two_threads_whole_and_in_order_both_ways() {
    for way in [Way::Native, Way::Packet] {
        let Some(lab) = Lab::quiet(way) else { return };
        let emulator = emulate(&lab, "-D 3ms --pipeline");
        for (from, to, first) in [(&lab.left, &lab.right, 0), (&lab.right, &lab.left, 800)] {
            let sent: Vec<_> = (first..first + 800).map(frame).collect();
            assert_same("arrived", &cross(from, to, &sent), &sent);
        }
        let report = last_report(emulator.stop(Signal::INT));
        balanced(&report);
        report.lossless();
        assert_eq!((report.rx(0), report.rx(1), report.in_flight()), (800, 800, 0), "{report:?}");
    }
}

#[test]
fn two_threads_that_are_told_to_stop_count_what_is_inside() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(lab) = Lab::quiet(Way::Packet) else { return };
        let emulator = emulate(&lab, "-D 60s --pipeline --spin");
        let sent: Vec<_> = (0..500).map(frame).collect();
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
fn a_log_has_the_frames_of_both_threads() {
    let Some(lab) = Lab::quiet(Way::Packet) else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.pcapng");
    let emulator = emulate(&lab, &format!("-D 1ms --pipeline --log {}", log.display()));
    for (from, to) in [(&lab.left, &lab.right), (&lab.right, &lab.left)] {
        let sent: Vec<_> = (0..20).map(frame).collect();
        assert_same("arrived", &cross(from, to, &sent), &sent);
    }
    balanced(&last_report(emulator.stop(Signal::INT)));
    let bytes = std::fs::read(&log).unwrap();
    let packets: Vec<_> = slipring_pcap::Reader::new(&bytes).map(Result::unwrap).collect();
    assert_eq!(packets.len(), 80, "each comes in once and has one fate");
}

#[test]
fn links_that_both_directions_share_are_refused_before_a_port_is_opened() {
    let Some(lab) = Lab::quiet(Way::Packet) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("link.toml");
    let text = "nodes = [\"middle\"]\n\
        [ports.a]\ndev = \"netmap:none0\"\n[ports.b]\ndev = \"netmap:none1\"\n\
        [link.up]\nfrom = \"a\"\nto = \"middle\"\n[link.down]\nfrom = \"b\"\nto = \"middle\"\n\
        [link.trunk]\nfrom = \"middle\"\nto = \"b\"\n";
    std::fs::write(&file, text).unwrap();
    let words = format!("emulate --pipeline --config {}", file.display());
    let ended = Program::start(&lab.mid, SLIPRING, &words).finish();
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.stderr.contains("both directions pass link.trunk"), "{ended:?}");
}
