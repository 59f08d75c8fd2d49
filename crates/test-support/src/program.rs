//! A running program: reads its output while it runs, waits for its exit, and ends it reliably.
//!
//! Every wait for an event ends after [`TIMEOUT`] at the latest. If a wait for a [`Program`] fails,
//! the program's output is printed.

use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Namespace, TIMEOUT, closing, eventually, sys, tree};

/// The variable that names the run directory.
const RUN: &str = "SLIPRING_RUN";

/// Gives a program without a run directory a temporary one. So the program does not affect the
/// programs of the machine or other tests. The directory exists as long as the returned value.
fn own_run_dir(command: &mut Command) -> Option<tempfile::TempDir> {
    if command.get_envs().any(|(name, _)| name == RUN) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    // The program may run as any user and creates its run directory inside this directory, so all
    // users may write to it.
    set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    command.env(RUN, dir.path().join("run"));
    Some(dir)
}

/// Runs a command until it ends, in the namespaces of the test and with its own run directory.
///
/// # Panics
/// If the command does not end within [`TIMEOUT`].
pub fn output(command: &mut Command) -> std::process::Output {
    let _run_dir = own_run_dir(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = format!("{command:?}");
    let mut child = closing::spawn(sys::kill_with_parent(command)).unwrap();
    let (stdout, stderr) =
        (read_all(child.stdout.take().unwrap()), read_all(child.stderr.take().unwrap()));
    let status = eventually(&format!("the end of {name}"), || child.try_wait().unwrap());
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    std::process::Output { status, stdout, stderr }
}

/// Copies a program to `dir`, where another user can run it. Other users may have no access to the
/// build directory or to a directory above it. Returns the path of the copy. A second call finds
/// the existing copy.
///
/// Another process writes the copy. If this process wrote it, a child that another test forks at
/// this moment would inherit the open file. Executing the copy would then fail with ETXTBSY.
///
/// # Panics
/// If the program cannot be copied.
#[must_use]
pub fn copy_into(dir: &Path, program: &Path) -> PathBuf {
    let copy = dir.join(program.file_name().unwrap());
    if !copy.exists() {
        tree::stdout(closing::output(Command::new("cp").arg(program).arg(&copy)).unwrap());
    }
    copy
}

fn read_all(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// What a program has written so far.
#[derive(Debug, Default, Clone)]
pub struct ProgramOutput {
    /// The program's stdout so far, in whole lines.
    pub stdout: String,
    /// The program's stderr so far, in whole lines.
    pub stderr: String,
    /// How many of the two streams have ended.
    ended: u8,
}

/// How a program ended.
#[derive(Debug)]
pub struct FinishedProgram {
    /// The program's exit status or signal.
    pub status: ExitStatus,
    /// The program's whole stdout.
    pub stdout: String,
    /// The program's whole stderr.
    pub stderr: String,
}

/// A program that runs in a namespace. It is killed on drop. If the test has panicked, the
/// program's output is also printed.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    output: Arc<(Mutex<ProgramOutput>, Condvar)>,
    readers: Vec<JoinHandle<()>>,
    _run_dir: Option<tempfile::TempDir>,
}

impl Program {
    /// Starts `program`. `words` are its arguments, separated by spaces.
    pub fn start(namespace: &Namespace, program: &str, words: &str) -> Self {
        let words: Vec<_> = words.split_ascii_whitespace().collect();
        Self::start_with(namespace, program, &words)
    }

    /// Starts `program` with these arguments.
    pub fn start_with(namespace: &Namespace, program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args);
        Self::launch(namespace, command)
    }

    /// Starts a command, with its own run directory unless the command sets `SLIPRING_RUN`.
    pub fn launch(namespace: &Namespace, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = format!("{command:?}");
        let run_dir = own_run_dir(&mut command);
        let mut child = namespace.spawn(command);
        let output = Arc::<(Mutex<ProgramOutput>, Condvar)>::default();
        let readers = vec![
            follow(child.stdout.take().unwrap(), output.clone(), |output| &mut output.stdout),
            follow(child.stderr.take().unwrap(), output.clone(), |output| &mut output.stderr),
        ];
        Self { name, child, output, readers, _run_dir: run_dir }
    }

    /// Calls `check` with the output so far until it returns a value, and returns that value.
    /// `what` names the event for which the test waits.
    pub fn wait_for<T>(&self, what: &str, check: impl Fn(&ProgramOutput) -> Option<T>) -> T {
        let start = Instant::now();
        let (output, changed) = &*self.output;
        let mut output = output.lock().unwrap();
        loop {
            if let Some(found) = check(&output) {
                return found;
            }
            let ended = output.ended == 2;
            assert!(!ended, "{} ended without {what}:\n{output:?}", self.name);
            let left = TIMEOUT.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "{} has no {what}:\n{output:?}", self.name);
            output = changed.wait_timeout(output, left).unwrap().0;
        }
    }

    /// Waits until stdout or stderr contains `text`.
    pub fn wait_for_text(&self, text: &str) {
        self.wait_for(text, |output| {
            (output.stdout.contains(text) || output.stderr.contains(text)).then_some(())
        });
    }

    /// Returns the output so far.
    pub fn so_far(&self) -> ProgramOutput {
        self.output.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the program has closed its output, as it does when it ends.
    pub fn has_ended(&self) -> bool {
        self.so_far().ended == 2
    }

    /// Returns the program's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. Does nothing if the program has already ended.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Sends a signal and waits for the end.
    pub fn stop(self, signal: Signal) -> FinishedProgram {
        self.signal(signal);
        self.finish()
    }

    /// Waits for the end.
    pub fn finish(self) -> FinishedProgram {
        self.finish_after(Duration::ZERO)
    }

    /// Waits for the end of a program that runs for `time`.
    pub fn finish_after(mut self, time: Duration) -> FinishedProgram {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() && start.elapsed() < time {
            std::thread::sleep(Duration::from_millis(20));
        }
        let status =
            eventually(&format!("the end of {}", self.name), || self.child.try_wait().unwrap());
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        let ProgramOutput { stdout, stderr, .. } = self.so_far();
        FinishedProgram { status, stdout, stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ProgramOutput { stdout, stderr, .. } = self.so_far();
            println!("--- {}\n{stdout}{stderr}", self.name);
        }
        let _ = self.child.kill();
        // If the process is stuck in the kernel, no signal ends it. It must not block the test.
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > TIMEOUT {
                println!("--- {} does not end", self.name);
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl FinishedProgram {
    /// Returns the program's exit status; -1 after a signal.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Asserts that the exit status is 0; returns `self`.
    pub fn well(self) -> Self {
        assert_eq!(self.code(), 0, "{self:#?}");
        self
    }
}

/// Starts a thread that appends every line of a stream to the output.
fn follow(
    stream: impl Read + Send + 'static,
    output: Arc<(Mutex<ProgramOutput>, Condvar)>,
    side: fn(&mut ProgramOutput) -> &mut String,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            side(&mut output.0.lock().unwrap_or_else(PoisonError::into_inner))
                .push_str(&String::from_utf8_lossy(&line));
            output.1.notify_all();
            line.clear();
        }
        output.0.lock().unwrap_or_else(PoisonError::into_inner).ended += 1;
        output.1.notify_all();
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;
    use crate::is_root;
    use crate::sandbox::NOBODY;

    fn dir(mode: u32) -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(mode)).tempdir().unwrap()
    }

    #[test]
    fn another_user_runs_the_copy_of_a_program_in_a_closed_directory() {
        if !is_root("to become another user") {
            return;
        }
        let (closed, open) = (dir(0o700), dir(0o755));
        let program = copy_into(closed.path(), Path::new("/bin/true"));
        let run = |program: &Path| Command::new(program).uid(NOBODY).gid(NOBODY).status();
        assert!(run(&program).is_err());
        assert!(run(&copy_into(open.path(), &program)).unwrap().success());
    }
}
