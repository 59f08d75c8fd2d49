//! Runs `tests/c/library.c` as C11 with the static and the shared library, and as C++17 with the
//! shared library.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::build::{Language, Linked, program, run};

fn source() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/library.c"))
}

/// Returns a classic pcap file with frames of these lengths.
fn capture(lengths: &[u32]) -> Vec<u8> {
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    for (i, &len) in (0u32..).zip(lengths) {
        bytes.extend([i, 0, len, len].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend((0..len).map(|at| (at + i) as u8));
    }
    bytes
}

/// Returns the frames in a classic pcap file.
fn frames(mut capture: &[u8]) -> Vec<Vec<u8>> {
    capture = &capture[24..];
    let mut frames = Vec::new();
    while let Some((head, rest)) = capture.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(*head[8..].first_chunk().unwrap()) as usize;
        frames.push(rest[..len].to_vec());
        capture = &rest[len..];
    }
    frames
}

fn runs_all(language: Language, linked: Linked) {
    let dir = TempDir::new().unwrap();
    let program = program(&dir, source(), language, linked);
    for test in ["null_ports", "waiting", "errors", "versions", "switches", "reopened"] {
        run(&program, &[test]);
    }
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let sent = capture(&[60, 1514, 64, 2000, 61]);
    fs::write(path("in.pcap"), &sent).unwrap();
    assert_eq!(run(&program, &["captures", &path("in.pcap"), &path("out.pcap")]), "5 frames\n");
    assert_eq!(frames(&fs::read(path("out.pcap")).unwrap()), frames(&sent));
    #[cfg(feature = "links")]
    {
        run(&program, &["links", &path("link.toml")]);
        run(&program, &["copies"]);
    }
}

#[test]
fn a_c11_program_runs_with_the_shared_library() {
    runs_all(Language::C11, Linked::Shared);
}

#[test]
fn a_c11_program_runs_with_the_static_library() {
    runs_all(Language::C11, Linked::Static);
}

#[test]
fn a_cpp17_program_runs_with_the_shared_library() {
    runs_all(Language::Cpp17, Linked::Shared);
}
