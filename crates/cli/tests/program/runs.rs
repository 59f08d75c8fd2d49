//! Tests of program names, output streams and exit statuses.

use std::io::{self, Write};

use serde_json::Value;
use slipring_cli::OutputStreams;

use crate::stage::{PROGRAM, run};

#[test]
fn text_puts_data_on_stdout_and_talk_on_stderr() {
    let outcome = run("/usr/bin/slipring gen -i xdp:eth0 -f tx");
    assert_eq!(outcome.status, 0);
    let lines: Vec<_> = outcome.data.lines().collect();
    assert_eq!(lines[0], "# slipring gen -i xdp:eth0 -f tx");
    assert!(lines[1].starts_with("# slipring 1.2.3, seed 42, clock tsc, kernel "));
    assert_eq!(lines[2], "# xdp:eth0 kind=xdp mode=zerocopy driver=veth queues=1");
    assert_eq!(lines[3], "14.88 Mpps");
    assert_eq!(lines[4], "interim 14.88 Mpps");
    assert_eq!(lines[5], "sent 7, lost 3");
    assert_eq!(outcome.talk, "talking\n");
}

#[test]
fn quiet_leaves_only_what_was_asked_for_and_verbose_adds_talk() {
    let quiet = run("slipring gen -i null: -q");
    assert_eq!(quiet.data, "interim 14.88 Mpps\nsent 7, lost 3\n");
    assert_eq!(quiet.talk, "");
    let verbose = run("slipring gen -i null: -v");
    assert_eq!(verbose.talk, "talking\ntalking more\n");
}

#[test]
fn json_is_one_document_that_also_says_where_it_ran() {
    let outcome = run("slipring gen -i null: -j");
    let document: Value = serde_json::from_str(&outcome.data).unwrap();
    assert_eq!(document["event"], "end");
    assert_eq!(document["command"], "slipring gen -i null: -j");
    assert_eq!(document["ports"][0]["drops"]["tx_ring_full"], 3);
    assert_eq!(document["elapsed_ns"], 1_000_000_000);
    assert_eq!(document["lost"], 3);
    assert_eq!(document["clock"], "tsc");
    assert!(document["kernel"].is_string() && document["cpu"].is_string());
    assert_eq!(outcome.talk, "talking\ninterim 14.88 Mpps\n");
}

#[test]
fn json_lines_are_one_object_per_event() {
    let outcome = run("slipring gen -i null: --json=lines");
    let events: Vec<Value> =
        outcome.data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let moments: Vec<_> = events.iter().map(|event| event["event"].clone()).collect();
    assert_eq!(moments, ["start", "interval", "interval", "end"]);
    for event in &events {
        assert_eq!(event["seed"], 42);
        assert_eq!(event["version"], "1.2.3");
    }
    assert_eq!(events[0]["clock"], "tsc");
    assert!(events[1].get("clock").is_none());
}

#[test]
fn a_command_is_found_by_name_classic_name_and_unique_start() {
    for line in [
        "slipring gen -i null: --end classic",
        "slipring ge -i null: --end classic",
        "slipring pkt -i null: --end classic",
    ] {
        let outcome = run(line);
        assert!(outcome.data.ends_with("none"), "{line}: {outcome:?}");
    }
    for line in [
        "slipring pkt-gen -i null: --end classic",
        "/usr/bin/slipring-pkt-gen -i null: --end classic",
        "pkt-gen -i null: --end classic",
    ] {
        let outcome = run(line);
        assert!(outcome.data.ends_with("pkt-gen"), "{line}: {outcome:?}");
    }
    let outcome = run("/bin/slipring-gen -i null: --end classic");
    assert!(outcome.data.ends_with("none"), "{outcome:?}");
}

#[test]
fn a_name_that_is_the_commands_own_is_classic_only_as_argv_0() {
    assert_eq!(run("slipring bridge --bogus").status, 2);
    assert_eq!(run("bridge --bogus").status, 1);
    assert_eq!(run("/usr/bin/slipring-bridge --bogus").status, 1);
}

