//! The base of the end-to-end tests: namespaces, programs in them, a lab of three namespaces joined
//! by a bridge, numbered frames and tcpdump witnesses.
//!
//! Values own everything: dropping them, in a panic too, ends every program and with it every
//! namespace. Nothing has a name on disk.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod bridge;
pub(crate) mod frames;
pub(crate) mod lab;
pub(crate) mod namespace;
pub(crate) mod program;
pub(crate) mod web;
pub(crate) mod witness;

use std::time::{Duration, Instant};

/// Maximum time for anything that must happen: far more than on a busy machine, including a virtual
/// machine without hardware support.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `look` repeatedly until it finds something.
///
/// # Panics
/// After [`PATIENCE`], with the description of what was expected.
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

/// Whether a program is installed; if not, prints that the test is skipped.
pub(crate) fn installed(program: &str) -> bool {
    let paths = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
    let found = paths.iter().any(|path| std::path::Path::new(path).join(program).exists());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}
