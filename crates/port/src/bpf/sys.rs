//! The mark of a socket's frames, which the programs check.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets the mark of all packets that a socket sends.
pub(super) fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    let (fd, value) = (socket.as_raw_fd(), (&raw const mark).cast());
    // SAFETY: `value` leads to 4 live bytes, which the kernel only reads.
    let rc = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_MARK, value, 4) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
