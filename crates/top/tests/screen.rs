//! Tests that the terminal is always restored.
//!
//! The program on the terminal is this test itself, called with a variable in its environment.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::Duration;

use slipring_cli::Signals;
use slipring_core::counters::Publisher;
use slipring_test_support::pty::{CURSOR, GIVEN_BACK, OnTerminal, TAKEN};
use slipring_top::schema::{MetricObject, MetricSchema, SCHEMA_VERSION};
use slipring_top::screen::TopScreen;
use slipring_top::watch;

/// The variable that selects what the program on the terminal does.
const PART: &str = "SLIPRING_SCREEN_TEST";

fn play(part: &str) -> OnTerminal {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_program_on_the_terminal", "--nocapture"]).env(PART, part);
    OnTerminal::start(&mut command, |mut command| command.spawn().unwrap())
}

/// Not a test by itself: [`play`] runs this code in a terminal.
#[test]
fn the_program_on_the_terminal() {
    match std::env::var(PART).as_deref() {
        Ok("panic") => {
            let _screen = TopScreen::take().unwrap();
            panic!("the reason of the panic");
        }
        Ok("watch") => {
            let dir = tempfile::tempdir().unwrap();
            let mut names = MetricSchema {
                schema: SCHEMA_VERSION,
                line: "a-program".into(),
                ..MetricSchema::default()
            };
            names.add(MetricObject {
                kind: "port".into(),
                name: "a".into(),
                ..MetricObject::default()
            });
            let _publisher = Publisher::open(dir.path(), &names.text(), 0).unwrap();
            let (period, signals) = (Duration::from_millis(50), Signals::install().unwrap());
            assert!(watch::on_terminal(dir.path(), None, period, &signals).is_ok());
        }
        _ => {}
    }
}

/// Returns the output after the screen was restored.
fn after(program: &OnTerminal) -> String {
    program.wait_for(GIVEN_BACK);
    let seen = program.seen();
    assert_eq!(seen.matches(GIVEN_BACK).count(), 1, "once, or the cursor jumps");
    seen.split(GIVEN_BACK).nth(1).unwrap().to_owned()
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_says_why() {
    let mut program = play("panic");
    assert!(!program.end().success());
    program.wait_for("the reason of the panic");
    assert!(program.seen().contains(TAKEN));
    assert!(after(&program).contains("the reason of the panic"));
    program.wait_for(CURSOR);
    assert!(!program.is_raw());
}

#[test]
fn a_key_ends_it() {
    let mut program = play("watch");
    program.wait_for("a-program");
    assert!(program.is_raw());
    program.press("?");
    program.wait_for("Help");
    program.press("\x03");
    assert!(program.end().success());
    after(&program);
    program.wait_for(CURSOR);
    assert!(!program.is_raw());
}

#[test]
fn a_signal_ends_it() {
    for signal in ["TERM", "INT"] {
        let mut program = play("watch");
        program.wait_for("a-program");
        let pid = program.pid().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert!(program.end().success());
        after(&program);
        program.wait_for(CURSOR);
        assert!(!program.is_raw());
    }
}
