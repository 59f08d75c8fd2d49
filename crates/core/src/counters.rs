//! Counters of a running program, in a memory-mapped file: the program writes them, and any process
//! that may read the file can read them.
//!
//! ```text
//!   RUN_DIR/PID.stats   | header | text | word 0 | ...   words of 8 bytes in native byte order
//!
//!   Publisher        maps the file and stores words: no lock, no system call
//!   ReaderEvents     reports reads of the file: without readers, nothing need be published
//!   CountersReader   reads the file without mapping it: if it shrinks, an error, not a SIGBUS
//! ```
//!
//! Each counter is a 64-bit word; the text in the file says what each of them counts. All words are
//! published together: the sequence number in the header is odd during an update, so a reader gets
//! words of one moment or tries again.
//!
//! A file is alive as long as its publisher holds the write lock on it. A process that may only
//! read the file cannot take the lock, and the kernel releases the lock when the publisher ends for
//! any reason. The lock also works between containers that share a run directory, although a
//! process does not have the same id in both. The next publisher removes the files of ended
//! programs.
//!
//! ```
//! use slipring_core::counters::{Publisher, CountersReader, running};
//!
//! let dir = std::env::temp_dir().join(format!("slipring-counters-{}", std::process::id()));
//! let mut publisher = Publisher::open(&dir, "packets, bytes", 2)?;
//! publisher.publish(1_000, [7, 420]);
//!
//! let mut reader = CountersReader::open(&running(&dir)[0].path)?;
//! assert_eq!(reader.text(), "packets, bytes");
//! let snapshot = reader.read()?;
//! assert_eq!((snapshot.at_ns, &snapshot.words[..]), (1_000, &[7, 420][..]));
//! # drop(publisher);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! 1. A file under its final name is complete: it has header, text and words.
//! 2. Readers do not trust the file: they check every size in it against the size of the file.
//!
//! Not for interpreting the counters or sending them anywhere.

mod directory;
mod format;
#[cfg(test)]
mod models;
mod publisher;
mod reader;
mod reader_events;
mod seqlock;

pub use directory::{PublishedCounters, running};
pub use publisher::Publisher;
pub use reader::{CountersReadError, CountersReader, CountersSnapshot};
pub use reader_events::ReaderEvents;
