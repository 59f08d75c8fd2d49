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

/// Measures the rows whose names start with `rows`, in one short run. Returns the JSON report.
fn measured(rows: &str) -> serde_json::Value {
    let words = ["bench", rows, "--runs", "1", "--seconds", "20ms", "--json"];
    let done = bench("slipring", &words);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn a_driver_is_measured_on_its_model_without_a_loss() {
    let report = measured("nic-");
    let rows = report["rows"].as_array().unwrap();
    for contender in rows.iter().flat_map(|row| row["contenders"].as_array().unwrap()) {
        // A lost frame would make the contender absent.
        assert!(contender["median"].as_f64().is_some_and(|rate| rate > 0.0), "{report}");
    }
    let in_process = &report["rows"][0]["contenders"][0];
    assert_eq!(in_process["also"]["doorbells_per_batch"], 1.0, "{report}");
}

#[test]
fn a_pipe_between_two_processes_is_measured() {
    let report = measured("pipe-2p-swap-64-32");
    let row = &report["rows"][0];
    assert!(row["row"].as_str().unwrap().starts_with("pipe-2p"), "{report}");
    assert!(report["command"].as_str().unwrap().starts_with("slipring bench "), "{report}");
}
