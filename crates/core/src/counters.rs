//! Counters of a running program, in a file that is memory: written by the program, read by anyone
//! who may read the file.
//!
//! ```text
//!   RUN_DIR/PID.stats     | header | text | word 0 | word 1 | ...      all of 8 bytes, native order
//!
//!   Publisher  maps it, stores words      no lock, no system call
//!   Readers    tells it who reads         so that it may rest while nobody does
//!   Reader     reads it as a file         no mapping: a file that shrinks is an error, not a signal
//! ```
//!
//! What the words mean stands in the text, which is the program's own. Words are published
//! together: the edition in the header is odd while they are written, so a reader gets words of one
//! moment or tries again.
//!
//! A file is alive as long as its publisher holds the write lock on it, which nobody who may only
//! read can take, and which the kernel takes away with the process, however that ended, and which also holds where process numbers do not (in
//! containers that share a run directory). Files of the dead are removed by the next publisher.
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
//! 1. A file under its final name is whole: header, text and words are all there.
//! 2. Readers believe nothing: every size is checked against the file's own.
//!
//! Not for: what the words mean, or sending them anywhere.

mod directory;
mod format;
mod publisher;
mod reader;
mod reader_events;

pub use directory::{PublishedCounters, running};
pub use publisher::Publisher;
pub use reader::{CountersReadError, CountersReader, CountersSnapshot};
pub use reader_events::ReaderEvents;
