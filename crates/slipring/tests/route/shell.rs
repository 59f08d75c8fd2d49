//! Tests of `slipring route ctl` without a command: commands from a pipe, and from a terminal.

use std::process::Command;

use slipring_test_support::pty::OnTerminal;
use slipring_test_support::{FinishedProgram, Program};

use crate::rig::{Rig, Setup};
use crate::topology::SLIPRING;

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    commands_come_from_a_pipe_until_the_first_mistake,
    a_terminal_completes_commands_and_leaving_the_shell_leaves_the_router
}

/// Runs `slipring route ctl` with these lines as its standard input.
fn piped(rig: &Rig, lines: &str) -> FinishedProgram {
    let mut command = Command::new("sh");
    command.args(["-c", "printf '%s' \"$LINES_OF_TEST\" | \"$0\" route ctl", SLIPRING]);
    command.env("LINES_OF_TEST", lines).env("SLIPRING_RUN", rig.run_dir());
    Program::launch(&rig.router, command).finish()
}

fn commands_come_from_a_pipe_until_the_first_mistake(setup: Setup) {
    let rig = setup.start();
    let well =
        piped(&rig, "# a comment\n\nstatus\nroute get 10.3.0.2 --json\nexit\nnonsense\n").well();
    let (first, second) = well.stdout.split_once('\n').unwrap();
    assert!(first.starts_with("forwarding for "), "{well:?}");
    assert!(second.contains("\"destination\":\"10.3.0.2\""), "{well:?}");
    let fails = piped(&rig, "status\ninterfase\nstatus\n");
    assert_eq!(fails.code(), 2, "{fails:?}");
    assert_eq!(fails.stdout.matches("forwarding for ").count(), 1, "{fails:?}");
    for part in ["unknown command `interfase`", "line 2 of the input"] {
        assert!(fails.stderr.contains(part), "{part}: {fails:?}");
    }
    // The last line needs no newline.
    piped(&rig, "shutdown").well();
    rig.take_program().finish().well();
}

fn a_terminal_completes_commands_and_leaving_the_shell_leaves_the_router(setup: Setup) {
    let rig = setup.start();
    let mut command = Command::new(SLIPRING);
    command.args(["route", "ctl"]).env("SLIPRING_RUN", rig.run_dir()).env("TERM", "xterm");
    let mut shell = OnTerminal::start(&mut command, |command| rig.router.spawn(command));
    shell.wait_for("route> ");
    shell.press("stat\t\r");
    shell.wait_for("forwarding for ");
    shell.press("nonsense\r");
    shell.wait_for("unknown command `nonsense`");
    shell.press("interface e\t1\r");
    shell.wait_for("e1: up");
    shell.press("quit\r");
    assert!(shell.end().success(), "{}", shell.seen());
    assert_eq!(rig.ask(&["status"])["state"], "forwarding");
}
