//! The bpf(2) system call, and the mark that the programs check.
//!
//! `union bpf_attr` is passed as one structure per command. The kernel treats a shorter one as
//! zero-padded, and ignores unknown bytes that are zero.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::insn::BpfInsn;

/// Kinds of maps (`BPF_MAP_TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfMapKind {
    /// AF_XDP sockets by queue.
    Sockets = 17,
}

/// Kinds of programs (`BPF_PROG_TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfProgramKind {
    /// For tcx: sees socket buffers.
    Classifier = 3,
    /// For XDP: sees frames before they are socket buffers.
    Xdp = 6,
}

/// Load flags and bindings of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BpfProgramFlags {
    /// Takes frames in several buffers (`BPF_F_XDP_HAS_FRAGS`).
    pub frags: bool,
    /// Runs on this interface only and may use its metadata functions
    /// (`BPF_F_XDP_DEV_BOUND_ONLY`).
    pub bound_to: Option<u32>,
}

/// Where a program is attached (`enum bpf_attach_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfAttachType {
    /// XDP, before the stack.
    Xdp = 37,
    /// tcx, on receive.
    TcxIngress = 46,
    /// tcx, on send.
    TcxEgress = 47,
}

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfLinkFlags {
    /// After the existing programs (tcx).
    Last = 0,
    /// XDP in the stack, on any interface (`XDP_FLAGS_SKB_MODE`).
    XdpGeneric = 1 << 1,
    /// XDP in the driver (`XDP_FLAGS_DRV_MODE`).
    XdpNative = 1 << 2,
    /// Before the existing programs (tcx, `BPF_F_BEFORE`).
    First = 1 << 3,
}

/// Commands, each with the structure that it takes.
///
/// # Safety
/// `Self` must be `repr(C)` without padding bytes, with the layout of the command's part of
/// `union bpf_attr`.
unsafe trait BpfCommand {
    const NUMBER: libc::c_long;
}

/// # Safety
/// Every address in `attr` must be valid for what the command does with it.
unsafe fn bpf<C: BpfCommand>(attr: &mut C) -> io::Result<i32> {
    let pointer = std::ptr::from_mut(attr);
    // SAFETY:
    // - `pointer` leads to `size_of::<C>()` initialised bytes laid out as the command wants them:
    // contract of `BpfCommand`. They are exclusive, so the kernel may write results into them.
    // - Addresses within are valid: promised by the caller.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, C::NUMBER, pointer, size_of::<C>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: bpf(2) has just made this descriptor for us (callers pass results of commands that
    // return one); it is close-on-exec and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

// SAFETY: `repr(C)`, four u32; BPF_MAP_CREATE begins with exactly these.
unsafe impl BpfCommand for MapCreate {
    const NUMBER: libc::c_long = 0;
}

pub(super) fn map_create(kind: BpfMapKind, entries: u32) -> io::Result<OwnedFd> {
    let mut attr =
        MapCreate { kind: kind as u32, key_size: 4, value_size: 4, max_entries: entries };
    // SAFETY: no addresses in it.
    unsafe { bpf(&mut attr) }.map(owned)
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

// SAFETY: `repr(C)`; BPF_MAP_UPDATE_ELEM takes map_fd, 8-aligned key, value and flags.
unsafe impl BpfCommand for MapUpdate {
    const NUMBER: libc::c_long = 2;
}

pub(super) fn map_update(map: BorrowedFd<'_>, key: u32, value: u32) -> io::Result<()> {
    let (key, value) = (&raw const key, &raw const value);
    let mut attr = MapUpdate {
        map: map.as_raw_fd() as u32,
        zero: 0,
        key: key.addr() as u64,
        value: value.addr() as u64,
        flags: 0,
    };
    // SAFETY: `key` and `value` lead to 4 live bytes each, as many as `map_create` promised.
    unsafe { bpf(&mut attr) }.map(drop)
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    insn_count: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach: u32,
}

const _: () = assert!(size_of::<ProgramLoad>() == 72);

// SAFETY: `repr(C)` without gaps; BPF_PROG_LOAD begins with exactly these.
unsafe impl BpfCommand for ProgramLoad {
    const NUMBER: libc::c_long = 5;
}

const F_XDP_HAS_FRAGS: u32 = 1 << 5;
const F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;

pub(super) fn program_load(
    kind: BpfProgramKind,
    name: &str,
    insns: &[BpfInsn],
    flags: BpfProgramFlags,
) -> io::Result<OwnedFd> {
    // Kernel functions are only available to programs with a GPL-compatible license.
    let license = c"Dual BSD/GPL";
    let mut attr = ProgramLoad {
        kind: kind as u32,
        insn_count: insns.len() as u32,
        insns: insns.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        flags: if flags.frags { F_XDP_HAS_FRAGS } else { 0 }
            | if flags.bound_to.is_some() { F_XDP_DEV_BOUND_ONLY } else { 0 },
        ifindex: flags.bound_to.unwrap_or(0),
        expected_attach: if kind == BpfProgramKind::Xdp { BpfAttachType::Xdp as u32 } else { 0 },
        ..ProgramLoad::default()
    };
    for (to, from) in attr.name[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: `insns` leads to `insn_count` live instructions, `license` to a C string; both are
    // only read. There is no log buffer.
    unsafe { bpf(&mut attr) }.map(owned)
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    ifindex: u32,
    attach: u32,
    flags: u32,
}

// SAFETY: `repr(C)`, four u32; BPF_LINK_CREATE begins with exactly these.
unsafe impl BpfCommand for LinkCreate {
    const NUMBER: libc::c_long = 28;
}

pub(super) fn link_create(
    program: BorrowedFd<'_>,
    ifindex: u32,
    at: BpfAttachType,
    flags: BpfLinkFlags,
) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut attr = LinkCreate { program, ifindex, attach: at as u32, flags: flags as u32 };
    // SAFETY: no addresses in it.
    unsafe { bpf(&mut attr) }.map(owned)
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    zero: u32,
}

const _: () = assert!(size_of::<TestRun>() == 80);

// SAFETY: `repr(C)` without gaps; BPF_PROG_TEST_RUN takes exactly these.
unsafe impl BpfCommand for TestRun {
    const NUMBER: libc::c_long = 10;
}

const F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

pub(super) fn run_live_frames(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let mut attr = TestRun {
        program: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr().addr() as u64,
        repeat,
        batch_size: batch,
        flags: F_TEST_XDP_LIVE_FRAMES,
        ..TestRun::default()
    };
    // SAFETY: `data_in` leads to `data_size_in` live bytes, which are only read; nothing is to
    // be written out.
    unsafe { bpf(&mut attr) }.map(drop)
}

/// Sets the mark of all packets that a socket sends.
pub(super) fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    let (fd, value) = (socket.as_raw_fd(), (&raw const mark).cast());
    // SAFETY: `value` leads to 4 live bytes, which the kernel only reads.
    let rc = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_MARK, value, 4) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
