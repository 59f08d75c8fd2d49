//! The calls of a netmap client that have no wrapper elsewhere.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use slipring_abi::{NIOCCTRL, NIOCRXSYNC, NIOCTXSYNC, NmreqHeader, NmreqRegister, Plain};

/// Binds the descriptor to what `header` names and `register` asks for; what was granted.
pub(super) fn register(
    device: BorrowedFd<'_>,
    header: &NmreqHeader,
    register: &NmreqRegister,
) -> io::Result<NmreqRegister> {
    let mut body = [0u64; NmreqRegister::SIZE.div_ceil(8)];
    let mut bytes = [0; NmreqRegister::SIZE];
    register.write_to(&mut bytes);
    for (word, part) in body.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = part.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    let header = NmreqHeader {
        nr_options: 0,
        nr_body: (&raw mut body).expose_provenance() as u64,
        ..*header
    };
    let mut head = [0; NmreqHeader::SIZE];
    header.write_to(&mut head);
    // SAFETY:
    // - `head` has as many bytes as NIOCCTRL reads and writes; it leads to `body`, which is as
    //   long as the request that it names and has no options. Both live and are ours meanwhile.
    // - Any bytes are fine in both afterwards.
    unsafe { ioctl(device, NIOCCTRL, head.as_mut_ptr().cast()) }?;
    for (part, word) in bytes.chunks_exact_mut(8).zip(body) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    NmreqRegister::read_from(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends what was queued; takes back what was sent.
pub(super) fn tx_sync(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request has no argument.
    unsafe { ioctl(device, NIOCTXSYNC, std::ptr::null_mut()) }
}

/// Returns what was read; takes what has arrived.
pub(super) fn rx_sync(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request has no argument.
    unsafe { ioctl(device, NIOCRXSYNC, std::ptr::null_mut()) }
}

/// # Safety
/// `argument` leads to what `request` reads and writes, or is null where that is nothing.
unsafe fn ioctl(device: BorrowedFd<'_>, request: u32, argument: *mut c_void) -> io::Result<()> {
    // SAFETY: by the caller.
    let rc: c_int = unsafe { libc::ioctl(device.as_raw_fd(), request as _, argument) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