#[test]
fn an_unknown_command_names_the_nearest() {
    let outcome = run("slipring brigde");
    assert_eq!(outcome.status, 2);
    assert!(outcome.talk.starts_with("error[SR0005]: unknown command `brigde`"));
    assert!(outcome.talk.contains("did you mean `bridge`?"), "{outcome:?}");
}

#[test]
fn a_failed_expectation_exits_1_and_a_lost_port_4() {
    let outcome = run("slipring gen -i null: --end loss");
    assert_eq!(outcome.status, 1);
    assert!(outcome.data.contains("sent 7"), "the summary comes all the same");
    assert_eq!(run("slipring gen -i null: --end gone").status, 4);
    assert_eq!(run("slipring gen -i null: --bogus").status, 2);
}

#[test]
fn a_classic_name_gives_its_programs_status_but_no_failure_exits_0() {
    assert_eq!(run("pkt-gen -i null:").status, 0);
    assert_eq!(run("pkt-gen --bogus").status, 255);
    assert_eq!(run("slipring pkt-gen --bogus").status, 255);
    assert_eq!(run("pkt-gen -i null: --end gone").status, 4);
}

#[test]
fn errors_are_json_where_json_was_asked_for_even_if_the_flags_are_wrong() {
    for line in
        ["slipring gen -i null: -j --end gone", "slipring gen -i null: --json=lines --bogus"]
    {
        let outcome = run(line);
        let last = outcome.talk.lines().last().unwrap();
        let error: Value = serde_json::from_str(last).unwrap();
        assert_eq!(error["event"], "error");
        assert_eq!(error["exit"], outcome.status);
    }
}

#[test]
fn colour_can_be_forced_and_forbidden() {
    let coloured = run("slipring gen --bogus --color=always").talk;
    assert!(coloured.contains("\x1b["), "{coloured}");
    assert!(!run("slipring gen --bogus --color never").talk.contains('\x1b'));
    assert!(!run("slipring gen --bogus").talk.contains('\x1b'));
}

#[test]
fn help_and_version_are_data_and_succeed() {
    for line in [
        "slipring --help",
        "slipring help",
        "slipring gen -h",
        "slipring help gen",
        "slipring --version",
        "pkt-gen --help",
    ] {
        let outcome = run(line);
        assert_eq!((outcome.status, &*outcome.talk), (0, ""), "{line}");
        assert!(!outcome.data.is_empty(), "{line}");
    }
    assert!(run("slipring help gen").data.contains("Usage: slipring gen"));
    let nothing = run("slipring");
    assert_eq!((nothing.status, &*nothing.data), (2, ""));
    assert!(nothing.talk.contains("bridge"), "{nothing:?}");
}

#[test]
fn explain_tells_one_code_or_lists_all() {
    let one = run("slipring explain sr0107");
    assert!(one.data.starts_with("SR0107: the queue is held"), "{}", one.data);
    assert!(one.data.contains("Exit status: 3"), "{}", one.data);
    let all = run("slipring explain");
    assert!(all.data.contains("SR0107  the queue is held"), "{}", all.data);
    let json: Value = serde_json::from_str(&run("slipring explain -j 107").data).unwrap();
    assert_eq!(json["code"], "SR0107");
    let unknown = run("slipring explain SR9999");
    assert_eq!(unknown.status, 2);
    assert!(unknown.talk.starts_with("error[SR0008]"), "{unknown:?}");
}

#[test]
fn the_run_directory_reaches_the_job() {
    let outcome = run("slipring gen -i null: --run-dir /some/dir --end run-dir");
    assert!(outcome.data.ends_with("/some/dir"), "{outcome:?}");
}

#[test]
fn a_reader_that_leaves_is_success_and_a_full_disk_is_not() {
    for (kind, status) in [(io::ErrorKind::BrokenPipe, 0), (io::ErrorKind::StorageFull, 2)] {
        let args = ["slipring", "gen", "-i", "null:"].map(Into::into);
        let streams = OutputStreams {
            stdout: Box::new(Failing(kind)),
            stderr: Box::new(io::sink()),
            coloured: false,
        };
        assert_eq!(PROGRAM.run(&args, streams), status);
    }
}

/// A writer that fails each write with this kind of error.
struct Failing(io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
