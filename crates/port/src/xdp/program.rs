//! The XDP program of a device: leads each queue's frames to the queue's socket.
//!
//! One program serves all queues, so ports of one process share it; the last one takes it out.
//! Frames of a queue without a socket go on to the host.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::socket::when_free;
use crate::bpf::insn::{
    Helper, Insn, Reg, Width, add_imm, call, call_kernel, exit, jgt, jne_imm, load, load_map, mov,
    mov_imm, or, shl_imm, store, store_imm, swap16,
};
use crate::bpf::{Attach, Link, LinkFlags, Map, MapKind, Program, ProgramFlags, ProgramKind};
use crate::error::OpenCause;

/// `rx_queue_index` in `struct xdp_md`.
const QUEUE: i16 = 16;
/// `data` and `data_end` in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const XDP_PASS: i32 = 2;

/// Where in the kernel the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Native,
    Generic,
}

/// What the program does beyond redirecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vlan {
    /// Frames come with their tags, or the tag is lost.
    InBand,
    /// Tags that the device keeps beside the frame are put back into it.
    PutBack,
}

/// A device's program in its place, and the map of its sockets.
#[derive(Debug)]
pub(super) struct Hook {
    map: Map,
    _link: Link,
    pub(super) place: Place,
    pub(super) vlan: Vlan,
    pub(super) frags: bool,
}

/// Programs of this process by device. An index means something in one namespace only.
static HOOKS: Mutex<Vec<(Device, Weak<Hook>)>> = Mutex::new(Vec::new());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Device {
    namespace: u64,
    ifindex: u32,
}

impl Device {
    fn of(ifindex: u32) -> Self {
        let namespace = rustix::fs::stat("/proc/thread-self/ns/net").map_or(0, |stat| stat.st_ino);
        Self { namespace, ifindex }
    }
}

/// How a program is to be attached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) place: Place,
    pub(super) vlan: Vlan,
    pub(super) frags: bool,
}

/// Why no program could be attached.
#[derive(Debug)]
pub(super) enum HookError {
    /// Not in this way; another may work.
    Refused(io::Error),
    /// Not at all.
    Fatal(OpenCause),
}

impl Hook {
    /// The program that this process has on the device.
    pub(super) fn existing(ifindex: u32) -> Option<Arc<Self>> {
        let device = Device::of(ifindex);
        let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().find(|(of, _)| *of == device).and_then(|(_, hook)| hook.upgrade())
    }

    /// Attaches a program for a device of `queues` queues.
    pub(super) fn attach(
        ifindex: u32,
        queues: u32,
        wanted: Wanted,
    ) -> Result<Arc<Self>, HookError> {
        let map = Map::create(MapKind::Sockets, queues).map_err(HookError::Fatal)?;
        let program = match wanted.vlan {
            Vlan::InBand => load_plain(&map, wanted).map_err(HookError::Fatal)?,
            Vlan::PutBack => load_with_tags(&map, ifindex, wanted).map_err(HookError::Refused)?,
        };
        let flags = match wanted.place {
            Place::Native => LinkFlags::XdpNative,
            Place::Generic => LinkFlags::XdpGeneric,
        };
        let link = attach_patiently(&program, ifindex, flags).map_err(HookError::Refused)?;
        let Wanted { place, vlan, frags } = wanted;
        let hook = Arc::new(Self { map, _link: link, place, vlan, frags });
        let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.retain(|(_, hook)| hook.strong_count() > 0);
        hooks.push((Device::of(ifindex), Arc::downgrade(&hook)));
        Ok(hook)
    }

    /// Leads a queue's frames to a bound socket, until that is closed.
    pub(super) fn lead(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.map.set_socket(queue, socket)
    }
}

/// A former program stays as long as any copy of its descriptor: a child process that is just
/// being started has one for a moment.
fn attach_patiently(program: &Program, ifindex: u32, flags: LinkFlags) -> io::Result<Link> {
    when_free(|| program.attach(ifindex, Attach::Xdp, flags))
}

