//! Commands on programs and links.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{BpfCommand, address, bpf, kernel_name, owned};
use crate::insn::BpfInsn;
use crate::program::{
    BpfAttachType, BpfLinkFlags, BpfProgramFlags, BpfProgramKind, TestRun as TestRunResult,
};

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

/// Loads a program; the verifier writes into `log` unless it is empty.
pub(crate) fn program_load(
    kind: BpfProgramKind,
    name: &str,
    insns: &[BpfInsn],
    flags: BpfProgramFlags,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    // Kernel functions are only available to programs with a GPL-compatible license.
    let license = c"Dual BSD/GPL";
    let mut attr = ProgramLoad {
        kind: kind as u32,
        insn_count: insns.len() as u32,
        insns: insns.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr().addr() as u64 },
        flags: if flags.frags { F_XDP_HAS_FRAGS } else { 0 }
            | if flags.bound_to.is_some() { F_XDP_DEV_BOUND_ONLY } else { 0 },
        ifindex: flags.bound_to.unwrap_or(0),
        expected_attach: if kind == BpfProgramKind::Xdp { BpfAttachType::Xdp as u32 } else { 0 },
        name: kernel_name(name),
        ..ProgramLoad::default()
    };
    // SAFETY: `insns` leads to `insn_count` live instructions, `license` to a C string; both are
    // only read. `log` has `log_size` bytes, exclusive during the call.
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

pub(crate) fn link_create(
    program: BorrowedFd<'_>,
    ifindex: u32,
    at: BpfAttachType,
    flags: BpfLinkFlags,
) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut attr = LinkCreate { program, ifindex, attach: at as u32, flags: flags as u32 };
    // SAFETY: `attr` contains no addresses.
    unsafe { bpf(&mut attr) }.map(owned)
}

#[repr(C)]
struct LinkUpdate {
    link: u32,
    new_program: u32,
    flags: u32,
    old_program: u32,
}

// SAFETY: `repr(C)`, four u32; BPF_LINK_UPDATE takes exactly these.
unsafe impl BpfCommand for LinkUpdate {
    const NUMBER: libc::c_long = 29;
}

pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let new_program = program.as_raw_fd() as u32;
    let link = link.as_raw_fd() as u32;
    let mut attr = LinkUpdate { link, new_program, flags: 0, old_program: 0 };
    // SAFETY: `attr` contains no addresses.
    unsafe { bpf(&mut attr) }.map(drop)
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    program: u32,
    zero: u32,
}

const _: () = assert!(size_of::<RawTracepointOpen>() == 16);

// SAFETY: `repr(C)` without gaps; BPF_RAW_TRACEPOINT_OPEN begins with exactly these.
unsafe impl BpfCommand for RawTracepointOpen {
    const NUMBER: libc::c_long = 17;
}

pub(crate) fn raw_tracepoint_open(program: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut attr = RawTracepointOpen { name: name.as_ptr().addr() as u64, program, zero: 0 };
    // SAFETY: `name` is a C string that lives through the call and is only read.
    unsafe { bpf(&mut attr) }.map(owned)
}

#[repr(C)]
#[derive(Default)]
struct ProgramQuery {
    ifindex: u32,
    attach: u32,
    query_flags: u32,
    attach_flags: u32,
    program_ids: u64,
    count: u32,
    zero: u32,
    program_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

const _: () = assert!(size_of::<ProgramQuery>() == 64);

// SAFETY: `repr(C)` without gaps; BPF_PROG_QUERY takes exactly these.
unsafe impl BpfCommand for ProgramQuery {
    const NUMBER: libc::c_long = 16;
}

/// The number of programs at a hook of an interface.
pub(crate) fn program_count(ifindex: u32, at: BpfAttachType) -> io::Result<u32> {
    let mut attr = ProgramQuery { ifindex, attach: at as u32, ..ProgramQuery::default() };
    // SAFETY: the addresses in `attr` are 0, for which the kernel writes no lists.
    unsafe { bpf(&mut attr) }.map(|_| attr.count)
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

/// `struct xdp_md` of linux/bpf.h, as a test run takes it: offsets in the frame, and the interface
/// and queue on which the frame seems to have arrived.
#[repr(C)]
struct XdpContext {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

pub(crate) fn run_live_frames(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
    batch: u32,
    ingress: Option<u32>,
) -> io::Result<()> {
    let context = XdpContext {
        data: 0,
        data_end: frame.len() as u32,
        data_meta: 0,
        ingress_ifindex: ingress.unwrap_or_default(),
        rx_queue_index: 0,
        egress_ifindex: 0,
    };
    let has_context = ingress.is_some();
    let mut attr = TestRun {
        ctx_size_in: if has_context { size_of::<XdpContext>() as u32 } else { 0 },
        ctx_in: if has_context { (&raw const context).addr() as u64 } else { 0 },
        program: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: address(frame),
        repeat,
        batch_size: batch,
        flags: F_TEST_XDP_LIVE_FRAMES,
        ..TestRun::default()
    };
    // SAFETY: `data_in` leads to `data_size_in` live bytes and `ctx_in`, if it is not 0, to
    // `context`; both are only read. The command writes no output.
    unsafe { bpf(&mut attr) }.map(drop)
}

/// Bytes by which a program may make a frame longer in a test run.
const ROOM_TO_GROW: usize = 4096;

pub(crate) fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
) -> io::Result<TestRunResult> {
    let mut out = vec![0; frame.len() + ROOM_TO_GROW];
    let mut attr = TestRun {
        program: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: address(frame),
        data_size_out: out.len() as u32,
        data_out: out.as_mut_ptr().addr() as u64,
        repeat,
        ..TestRun::default()
    };
    // SAFETY: `data_in` leads to `data_size_in` live bytes, which are only read, and `data_out` to
    // `data_size_out` bytes that nothing else uses during the call.
    unsafe { bpf(&mut attr) }?;
    out.truncate(attr.data_size_out as usize);
    Ok(TestRunResult { result: attr.retval, frame: out, nanos: attr.duration })
}
