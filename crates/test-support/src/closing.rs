//! Descriptors that are closed when the kernel is to release what they stand for.
//!
//! Between fork and exec a child has a copy of every descriptor of this process. What one test closes
//! at that moment, the kernel keeps open until the child of another test has executed its program.

use std::io;
use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock};

/// Read by threads that are starting a program, written by [`close`].
static STARTS: RwLock<()> = RwLock::new(());

/// Starts a program; [`close`] waits for it to be executed.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _start = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Drops a holder of descriptors while no program is being started, so that no child has a copy of
/// them: afterwards the kernel has released the interface, the queue or the name.
pub fn close<T>(holder: T) {
    let _no_starts = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    drop(holder);
}
