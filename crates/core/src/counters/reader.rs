//! The side that reads, and believes nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::directory;
use super::edition::{EditionSource, read_edition};
use super::format::{CountersLayout, HEADER_WORDS, MAGIC, VERSION, WORD_BYTES, at, words_of};

/// How often a reader that met a writer looks again, and how long it waits in between: a writer
/// takes microseconds.
const MAX_READ_ATTEMPTS: u32 = 50;
const RETRY_DELAY: Duration = Duration::from_millis(1);

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountersReadError {
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is no file of counters.
    #[error("it is no file of counters: {0}")]
    Foreign(&'static str),
    /// It was written by another version.
    #[error("it has version {found} of the format; this program reads version {VERSION}")]
    Version {
        /// The version that it says.
        found: u64,
    },
    /// It is shorter than it was.
    #[error("it was cut off")]
    Cut,
    /// The writer ended, or was stopped, in the middle.
    #[error("its writer does not finish writing")]
    Unfinished,
}

/// The counters of another process.
#[derive(Debug)]
pub struct CountersReader {
    file: File,
    shape: CountersLayout,
    pid: u32,
    start_ns: u64,
    text: String,
    bytes: Vec<u8>,
}

/// Words of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountersSnapshot {
    /// From when they are, CLOCK_MONOTONIC in ns; 0 if nothing was published yet.
    pub at_ns: u64,
    /// How many times words were published.
    pub edition: u64,
    /// All of them.
    pub words: Vec<u64>,
}

impl CountersReader {
    /// Opens a file, which may be anything.
    ///
    /// # Errors
    /// If it cannot be read, or is no file of counters of this version.
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

    /// What the words mean.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.shape.words
    }

    /// Process number of the writer, as it says.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it began, CLOCK_MONOTONIC in ns, as it says.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Whether the writer lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        directory::is_locked(&self.file)
    }

    /// The words of one moment.
    ///
    /// # Errors
    /// If the file was cut off, or its writer stopped in the middle of writing.
    pub fn read(&mut self) -> Result<CountersSnapshot, CountersReadError> {
        for _ in 0..MAX_READ_ATTEMPTS {
            if let Some(snapshot) = self.try_read()? {
                return Ok(snapshot);
            }
            std::thread::sleep(RETRY_DELAY);
        }
        Err(CountersReadError::Unfinished)
    }

    /// `None` if words were written meanwhile.
    fn try_read(&mut self) -> Result<Option<CountersSnapshot>, CountersReadError> {
        let Some(head) = read_edition(self)? else { return Ok(None) };
        Ok(Some(CountersSnapshot {
            at_ns: head[at::PUBLISHED],
            edition: head[at::EDITION] / 2,
            words: words_of(&self.bytes).collect(),
        }))
    }
}

impl EditionSource for CountersReader {
    type Head = [u64; HEADER_WORDS];
    type Error = CountersReadError;

    fn head(&mut self) -> Result<Self::Head, CountersReadError> {
        let head = read_header(&self.file)?;
        // Acquire: the kernel's copy of the header is a load.
        fence(Ordering::Acquire);
        Ok(head)
    }

    fn edition_of(head: &Self::Head) -> u64 {
        head[at::EDITION]
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

/// Fills `bytes` from the word `first` on.
fn read_all(file: &File, bytes: &mut [u8], first: usize) -> Result<(), CountersReadError> {
    file.read_exact_at(bytes, (first * WORD_BYTES) as u64).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => CountersReadError::Cut,
        _ => error.into(),
    })
}
