//! The system call that [`super`] needs and for which there is no safe wrapper elsewhere.

use std::io;

use rustix::thread::UnshareFlags;

/// Moves the calling thread into new namespaces. The kernel refuses a new user namespace to a
/// process with more than one thread.
pub(super) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    assert!(!namespaces.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: without `FILES`, checked above, the thread keeps the process's descriptor table,
    // which is all that the function requires.
    unsafe { rustix::thread::unshare_unsafe(namespaces)? };
    Ok(())
}
