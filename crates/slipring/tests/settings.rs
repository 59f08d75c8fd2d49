//! Tests of the settings of `slipring emulate` through the binary: nothing is opened, and no
//! privilege is needed.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn slipring(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slipring"));
    // This path is not a directory, so a program that used its run directory would fail.
    command
        .args(args.split_ascii_whitespace())
        .env("SLIPRING_RUN", "/dev/null/run")
        .output()
        .unwrap()
}

fn stdout(args: &str) -> String {
    let output = slipring(args);
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns exit status and error text.
fn failure(args: &str) -> (i32, String) {
    let output = slipring(args);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn settings_printed_from_flags_are_a_file_that_means_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("link.toml");
    let flags = "emulate --virtual a b --seed 7 -B ether,10g -D normal,20ms,3ms -L plr,1e-9";
    std::fs::write(&file, stdout(&format!("{flags} --print-config"))).unwrap();
    let from_file = format!("emulate --virtual a b --seed 7 --config {}", file.display());
    let explained = stdout(&format!("{flags} --explain"));
    assert_eq!(stdout(&format!("{from_file} --explain")), explained);
    assert!(explained.starts_with("seed 7\nup\n"), "{explained}");
    let json = stdout(&format!("{from_file} --explain --json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["explained"]["up"]["rate"]["bits_per_sec"], 10_000_000_000_u64);
}

#[test]
fn check_touches_nothing_and_says_nothing_of_good_settings() {
    let output = slipring("emulate --virtual /nowhere/in /nowhere/out -D 20ms --check");
    assert!(output.status.success());
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn an_error_in_a_file_has_code_line_column_and_help() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("link.toml");
    let text = "[ports.a]\n[ports.b]\n[link.x]\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbat\"\n";
    std::fs::write(&file, text).unwrap();
    let name = file.display();
    let (status, message) = failure(&format!("emulate --virtual i o --config {name}"));
    assert_eq!(status, 2);
    assert_eq!(
        message,
        format!(
            "error[SR0007]: `10Mbat` does not fit link.x.rate.bps\n\
             \x20 cause: unknown unit `Mbat` at {name}, line 6, column 11\n\
             \x20  help: write it as 10Mbit, 9.5Gbit/s or 125MB/s\n\
             \x20  note: see `slipring explain SR0007`\n"
        )
    );
}

#[test]
fn tlem_takes_its_flags_and_fails_with_its_status() {
    let explained = stdout("tlem -i tap:a -i tap:b -B 10m -B 1m -D 20m -Q 50k -Q 60k --explain");
    assert!(explained.contains("51200 bytes") && explained.contains("61440 bytes"), "{explained}");
    for (args, code) in [
        ("tlem -i tap:a -i tap:b -D 20q", "SR0007"),
        ("tlem -i tap:a", "SR0006"),
        ("tlem -i tap:a -i tap:b -s /tmp/session", "SR0012"),
        ("tlem -i tap:a -i tap:b --bogus", "SR0001"),
        ("tlem -i tap:a -i tap:b -D nrmal,1ms,2ms", "SR0007"),
    ] {
        let (status, message) = failure(args);
        assert_eq!(status, 1, "{args}: {message}");
        assert!(message.starts_with(&format!("error[{code}]")), "{args}: {message}");
        assert!(message.contains("   help: "), "{args}: {message}");
    }
    assert_eq!(failure("emulate -i tap:a -i tap:b -D 20q").0, 2, "our own name, our own status");
}
