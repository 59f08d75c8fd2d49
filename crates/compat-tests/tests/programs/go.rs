//! Tests that a static Go program and a C program exchange frames.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use slipring_test_support::tree::stdout;

use super::builds::{built, c_program, of_tests};
use super::stage::Stage;

const FRAMES: &str = "2000";

fn answering() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| c_program("answer", &[]))
}

/// Returns the path of the Go program, or the reason why there is none.
fn exchange() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let program = built().join("exchange");
        let mut go = Command::new("go");
        go.args(["build", "-o"]).arg(&program).arg(".").current_dir(of_tests("go"));
        go.env("CGO_ENABLED", "0").env("GOFLAGS", "-buildvcs=false").env("GOTOOLCHAIN", "local");
        let output = go.env("GOCACHE", built().join("go-cache")).output();
        stdout(output.map_err(|error| format!("go does not run: {error}"))?);
        Ok(program)
    });
    program.as_deref().map_err(Clone::clone)
}

/// Makes the Go program send frames on one port, and the C program answer them on the other.
fn exchange_over(go_port: &str, c_port: &str) {
    let exchange = match exchange() {
        Ok(program) => program,
        Err(why) => return slipring_test_support::skip!("{why}"),
    };
    let stage = Stage::new();
    let mut answering = stage.command(answering());
    let mut answering = answering.args([c_port, FRAMES]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = String::new();
    BufReader::new(answering.stdout.as_mut().unwrap()).read_line(&mut output).unwrap();
    assert_eq!(output, "open\n");
    assert_eq!(stage.run(exchange, &[go_port, FRAMES]), format!("{FRAMES} answers\n"));
    assert!(answering.wait().unwrap().success());
}

#[test]
fn a_go_program_and_a_c_program_exchange_frames_over_a_pipe() {
    exchange_over("g{1", "netmap:g}1");
}

#[test]
fn a_go_program_and_a_c_program_exchange_frames_over_a_switch() {
    exchange_over("vale0:go", "vale0:c");
}
