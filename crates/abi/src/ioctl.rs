//! The numbers of the ioctls, computed as the C macros do.

use crate::legacy::{NmIfreq, Nmreq};
use crate::request::NmreqHeader;

/// Direction of an ioctl's argument, from the program's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoctlDir {
    /// No argument, or a plain number.
    None,
    /// The program writes the argument.
    Write,
    /// The program reads the argument.
    Read,
    /// The program writes the argument, and the kernel writes the result back to it.
    ReadWrite,
}

/// Number of a Linux ioctl: direction in bits 30–31, size in 16–29, type in 8–15, number in 0–7.
///
/// # Panics
/// If `size` does not fit its 14 bits.
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

/// Returns properties of a port, or the ports of switches; argument [`Nmreq`].
pub const NIOCGINFO: u32 = ioc(IoctlDir::ReadWrite, b'i', 145, size_of::<Nmreq>());
/// Binds a port by the legacy interface; argument [`Nmreq`].
pub const NIOCREGIF: u32 = ioc(IoctlDir::ReadWrite, b'i', 146, size_of::<Nmreq>());
/// Sends the contents of the bound transmit rings; no argument.
pub const NIOCTXSYNC: u32 = ioc(IoctlDir::None, b'i', 148, 0);
/// Receives into the bound receive rings; no argument.
pub const NIOCRXSYNC: u32 = ioc(IoctlDir::None, b'i', 149, 0);
/// Sends a message to the module of a switch; argument [`NmIfreq`].
pub const NIOCCONFIG: u32 = ioc(IoctlDir::ReadWrite, b'i', 150, size_of::<NmIfreq>());
/// Executes a request; argument [`NmreqHeader`].
pub const NIOCCTRL: u32 = ioc(IoctlDir::ReadWrite, b'i', 151, size_of::<NmreqHeader>());

// Asserts the values that the C headers have.
const _: () = {
    assert!(NIOCGINFO == 0xc03c_6991);
    assert!(NIOCREGIF == 0xc03c_6992);
    assert!(NIOCTXSYNC == 0x6994);
    assert!(NIOCRXSYNC == 0x6995);
    assert!(NIOCCONFIG == 0xc110_6996);
    assert!(NIOCCTRL == 0xc058_6997);
};
