use std::fs;
use std::time::Duration;

use slipring_port::capture::FileReader;

use super::*;

const START: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn frame(at: u64) -> DumpFrame<'static> {
    DumpFrame {
        ts_ns: START + at * SECOND,
        outgoing: Some(at % 2 == 1),
        wire_len: 100,
        bytes: &[7; 60],
    }
}

fn saving(path: &str, rotation: FileRotation) -> SaveOptions {
    let pcapng = SaveOptions::is_pcapng(path);
    SaveOptions { path: path.to_owned(), pcapng, rotation, ..SaveOptions::default() }
}

/// Saves one frame at each of these times, in seconds. Returns the name of each file and the
/// number of its frames.
fn saved(name: &str, rotation: FileRotation, seconds: &[u64]) -> Vec<(String, usize)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let mut saver =
        CaptureSaver::create(saving(path.to_str().unwrap(), rotation), "x", None).unwrap();
    for &second in seconds {
        if saver.packet(&frame(second), 60).unwrap().is_break() {
            break;
        }
    }
    saver.finish(&CaptureTotals::default()).unwrap();
    let mut files: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let mut reader = FileReader::open(path.to_str().unwrap()).unwrap();
            let mut frames = 0;
            while let Some(packet) = reader.next().unwrap() {
                assert_eq!((packet.data, packet.orig_len), (&[7; 60][..], 100));
                frames += 1;
            }
            (path.file_name().unwrap().to_str().unwrap().to_owned(), frames)
        })
        .collect();
    files.sort();
    files
}

fn names_and_sizes(files: &[(&str, usize)]) -> Vec<(String, usize)> {
    files.iter().map(|(name, frames)| ((*name).to_owned(), *frames)).collect()
}

#[test]
fn a_file_beyond_its_size_is_followed_by_a_numbered_one() {
    // The file header has 24 bytes and each frame takes 76, so the second frame exceeds the limit.
    let rotation = FileRotation { size: Some(150), ..FileRotation::default() };
    let files = saved("a.pcap", rotation, &[0, 1, 2, 3, 4]);
    assert_eq!(files, names_and_sizes(&[("a.pcap", 2), ("a.pcap1", 2), ("a.pcap2", 1)]));
}

#[test]
fn a_ring_of_files_writes_over_the_oldest() {
    let rotation = FileRotation { size: Some(50), files: Some(2), ..FileRotation::default() };
    let files = saved("a.pcap", rotation, &[0, 1, 2, 3, 4]);
    assert_eq!(files, names_and_sizes(&[("a.pcap0", 1), ("a.pcap1", 1)]));
}

#[test]
fn a_period_begins_files_by_the_time_of_frames_and_ends_after_the_last() {
    let rotation =
        FileRotation { period: Some(Duration::from_secs(10)), ..FileRotation::default() };
    let files = saved("a-%S.pcap", rotation.clone(), &[0, 9, 10, 12, 25]);
    assert_eq!(files, names_and_sizes(&[("a-20.pcap", 2), ("a-30.pcap", 2), ("a-45.pcap", 1)]));
    let rotation = FileRotation { files: Some(2), ..rotation };
    let files = saved("a-%S.pcap", rotation, &[0, 9, 10, 12, 25]);
    assert_eq!(files, names_and_sizes(&[("a-20.pcap", 2), ("a-30.pcap", 2)]));
}

#[test]
fn a_capture_of_nothing_is_a_file_with_a_head() {
    for name in ["a.pcap", "a.pcapng"] {
        assert_eq!(saved(name, FileRotation::default(), &[]), names_and_sizes(&[(name, 0)]));
    }
}

#[test]
fn pcapng_keeps_directions_and_ends_with_what_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let path = path.to_str().unwrap();
    let mut saver =
        CaptureSaver::create(saving(path, FileRotation::default()), "netmap:x", Some(START))
            .unwrap();
    for at in 0..2 {
        assert!(saver.packet(&frame(at), 60).unwrap().is_continue());
    }
    saver.finish(&CaptureTotals { ts_ns: START, received: 9, dropped: 3 }).unwrap();
    let mut reader = FileReader::open(path).unwrap();
    for direction in [PcapDirection::Inbound, PcapDirection::Outbound] {
        assert_eq!(reader.next().unwrap().unwrap().direction, Some(direction));
    }
    let bytes = fs::read(path).unwrap();
    let osdrop = [7, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0];
    assert!(bytes.windows(12).any(|window| window == osdrop));
}

#[test]
fn a_directory_that_is_not_there_and_a_full_disk_are_told_apart() {
    let message = |path: &str| {
        let created = CaptureSaver::create(saving(path, FileRotation::default()), "x", Some(START));
        match created.and_then(|mut saver| saver.flush()) {
            Err(Failure::Error(error)) => error.to_string(),
            _ => panic!("it was written"),
        }
    };
    assert!(message("/nowhere/a.pcap").starts_with("error[SR0201]: cannot write /nowhere/a.pcap"));
    assert!(message("/dev/full").starts_with("error[SR0204]: cannot write /dev/full"));
}
