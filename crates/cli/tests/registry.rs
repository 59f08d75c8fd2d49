//! Tests that `slipring_cli::codes` defines every error code that the sources name, except those in
//! directories `tests`.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use slipring_cli::codes::ErrorCode;

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

/// Finds `SR` and four digits anywhere in the text.
fn codes_in(text: &str) -> Vec<String> {
    let starts = text.match_indices("SR").map(|(at, _)| at);
    let words = starts.filter_map(|at| text.get(at..at + 6));
    words
        .filter(|word| word[2..].bytes().all(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_code_in_the_sources_is_registered() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut seen = 0;
    for file in rust_files(crates) {
        if file.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        for code in codes_in(&std::fs::read_to_string(&file).unwrap()) {
            let known = code.parse::<ErrorCode>().is_ok() || code == "SR9999";
            assert!(known, "{}: {code} has no entry", file.display());
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} codes found: does the search still work?");
}
