use slipring_test_support::frames::{assert_same, numbered};
use slipring_test_support::{Lab, LabPort, eventually};

use super::{refused, start, stop};
use crate::support::bridge::Report;
use crate::support::frames::{FrameListener, Sender};

/// A sender on the left and a listener on the right.
struct Wire {
    sender: Sender,
    listener: FrameListener,
    received: Vec<Vec<u8>>,
}

impl Wire {
    fn of(lab: &Lab) -> Self {
        let (sender, listener) =
            (Sender::open(&lab.left, "e0"), FrameListener::open(&lab.right, "e0"));
        Self { sender, listener, received: Vec::new() }
    }

    /// Sends in windows that fit every ring; `fresh` frames of each window must arrive.
    fn send(&mut self, frames: &[Vec<u8>], window: usize, fresh: usize) {
        for part in frames.chunks(window) {
            self.sender.send(part);
            let want = self.received.len() + fresh;
            self.listener.hear(&mut self.received, want);
        }
    }
}

#[test]
fn every_frame_passes_once_and_copies_are_counted() {
    for port in [LabPort::Native, LabPort::Packet] {
        let Some(lab) = Lab::quiet(port) else { return };
        let words = format!("dedup {} --window 0 --fifo 1000", lab.ports());
        let program = start(&lab.mid, &words);
        let frames: Vec<_> = (0..200).map(numbered).collect();
        let doubled: Vec<_> =
            frames.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
        let mut wire = Wire::of(&lab);
        wire.send(&doubled, 40, 20);
        assert_same("right", &wire.received, &frames);
        // A duplicate that is dropped does not appear on the wire, so the counters are polled until
        // they show its arrival.
        eventually("all copies to be judged", || {
            (Report::now(&program).0["duplicates"] == 200).then_some(())
        });
        let report = stop(program);
        assert_eq!((report.rx(0), report.tx(1)), (400, 200), "{report:?}");
        assert_eq!(report.drops_for(1, "duplicate"), 200);
        assert_eq!(report.0["duplicates"], 200);
        assert_eq!(report.in_flight(), 0);
    }
}

#[test]
fn held_frames_leave_when_the_window_is_full_and_at_the_end() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let program = start(&lab.mid, &format!("dedup {} -W 0 -F 8 -H", lab.ports()));
    let frames: Vec<_> = (0..20).map(numbered).collect();
    let mut wire = Wire::of(&lab);
    wire.send(&frames, 20, 12);
    let report = stop(program);
    wire.listener.hear(&mut wire.received, 20);
    assert_same("right", &wire.received, &frames);
    assert_eq!((report.rx(0), report.tx(1), report.in_flight()), (20, 20, 0), "{report:?}");
}

#[test]
fn too_many_duplicates_fail_the_run_that_said_so() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let words = format!("dedup {} -W 0 -F 100 --max-duplicates 10%", lab.ports());
    let program = start(&lab.mid, &words);
    let mut wire = Wire::of(&lab);
    wire.send(&[numbered(1), numbered(1)], 2, 1);
    // A duplicate that is dropped does not appear on the wire, so the counters are polled until
    // they show its arrival.
    eventually("both frames to be judged", || {
        (Report::now(&program).0["duplicates"] == 1).then_some(())
    });
    let ended = program.stop(rustix::process::Signal::INT);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.stderr.contains("SR0404") && ended.stderr.contains("1 of 2"), "{ended:?}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_try() {
    for (words, code, message) in [
        ("dedup", 2, "missing: --interface <PORT>"),
        ("dedup|-i|null:", 2, "given 1 of 2 times"),
        ("dedup|null:|null:", 2, "is given twice"),
        ("dedup|null:|packet:lo|-i|null:", 2, "more than two ports"),
        (
            "dedup|null:|packet:lo|-W|0|-F|0",
            2,
            "neither time nor number of frames bounds the window",
        ),
        ("dedup|null:|packet:lo|--memory|1k", 2, "bytes hold no frame"),
        ("dedup|null:|packet:lo|-W|soon", 2, "soon"),
    ] {
        let Some(ended) = refused(words) else { return };
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.stderr.contains(message) && ended.stderr.contains("help"), "{ended:?}");
    }
}
