//! System calls of AF_PACKET sockets. [`ring`] has the receive ring that the kernel shares with
//! this process.

pub(super) mod ring;

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::bpf::host::TO_HOST_MARK;
use crate::gather::{GatherList, IoVec};

/// Bytes of the offload header before each frame of a receiving socket.
pub(super) const VNET_LEN: usize = 10;
/// Maximum number of frames per system call.
const MAX_BATCH: usize = 64;

/// Creates a socket that neither sends nor receives before [`bind`].
pub(super) fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?)
}

/// The use of a bound socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketUse {
    /// The socket receives the frames of all protocols.
    Receive,
    /// The socket only sends. It has no protocol, so that arriving frames cause no work for it.
    Send,
}

fn link_address(index: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

const ADDRESS_LEN: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

/// Binds to an interface. With [`SocketUse::Receive`], frames arrive from now on.
pub(super) fn bind(socket: BorrowedFd<'_>, index: u32, use_for: SocketUse) -> io::Result<()> {
    let protocol = if use_for == SocketUse::Receive { libc::ETH_P_ALL as u16 } else { 0 };
    let address = link_address(index, protocol);
    // SAFETY: `address` is a live `sockaddr_ll` of `ADDRESS_LEN` bytes, which are only read.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), ADDRESS_LEN) })
}

/// Returns the index of the interface that a socket is bound to; `None` if the interface no longer
/// exists.
pub(super) fn bound_index(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut address = link_address(0, 0);
    let mut len = ADDRESS_LEN;
    let (at, len_at) = ((&raw mut address).cast(), &raw mut len);
    // SAFETY: `address` has `len` bytes to be written, and any bytes are a valid `sockaddr_ll`.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), at, len_at) }).ok()?;
    u32::try_from(address.sll_ifindex).ok()
}

fn check(rc: c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A value of a socket option.
///
/// # Safety
/// The type is `repr(C)` or a number, is the kernel's type for every option that it is used with,
/// and is valid for every bit pattern. Pointers in a value point to the types that the kernel
/// expects, for as long as the value exists.
unsafe trait OptionValue: Copy {}

// SAFETY: the type of most options; a plain number.
unsafe impl OptionValue for c_int {}
// SAFETY: two numbers; the kernel writes it for PACKET_STATISTICS on version 2 sockets.
unsafe impl OptionValue for PacketStatistics {}
// SAFETY: the kernel's type for memberships; numbers.
unsafe impl OptionValue for libc::packet_mreq {}
// SAFETY: the kernel's type for rings of version 2 sockets; numbers.
unsafe impl OptionValue for libc::tpacket_req {}

/// Layout of `struct tpacket_stats`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct PacketStatistics {
    packets: u32,
    drops: u32,
}

fn set<T: OptionValue>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    let (at, len) = ((&raw const value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` is live and `len` bytes long; its type is right by `OptionValue`.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, at, len) })
}

fn get<T: OptionValue + Default>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: `value` is live, exclusive, `len` bytes long and valid for any bytes.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &raw mut len) })?;
    Ok(value)
}

/// Socket options that take a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketSetting {
    Version,
    VnetHeader,
    /// Frames too long for the ring also go to the socket's queue, in full length.
    CopyThreshold,
    AuxData,
    IgnoreOutgoing,
    QdiscBypass,
    Fanout,
    /// Receive buffer size in bytes. With CAP_NET_ADMIN it may exceed the system's limit; otherwise
    /// the kernel caps it at the limit.
    ReceiveBuffer,
    SendBuffer,
    Mark,
    BusyPoll,
    /// The descriptor of an eBPF program that replaces the socket's filter.
    FilterProgram,
}

impl SocketSetting {
    fn name(self) -> (c_int, c_int) {
        match self {
            Self::Version => (libc::SOL_PACKET, libc::PACKET_VERSION),
            Self::VnetHeader => (libc::SOL_PACKET, libc::PACKET_VNET_HDR),
            Self::CopyThreshold => (libc::SOL_PACKET, libc::PACKET_COPY_THRESH),
            Self::AuxData => (libc::SOL_PACKET, libc::PACKET_AUXDATA),
            Self::IgnoreOutgoing => (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING),
            Self::QdiscBypass => (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS),
            Self::Fanout => (libc::SOL_PACKET, libc::PACKET_FANOUT),
            Self::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
            Self::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE),
            Self::Mark => (libc::SOL_SOCKET, libc::SO_MARK),
            Self::BusyPoll => (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
            Self::FilterProgram => (libc::SOL_SOCKET, libc::SO_ATTACH_BPF),
        }
    }

    pub(super) fn set(self, socket: BorrowedFd<'_>, value: u32) -> io::Result<()> {
        let (level, name) = self.name();
        let forced = set(socket, level, name, value as c_int);
        match self {
            Self::ReceiveBuffer if forced.is_err() => {
                set(socket, level, libc::SO_RCVBUF, value as c_int)
            }
            Self::SendBuffer if forced.is_err() => {
                set(socket, level, libc::SO_SNDBUF, value as c_int)
            }
            _ => forced,
        }
    }
}

/// Makes the interface promiscuous while the socket lives.
pub(super) fn promiscuous(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, membership)
}

/// Creates a group of sockets that share an interface's frames by receive queue; returns its
/// number.
pub(super) fn fanout_new(socket: BorrowedFd<'_>) -> io::Result<u32> {
    SocketSetting::Fanout.set(socket, fanout(0) | libc::PACKET_FANOUT_FLAG_UNIQUEID << 16)?;
    let group: c_int = get(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
    Ok(group as u32 & 0xffff)
}

/// Joins a group that [`fanout_new`] created. A frame goes to the member whose number is the
/// frame's queue mapping modulo the number of members. Members are numbered in the order in which
/// they joined; the creator is number 0. The mapping is the receive queue plus one; on devices that
/// do not record the queue it is 0, or a value left by the sender.
pub(super) fn fanout_join(socket: BorrowedFd<'_>, group: u32) -> io::Result<()> {
    SocketSetting::Fanout.set(socket, fanout(group))
}

/// Whether a socket is in a fanout group.
pub(super) fn is_in_fanout(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let group: c_int = get(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
    Ok(group != 0)
}

fn fanout(group: u32) -> u32 {
    let kind = libc::PACKET_FANOUT_QM | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    group | kind << 16
}

/// Returns how many frames the kernel has dropped since the last call because the socket had no
/// space for them.
pub(super) fn take_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let statistics: PacketStatistics = get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(statistics.drops)
}

/// Which received frames a socket gets.
#[derive(Debug, Clone)]
pub(super) enum SocketFilter {
    Nothing,
    /// All frames that come from the wire.
    Everything,
    /// Frames of one receive queue of the device. [`fanout_join`] would select the same frames.
    Queue {
        /// Number of the queue, counted from 0.
        queue: u32,
        /// Total number of queues of the device.
        of: u32,
    },
    /// An eBPF program decides.
    Program(Arc<OwnedFd>),
}

const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const MODULO: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;

const fn op(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Replaces the socket's filter. Of the frames that `filter` selects, the socket gets those whose
/// VLAN identifier is in `vlan_ids`; without a list, all. [`SocketFilter::Program`] decides alone:
/// `vlan_ids` is then ignored.
pub(super) fn filter(
    socket: BorrowedFd<'_>,
    filter: &SocketFilter,
    vlan_ids: Option<&[u16]>,
) -> io::Result<()> {
    let (all, none) = (op(RETURN, 0, 0, u32::MAX), op(RETURN, 0, 0, 0));
    // A frame that a port injects towards the host has a mark. It does not come from the wire, so
    // it is left out.
    let from_wire = [
        op(LOAD, 0, 0, (libc::SKF_AD_OFF + libc::SKF_AD_MARK) as u32),
        op(JUMP_EQUAL, 0, 1, TO_HOST_MARK),
        none,
    ];
    let rest: &[_] = match *filter {
        SocketFilter::Nothing => &[none],
        SocketFilter::Everything => &[all],
        SocketFilter::Queue { queue, of } => &[
            op(LOAD, 0, 0, (libc::SKF_AD_OFF + libc::SKF_AD_QUEUE) as u32),
            op(MODULO, 0, 0, of),
            op(JUMP_EQUAL, 0, 1, (queue + 1) % of),
            all,
            none,
        ],
        SocketFilter::Program(ref program) => {
            return SocketSetting::FilterProgram.set(socket, program.as_raw_fd() as u32);
        }
    };
    let in_vlan = vlan_ids.map(has_vlan_id).unwrap_or_default();
    attach(socket, &mut [&from_wire, &in_vlan[..], rest].concat())
}

/// Returns instructions that reject the frame unless it has one of these VLAN identifiers. If it
/// has one, the filter continues with the instruction that follows the returned ones. Before a
/// filter sees a frame, the kernel takes the outermost tag out of it.
fn has_vlan_id(ids: &[u16]) -> Vec<libc::sock_filter> {
    const PRESENT: u32 = (libc::SKF_AD_OFF + 48) as u32;
    const TAG: u32 = (libc::SKF_AD_OFF + 44) as u32;
    let none = op(RETURN, 0, 0, 0);
    let mut code = vec![op(LOAD, 0, 0, PRESENT), op(JUMP_EQUAL, 0, 1, 0), none];
    code.extend([op(LOAD, 0, 0, TAG), op(AND, 0, 0, 0xfff)]);
    // The jump distance is a byte. `MAX_VLAN_IDS` is small enough for that.
    code.extend((0..ids.len()).map(|at| op(JUMP_EQUAL, (ids.len() - at) as u8, 0, ids[at].into())));
    code.push(none);
    code
}

fn attach(socket: BorrowedFd<'_>, code: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    let (at, len) = ((&raw const program).cast(), size_of::<libc::sock_fprog>() as u32);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: `program` is live, and its pointer leads to `len` live instructions, which the
    // kernel copies and checks.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, at, len) })
}

/// Returns and clears the pending error of a socket.
pub(super) fn take_error(socket: BorrowedFd<'_>) -> c_int {
    get(socket, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0)
}

/// Returns whether the interface that a socket is bound to has a carrier.
pub(super) fn has_carrier(socket: BorrowedFd<'_>) -> bool {
    let index = bound_index(socket);
    index.and_then(|index| flags(socket, index)).is_some_and(|flags| flags & libc::IFF_RUNNING != 0)
}

/// Returns the `IFF_*` flags of an interface in the socket's network namespace; `None` if the
/// interface does not exist.
fn flags(socket: BorrowedFd<'_>, index: u32) -> Option<c_int> {
    let name = rustix::net::netdevice::index_to_name(socket, index).ok()?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
    };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let number = libc::SIOCGIFFLAGS as libc::Ioctl;
    // SAFETY: `request` is a live, exclusive `ifreq` with a name; this request follows no pointer.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) }).ok()?;
    // SAFETY: the field was initialised above and written by the kernel; it is a number.
    Some(c_int::from(unsafe { request.ifr_ifru.ifru_flags }))
}

/// Sends at most [`MAX_BATCH`] frames of `run`, from frame number `first` on; returns how many were
/// sent. If the kernel refuses a later frame, the frames before it are still sent. So an error
/// means that the kernel refused frame `first`.
pub(super) fn send(socket: BorrowedFd<'_>, run: &GatherList, first: usize) -> io::Result<usize> {
    let count = (run.len() - first).min(MAX_BATCH);
    // SAFETY: zeros are valid for numbers and raw pointers.
    let mut messages: [libc::mmsghdr; MAX_BATCH] = unsafe { MaybeUninit::zeroed().assume_init() };
    for (i, message) in messages[..count].iter_mut().enumerate() {
        let parts = run.iovecs(first + i);
        // `IoVec` has the layout of `iovec`, and the kernel does not write through the pointer, so
        // these casts are allowed.
        message.msg_hdr.msg_iov = std::ptr::from_ref::<[IoVec]>(parts).cast_mut().cast();
        message.msg_hdr.msg_iovlen = parts.len() as _;
    }
    let (at, flags) = (messages.as_mut_ptr(), libc::MSG_DONTWAIT as _);
    // SAFETY:
    // - `messages` holds `count` initialised headers, exclusive to this call.
    // - Each leads to `msg_iovlen` parts that `run` lends meanwhile, and the parts point to memory
    //   that `run` keeps mapped (its invariant 1); all of it is only read.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), at, count as u32, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A frame from the socket's queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedFrame {
    /// Number of bytes received, including the offload header.
    pub(super) len: usize,
    /// The VLAN tag that the kernel removed from the frame, if any.
    pub(super) tag: Option<[u8; 4]>,
}

/// A control message with one `tpacket_auxdata`, aligned as its header requires.
#[repr(C)]
struct AuxMessage {
    header: libc::cmsghdr,
    data: libc::tpacket_auxdata,
}

const _: () = assert!(offset_of!(AuxMessage, data) == size_of::<libc::cmsghdr>());

/// Receives a frame that was too long for the ring, with its offload header. Returns EMSGSIZE if
/// the frame is also too long for `buffer`.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<ReceivedFrame> {
    // SAFETY: both are made of numbers, for which zeros are valid.
    let mut aux: AuxMessage = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: zeros are valid for numbers and raw pointers.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut aux).cast();
    message.msg_controllen = size_of::<AuxMessage>() as _;
    // SAFETY:
    // - `message` is live; its pointers lead to one part and to `msg_controllen` bytes, both live.
    // - The part is all of `buffer`, exclusive to this call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    if message.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let given = message.msg_controllen >= size_of::<libc::cmsghdr>() as _
        && aux.header.cmsg_level == libc::SOL_PACKET
        && aux.header.cmsg_type == libc::PACKET_AUXDATA;
    let data = aux.data;
    let tag = if given { tag(data.tp_status, data.tp_vlan_tci, data.tp_vlan_tpid) } else { None };
    Ok(ReceivedFrame { len, tag })
}

/// Returns the VLAN tag that the kernel removed from a frame, as the four bytes to be inserted
/// again; `None` if there was none.
#[inline(always)]
fn tag(status: u32, tci: u16, tpid: u16) -> Option<[u8; 4]> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if known { tpid } else { libc::ETH_P_8021Q as u16 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}
