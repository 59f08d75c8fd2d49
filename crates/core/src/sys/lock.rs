//! Open-file locks that a process with read access only cannot take.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the write lock on a file that is open for writing; fails if the file is locked already.
/// The lock is held until the last descriptor of this open file is closed.
pub(crate) fn acquire(file: &File) -> io::Result<()> {
    fcntl_lock(file, libc::F_OFD_SETLK, libc::F_WRLCK).map(drop)
}

/// Whether another open file description has the write lock on a file.
pub(crate) fn is_locked(file: &File) -> bool {
    // The query is for a read lock, with which only write locks conflict.
    fcntl_lock(file, libc::F_OFD_GETLK, libc::F_RDLCK).is_ok_and(|found| found == libc::F_WRLCK)
}

/// Performs a lock command; returns the type of lock that the kernel reports.
fn fcntl_lock(file: &File, command: i32, kind: i32) -> io::Result<i32> {
    let mut lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        // Start and length 0: the whole file.
        l_start: 0,
        l_len: 0,
        // Required for open file description locks.
        l_pid: 0,
    };
    // SAFETY: both commands read and write a `flock`, which lives during the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(lock.l_type.into()) }
}
