//! Compares `slipring dump` with tcpdump: the same captures, the same flags, the same bytes.

#[path = "../../../wire/tests/tcpdump/frames/mod.rs"]
mod frames;

use slipring_test_support::{Namespace, Program, golden, installed, program, skip};
use slipring_wire::summary::{Detail, Summary};

use super::with_links;
use crate::support::SLIPRING;
use frames::{CapturedFrame, GROUPS, TEXTS, all_frames, cut_frames, single_frames, whole};

/// Flags for which tcpdump and `slipring dump` must print the same.
const FLAGS: [&str; 18] = [
    "", "-e", "-v", "-e -v", "-vv", "-vvv", "-e -vv", "-x", "-xx", "-X", "-XX", "-e -X -v", "-q",
    "-e -q", "-tttt -e", "-S", "-S -vv", "-K -vv",
];
/// The flags for frames of which a capture holds only a few bytes.
const CUT_FLAGS: [&str; 5] = ["", "-v", "-e", "-q", "-xx"];

/// A capture in microseconds, as tcpdump writes it.
fn capture(frames: &[CapturedFrame]) -> Vec<u8> {
    let mut file = Vec::new();
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    file.extend(words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1]));
    for (at, (kept, len)) in (0..).zip(frames) {
        file.extend(words(&[1_700_000_000 + at, 1000 * (at % 7), kept.len() as u32, *len as u32]));
        file.extend(kept);
    }
    file
}

/// Compares both outputs for these frames and flags.
fn compare(namespace: &Namespace, name: &str, frames: &[CapturedFrame], flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames.pcap");
    std::fs::write(&path, capture(frames)).unwrap();
    for flags in flags {
        let words = format!("-n -r {} {flags}", path.display());
        let theirs = Program::start(namespace, "tcpdump", &words).finish().stdout;
        let ours = Program::start(namespace, SLIPRING, &format!("dump {words}")).finish();
        assert!(!theirs.is_empty(), "tcpdump {words} printed nothing");
        for (our, their) in ours.stdout.lines().zip(theirs.lines()) {
            assert_eq!(our, their, "{name}: dump {flags}");
        }
        assert_eq!(ours.stdout, theirs, "{name}: dump {flags}");
    }
}

/// Returns a namespace, if tcpdump is installed in the version that these tests expect.
fn beside_tcpdump() -> Option<Namespace> {
    if !installed("tcpdump") {
        skip!("no tcpdump");
        return None;
    }
    let version = program::output(std::process::Command::new("tcpdump").arg("--version"));
    let version = [version.stdout, version.stderr].concat();
    if !String::from_utf8_lossy(&version).contains("tcpdump version 4.99.") {
        skip!("the lines are those of tcpdump 4.99");
        return None;
    }
    with_links()
}

#[test]
fn dump_prints_what_tcpdump_prints_to_the_byte() {
    let Some(namespace) = beside_tcpdump() else { return };
    compare(&namespace, "frames", &single_frames(), &FLAGS);
}

#[test]
fn dump_prints_of_every_protocol_that_it_decodes_what_tcpdump_prints() {
    let Some(namespace) = beside_tcpdump() else { return };
    // Some of these frames end before their claimed length, which tcpdump notices with -v. For some
    // protocols, it then prints the frame's bytes from the link layer on, which this program never
    // does with -X.
    let flags: Vec<_> = FLAGS.into_iter().filter(|flags| *flags != "-e -X -v").collect();
    for (name, frames, _) in GROUPS {
        let frames: Vec<_> = frames.iter().map(|frame| whole(frame.bytes())).collect();
        compare(&namespace, name, &frames, &flags);
    }
}

#[test]
fn dump_says_as_tcpdump_where_a_capture_has_cut_a_frame() {
    let Some(namespace) = beside_tcpdump() else { return };
    for (name, frames, cuts) in GROUPS.into_iter().filter(|(.., cuts)| !cuts.is_empty()) {
        let frames = cut_frames(frames, cuts);
        compare(&namespace, name, &frames, &CUT_FLAGS);
    }
}

/// `SLIPRING_BLESS=1` records the texts, with which the tests of `slipring-wire` compare.
#[test]
fn the_recorded_texts_are_those_that_tcpdump_prints() {
    let Some(namespace) = beside_tcpdump() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames.pcap");
    for text in &TEXTS {
        std::fs::write(&path, capture(&all_frames(text))).unwrap();
        let words = format!("-n -t -r {} {}", path.display(), text.flags);
        let printed = Program::start(&namespace, "tcpdump", &words).finish().stdout;
        golden::check(text.path(), &printed);
    }
}

#[test]
fn frames_whose_bytes_are_anything_are_told_all_the_same() {
    let details = [0, 3].map(|verbose| Detail { verbose, ..Detail::default() });
    let message = |frame: &[u8]| {
        for detail in details {
            let summary = Summary::new(frame).with_wire_len(frame.len() + 1).with_detail(detail);
            assert!(!summary.write(true, None).text.is_empty(), "{frame:02x?}");
        }
    };
    for frame in GROUPS.iter().flat_map(|(_, frames, _)| *frames) {
        let bytes = frame.bytes();
        (0..bytes.len()).for_each(|len| message(&bytes[..len]));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            for value in [0, 1, 2, 3, 4, 5, 7, 8, 15, 31, 63, 64, 127, 128, 192, 254, 255] {
                changed[at] = value;
                message(&changed);
                // The changed byte may be a length, so also try it with the next byte zeroed.
                if let Some(next) = changed.get_mut(at + 1) {
                    let before = std::mem::replace(next, 0);
                    message(&changed);
                    changed[at + 1] = before;
                }
            }
        }
    }
}
