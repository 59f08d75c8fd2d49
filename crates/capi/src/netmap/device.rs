//! Calls to the device and to the system, through the program's own libc.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::ptr;

use slipring_abi::NIOCKICK;

/// Performs an ioctl that reads and writes `argument`. `request` contains the size of the argument.
pub(super) fn control<const N: usize>(
    fd: c_int,
    request: u32,
    argument: &mut [u8; N],
) -> io::Result<()> {
    debug_assert_eq!((request >> 16 & 0x3fff) as usize, N, "the size in the number");
    // SAFETY: the kernel accesses as many bytes as the request says, which is the size of the
    // argument.
    let result = unsafe { libc::ioctl(fd, c_ulong::from(request), argument.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the daemon wake the threads that sleep at the other end of a pipe.
#[cold]
pub(super) fn kick(fd: c_int) {
    // SAFETY: the request has no argument. An error is ignored: if the device no longer exists, no
    // thread sleeps in it.
    let _ = unsafe { libc::ioctl(fd, c_ulong::from(NIOCKICK), ptr::null_mut::<u8>()) };
}

/// Runs a call that may change `errno`, and then restores `errno`. The program must not see a
/// change, because none of its own calls has failed.
#[inline]
pub(crate) fn keeping_errno<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: this function may always be called.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this is the `errno` of this thread, which no other thread uses.
    let before = unsafe { errno.read() };
    let result = call();
    // SAFETY: this is the `errno` of this thread, which no other thread uses.
    unsafe { errno.write(before) };
    result
}

/// Returns the time since 1970 in seconds and microseconds.
#[inline]
pub(super) fn time_of_day() -> (i64, i64) {
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: `now` is a local variable. The null pointer means that no time zone is requested.
    unsafe { libc::gettimeofday(&raw mut now, ptr::null_mut()) };
    (now.tv_sec, now.tv_usec)
}

/// Returns the time since 1970 in whole seconds, by calling the program's `time`.
#[inline]
pub(super) fn seconds() -> u32 {
    // SAFETY: with a null pointer, `time` only returns its result.
    let now = unsafe { libc::time(ptr::null_mut()) };
    now as u32
}

/// Borrows `fd`, which the program owns; `None` if `fd` is negative.
pub(super) fn borrowed<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    if fd < 0 {
        return None;
    }
    // SAFETY: `fd` is not -1. The program has just opened it, and does not close it during the
    // call.
    Some(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Returns the path in `/proc` that leads to a descriptor's file.
pub(super) fn proc_path(fd: c_int) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{fd}"))
}
