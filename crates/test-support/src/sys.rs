//! System calls for which no other crate has a safe function.
//!
//! The product has similar functions, but a test must not create its namespaces with the code under
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

/// Moves the calling thread to a new mount namespace. Mounts that are made outside still appear in
/// it. Mounts that are made in it do not appear outside.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    let inwards = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", inwards)?)
}

fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    assert!(!namespaces.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: the flag `FILES` is not set, as was checked above. So the thread still shares the
    // descriptor table of the process, which is all that the function requires.
    unsafe { rustix::thread::unshare_unsafe(namespaces)? };
    Ok(())
}

/// Makes the kernel kill the child when the thread that starts it ends, for any reason.
pub(crate) fn kill_with_parent(command: &mut Command) -> &mut Command {
    let request = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec, the closure may do only async-signal-safe work. `request` is a
    // single prctl system call, which neither allocates nor takes a lock, no matter whether it
    // succeeds.
    unsafe { command.pre_exec(request) }
}
