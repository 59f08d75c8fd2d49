//! System calls of this crate without a safe wrapper elsewhere.

pub(crate) mod lock;
pub(crate) mod packet;
pub(crate) mod shared;

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

/// Makes the kernel kill the child when the thread that starts the child ends, for any reason.
pub fn kill_with_parent(command: &mut Command) -> &mut Command {
    let ask = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only async-signal-safe work is done: `ask` is one prctl
    // system call, which neither allocates nor takes a lock, in success and in failure.
    unsafe { command.pre_exec(ask) }
}
