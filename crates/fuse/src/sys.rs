//! System calls for which no other crate has a safe function: two ioctls of the FUSE device, one
//! ioctl of sockets, and requests by io_uring.

mod ring;

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

pub(crate) use ring::{FuseUring, UringEntryId, UringEvent};

const FUSE_MAGIC: u8 = 229;

/// The argument of FUSE_DEV_IOC_BACKING_OPEN: `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// Registers a file as a backing file for passthrough. Returns its id on this connection.
pub(crate) fn open_backing(device: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<i32, Errno> {
    let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
    // SAFETY:
    // - The opcode is FUSE_DEV_IOC_BACKING_OPEN, which reads a `fuse_backing_map`. `ResultIoctl`
    //   points to a value with that layout, which exists during the call.
    unsafe { rustix::ioctl::ioctl(device, ResultIoctl::<_, BACKING_OPEN>(map)) }
}

/// Unregisters a backing file.
pub(crate) fn close_backing(device: BorrowedFd<'_>, id: i32) -> Result<i32, Errno> {
    // SAFETY:
    // - The opcode is FUSE_DEV_IOC_BACKING_CLOSE, which reads a 32-bit number. `ResultIoctl` points
    //   to a 32-bit number, which exists during the call.
    unsafe { rustix::ioctl::ioctl(device, ResultIoctl::<_, BACKING_CLOSE>(id)) }
}

/// Returns the network namespace to which a socket belongs.
pub(crate) fn namespace_of(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY:
    // - The opcode is SIOCGSKNS, which has no argument and returns a descriptor. The value to which
    //   `ResultIoctl` points is not read.
    let fd = unsafe { rustix::ioctl::ioctl(socket, ResultIoctl::<_, SIOCGSKNS>(0u32)) }?;
    // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The number of the ioctl SIOCGSKNS, from `linux/sockios.h`.
const SIOCGSKNS: Opcode = 0x894c;
const BACKING_OPEN: Opcode = opcode::write::<BackingMap>(FUSE_MAGIC, 1);
const BACKING_CLOSE: Opcode = opcode::write::<u32>(FUSE_MAGIC, 2);

/// An ioctl that reads a `T` and returns only its result.
struct ResultIoctl<T, const OPCODE: Opcode>(T);

// SAFETY:
// - `as_ptr` points to the value. Its type is what each opcode used above reads.
// - The kernel writes nothing to it, and the result is a plain number.
unsafe impl<T, const OPCODE: Opcode> Ioctl for ResultIoctl<T, OPCODE> {
    type Output = i32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(&mut self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<i32, Errno> {
        Ok(out)
    }
}
