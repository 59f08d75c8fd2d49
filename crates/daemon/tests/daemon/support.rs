//! Support for the end-to-end tests of all programs, as far as it is used here.
#![allow(dead_code, reason = "other programs' tests use the rest")]

#[path = "../../../slipring/tests/support/namespace.rs"]
pub(crate) mod namespace;
#[path = "../../../slipring/tests/support/program.rs"]
pub(crate) mod program;

use std::time::{Duration, Instant};

/// Timeout for anything that must happen; far more than it takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `look` until it returns something.
///
/// # Panics
/// After [`PATIENCE`], naming what was awaited.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
