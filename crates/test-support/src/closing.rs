//! Closes descriptors so that the kernel frees the objects behind them immediately.
//!
//! Between fork and exec, a child has a copy of every descriptor of this process. So if one test
//! closes an object while another test starts a program, the kernel may keep the object open until
//! the child has executed the program.

use std::io;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};

/// Locked for reading while [`spawn`] starts a program. Locked for writing by [`close`].
static STARTS: RwLock<()> = RwLock::new(());

/// Starts a program. [`close`] waits until the child has executed it.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _start = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Runs a program to its end. [`close`] waits only until the child has executed it.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?.wait_with_output()
}

/// Drops an owner of descriptors while this crate is starting no program, neither for a test nor
/// for itself, so that no such child has a copy of them. When this returns, the kernel has freed
/// the interface, the queue or the name.
///
/// A program that a test starts by [`Command`] itself may still have a copy.
pub fn close<T>(holder: T) {
    let _no_starts = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    drop(holder);
}

#[cfg(test)]
mod tests {
    use crate::tree::root;

    #[test]
    fn no_other_file_of_this_crate_starts_a_program_by_itself() {
        for entry in std::fs::read_dir(root().join("crates/test-support/src")).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let product = text.split("#[cfg(test)]").next().unwrap();
            let starts = [".spawn()", ".output()", ".status()", ".exec()"];
            let found: Vec<_> = starts.iter().filter(|call| product.contains(*call)).collect();
            let is_allowed = path.ends_with("closing.rs");
            assert_eq!(found.is_empty(), !is_allowed, "{}: {found:?}", path.display());
        }
    }
}
