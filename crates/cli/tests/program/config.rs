//! Tests of flags that come from a file.

use crate::stage::{Outcome, file, run};

fn with_file(text: &str, typed: &str) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, text);
    run(&format!("slipring gen --config {} {typed}", path.display()))
}

#[test]
fn keys_are_long_names_and_the_command_line_wins() {
    let text = "interface = 'null:'\nrate = '1Mpps'\ncount = 5\nwait = true\nverbose = 2\n";
    let outcome = with_file(text, "--rate 2k --print-config");
    assert_eq!(outcome.status, 0, "{outcome:?}");
    for line in [
        "interface = \"null:\"",
        "rate = \"2k\"",
        "count = \"5\"",
        "wait = true",
        "verbose = 2",
        "function = \"rx\"",
    ] {
        assert!(outcome.data.lines().any(|printed| printed == line), "{line}: {}", outcome.data);
    }
}

#[test]
fn a_repeated_flag_takes_a_list_and_is_replaced_as_a_whole() {
    let text = "interface = 'null:'\ndst = ['10.0.0.1', '10.0.0.2']\n";
    let from_file = with_file(text, "--print-config").data;
    assert!(from_file.contains("dst = [\"10.0.0.1\", \"10.0.0.2\"]"), "{from_file}");
    let typed = with_file(text, "-d 10.9.9.9 --print-config").data;
    assert!(typed.contains("dst = \"10.9.9.9\""), "{typed}");
}

#[test]
fn printed_settings_read_back_as_the_same_settings() {
    let first = run("slipring gen -i x{1 -d 1 -d 2 -vv --wait --print-config").data;
    let second = with_file(&first, "--print-config").data;
    assert_eq!(first, second);
}

#[test]
fn check_validates_and_runs_nothing() {
    let outcome = with_file("interface = 'null:'\n", "--check");
    assert_eq!((outcome.status, &*outcome.data), (0, ""));
    let outcome = with_file("interface = 'bogus'\n", "--check");
    assert_eq!(outcome.status, 2);
    assert!(outcome.talk.starts_with("error[SR0101]"), "{outcome:?}");
}

#[test]
fn a_wrong_file_names_the_place() {
    let outcome = with_file("interface = 'null:'\nrate = = 3\n", "");
    assert!(outcome.talk.starts_with("error[SR0009]"), "{outcome:?}");
    assert!(outcome.talk.contains("line 2, column 8"), "{outcome:?}");
    let outcome = with_file("colour = 'red'\n", "-i null:");
    assert!(outcome.talk.starts_with("error[SR0010]"), "{outcome:?}");
    assert!(outcome.talk.contains("no flag `colour`"), "{outcome:?}");
}

#[test]
fn a_value_that_no_flag_takes_is_refused() {
    for text in [
        "rate = 1979-05-27\n",
        "rate = { a = 1 }\n",
        "wait = 3\n",
        "verbose = -1\n",
        "config = 'x'\n",
        "help = true\n",
    ] {
        let outcome = with_file(text, "-i null:");
        assert_eq!(outcome.status, 2, "{text}");
        assert!(outcome.talk.starts_with("error[SR0010]"), "{text}: {outcome:?}");
    }
}

#[test]
fn a_bad_value_in_a_file_reads_like_one_on_the_command_line() {
    let outcome = with_file("interface = 'null:'\nrate = '10Gbot'\n", "");
    assert!(outcome.talk.starts_with("error[SR0007]: `10Gbot` is not a rate"), "{outcome:?}");
}

#[test]
fn a_missing_file_is_named() {
    let outcome = run("slipring gen --config /nonexistent/gen.toml");
    assert_eq!(outcome.status, 2);
    assert!(outcome.talk.starts_with("error[SR0201]: cannot open /nonexistent/gen.toml"));
}
