//! System calls of TAP devices. Batched writing is in [`uring`].

pub(super) mod uring;

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use slipring_ring::SharedBuf;

use crate::gather::IoVec;

/// The driver's device node.
pub(super) const NODE: &str = "/dev/net/tun";

/// Opens the driver; the descriptor belongs to no interface yet.
pub(super) fn open() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(NODE, flags, Mode::empty())?)
}

/// How a queue is attached to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TapAttach {
    /// Whether the device may have other descriptors as further queues.
    pub(super) multi_queue: bool,
    /// Whether each frame begins with a virtio-net header.
    pub(super) vnet_header: bool,
}

fn request(name: &str) -> libc::ifreq {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
    };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

/// Makes the descriptor a queue of the device `name`; if no device has this name, creates it. If
/// the name is empty or contains `%d`, the kernel chooses a name. Returns the device's name.
pub(super) fn attach(tun: BorrowedFd<'_>, name: &str, attach: TapAttach) -> io::Result<String> {
    let mut request = request(name);
    let multi_queue = if attach.multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    let vnet_header = if attach.vnet_header { libc::IFF_VNET_HDR } else { 0 };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | multi_queue | vnet_header;
    request.ifr_ifru.ifru_flags = flags as i16;
    interface(tun, libc::TUNSETIFF, &mut request)?;
    Ok(name_of(&request))
}

/// Brings an interface up, in the network namespace of this thread.
pub(super) fn bring_up(name: &str) -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let socket = std::os::fd::AsFd::as_fd(&socket);
    let mut request = request(name);
    interface(socket, libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    // SAFETY: the field was initialised by `request` and written by the kernel; it is a number.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
    interface(socket, libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}

/// Performs an ioctl: `TUNSETIFF`, `TUNGETIFF`, `SIOCGIFFLAGS` or `SIOCSIFFLAGS`.
fn interface(fd: BorrowedFd<'_>, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: `request` is a live, exclusive `ifreq` with a name and flags, which is what the
    // four requests take; they follow no pointer in it.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number, std::ptr::from_mut(request)) })
}

/// Sets which offloads may be left undone in frames that this process reads (`TUN_F_*`).
pub(super) fn set_offload(tun: BorrowedFd<'_>, offload: c_uint) -> io::Result<()> {
    // SAFETY: this request takes its argument by value.
    check(unsafe {
        libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offload))
    })
}

/// Makes the device outlive its descriptors, until it is deleted.
pub(super) fn make_persistent(tun: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: this request takes its argument by value.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST, 1 as libc::c_ulong) })
}

/// Sets the length of the virtio-net header in bytes.
pub(super) fn set_vnet_len(tun: BorrowedFd<'_>, len: u32) -> io::Result<()> {
    let len = len as c_int;
    // SAFETY: this request reads a `c_int` where the pointer leads, to a live one.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) })
}

/// Returns the name that the device has now, in its own network namespace.
pub(super) fn current_name(tun: BorrowedFd<'_>) -> io::Result<String> {
    let mut request = request("");
    interface(tun, libc::TUNGETIFF, &mut request)?;
    Ok(name_of(&request))
}

/// Returns the network namespace in which the device is.
pub(super) fn namespace(tun: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    /// `_IO('T', 227)` of linux/if_tun.h.
    const TUNGETDEVNETNS: libc::Ioctl = 0x54e3;
    // SAFETY:
    // - The request takes no pointer; it only makes a descriptor.
    let fd = unsafe { libc::ioctl(tun.as_raw_fd(), TUNGETDEVNETNS, 0) };
    check(fd)?;
    // SAFETY:
    // - Open and exclusive: the kernel has just created it for this call, which succeeded.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(rc: c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads one frame: as much as fits into `first`, and the rest into `overflow`. Returns the length
/// of the frame.
#[inline]
pub(super) fn read(
    tun: BorrowedFd<'_>,
    first: SharedBuf<'_>,
    overflow: &mut [u8],
) -> Result<usize, Errno> {
    let first = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(first.address()),
        iov_len: first.len(),
    };
    let rest = libc::iovec { iov_base: overflow.as_mut_ptr().cast(), iov_len: overflow.len() };
    let parts = [first, rest];
    // SAFETY:
    // - `parts` is live for the call, and so are both memory ranges, which are borrowed: `overflow`
    //   exclusively, and `first`, which other processes may write to, without any reference into
    //   it.
    let len = unsafe { libc::readv(tun.as_raw_fd(), parts.as_ptr(), parts.len() as c_int) };
    usize::try_from(len).map_err(|_| {
        let error = io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}

/// Writes one frame, which consists of `parts`. The gather list that they come from keeps their
/// memory mapped during the call. Returns the kernel's result; a negative number is an error.
pub(super) fn write(tun: BorrowedFd<'_>, parts: &[IoVec]) -> i32 {
    let (at, count) = (parts.as_ptr().cast(), parts.len() as c_int);
    // SAFETY:
    // - `IoVec` has the layout of `iovec`, and `parts` is live for the call.
    // - The parts lie in a region that their gather list keeps mapped (its invariant 1), and are
    //   only read.
    let written = unsafe { libc::writev(tun.as_raw_fd(), at, count) };
    if written >= 0 {
        return written as i32;
    }
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
