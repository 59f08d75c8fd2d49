//! Tests of captures: the files that `gen` writes, and the receiver's reports about captures.

use std::process::Command;

use slipring_port::capture::{FileReader, FileWriter};
use slipring_test_support::program::output;
use slipring_traffic::{Generator, GeneratorShare, Stamp, StampCheck, TrafficPattern};
use slipring_wire::MacAddr;
use tempfile::TempDir;

use super::{Run, number, slipring};
use crate::support::SLIPRING;

/// Returns the packets of a capture.
pub(super) fn packets(path: &str) -> Vec<Vec<u8>> {
    let mut reader = FileReader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        packets.push(packet.data.to_vec());
    }
    packets
}

pub(super) fn write(path: &str, packets: &[(u64, Vec<u8>)]) {
    let mut writer = FileWriter::create(path, &["x"]).unwrap();
    for (time, packet) in packets {
        writer.packet(0, *time, packet, None).unwrap();
    }
    writer.flush().unwrap();
}

pub(super) fn file(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn frames_are_a_function_of_flags_and_seed() {
    let dir = TempDir::new().unwrap();
    let (one, two, other) = (file(&dir, "1.pcap"), file(&dir, "2.pcap"), file(&dir, "3.pcap"));
    let frames = "-f tx -n 500 -l imix -z -d 10.0.0.0/24:80-99 -R 1M";
    slipring(&format!("gen -i pcap:{one} {frames} --seed 7")).ended(0);
    slipring(&format!("gen -i pcap:{two} {frames} --seed 7")).ended(0);
    slipring(&format!("gen -i pcap:{other} {frames} --seed 8")).ended(0);
    let frames = packets(&one);
    assert_eq!(frames.len(), 500);
    assert!(frames == packets(&two));
    assert!(frames != packets(&other));
}

#[test]
fn a_capture_holds_what_the_engine_makes() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "x.pcapng");
    slipring(&format!("gen -i pcap:{path} -f tx -n 100 -l 64-300 -R 1k")).ended(0);
    let pattern = TrafficPattern {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sizes: "64-300".parse().unwrap(),
        ..TrafficPattern::default()
    };
    let mut generator = Generator::new(&pattern, 1, GeneratorShare::ONLY).unwrap();
    let mut buffer = [0; 2048];
    let expected = (0..100).map(|n| {
        let len = generator.write(n * 1_000_000, &mut buffer).unwrap();
        buffer[..len].to_vec()
    });
    assert!(packets(&path) == expected.collect::<Vec<_>>());
}

#[test]
fn frames_longer_than_a_buffer_go_over_several_slots() {
    let dir = TempDir::new().unwrap();
    let (whole, split) = (file(&dir, "w.pcap"), file(&dir, "s.pcap"));
    slipring(&format!("gen -i pcap:{whole} -f tx -n 20 -l 9000")).ended(0);
    slipring(&format!("gen -i pcap:{split} -f tx -n 20 -l 9000 -M 700")).ended(0);
    let frames = packets(&whole);
    assert!(frames.len() == 20 && frames.iter().all(|frame| frame.len() == 9000));
    assert!(frames == packets(&split));
    let report = slipring(&format!("gen -i pcap:{whole} -f rxseq --json")).ended(0).document();
    assert_eq!((number(&report, "received"), number(&report, "corrupt")), (20, 0));
}

#[test]
fn a_doctored_capture_is_seen_through() {
    let dir = TempDir::new().unwrap();
    let (path, bad) = (file(&dir, "x.pcap"), file(&dir, "bad.pcap"));
    slipring(&format!("gen -i pcap:{path} -f tx -n 100 --stream 5")).ended(0);
    let mut frames = packets(&path);
    // The changes: 3 frames lost in the middle, 2 duplicated, one reordered, one corrupted, one
    // foreign.
    frames[90][50] ^= 1;
    frames.drain(40..43);
    frames.insert(20, frames[10].clone());
    frames.insert(21, frames[11].clone());
    frames.swap(60, 61);
    frames.push(vec![0xff; 60]);
    write(&bad, &frames.into_iter().map(|frame| (0, frame)).collect::<Vec<_>>());
    let report = slipring(&format!("gen -i pcap:{bad} -f rxseq --json")).ended(0).document();
    assert_eq!(number(&report, "received"), 100);
    // The corrupted frame counts as lost, too.
    assert_eq!((number(&report, "lost"), number(&report, "expected")), (4, 100));
    assert_eq!((number(&report, "reordered"), number(&report, "duplicates")), (1, 2));
    assert_eq!((number(&report, "corrupt"), number(&report, "foreign")), (1, 1));
    let stream = &report["streams"][0];
    assert_eq!((number(stream, "stream"), number(stream, "lost")), (5, 4));
}

#[test]
fn a_count_is_kept_to_the_packet() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "x.pcap");
    let report =
        slipring(&format!("gen -i pcap:{path} -f tx -n 777 -b 100 --json")).ended(0).document();
    assert_eq!((number(&report, "packets"), packets(&path).len()), (777, 777));
    let report =
        slipring(&format!("gen -i pcap:{path} -f rx -n 333 -b 100 --json")).ended(0).document();
    assert_eq!(number(&report, "packets"), 333);
}

#[test]
fn threads_share_a_count_and_number_their_streams() {
    let report =
        slipring("gen -i null:@conf:rings=3 -f tx -p 3 -n 1000 --json").ended(0).document();
    assert_eq!((number(&report, "packets"), number(&report, "lost")), (1000, 0));
    assert_eq!(report["ports"][0]["tx"]["packets"], 1000);
}

