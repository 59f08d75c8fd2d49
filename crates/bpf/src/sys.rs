//! The bpf(2) system call: one structure per command.
//!
//! `union bpf_attr` is passed as the structure of the command. The kernel treats a shorter
//! structure as zero-padded, and ignores unknown bytes that are zero.
#![allow(unsafe_code)]

pub(crate) mod map;
pub(crate) mod program;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Commands, each with its structure.
///
/// # Safety
/// `Self` must be `repr(C)` without padding bytes, with the layout of the command's part of
/// `union bpf_attr`.
unsafe trait BpfCommand {
    const NUMBER: libc::c_long;
}

/// # Safety
/// Every address in `attr` must be valid for the accesses of the command.
unsafe fn bpf<C: BpfCommand>(attr: &mut C) -> io::Result<i32> {
    let pointer = std::ptr::from_mut(attr);
    // SAFETY:
    // - `pointer` points to `size_of::<C>()` initialised bytes with the layout of the command:
    //   contract of `BpfCommand`. They are exclusive, so the kernel may write results into them.
    // - Addresses within are valid: promised by the caller.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, C::NUMBER, pointer, size_of::<C>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: bpf(2) has just made this descriptor for us (callers pass results of commands that
    // return one); it is close-on-exec and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A name in the form in which the kernel stores it: at most 15 bytes, then zeros.
fn kernel_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

fn address(bytes: &[u8]) -> u64 {
    bytes.as_ptr().addr() as u64
}
