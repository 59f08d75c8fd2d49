//! The program as tests call it: words in, what was said and the exit status out, in this process.
//! Its run directory is the process's own.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use slipring_cli::{Program, Streams, Verb, flags};

/// What a run said.
pub struct Said {
    /// Its exit status.
    pub status: u8,
    /// Its standard output.
    pub data: String,
    /// Its standard error.
    pub talk: String,
}

/// Runs `slipring VERB ARGS`. In words with an `@`, what follows it is a file in `dir`.
pub fn said(verbs: &'static [Verb], verb: &str, args: &str, dir: &Path) -> Said {
    let word = |word: &str| match word.split_once('@') {
        Some((before, name)) => OsString::from(format!("{before}{}", dir.join(name).display())),
        None => OsString::from(word),
    };
    let words = ["slipring", verb].into_iter().chain(args.split_ascii_whitespace());
    let words: Vec<_> = words.map(word).collect();
    let (data, talk) = (Sink::default(), Sink::default());
    let streams =
        Streams { data: Box::new(data.clone()), talk: Box::new(talk.clone()), coloured: false };
    let program = Program { name: "slipring", about: "", version: "test", verbs };
    let run_dir = std::env::temp_dir().join(format!("slipring-said-{}", std::process::id()));
    flags::stand_in_run_dir(run_dir.clone());
    let status = program.run(&words, streams);
    // Made where a run was published, and empty after the last one.
    let _ = std::fs::remove_dir(run_dir);
    Said { status, data: data.text(), talk: talk.text() }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn text(&self) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
