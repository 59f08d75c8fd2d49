//! Waits that end after a maximum time.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum time to wait for an expected event. It is much more than the event takes even on a busy
/// virtual machine without hardware support.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Calls `check` again and again until it returns a value. It is only for conditions that neither a
/// descriptor nor an output reports. For the output of a program, use [`crate::Program::wait_for`].
///
/// # Panics
/// If no value is returned within [`TIMEOUT`]. The message contains `what`, which describes the
/// expected event.
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

/// Returns whether a program listens on a socket. It is not enough that the file exists: it exists
/// after `bind`, but connections are refused until `listen`.
#[must_use]
pub fn accepts(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}
