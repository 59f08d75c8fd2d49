//! The numbers of the ioctls. They are computed as the C macros do.

use crate::legacy::{NmIfreq, Nmreq};
use crate::request::NmreqHeader;

/// Direction in which an ioctl's argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoctlDir {
    /// No argument, or a number that is passed by value.
    None,
    /// The program writes the argument.
    Write,
    /// The program reads the argument.
    Read,
    /// The program writes the argument, and the kernel writes the result back to it.
    ReadWrite,
}

/// Returns the number of a Linux ioctl. Its direction is in bits 30–31, the size of the argument in
/// 16–29, the type in 8–15, and the number in 0–7.
///
/// # Panics
/// If `size` does not fit in its 14 bits.
#[must_use]
pub const fn ioc(dir: IoctlDir, kind: u8, nr: u8, size: usize) -> u32 {
    assert!(size < 1 << 14, "an ioctl's argument is at most 16,383 bytes");
    let dir = match dir {
        IoctlDir::None => 0,
        IoctlDir::Write => 1,
        IoctlDir::Read => 2,
        IoctlDir::ReadWrite => 3,
    };
    dir << 30 | (size as u32) << 16 | (kind as u32) << 8 | nr as u32
}

/// Returns properties of a port, or the ports of switches. The argument is an [`Nmreq`].
pub const NIOCGINFO: u32 = ioc(IoctlDir::ReadWrite, b'i', 145, size_of::<Nmreq>());
/// Binds a port with the legacy interface. The argument is an [`Nmreq`].
pub const NIOCREGIF: u32 = ioc(IoctlDir::ReadWrite, b'i', 146, size_of::<Nmreq>());
/// Sends the frames in the bound transmit rings. There is no argument.
pub const NIOCTXSYNC: u32 = ioc(IoctlDir::None, b'i', 148, 0);
/// Receives frames into the bound receive rings. There is no argument.
pub const NIOCRXSYNC: u32 = ioc(IoctlDir::None, b'i', 149, 0);
/// Sends a message to the module of a switch. The argument is an [`NmIfreq`].
pub const NIOCCONFIG: u32 = ioc(IoctlDir::ReadWrite, b'i', 150, size_of::<NmIfreq>());
/// Executes a request. The argument is an [`NmreqHeader`].
pub const NIOCCTRL: u32 = ioc(IoctlDir::ReadWrite, b'i', 151, size_of::<NmreqHeader>());

// The C headers have these values.
const _: () = {
    assert!(NIOCGINFO == 0xc03c_6991);
    assert!(NIOCREGIF == 0xc03c_6992);
    assert!(NIOCTXSYNC == 0x6994);
    assert!(NIOCRXSYNC == 0x6995);
    assert!(NIOCCONFIG == 0xc110_6996);
    assert!(NIOCCTRL == 0xc058_6997);
};
