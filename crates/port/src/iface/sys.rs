//! The ioctls and socket options of [`super::Iface`].

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct ifreq`: a name and a union of 24 bytes.
#[repr(C)]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    data: IfData,
}

#[repr(C)]
union IfData {
    bytes: [u8; 24],
    pointer: *mut c_void,
}

const _: () = assert!(size_of::<IfReq>() == size_of::<libc::ifreq>());

/// Opens a socket for interface ioctls.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    // An AF_UNIX socket answers interface ioctls too, and exists on every kernel.
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Returns a name of at most 15 bytes, padded with zeros.
fn padded(name: &str) -> [u8; libc::IFNAMSIZ] {
    let mut bytes = [0; libc::IFNAMSIZ];
    for (to, from) in bytes[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// Interface ioctls that only write to the union: the kernel reads none of its 24 bytes.
#[derive(Clone, Copy)]
enum IfReqQuery {
    Flags = 0x8913,
    Mtu = 0x8921,
    HardwareAddress = 0x8927,
}

fn query(socket: &OwnedFd, name: &str, query: IfReqQuery) -> io::Result<[u8; 24]> {
    let mut request = IfReq { name: padded(name), data: IfData { bytes: [0; 24] } };
    // SAFETY:
    // - `request` is a live, exclusive `struct ifreq` of the size that these requests write.
    // - None of the three requests follows a pointer in it.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), query as libc::Ioctl, &raw mut request) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all 24 bytes were initialised above, and any byte is a valid `u8`.
    Ok(unsafe { request.data.bytes })
}

fn leading_bytes<const N: usize>(bytes: &[u8; 24]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i])
}

/// Returns the interface's `IFF_*` flags.
pub(crate) fn flags(socket: &OwnedFd, name: &str) -> io::Result<c_int> {
    let answer = query(socket, name, IfReqQuery::Flags)?;
    Ok(u16::from_ne_bytes(leading_bytes(&answer)).into())
}

pub(super) fn mtu(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    Ok(u32::from_ne_bytes(leading_bytes(&query(socket, name, IfReqQuery::Mtu)?)))
}

/// Returns the interface's hardware type (`ARPHRD_*`) and hardware address.
pub(super) fn hardware_address(socket: &OwnedFd, name: &str) -> io::Result<(u16, [u8; 6])> {
    let answer = query(socket, name, IfReqQuery::HardwareAddress)?;
    let [_, _, mac @ ..] = leading_bytes::<8>(&answer);
    Ok((u16::from_ne_bytes(leading_bytes(&answer)), mac))
}

/// A structure of `linux/ethtool.h`, beginning with its command.
///
/// # Safety
/// The type is `repr(C)`, valid for every bit pattern, and has the layout and size that the kernel
/// reads and writes for every command that is put into it.
pub(super) unsafe trait EthtoolCommand {}

/// `struct ethtool_value`: a command and its 32-bit argument or result.
#[repr(C)]
pub(super) struct EthtoolValue {
    pub(super) command: u32,
    pub(super) data: u32,
}

/// `struct ethtool_channels`: the maximum and current numbers of queues.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`: the name of the driver, and further data.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_coalesce`. Only the fields that say how long interrupts for received frames are
/// delayed have names here.
#[repr(C)]
struct Coalesce {
    command: u32,
    rx_usecs: u32,
    rx_frames: u32,
    unused: [u32; 7],
    adaptive_rx: u32,
    rest: [u32; 12],
}

/// Maximum number of register bytes that are read.
const MAX_REGISTER_BYTES: usize = 256;

/// `struct ethtool_regs`: how many bytes of registers may be written, and the registers.
#[repr(C)]
struct EthtoolRegs {
    command: u32,
    version: u32,
    len: u32,
    data: [u8; MAX_REGISTER_BYTES],
}

const _: () = assert!(size_of::<EthtoolRegs>() == 12 + MAX_REGISTER_BYTES);
const _: () = assert!(size_of::<Channels>() == 36 && size_of::<DriverInfo>() == 196);
const _: () = assert!(size_of::<Coalesce>() == 92);

// SAFETY: `repr(C)`, plain integers; used only for commands that read or write an `ethtool_value`.
unsafe impl EthtoolCommand for EthtoolValue {}
// SAFETY: `repr(C)`, plain integers, 36 bytes as in the kernel; used only for ETHTOOL_GCHANNELS.
unsafe impl EthtoolCommand for Channels {}
// SAFETY: `repr(C)`, plain bytes, 196 bytes as in the kernel; used only for ETHTOOL_GDRVINFO.
unsafe impl EthtoolCommand for DriverInfo {}

// SAFETY: `repr(C)`, plain integers, 92 bytes as in the kernel; used only for ETHTOOL_GCOALESCE.
unsafe impl EthtoolCommand for Coalesce {}

// SAFETY: `repr(C)`, plain integers and bytes; used only for ETHTOOL_GREGS, for which the kernel
// writes no more than `len` bytes of registers, and `len` is the size of `data`.
unsafe impl EthtoolCommand for EthtoolRegs {}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GCOALESCE: u32 = 0x0e;

pub(super) fn ethtool<T: EthtoolCommand>(
    socket: &OwnedFd,
    name: &str,
    command: &mut T,
) -> io::Result<()> {
    let pointer = std::ptr::from_mut(command).cast();
    let mut request = IfReq { name: padded(name), data: IfData { pointer } };
    // SAFETY:
    // - `request` is a live `struct ifreq`, its pointer leads to a live, exclusive `T`.
    // - The kernel writes no more than `T` and only valid values: contract of `EthtoolCommand`.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the numbers of queues that receive, and of queues that send.
pub(super) fn channels(socket: &OwnedFd, name: &str) -> io::Result<(u32, u32)> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    ethtool(socket, name, &mut channels)?;
    let Channels { rx, tx, combined, .. } = channels;
    Ok((rx.saturating_add(combined), tx.saturating_add(combined)))
}

/// Returns how the interrupts for received frames are delayed: the maximum delay in us, the maximum
/// number of frames, and whether the hardware adapts these two by itself.
pub(super) fn coalescing(socket: &OwnedFd, name: &str) -> io::Result<(u32, u32, bool)> {
    let mut coalesce = Coalesce {
        command: ETHTOOL_GCOALESCE,
        rx_usecs: 0,
        rx_frames: 0,
        unused: [0; 7],
        adaptive_rx: 0,
        rest: [0; 12],
    };
    ethtool(socket, name, &mut coalesce)?;
    Ok((coalesce.rx_usecs, coalesce.rx_frames, coalesce.adaptive_rx != 0))
}

/// Returns the first registers of the interface's device, as its driver reports them.
pub(super) fn registers(socket: &OwnedFd, name: &str) -> io::Result<Vec<u8>> {
    const ETHTOOL_GREGS: u32 = 0x04;
    let mut registers = EthtoolRegs {
        command: ETHTOOL_GREGS,
        version: 0,
        len: MAX_REGISTER_BYTES as u32,
        data: [0; MAX_REGISTER_BYTES],
    };
    ethtool(socket, name, &mut registers)?;
    let len = (registers.len as usize).min(MAX_REGISTER_BYTES);
    Ok(registers.data[..len].to_vec())
}

pub(super) fn driver(socket: &OwnedFd, name: &str) -> io::Result<String> {
    let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    ethtool(socket, name, &mut info)?;
    let end = info.driver.iter().position(|&byte| byte == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// Creates a packet socket that receives nothing. While it is open, the interface is promiscuous.
pub(super) fn promiscuous_socket(index: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let request = libc::packet_mreq {
        mr_ifindex: index as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    Ok(socket)
}

fn set_option<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let pointer = std::ptr::from_ref(value).cast();
    // SAFETY: `pointer` leads to `size_of::<T>()` live bytes, which the kernel only reads.
    let rc = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, pointer, size_of::<T>() as u32)
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