fn load_plain(map: &Map, wanted: Wanted) -> Result<Program, OpenCause> {
    let flags = ProgramFlags { frags: wanted.frags, bound_to: None };
    Program::load(ProgramKind::Xdp, "slipring_xdp", &redirect(map.raw_fd(), Reg::R1), flags)
}

fn load_with_tags(map: &Map, ifindex: u32, wanted: Wanted) -> io::Result<Program> {
    let function = super::btf::kernel_function("bpf_xdp_metadata_rx_vlan_tag")?;
    let mut insns = put_tag_back(function).to_vec();
    insns.extend(redirect(map.raw_fd(), Reg::R6));
    let flags = ProgramFlags { frags: wanted.frags, bound_to: Some(ifindex) };
    Program::load(ProgramKind::Xdp, "slipring_vlan", &insns, flags).map_err(|cause| match cause {
        OpenCause::System { source, .. } | OpenCause::Privilege { source, .. } => source,
        other => io::Error::other(other.to_string()),
    })
}

/// `return bpf_redirect_map(map, ctx->rx_queue_index, XDP_PASS)`
fn redirect(map_fd: i32, context: Reg) -> [Insn; 6] {
    let [map_low, map_high] = load_map(Reg::R1, map_fd);
    [
        load(Width::Word, Reg::R2, context, QUEUE),
        map_low,
        map_high,
        mov_imm(Reg::R3, XDP_PASS),
        call(Helper::RedirectMap),
        exit(),
    ]
}

/// Moves both addresses 4 bytes to the front and writes the tag behind them. Falls through to
/// what follows, with the context in `R6`.
///
/// ```text
///   before       | destination | source | type ...
///   after   | destination | source | TPID | TCI | type ...
/// ```
fn put_tag_back(kernel_function: i32) -> [Insn; 31] {
    const PROTO: i16 = -8;
    const TCI: i16 = -4;
    [
        mov(Reg::R6, Reg::R1),
        // The function writes both where these point; the verifier wants them initialised.
        store_imm(Width::Word, Reg::R10, PROTO, 0),
        store_imm(Width::Word, Reg::R10, TCI, 0),
        mov(Reg::R2, Reg::R10),
        add_imm(Reg::R2, PROTO as i32),
        mov(Reg::R3, Reg::R10),
        add_imm(Reg::R3, TCI as i32),
        call_kernel(kernel_function),
        jne_imm(Reg::R0, 0, 22),
        mov(Reg::R1, Reg::R6),
        mov_imm(Reg::R2, -4),
        call(Helper::XdpAdjustHead),
        jne_imm(Reg::R0, 0, 18),
        load(Width::Word, Reg::R2, Reg::R6, DATA),
        load(Width::Word, Reg::R3, Reg::R6, DATA_END),
        mov(Reg::R4, Reg::R2),
        add_imm(Reg::R4, 16),
        jgt(Reg::R4, Reg::R3, 13),
        // Twelve bytes of addresses come down by four.
        load(Width::Word, Reg::R5, Reg::R2, 4),
        store(Width::Word, Reg::R2, 0, Reg::R5),
        load(Width::Word, Reg::R5, Reg::R2, 8),
        store(Width::Word, Reg::R2, 4, Reg::R5),
        load(Width::Word, Reg::R5, Reg::R2, 12),
        store(Width::Word, Reg::R2, 8, Reg::R5),
        // The protocol comes in network order, the control word in ours.
        load(Width::Half, Reg::R4, Reg::R10, PROTO),
        load(Width::Half, Reg::R5, Reg::R10, TCI),
        swap16(Reg::R5),
        shl_imm(Reg::R5, 16),
        or(Reg::R4, Reg::R5),
        store(Width::Word, Reg::R2, 12, Reg::R4),
        mov_imm(Reg::R0, 0),
    ]
}
