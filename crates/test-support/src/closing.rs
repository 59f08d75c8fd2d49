//! Closes descriptors so that the kernel frees the objects behind them immediately.
//!
//! Between fork and exec, a child has a copy of every descriptor of this process. So if one test
//! closes an object while another test starts a program, the kernel may keep the object open until
//! the child has executed the program.

use std::io;
use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock};

/// Locked for reading while [`spawn`] starts a program. Locked for writing by [`close`].
static STARTS: RwLock<()> = RwLock::new(());

/// Starts a program. [`close`] waits until the child has executed it.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _start = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Drops an owner of descriptors while no [`Program`](crate::Program) and no program of a
/// [`Namespace`](crate::Namespace) is being started, so that none of these children has a copy of
/// them. When this returns, the kernel has freed the interface, the queue or the name.
pub fn close<T>(holder: T) {
    let _no_starts = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    drop(holder);
}
