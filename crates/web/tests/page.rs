//! Tests of the web page's sources: their types, and the tests that they contain.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies the sources, so that nothing is written into their directory.
fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).unwrap();
        return;
    }
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        copy(&path, &to.join(path.file_name().unwrap()));
    }
}

fn npm(dir: &Path, words: &str) {
    let done = Command::new("npm").args(words.split(' ')).current_dir(dir).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "npm {words}:\n{out}\n{err}");
}

#[test]
fn the_sources_of_the_page_have_right_types_and_pass_their_tests() {
    if Command::new("npm").arg("--version").output().is_err() {
        slipring_test_support::skip!("npm is not installed");
        return;
    }
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let work = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&work).unwrap();
    for source in ["package.json", "package-lock.json", "tsconfig.json", "src"] {
        copy(&from.join(source), &work.join(source));
    }
    npm(&work, "ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=2");
    npm(&work, "run --silent check");
    npm(&work, "run --silent test");
}

#[test]
fn the_lock_file_names_no_registry() {
    let lock = include_str!("../../../web/package-lock.json");
    assert!(
        !lock.contains("resolved") && !lock.contains("://"),
        "see npm help config, omit-lockfile"
    );
}
