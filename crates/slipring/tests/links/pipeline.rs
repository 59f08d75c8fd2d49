//! Tests of two threads with one port each: links and counters must be the same as with one thread.

use rustix::process::Signal;
use slipring_test_support::frames::{assert_same, numbered};
use slipring_test_support::{Lab, LabPort, Program};

use crate::support::SLIPRING;
use crate::support::frames::cross;
use crate::{
    balanced, emulate, frames_cross_whole, frames_inside_are_counted, last_report,
    ping_takes_both_delays,
};

#[test]
fn a_ping_takes_the_delay_of_both_ways_through_two_threads_and_never_less() {
    ping_takes_both_delays("-D 20ms --pipeline -C 0,1");
}

#[test]
fn every_frame_crosses_two_threads_whole_and_in_order_both_ways() {
    frames_cross_whole("-D 3ms --pipeline");
}

#[test]
fn two_threads_that_are_told_to_stop_count_what_is_inside() {
    frames_inside_are_counted("-D 60s --pipeline --spin");
}

#[test]
fn a_log_has_the_frames_of_both_threads() {
    let Some(lab) = Lab::quiet(LabPort::Packet) else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.pcapng");
    let emulator = emulate(&lab, &format!("-D 1ms --pipeline --log {}", log.display()));
    for (from, to) in [(&lab.left, &lab.right), (&lab.right, &lab.left)] {
        let sent: Vec<_> = (0..20).map(numbered).collect();
        assert_same("arrived", &cross(from, to, &sent), &sent);
    }
    balanced(&last_report(emulator.stop(Signal::INT)));
    let bytes = std::fs::read(&log).unwrap();
    let packets: Vec<_> = slipring_pcap::PcapFileReader::new(&bytes).map(Result::unwrap).collect();
    assert_eq!(packets.len(), 80, "each comes in once and has one fate");
}

#[test]
fn links_that_both_directions_share_are_refused_before_a_port_is_opened() {
    let Some(lab) = Lab::quiet(LabPort::Packet) else { return };
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
