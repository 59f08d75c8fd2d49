//! Closes descriptors so that the kernel releases the objects behind them at once.
//!
//! Between fork and exec, a child has a copy of every descriptor of this process. So the kernel may
//! keep an object open that one test has closed, until the child of another test has executed its
//! program.

use std::io;
use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock};

/// Read-locked while a thread starts a program, write-locked by [`close`].
static STARTS: RwLock<()> = RwLock::new(());

/// Starts a program. [`close`] waits until the child has executed it.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _start = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Drops an owner of descriptors while no program is being started, so that no child has a copy of
/// them. Afterwards the kernel has released the interface, the queue or the name.
pub fn close<T>(holder: T) {
    let _no_starts = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    drop(holder);
}
