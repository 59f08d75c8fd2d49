//! Reads counters. The reader checks every size in the file before using it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::directory;
use super::format::{CountersLayout, HEADER_WORDS, MAGIC, VERSION, WORD_BYTES, at, words_of};
use super::seqlock::{SeqlockSource, seqlock_read};

/// Maximum number of attempts of a reader that finds an update in progress, and the delay after
/// each attempt. An update takes microseconds.
const MAX_READ_ATTEMPTS: u32 = 50;
const RETRY_DELAY: Duration = Duration::from_millis(1);

/// Why counters could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountersReadError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The file does not contain counters.
    #[error("it is no file of counters: {0}")]
    Foreign(&'static str),
    /// The file was written by another version.
    #[error("it has version {found} of the format; this program reads version {VERSION}")]
    Version {
        /// The file's version.
        found: u64,
    },
    /// The file has been truncated.
    #[error("it was cut off")]
    Cut,
    /// The writer ended, or was stopped, during an update; or each attempt to read met an update.
    #[error("its writer does not finish writing")]
    Unfinished,
}

/// Reads the counters of another process.
#[derive(Debug)]
pub struct CountersReader {
    file: File,
    shape: CountersLayout,
    pid: u32,
    start_ns: u64,
    text: String,
    bytes: Vec<u8>,
}

/// The values of all counters after one update.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountersSnapshot {
    /// Timestamp of the values, CLOCK_MONOTONIC in ns; 0 if no values were published yet.
    pub at_ns: u64,
    /// Number of updates so far.
    pub sequence: u64,
    /// The values, in the order of the words.
    pub words: Vec<u64>,
}

impl CountersReader {
    /// Opens a file, whose contents are untrusted.
    ///
    /// # Errors
    /// An error if the file cannot be read, or does not contain counters of this version.
    pub fn open(path: &Path) -> Result<Self, CountersReadError> {
        let file = directory::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(CountersReadError::Foreign("it is no plain file"));
        }
        let header = read_header(&file)?;
        if header[at::MAGIC] != MAGIC {
            return Err(CountersReadError::Foreign("it does not begin as one"));
        }
        if header[at::VERSION] != VERSION {
            return Err(CountersReadError::Version { found: header[at::VERSION] });
        }
        let shape = CountersLayout::of_header(&header, metadata.len());
        let shape = shape.ok_or(CountersReadError::Foreign("its sizes do not fit each other"))?;
        let mut text = vec![0; shape.text_bytes];
        read_all(&file, &mut text, HEADER_WORDS)?;
        let text = String::from_utf8(text);
        let text = text.map_err(|_| CountersReadError::Foreign("its text is not UTF-8"))?;
        let pid = u32::try_from(header[at::PID]);
        let pid = pid.map_err(|_| CountersReadError::Foreign("its process number is none"))?;
        let start_ns = header[at::START];
        Ok(Self { file, shape, pid, start_ns, text, bytes: Vec::new() })
    }

    /// Returns the text that describes the counters.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of counters.
    #[must_use]
    pub fn words(&self) -> usize {
        self.shape.words
    }

    /// Process id of the writer, according to the file.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When publishing began, CLOCK_MONOTONIC in ns, according to the file.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Whether the writer is running.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        directory::is_locked(&self.file)
    }

    /// Reads the values of all counters after one update.
    ///
    /// # Errors
    /// An error if the file cannot be read, was truncated, or if each attempt to read met an
    /// update, usually because the writer stopped during one.
    pub fn read(&mut self) -> Result<CountersSnapshot, CountersReadError> {
        for _ in 0..MAX_READ_ATTEMPTS {
            if let Some(snapshot) = self.try_read()? {
                return Ok(snapshot);
            }
            std::thread::sleep(RETRY_DELAY);
        }
        Err(CountersReadError::Unfinished)
    }

    /// Reads once; `None` if an update happened meanwhile.
    fn try_read(&mut self) -> Result<Option<CountersSnapshot>, CountersReadError> {
        let Some(head) = seqlock_read(self)? else { return Ok(None) };
        Ok(Some(CountersSnapshot {
            at_ns: head[at::PUBLISHED],
            sequence: head[at::SEQUENCE] / 2,
            words: words_of(&self.bytes).collect(),
        }))
    }
}

impl SeqlockSource for CountersReader {
    type Head = [u64; HEADER_WORDS];
    type Error = CountersReadError;

    fn head(&mut self) -> Result<Self::Head, CountersReadError> {
        let head = read_header(&self.file)?;
        // Acquire: orders the read of the header, which the kernel does, before the reads of the
        // words.
        fence(Ordering::Acquire);
        Ok(head)
    }

    fn sequence_of(head: &Self::Head) -> u64 {
        head[at::SEQUENCE]
    }

    fn read_words(&mut self) -> Result<(), CountersReadError> {
        self.bytes.resize(self.shape.words * WORD_BYTES, 0);
        read_all(&self.file, &mut self.bytes, self.shape.first_word())
    }

    fn acquire_fence() {
        fence(Ordering::Acquire);
    }
}

fn read_header(file: &File) -> Result<[u64; HEADER_WORDS], CountersReadError> {
    let mut bytes = [0; HEADER_WORDS * WORD_BYTES];
    read_all(file, &mut bytes, 0)?;
    let mut header = [0; HEADER_WORDS];
    header.iter_mut().zip(words_of(&bytes)).for_each(|(to, from)| *to = from);
    Ok(header)
}

/// Reads the file from word `first` on until `bytes` is full.
fn read_all(file: &File, bytes: &mut [u8], first: usize) -> Result<(), CountersReadError> {
    file.read_exact_at(bytes, (first * WORD_BYTES) as u64).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => CountersReadError::Cut,
        _ => error.into(),
    })
}
