//! System calls that have no safe wrapper elsewhere.
//!
//! The product has similar functions, but a test creates its namespaces without the code under
//! test.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::mount::MountPropagationFlags;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

/// Moves the calling thread into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    unshare(UnshareFlags::NEWNET)
}

/// Moves the calling thread into a mount namespace of its own. Mounts made outside still propagate
/// into it; none propagate out of it.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    let inwards = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", inwards)?)
}

fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    assert!(!namespaces.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: without `FILES`, checked above, the thread keeps the process's descriptor table,
    // which is all that the function requires.
    unsafe { rustix::thread::unshare_unsafe(namespaces)? };
    Ok(())
}

/// Makes the kernel kill the child when the thread that starts it ends, for whatever reason.
pub(crate) fn kill_with_parent(command: &mut Command) -> &mut Command {
    let request = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only async-signal-safe work is done: `request` is one prctl
    // system call, which neither allocates nor takes a lock, in success and in failure.
    unsafe { command.pre_exec(request) }
}
