//! The AF_PACKET socket used by [`crate::listen`].

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Size of the socket buffer for frames not yet received, in bytes.
const SOCKET_BUFFER_BYTES: c_int = 8 << 20;

/// The metadata of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FrameInfo {
    /// The frame's length in bytes, which may exceed the buffer's.
    pub(crate) len: usize,
    /// The kernel's timestamp, in nanoseconds since 1970.
    pub(crate) ts_ns: u64,
    pub(crate) outgoing: bool,
    /// The tag that the kernel has stripped.
    pub(crate) vlan: Option<[u8; 4]>,
}

/// Opens a non-blocking socket that receives all frames of the interface with this index.
pub(crate) fn socket(ifindex: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0 receives nothing until the socket is bound to its interface. SAFETY: the call
    // takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    // An error is ignored: without the privilege to exceed `net.core.rmem_max`, the default size is
    // used.
    let _ = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_BUFFER_BYTES);
    bind(&socket, ifindex)?;
    Ok(socket)
}

fn set(socket: &OwnedFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    let pointer = (&raw const value).cast();
    // SAFETY: `pointer` points to `size_of::<c_int>()` live bytes, which the kernel only reads.
    let rc = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, pointer, size_of::<c_int>() as u32)
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn bind(socket: &OwnedFd, ifindex: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: ifindex as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the pointer points to `len` live bytes, which the kernel only reads.
    let rc = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A buffer for control messages, aligned as the kernel lays them out.
#[repr(C, align(8))]
struct ControlBuffer([u8; 128]);

/// Receives a frame into `buffer`; returns `None` if there is none.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<FrameInfo>> {
    let mut control = ControlBuffer([0; 128]);
    // SAFETY: the structure contains only integers, for which zero is valid.
    let mut from: libc::sockaddr_ll = unsafe { zeroed() };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the structure contains only integers and raw pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: each pointer points to live memory that nothing else uses during the call, of the
    // length given with it, and every byte pattern is valid in each.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
    if len < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    let outgoing = from.sll_pkttype == libc::PACKET_OUTGOING;
    let mut received = FrameInfo { len: len as usize, outgoing, ..FrameInfo::default() };
    let filled = (message.msg_controllen as usize).min(control.0.len());
    each_control(&control.0[..filled], |level, kind, data| {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => received.ts_ns = timestamp(data),
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => received.vlan = stripped_vlan_tag(data),
            _ => {}
        };
    });
    Ok(Some(received))
}

/// Calls `each` with the level, type and data of every `struct cmsghdr` in `rest`. Each consists of
/// length, level, type, data and padding.
fn each_control(mut rest: &[u8], mut each: impl FnMut(c_int, c_int, &[u8])) {
    const HEADER: usize = 16;
    while rest.len() >= HEADER {
        let len = u64::from_ne_bytes(array(rest, 0)) as usize;
        let int = |at| c_int::from_ne_bytes(array(rest, at));
        let Some(data) = rest.get(HEADER..len) else { return };
        each(int(8), int(12), data);
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
}

/// Converts `struct timespec` to nanoseconds.
fn timestamp(data: &[u8]) -> u64 {
    let word = |at| u64::from_ne_bytes(array(data, at));
    word(0).wrapping_mul(1_000_000_000).wrapping_add(word(8))
}

/// Returns the VLAN tag in a `struct tpacket_auxdata` (status at byte 0, tag at 16, its protocol at
/// 18); `None` if the kernel has stripped none.
fn stripped_vlan_tag(data: &[u8]) -> Option<[u8; 4]> {
    let status = u32::from_ne_bytes(array(data, 0));
    let half = |at| u16::from_ne_bytes(array(data, at));
    let protocol = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { half(18) } else { 0x8100 };
    let [[a, b], [c, d]] = [protocol, half(16)].map(u16::to_be_bytes);
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

/// Returns `N` bytes at `at`; only zeros if `data` has fewer there.
fn array<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data.get(at..).and_then(|data| data.first_chunk()).copied().unwrap_or([0; N])
}

/// Returns the number of frames dropped since the last call.
pub(crate) fn take_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // `struct tpacket_stats`: packets, drops.
    let mut stats = [0u32; 2];
    let mut len = size_of::<[u32; 2]>() as u32;
    // SAFETY: the pointer points to `len` live, exclusive bytes, for which every pattern is valid.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(stats[1]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_walked_and_absurd_lengths_end_the_walk() {
        let mut bytes = Vec::new();
        for (len, kind) in [(20u64, 7), (16, 8), (u64::MAX, 9)] {
            bytes.extend(len.to_ne_bytes());
            bytes.extend(1i32.to_ne_bytes());
            bytes.extend(i32::to_ne_bytes(kind));
            bytes.extend(if kind == 7 { vec![5; 8] } else { vec![] });
        }
        let mut seen = Vec::new();
        each_control(&bytes, |_, kind, data| seen.push((kind, data.to_vec())));
        assert_eq!(seen, [(7, vec![5; 4]), (8, vec![])]);
    }

    #[test]
    fn only_a_tag_that_the_kernel_declares_valid_counts() {
        let mut aux = [0u8; 20];
        aux[16..18].copy_from_slice(&7u16.to_ne_bytes());
        assert_eq!(stripped_vlan_tag(&aux), None);
        aux[..4].copy_from_slice(&libc::TP_STATUS_VLAN_VALID.to_ne_bytes());
        assert_eq!(stripped_vlan_tag(&aux), Some([0x81, 0, 0, 7]));
    }
}
