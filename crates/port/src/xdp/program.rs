//! The XDP program of a device: redirects each queue's frames to the queue's socket.
//!
//! One program serves all queues, so ports of one process share it; the last port detaches it.
//! Frames of a queue without a socket continue to the host.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::socket::retry_while_busy;
use crate::bpf::insn::{
    AccessWidth, BpfHelper, BpfInsn, BpfReg, add_imm, call, call_kernel, exit, jgt, jne_imm, load,
    load_map, mov, mov_imm, or, shl_imm, store, store_imm, swap16,
};
use crate::bpf::{
    BpfAttachType, BpfLink, BpfLinkFlags, BpfMap, BpfMapKind, BpfProgram, BpfProgramFlags,
    BpfProgramKind,
};
use crate::error::OpenCause;

/// `rx_queue_index` in `struct xdp_md`.
const CTX_RX_QUEUE_OFFSET: i16 = 16;
/// `data` and `data_end` in `struct xdp_md`.
const CTX_DATA_OFFSET: i16 = 0;
const CTX_DATA_END_OFFSET: i16 = 4;
const XDP_PASS: i32 = 2;

/// Where in the kernel the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum XdpAttachMode {
    Native,
    Generic,
}

/// What the program does beyond redirecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VlanHandling {
    /// Frames arrive with their tags, or the tag is lost.
    InBand,
    /// Tags that the device keeps outside the frame are reinserted into it.
    Reinsert,
}

/// A device's attached program, and the map of its sockets.
#[derive(Debug)]
pub(super) struct XdpHook {
    map: BpfMap,
    _link: BpfLink,
    pub(super) attach_mode: XdpAttachMode,
    pub(super) vlan: VlanHandling,
    pub(super) frags: bool,
}

/// Programs of this process by device. An index is only unique within a network namespace.
static HOOKS: Mutex<Vec<(DeviceKey, Weak<XdpHook>)>> = Mutex::new(Vec::new());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DeviceKey {
    namespace: u64,
    ifindex: u32,
}

impl DeviceKey {
    fn of(ifindex: u32) -> Self {
        let namespace = rustix::fs::stat("/proc/thread-self/ns/net").map_or(0, |stat| stat.st_ino);
        Self { namespace, ifindex }
    }
}

/// How a program is to be attached.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookRequest {
    pub(super) attach_mode: XdpAttachMode,
    pub(super) vlan: VlanHandling,
    pub(super) frags: bool,
}

/// Why no program could be attached.
#[derive(Debug)]
pub(super) enum HookError {
    /// This mode failed; another may work.
    Refused(io::Error),
    /// No mode can work.
    Fatal(OpenCause),
}

impl XdpHook {
    /// Returns the program that this process has attached to the device.
    pub(super) fn existing(ifindex: u32) -> Option<Arc<Self>> {
        let device = DeviceKey::of(ifindex);
        let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().find(|(of, _)| *of == device).and_then(|(_, hook)| hook.upgrade())
    }

    /// Attaches a program for a device of `queues` queues.
    pub(super) fn attach(
        ifindex: u32,
        queues: u32,
        wanted: HookRequest,
    ) -> Result<Arc<Self>, HookError> {
        let map = BpfMap::create(BpfMapKind::Sockets, queues).map_err(HookError::Fatal)?;
        let program = match wanted.vlan {
            VlanHandling::InBand => load_plain(&map, wanted).map_err(HookError::Fatal)?,
            VlanHandling::Reinsert => {
                load_with_tags(&map, ifindex, wanted).map_err(HookError::Refused)?
            }
        };
        let flags = match wanted.attach_mode {
            XdpAttachMode::Native => BpfLinkFlags::XdpNative,
            XdpAttachMode::Generic => BpfLinkFlags::XdpGeneric,
        };
        let link = attach_with_retry(&program, ifindex, flags).map_err(HookError::Refused)?;
        let HookRequest { attach_mode: place, vlan, frags } = wanted;
        let hook = Arc::new(Self { map, _link: link, attach_mode: place, vlan, frags });
        let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.retain(|(_, hook)| hook.strong_count() > 0);
        hooks.push((DeviceKey::of(ifindex), Arc::downgrade(&hook)));
        Ok(hook)
    }

    /// Redirects a queue's frames to a bound socket, until that is closed.
    pub(super) fn redirect_queue(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.map.set_socket(queue, socket)
    }
}

/// Retries: a former program stays attached as long as any copy of its descriptor is open, and a
/// child process that is being started has one for a moment.
fn attach_with_retry(
    program: &BpfProgram,
    ifindex: u32,
    flags: BpfLinkFlags,
) -> io::Result<BpfLink> {
    retry_while_busy(|| program.attach(ifindex, BpfAttachType::Xdp, flags))
}

