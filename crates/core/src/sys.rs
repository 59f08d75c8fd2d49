//! The system calls of this crate that have no safe wrapper elsewhere.

pub(crate) mod packet;
pub(crate) mod shared;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;
use rustix::thread::UnshareFlags;

/// Moves the calling thread (for a user namespace: the process) into new namespaces.
pub(crate) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    assert!(!namespaces.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: without `FILES`, checked above, the thread keeps the process's descriptor table,
    // which is all that the function asks for.
    unsafe { rustix::thread::unshare_unsafe(namespaces)? };
    Ok(())
}

/// Has the kernel kill the child when the thread that starts it ends, however that comes about.
pub fn kill_with_parent(command: &mut Command) -> &mut Command {
    let ask = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only async-signal-safe work is done: `ask` is one prctl
    // system call, which neither allocates nor takes a lock, in success and in failure.
    unsafe { command.pre_exec(ask) }
}
