//! The program as tests call it: words in, what was said and the exit status out, in this process.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use slipring_cli::{Program, Streams};

/// What a run said.
pub(crate) struct Said {
    pub(crate) status: u8,
    /// Its standard output.
    pub(crate) data: String,
    /// Its standard error.
    pub(crate) talk: String,
}

/// Runs `slipring VERB ARGS`. In words with an `@`, what follows it is a file in `dir`.
pub(crate) fn said(verb: &str, args: &str, dir: &Path) -> Said {
    let word = |word: &str| match word.split_once('@') {
        Some((before, name)) => OsString::from(format!("{before}{}", dir.join(name).display())),
        None => OsString::from(word),
    };
    let words = ["slipring", verb].into_iter().chain(args.split_ascii_whitespace());
    let words: Vec<_> = words.map(word).collect();
    let (data, talk) = (Sink::default(), Sink::default());
    let streams =
        Streams { data: Box::new(data.clone()), talk: Box::new(talk.clone()), coloured: false };
    let program = Program { name: "slipring", about: "", version: "test", verbs: &super::VERBS };
    let status = program.run(&words, streams);
    Said { status, data: data.text(), talk: talk.text() }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
