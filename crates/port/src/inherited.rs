//! Descriptors that this process inherited through exec.
//!
//! Descriptors that this process opens are close-on-exec. So a descriptor beyond 2 without that
//! flag came from the parent: on purpose, as systemd passes sockets, or because the parent forgot
//! to close it.

mod sys;

use std::fs;
use std::io;

pub use sys::take;

/// Closes all inherited descriptors beyond 2 that were not taken.
///
/// # Errors
/// If `/proc/self/fd` cannot be listed.
pub fn close_all() -> io::Result<()> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    numbers.for_each(|number| drop(take(number)));
    Ok(())
}
