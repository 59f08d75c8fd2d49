//! Compares summaries with the text that tcpdump 4.99 has printed for the same frames, byte for
//! byte.
//!
//! The texts in `golden` were printed by tcpdump, never by this crate. A test of `slipring`
//! compares them with the output of an installed tcpdump; with `SLIPRING_BLESS=1`, it writes that
//! output to `golden` instead.
#![allow(clippy::unwrap_used)]

mod frames;

use frames::{RecordedText, TEXTS, all_frames};
use slipring_wire::summary::{Conversations, Detail, Summary};

/// Returns the summaries that this crate prints for the frames of `text`, with the flags of `text`.
fn text_of(text: &RecordedText) -> String {
    let flags: Vec<&str> = text.flags.split_whitespace().collect();
    let verbose = flags.iter().find(|flag| flag.starts_with("-v"));
    let detail = Detail {
        is_quick: flags.contains(&"-q"),
        verbose: verbose.map_or(0, |flag| flag.len() as u8 - 1),
        bytes_follow: false,
        ..Detail::default()
    };
    let mut conversations = Conversations::default();
    let mut all = String::new();
    for (bytes, len) in all_frames(text) {
        let summary = Summary::new(&bytes).with_wire_len(len).with_detail(detail);
        let line = summary.write(flags.contains(&"-e"), Some(&mut conversations));
        all.push_str(&line.text);
        all.push('\n');
    }
    all
}

fn compare(name: &str) {
    let text = TEXTS.iter().find(|text| text.name == name).unwrap();
    let theirs = std::fs::read_to_string(text.path()).unwrap();
    let ours = text_of(text);
    for (at, (our, their)) in (1..).zip(ours.lines().zip(theirs.lines())) {
        assert_eq!(our, their, "line {at} with {}", text.flags);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn brief_lines_are_those_of_tcpdump() {
    compare("brief");
}

#[test]
fn quick_lines_are_those_of_tcpdump() {
    compare("quick");
}

#[test]
fn verbose_lines_are_those_of_tcpdump() {
    compare("verbose");
    compare("more");
}

#[test]
fn full_lines_are_those_of_tcpdump() {
    compare("full");
}

#[test]
fn lines_of_cut_frames_are_those_of_tcpdump() {
    compare("cut");
}
