//! Tests of virtio-net headers, which a TAP device expects before each frame and adds to each
//! received frame.

use rustix::process::Signal;
use slipring_test_support::Namespace;
use slipring_test_support::frames::{assert_same, numbered};
use tempfile::TempDir;

use super::captures::{file, packets, write};
use super::links::{ready, report, start};
use super::number;
use crate::support::frames::FrameListener;

/// A namespace with a TAP device `e0`, which is up. The kernel itself sends nothing on it.
fn device() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    namespace.ip("tuntap add e0 mode tap");
    // The queue has room for all frames of a test, so that no frame is lost even if this machine
    // stalls the receiver.
    namespace.ip("link set e0 txqueuelen 4096");
    namespace.silence("e0");
    namespace.ip("link set e0 up");
    Some(namespace)
}

#[test]
fn frames_behind_a_header_arrive_unchanged() {
    let dir = TempDir::new().unwrap();
    let (from, seen) = (file(&dir, "from.pcap"), file(&dir, "seen.pcap"));
    let frames: Vec<_> = (0..200).map(numbered).collect();
    write(&from, &frames.iter().map(|frame| (0, frame.clone())).collect::<Vec<_>>());
    let bytes: usize = frames.iter().map(Vec::len).sum();
    for (header, more) in [(10, ""), (12, ""), (10, "-F 3"), (12, "-M 16 -X")] {
        let Some(host) = device() else { return };
        let mut listener = FrameListener::open(&host, "e0");
        let words = format!(
            "gen -i tap:e0 -f tx -H {header} -P {from} --loops 1 {more} --capture {seen} --json"
        );
        let sent = report(&start(&host, &words).finish().well());
        let mut received = Vec::new();
        listener.hear(&mut received, frames.len());
        assert_same(&words, &received, &frames);
        assert_same("the capture", &packets(&seen), &frames);
        // The port counts the bytes in its rings; the report counts the bytes of frames.
        assert_eq!(number(&sent, "bytes"), bytes as u64, "{sent}");
        let carried = bytes + header * frames.len();
        assert_eq!(number(&sent["ports"][0]["tx"], "bytes"), carried as u64, "{sent}");
    }
}

#[test]
fn numbered_frames_are_understood_behind_a_header() {
    for header in [10, 12] {
        let Some(host) = device() else { return };
        let words = format!("gen -i tap:e0 -f rxseq -H {header} -n 2000 --max-loss 0");
        let receiver = ready(&host, &words);
        let words = "gen -i packet:e0 -f txseq -n 2000 -R 5k -l imix --json";
        let sent = report(&start(&host, words).finish().well());
        let received = report(&receiver.finish().well());
        for key in ["packets", "bytes"] {
            assert_eq!(number(&received, key), number(&sent, key), "{received}");
        }
        assert_eq!(
            (number(&received, "corrupt"), number(&received, "foreign")),
            (0, 0),
            "{received}"
        );
    }
}

#[test]
fn either_end_of_a_round_trip_may_have_headers() {
    for (ping, pong) in [("tap:e0 -H 12", "packet:e0"), ("packet:e0", "tap:e0 -H 10")] {
        let Some(host) = device() else { return };
        let pong = ready(&host, &format!("gen -i {pong} -f pong"));
        for more in ["", "-6 --proto icmp"] {
            let words = format!("gen -i {ping} -f ping -n 50 --max-loss 0 --json {more}");
            let report = report(&start(&host, &words).finish().well());
            let counts = (number(&report, "packets"), number(&report["latency_ns"], "count"));
            assert_eq!(counts, (50, 50), "{report}");
        }
        let answered = report(&pong.stop(Signal::INT).well());
        assert_eq!(number(&answered, "packets"), 100);
    }
}
