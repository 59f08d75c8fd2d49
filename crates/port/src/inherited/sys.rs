//! The part of [`super`] that needs `unsafe`: it makes an `OwnedFd` of an inherited descriptor.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};

/// Takes ownership of a descriptor that this process inherited; `None` for 0 to 2, if no such
/// descriptor was inherited, or if it was taken before.
pub fn take(number: i32) -> Option<OwnedFd> {
    static TAKEN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
    const CLOEXEC: u32 = 0o2_000_000;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if number < 3 || flags & CLOEXEC != 0 || !taken.insert(number) {
        return None;
    }
    // SAFETY:
    // - Open: it was listed just now.
    // - Unowned: descriptors that this process opens are close-on-exec, so this one came through
    //   exec, and it is returned only here, once.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC).ok()?;
    Some(fd)
}