fn load_plain(map: &BpfMap, wanted: HookRequest) -> Result<BpfProgram, OpenCause> {
    let flags = BpfProgramFlags { frags: wanted.frags, bound_to: None };
    BpfProgram::load(
        BpfProgramKind::Xdp,
        "slipring_xdp",
        &redirect_program(map.raw_fd(), BpfReg::R1),
        flags,
    )
}

fn load_with_tags(map: &BpfMap, ifindex: u32, wanted: HookRequest) -> io::Result<BpfProgram> {
    let function = super::btf::kernel_function("bpf_xdp_metadata_rx_vlan_tag")?;
    let mut insns = reinsert_tag_program(function).to_vec();
    insns.extend(redirect_program(map.raw_fd(), BpfReg::R6));
    let flags = BpfProgramFlags { frags: wanted.frags, bound_to: Some(ifindex) };
    BpfProgram::load(BpfProgramKind::Xdp, "slipring_vlan", &insns, flags).map_err(|cause| {
        match cause {
            OpenCause::System { source, .. } | OpenCause::Privilege { source, .. } => source,
            other => io::Error::other(other.to_string()),
        }
    })
}

/// `return bpf_redirect_map(map, ctx->rx_queue_index, XDP_PASS)`
fn redirect_program(map_fd: i32, context: BpfReg) -> [BpfInsn; 6] {
    let [map_low, map_high] = load_map(BpfReg::R1, map_fd);
    [
        load(AccessWidth::Word, BpfReg::R2, context, CTX_RX_QUEUE_OFFSET),
        map_low,
        map_high,
        mov_imm(BpfReg::R3, XDP_PASS),
        call(BpfHelper::RedirectMap),
        exit(),
    ]
}

/// Moves both addresses forward by 4 bytes and writes the tag after them. Falls through to the
/// following instructions, with the context in `R6`.
///
/// ```text
///   before       | destination | source | type ...
///   after   | destination | source | TPID | TCI | type ...
/// ```
fn reinsert_tag_program(kernel_function: i32) -> [BpfInsn; 31] {
    const PROTO_STACK_OFFSET: i16 = -8;
    const TCI_STACK_OFFSET: i16 = -4;
    [
        mov(BpfReg::R6, BpfReg::R1),
        // The function writes both where these point; the verifier wants them initialised.
        store_imm(AccessWidth::Word, BpfReg::R10, PROTO_STACK_OFFSET, 0),
        store_imm(AccessWidth::Word, BpfReg::R10, TCI_STACK_OFFSET, 0),
        mov(BpfReg::R2, BpfReg::R10),
        add_imm(BpfReg::R2, PROTO_STACK_OFFSET as i32),
        mov(BpfReg::R3, BpfReg::R10),
        add_imm(BpfReg::R3, TCI_STACK_OFFSET as i32),
        call_kernel(kernel_function),
        jne_imm(BpfReg::R0, 0, 22),
        mov(BpfReg::R1, BpfReg::R6),
        mov_imm(BpfReg::R2, -4),
        call(BpfHelper::XdpAdjustHead),
        jne_imm(BpfReg::R0, 0, 18),
        load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_DATA_OFFSET),
        load(AccessWidth::Word, BpfReg::R3, BpfReg::R6, CTX_DATA_END_OFFSET),
        mov(BpfReg::R4, BpfReg::R2),
        add_imm(BpfReg::R4, 16),
        jgt(BpfReg::R4, BpfReg::R3, 13),
        // Move the twelve bytes of addresses down by four.
        load(AccessWidth::Word, BpfReg::R5, BpfReg::R2, 4),
        store(AccessWidth::Word, BpfReg::R2, 0, BpfReg::R5),
        load(AccessWidth::Word, BpfReg::R5, BpfReg::R2, 8),
        store(AccessWidth::Word, BpfReg::R2, 4, BpfReg::R5),
        load(AccessWidth::Word, BpfReg::R5, BpfReg::R2, 12),
        store(AccessWidth::Word, BpfReg::R2, 8, BpfReg::R5),
        // The protocol is in network byte order, the control word in host byte order.
        load(AccessWidth::Half, BpfReg::R4, BpfReg::R10, PROTO_STACK_OFFSET),
        load(AccessWidth::Half, BpfReg::R5, BpfReg::R10, TCI_STACK_OFFSET),
        swap16(BpfReg::R5),
        shl_imm(BpfReg::R5, 16),
        or(BpfReg::R4, BpfReg::R5),
        store(AccessWidth::Word, BpfReg::R2, 12, BpfReg::R4),
        mov_imm(BpfReg::R0, 0),
    ]
}
