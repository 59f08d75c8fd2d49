//! Tests that the example of docs/c-api.md is a program that works.

use std::fs;

use slipring_test_support::tree::{root, stdout};
use tempfile::TempDir;

use super::build::{Language, Linked, program};

fn example() -> String {
    let page = fs::read_to_string(root().join("docs/c-api.md")).unwrap();
    let (_, rest) = page.split_once("```c\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_of_the_page_counts_the_frames_of_a_capture() {
    let dir = TempDir::new().unwrap();
    let source = dir.path().join("count.c");
    fs::write(&source, example()).unwrap();
    for language in [Language::C11, Language::Cpp17] {
        let program = program(&dir, &source, language, Linked::Static);
        let capture = dir.path().join("two.pcap");
        let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        for len in [60u32, 100] {
            bytes.extend([0, 0, len, len].into_iter().flat_map(u32::to_le_bytes));
            bytes.extend(vec![7; len as usize]);
        }
        fs::write(&capture, bytes).unwrap();
        let mut command = std::process::Command::new(&program);
        let output = stdout(command.arg(format!("pcap:{}", capture.display())).output().unwrap());
        assert_eq!(output, "2 frames, 160 bytes\n");
        let failed = std::process::Command::new(&program).arg("xdp:nosuch0").output().unwrap();
        let output = String::from_utf8(failed.stderr).unwrap();
        assert!(
            !failed.status.success() && output.contains("try: list the interfaces"),
            "{output}"
        );
    }
}
