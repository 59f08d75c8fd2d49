//! Calls of the device and the system through the program's own libc.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::ptr;

use slipring_abi::NIOCKICK;

/// Performs an ioctl that reads and writes `argument`, whose size `request` determines.
pub(super) fn control<const N: usize>(
    fd: c_int,
    request: u32,
    argument: &mut [u8; N],
) -> io::Result<()> {
    debug_assert_eq!((request >> 16 & 0x3fff) as usize, N, "the size in the number");
    // SAFETY: the kernel accesses as many bytes as the request says.
    let result = unsafe { libc::ioctl(fd, c_ulong::from(request), argument.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the daemon wake threads that sleep at the other end of a pipe.
#[cold]
pub(super) fn kick(fd: c_int) {
    // SAFETY: the request has no argument. If the device is gone, there are no sleepers.
    let _ = unsafe { libc::ioctl(fd, c_ulong::from(NIOCKICK), ptr::null_mut::<u8>()) };
}

/// Runs a call that may set `errno`, and then restores `errno`, because no call of the program has
/// failed.
#[inline]
pub(crate) fn keeping_errno<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: always safe to call.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this thread's `errno`, which only this thread uses.
    let before = unsafe { errno.read() };
    let result = call();
    // SAFETY: `errno` is this thread's, which only this thread uses.
    unsafe { errno.write(before) };
    result
}

/// The time in seconds and microseconds since 1970.
#[inline]
pub(super) fn time_of_day() -> (i64, i64) {
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: `now` is a local variable; the null pointer means that no time zone is requested.
    unsafe { libc::gettimeofday(&raw mut now, ptr::null_mut()) };
    (now.tv_sec, now.tv_usec)
}

/// The current second, by the program's own `time`.
#[inline]
pub(super) fn seconds() -> u32 {
    // SAFETY: a null pointer requests the result only.
    let now = unsafe { libc::time(ptr::null_mut()) };
    now as u32
}

/// Returns a descriptor of the program; `None` for -1.
pub(super) fn borrowed<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    if fd < 0 {
        return None;
    }
    // SAFETY: not -1. The program, which just opened it, keeps it open during the call.
    Some(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The kernel's name of a descriptor's file.
pub(super) fn proc_path(fd: c_int) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{fd}"))
}
