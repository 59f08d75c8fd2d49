//! Tests that exit status, streams and signals pass through.

use rustix::process::Signal;
use slipring_test_support::Program;

use crate::support::SLIPRING;
use crate::{run, start, world};

#[test]
fn the_commands_exit_status_is_passed_through() {
    let Some(world) = world() else { return };
    for status in [0, 1, 7, 255] {
        assert_eq!(run(&world, "-q", &format!("exit {status}")).code(), status);
    }
}

#[test]
fn a_command_needs_no_dashes_before_it_and_keeps_its_own_flags() {
    let Some(world) = world() else { return };
    for words in ["run -q sh -c exit_7", "run -q --delay 1ms env -i sh -c exit_7"] {
        let words: Vec<_> = words.split(' ').map(|word| word.replace("exit_7", "exit 7")).collect();
        let mut command = std::process::Command::new(SLIPRING);
        command.args(words);
        let ended = Program::launch(&world, command).finish();
        assert_eq!(ended.code(), 7, "{ended:#?}");
    }
}

#[test]
fn a_command_that_dies_of_a_signal_ends_as_in_a_shell() {
    let Some(world) = world() else { return };
    assert_eq!(run(&world, "-q", "kill -9 $$").code(), 128 + 9);
    assert_eq!(run(&world, "-q", "kill -TERM $$").code(), 128 + 15);
}

#[test]
fn no_such_program_is_127_and_one_that_may_not_run_126() {
    let Some(world) = world() else { return };
    for (program, status) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let ended = Program::start(&world, SLIPRING, &format!("run -q -- {program}")).finish();
        assert_eq!(ended.code(), status, "{ended:#?}");
        assert!(ended.stderr.contains(&format!("cannot run {program}")), "{ended:#?}");
        assert!(ended.stderr.contains("help:"), "{ended:#?}");
    }
}

#[test]
fn stdout_is_the_commands_alone_and_quiet_says_nothing_beside() {
    let Some(world) = world() else { return };
    let ended = run(&world, "--delay 1ms", "echo word; echo talk >&2").well();
    assert_eq!(ended.stdout, "word\n");
    assert!(ended.stderr.contains("talk\n") && ended.stderr.contains("asked"), "{ended:#?}");
    let ended = run(&world, "-q --delay 1ms", "echo word; echo talk >&2").well();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("word\n", "talk\n"));
}

#[test]
fn a_signal_to_us_reaches_the_command_which_decides() {
    let Some(world) = world() else { return };
    for (signal, name) in
        [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")]
    {
        let script = format!("trap 'exit 42' {name}; echo ready; while :; do sleep 0.05; done");
        let program = start(&world, "-q", &script);
        program.wait_for_text("ready");
        assert_eq!(program.stop(signal).code(), 42, "{name}");
    }
    // The signal ends a command that has no handler for it.
    let program = start(&world, "-q", "echo ready; exec sleep 60");
    program.wait_for_text("ready");
    assert_eq!(program.stop(Signal::TERM).code(), 128 + 15);
}

#[test]
fn an_unknown_flag_before_the_command_is_no_command() {
    for flag in ["--capture", "-Z"] {
        let mut command = std::process::Command::new(SLIPRING);
        let ended = command.args(["run", flag, "x.pcap", "--", "true"]).output().unwrap();
        let message = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{message}");
        assert!(message.contains(&format!("`{flag}`")), "{message}");
    }
}

#[test]
fn a_report_is_not_written_over_what_the_run_logs_or_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("both");
    let path = path.to_str().unwrap();
    for other in ["--log", "--config"] {
        std::fs::write(path, "[link.up]\ndelay = \"1ms\"\n").unwrap();
        let mut command = std::process::Command::new(SLIPRING);
        let words = ["run", "--report", path, other, path, "--", "true"];
        let ended = command.args(words).output().unwrap();
        let message = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{other}: {message}");
        assert!(message.contains("give each output a file of its own"), "{other}: {message}");
        assert!(std::fs::metadata(path).unwrap().len() > 0, "{other}: it is as it was");
    }
}
