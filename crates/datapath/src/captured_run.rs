//! Runs `slipring` inside a test: takes the arguments, and returns the output and the exit status.
//! All runs in one process use the same run directory.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use slipring_cli::{CliProgram, OutputStreams, Verb, flags};

/// The result of a run.
pub struct CapturedRun {
    /// The run's exit status.
    pub status: u8,
    /// The run's standard output.
    pub stdout: String,
    /// The run's standard error.
    pub stderr: String,
}

/// Each run holds this lock for reading. After its end, a run removes the run directory if it can
/// hold this lock for writing.
static RUNNING: RwLock<()> = RwLock::new(());

/// Runs `slipring VERB ARGS`. If an argument contains an `@`, the text after the `@` is the name of
/// a file in `dir`.
pub fn run_captured(verbs: &'static [Verb], verb: &str, args: &str, dir: &Path) -> CapturedRun {
    let word = |word: &str| match word.split_once('@') {
        Some((before, name)) => OsString::from(format!("{before}{}", dir.join(name).display())),
        None => OsString::from(word),
    };
    let words = ["slipring", verb].into_iter().chain(args.split_ascii_whitespace());
    let words: Vec<_> = words.map(word).collect();
    let (data, talk) = (OutputBuffer::default(), OutputBuffer::default());
    let streams = OutputStreams {
        stdout: Box::new(data.clone()),
        stderr: Box::new(talk.clone()),
        coloured: false,
    };
    let program = CliProgram { name: "slipring", about: "", version: "test", verbs };
    let run_dir = std::env::temp_dir().join(format!("slipring-said-{}", std::process::id()));
    flags::stand_in_run_dir(run_dir.clone());
    let running = RUNNING.read().unwrap_or_else(PoisonError::into_inner);
    let status = program.run(&words, streams);
    drop(running);
    // The directory exists if a run has published counters, and is empty after the last run. It may
    // also be empty while another run still needs it, so it is removed only if no other run holds
    // the lock.
    if let Ok(_alone) = RUNNING.try_write() {
        let _ = std::fs::remove_dir(run_dir);
    }
    CapturedRun { status, stdout: data.text(), stderr: talk.text() }
}

#[derive(Clone, Default)]
struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl OutputBuffer {
    fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
