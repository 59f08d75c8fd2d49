//! Bounded waiting.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum time to wait for an expected event: far more than it takes even on a busy virtual
/// machine without hardware support.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Calls `check` repeatedly until it returns a value. Use this function only for conditions that
/// neither a descriptor nor output reports; for a program's output, [`crate::Program::wait_for`] is
/// better.
///
/// # Panics
/// After [`TIMEOUT`], with the description of the expected event.
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a program listens on a socket. The existence of the file does not prove that: it exists
/// from `bind` on, but connections are refused until `listen`.
#[must_use]
pub fn accepts(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}
