//! Prints frames on stderr.

use std::io::Write;

use slipring_wire::summary::{HexDump, Summary};

/// Prints a frame: a one-line summary, then the bytes.
pub(super) fn dump(direction: &str, frame: &[u8]) {
    // If stderr is closed, the error cannot be reported.
    let _ = write!(
        std::io::stderr().lock(),
        "{direction} {:#}\n{}",
        Summary::new(frame),
        HexDump(frame)
    );
}