#[test]
fn a_capture_is_played_whole_and_again() {
    let dir = TempDir::new().unwrap();
    let (from, to) = (file(&dir, "from.pcap"), file(&dir, "to.pcap"));
    let frames: Vec<_> = (1..=5u8).map(|n| (u64::from(n), vec![n; 60 + usize::from(n)])).collect();
    write(&from, &frames);
    let plain: Vec<_> = frames.iter().map(|(_, frame)| frame.clone()).collect();
    slipring(&format!("gen -i pcap:{to} -f tx -P {from} -n 12")).ended(0);
    let expected: Vec<_> = plain.iter().cycle().take(12).cloned().collect();
    assert!(packets(&to) == expected);
    slipring(&format!("gen -i pcap:{to} -f tx -P {from} --loops 2 --overwrite")).ended(0);
    assert!(packets(&to) == [plain.clone(), plain].concat());
}

#[test]
fn a_timed_replay_takes_the_capture_s_time() {
    let dir = TempDir::new().unwrap();
    let (from, to) = (file(&dir, "from.pcap"), file(&dir, "to.pcap"));
    let frames: Vec<_> = (0..4u64).map(|n| (n * 40_000_000, vec![9; 60])).collect();
    write(&from, &frames);
    let report = slipring(&format!("gen -i pcap:{to} -f tx -P {from} --timed --speed 2 --json"))
        .ended(0)
        .document();
    assert_eq!(packets(&to).len(), 4);
    assert!(number(&report, "elapsed_ns") >= 60_000_000, "{report}");
}

#[test]
fn stamps_in_a_capture_are_the_schedule_s() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "x.pcap");
    slipring(&format!("gen -i pcap:{path} -f tx -n 5 -R 1k")).ended(0);
    let times: Vec<_> = packets(&path)
        .iter()
        .map(|frame| Stamp::read(frame, StampCheck::Checksum).unwrap().sent_ns.unwrap())
        .collect();
    assert_eq!(times, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000]);
}

#[test]
fn a_sink_ends_after_its_senders_though_strangers_keep_sending() {
    let run = slipring("gen -i null: --sink null: -f tx -n 1000 --json").ended(0);
    assert!(number(&run.document(), "foreign") > 0, "a null port never stops");
}

#[test]
fn a_full_disk_is_told_and_counts_nothing_as_sent() {
    for count in [300, 100_000] {
        let words = format!("gen -i pcap:/dev/full -f tx -n {count} --json");
        let run = slipring(&words).ended(2);
        let error: serde_json::Value = serde_json::from_str(&run.stderr()).unwrap();
        assert_eq!(error["code"], "SR0204", "{error}");
        assert!(error["cause"].as_str().unwrap().contains("No space left"), "{error}");
        let port = &run.document()["ports"][0];
        assert_eq!(number(&port["tx"], "packets"), 0, "{port}");
        assert!(number(&port["drops"], "tx_refused") >= 300, "{port}");
    }
    // Traffic continues after the capture has failed, and the packets missing in it are reported.
    let run = slipring("gen -i null: -f tx -n 10 --capture /dev/full").ended(0);
    let message = "warning: null:: 10 packets are not in the capture, which could not be written";
    assert!(run.stderr().contains(message), "{}", run.stderr());
}

#[test]
fn a_disk_that_fills_up_keeps_the_packets_that_were_counted() {
    let dir = TempDir::new().unwrap();
    let (from, pcap, ng) = (file(&dir, "from.pcap"), file(&dir, "x.pcap"), file(&dir, "x.pcapng"));
    slipring(&format!("gen -i pcap:{from} -f tx -n 40000")).ended(0);
    for (path, words) in [
        (&pcap, format!("gen -i pcap:{pcap} -f tx -n 40000")),
        (&ng, format!("bridge -i pcap:{from} -i pcap:{ng}")),
    ] {
        // The limit on the size of files also applies to the memory region, so it is high enough
        // for a small region.
        let limited =
            format!("trap '' XFSZ; ulimit -f 2000; exec {SLIPRING} {words} --slots 64 --json");
        let run = Run(output(Command::new("sh").args(["-c", &limited]))).ended(2);
        assert!(run.stderr().contains("SR0204"), "{}", run.stderr());
        let report = run.document();
        let ports = report["ports"].as_array().unwrap();
        let port = &ports[ports.len() - 1];
        let (sent, lost) = (number(&port["tx"], "packets"), number(&port["drops"], "tx_refused"));
        assert!(sent > 300 && lost > 0, "{report}");
        assert_eq!(packets(path).len() as u64, sent, "{report}");
        if ports.len() == 2 {
            assert_eq!(number(&ports[0]["rx"], "packets"), sent + lost, "{report}");
        }
    }
}

#[test]
fn a_bridge_that_copies_bytes_makes_no_frames() {
    let dir = TempDir::new().unwrap();
    let (from, to) = (file(&dir, "from.pcap"), file(&dir, "to.pcap"));
    slipring(&format!("gen -i pcap:{from} -f tx -n 500")).ended(0);
    let report = slipring(&format!("bridge -c -i pcap:{from} -i pcap:{to} --json")).ended(0);
    let report = report.document();
    let (rx, tx) = (&report["ports"][0]["rx"], &report["ports"][1]["tx"]);
    assert_eq!(number(rx, "packets") + number(&report, "copies"), number(tx, "packets"));
    assert_eq!((number(&report, "copies"), number(&report, "in_flight")), (0, 0), "{report}");
}
