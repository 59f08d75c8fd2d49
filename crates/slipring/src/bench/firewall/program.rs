//! A firewall that runs between the links of a laboratory.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStderr, Command, Stdio};

use crate::bench::child::{self, PROGRAM, Running};
use crate::bench::lab::{INPUT, Lab};
use crate::bench::measure::Why;
use crate::bench::scratch::Scratch;

/// It ends with this value.
pub(super) struct Program {
    _running: Running,
    /// Where it goes on to talk.
    _stderr: BufReader<ChildStderr>,
    files: Scratch,
}

impl Program {
    /// From the input to `output`, on the program's CPU; returns once it can be asked.
    pub(super) fn start(lab: &Lab, output: &str, rules: &str) -> Result<Self, Why> {
        let files = Scratch::new()?;
        std::fs::write(files.path().join("rules"), rules)?;
        let file = |name: &str| files.path().join(name).display().to_string();
        let ports = [INPUT, output].map(|ifname| format!("xdp:{ifname}"));
        let (rules, dir) = (file("rules"), file("run"));
        let words = ["firewall", "-T", "0", "-t", child::LONGEST, "--default", "accept"];
        let words = [&words[..], &["-R", &rules, "--run-dir", &dir, &ports[0], &ports[1]]].concat();
        let mut running = lab.within(|| {
            let mut command = child::command(&words);
            Ok(Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?))
        })?;
        let Some(stderr) = running.0.stderr.take() else { return Err(super::failed("no output")) };
        let (mut stderr, mut said) = (BufReader::new(stderr), String::new());
        while !said.ends_with("Ready to go\n") {
            if stderr.read_line(&mut said)? == 0 {
                return Err(super::failed(said));
            }
        }
        Ok(Self { _running: running, _stderr: stderr, files })
    }

    /// Has it do what `ipfw` is told by these words.
    pub(super) fn ask(&self, words: &[&str]) -> Result<(), Why> {
        self.load(words, "")
    }

    /// The same with standard input.
    pub(super) fn load(&self, words: &[&str], input: &str) -> Result<(), Why> {
        let dir = self.files.path().join("run").display().to_string();
        done(PROGRAM, &[&["ipfw", "-q", "--run-dir", &dir], words].concat(), input)
    }
}

/// Runs a command in the calling thread's namespace to its good end.
pub(super) fn done(program: &str, words: &[&str], input: &str) -> Result<(), Why> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn()?;
    if let Some(mut stdin) = running.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let ended = running.wait_with_output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(Why::Failed(String::from_utf8_lossy(&ended.stderr).trim().to_owned())),
    }
}
