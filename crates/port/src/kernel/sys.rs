//! Netmap client calls that have no wrapper elsewhere.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use slipring_abi::{
    NETMAP_REQ_MAXSIZE, NIOCCTRL, NIOCRXSYNC, NIOCTXSYNC, NmreqHeader, NmreqRegister, PlainData,
};

/// Performs a request to a netmap device, without options: those of `header` are ignored. If the
/// request has a body, `with_body` is true, and the device's answer replaces the body. Returns the
/// resulting header.
///
/// # Errors
/// The device's error.
pub fn control(
    device: BorrowedFd<'_>,
    header: &NmreqHeader,
    body: &mut [u8; NETMAP_REQ_MAXSIZE],
    with_body: bool,
) -> io::Result<NmreqHeader> {
    let nr_body = if with_body { body.as_mut_ptr().expose_provenance() as u64 } else { 0 };
    let mut head = [0; NmreqHeader::SIZE];
    NmreqHeader { nr_options: 0, nr_body, ..*header }.write_to(&mut head);
    // SAFETY:
    // - `head` has as many bytes as NIOCCTRL reads and writes. It has no options, and its `nr_body`
    //   is 0 or points to `body`, which is as long as any request may be. Both are exclusive to this
    //   call.
    // - Both may hold any bytes afterwards.
    unsafe { ioctl(device, NIOCCTRL, head.as_mut_ptr().cast()) }?;
    NmreqHeader::read_from(&head).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Binds the descriptor as `header` and `register` specify; returns what was granted.
pub(super) fn register(
    device: BorrowedFd<'_>,
    header: &NmreqHeader,
    register: &NmreqRegister,
) -> io::Result<NmreqRegister> {
    let mut body = [0; NETMAP_REQ_MAXSIZE];
    register.write_to(&mut body[..NmreqRegister::SIZE]);
    control(device, header, &mut body, true)?;
    let granted = NmreqRegister::read_from(&body[..NmreqRegister::SIZE]);
    granted.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Syncs the tx rings: sends queued frames, and takes back the slots of sent ones.
pub(super) fn tx_sync(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request has no argument.
    unsafe { ioctl(device, NIOCTXSYNC, std::ptr::null_mut()) }
}

/// Syncs the rx rings: returns the slots that were read, and takes over frames that have arrived.
pub(super) fn rx_sync(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request has no argument.
    unsafe { ioctl(device, NIOCRXSYNC, std::ptr::null_mut()) }
}

/// Makes the system call.
///
/// # Safety
/// `argument` points to the memory that `request` reads and writes, or is null if there is none.
unsafe fn ioctl(device: BorrowedFd<'_>, request: u32, argument: *mut c_void) -> io::Result<()> {
    // SAFETY: the caller guarantees it.
    let rc: c_int = unsafe { libc::ioctl(device.as_raw_fd(), request as _, argument) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
