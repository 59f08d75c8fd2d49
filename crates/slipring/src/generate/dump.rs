//! Shows frames to the person, on stderr.

use std::io::Write;

use slipring_wire::summary::{HexDump, Summary};

/// Prints a frame: one line of words, then the bytes.
pub(super) fn dump(way: &str, frame: &[u8]) {
    // Nobody is left to be told that stderr is closed.
    let _ = write!(std::io::stderr().lock(), "{way} {:#}\n{}", Summary::new(frame), HexDump(frame));
}
