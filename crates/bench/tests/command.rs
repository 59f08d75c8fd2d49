//! Tests of the command line of `slipring-bench`. It is called by its own name, and as `slipring`
//! calls it.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

fn bench(name: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_slipring-bench")).arg0(name).args(words).output().unwrap()
}

#[test]
fn rows_are_listed_by_the_start_of_their_names() {
    let listed = bench("slipring-bench", &["--list", "memory-"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.status.success() && text.lines().count() > 1, "{text}");
    assert!(text.lines().all(|line| line.starts_with("memory-")), "{text}");
}

#[test]
fn errors_are_those_of_the_command_that_was_typed() {
    for (name, words, typed) in [
        ("/usr/bin/slipring", &["bench", "--runs", "0"][..], "slipring bench"),
        ("slipring-bench", &["--runs", "0"], "slipring-bench"),
    ] {
        let failed = bench(name, words);
        let message = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(2), "{message}");
        assert!(message.starts_with("error[SR0002]: `0` does not fit --runs"), "{message}");
        assert!(message.contains(&format!("{typed} --help")), "{message}");
    }
    let failed = bench("slipring", &["bench", "--part", "x"]);
    assert_eq!(failed.status.code(), Some(2));
}

#[test]
fn a_pipe_between_two_processes_is_measured() {
    let words = ["bench", "pipe-2p-swap-64-32", "--runs", "1", "--seconds", "20ms", "--json"];
    let done = bench("slipring", &words);
    let message = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{message}");
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let row = &report["rows"][0];
    assert!(row["row"].as_str().unwrap().starts_with("pipe-2p"), "{report}");
    assert!(report["command"].as_str().unwrap().starts_with("slipring bench "), "{report}");
}
