//! The XDP program of a device: redirects each queue's frames to the queue's socket.
//!
//! One program serves all queues, so ports of one process share it; the last port detaches it.
//! Frames of a queue without a socket go to the host.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, call, call_kernel, exit, load,
    mov, mov_imm, store, store_imm, to_big_endian,
};
use slipring_bpf::{
    Assembler, BpfAttachType, BpfCode, BpfError, BpfLink, BpfLinkFlags, BpfMap, BpfMapKind,
    BpfMapSpec, BpfProgram, BpfProgramFlags, BpfProgramKind,
};

use super::device_key::DeviceKey;
use super::socket::retry_while_busy;
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

/// What the program does with VLAN tags in addition to redirecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VlanHandling {
    /// Nothing. A tag that the device keeps outside the frame is lost.
    InBand,
    /// Tags that the device delivers outside the frame are inserted into the frame again.
    Reinsert,
}

/// A device's attached program, and the map of its sockets.
#[derive(Debug)]
pub(super) struct XdpHook {
    map: Arc<BpfMap>,
    /// The link that keeps the program attached; `None` if the caller has attached the program.
    _link: Option<BpfLink>,
    pub(super) attach_mode: XdpAttachMode,
    pub(super) vlan: VlanHandling,
    pub(super) frags: bool,
}

/// The XDP programs that this process has attached, by device.
static HOOKS: Mutex<Vec<(DeviceKey, Weak<XdpHook>)>> = Mutex::new(Vec::new());

/// The kind of the XDP program to attach, and how to attach it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookRequest {
    pub(super) attach_mode: XdpAttachMode,
    pub(super) vlan: VlanHandling,
    pub(super) frags: bool,
}

/// Why an XDP program could not be attached.
#[derive(Debug)]
pub(super) enum HookError {
    /// The kernel refused this mode, but another one may work.
    Refused(io::Error),
    /// No mode can work, for this reason.
    Fatal(OpenCause),
}

impl XdpHook {
    /// Returns the XDP program that this process has attached to the device.
    pub(super) fn existing(ifindex: u32) -> Option<Arc<Self>> {
        let device = DeviceKey::of(ifindex);
        let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().find(|(of, _)| *of == device).and_then(|(_, hook)| hook.upgrade())
    }

    /// Attaches an XDP program for a device of `queues` queues.
    pub(super) fn attach(
        ifindex: u32,
        queues: u32,
        wanted: HookRequest,
    ) -> Result<Arc<Self>, HookError> {
        let spec = BpfMapSpec::of_descriptors(BpfMapKind::XskMap, queues);
        let map = BpfMap::create("slipring_socks", spec);
        let map = map.map_err(|error| HookError::Fatal(error.into()))?;
        let program = match wanted.vlan {
            VlanHandling::InBand => {
                load_plain(&map, wanted.frags).map_err(|error| HookError::Fatal(error.into()))?
            }
            VlanHandling::Reinsert => {
                load_with_tags(&map, ifindex, wanted).map_err(HookError::Refused)?
            }
        };
        let flags = match wanted.attach_mode {
            XdpAttachMode::Native => BpfLinkFlags::XdpNative,
            XdpAttachMode::Generic => BpfLinkFlags::XdpGeneric,
        };
        let link = attach_with_retry(&program, ifindex, flags).map_err(HookError::Refused)?;
        let HookRequest { attach_mode: mode, vlan, frags } = wanted;
        let map = Arc::new(map);
        let hook = Arc::new(Self { map, _link: Some(link), attach_mode: mode, vlan, frags });
        let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.retain(|(_, hook)| hook.strong_count() > 0);
        hooks.push((DeviceKey::of(ifindex), Arc::downgrade(&hook)));
        Ok(hook)
    }

    /// Wraps the map of a caller that has attached an XDP program of its own. That program takes
    /// packets of several buffers.
    pub(super) fn of_owner(map: Arc<BpfMap>, attach_mode: XdpAttachMode) -> Arc<Self> {
        Arc::new(Self { map, _link: None, attach_mode, vlan: VlanHandling::InBand, frags: true })
    }

    /// Redirects a queue's frames to a bound socket, until the socket is closed.
    pub(super) fn redirect_queue(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.map.set_descriptor(queue, socket)
    }
}

/// Attaches an XDP program, and retries while the device is busy. The program of a port that was
/// just closed stays attached as long as any copy of its descriptor is open, and a child process
/// that is just being started has a copy for a moment.
fn attach_with_retry(
    program: &BpfProgram,
    ifindex: u32,
    flags: BpfLinkFlags,
) -> io::Result<BpfLink> {
    retry_while_busy(|| program.attach(ifindex, BpfAttachType::Xdp, flags))
}

/// The name by which programs refer to the map of sockets.
const SOCKETS: &str = "sockets";

fn load_plain(map: &BpfMap, frags: bool) -> Result<BpfProgram, BpfError> {
    let flags = BpfProgramFlags { frags, bound_to: None };
    load_with(&redirect_program(), "slipring_xdp", map, flags)
}

fn load_with_tags(map: &BpfMap, ifindex: u32, wanted: HookRequest) -> io::Result<BpfProgram> {
    let function = slipring_bpf::kernel_function("bpf_xdp_metadata_rx_vlan_tag")?;
    let code = reinsert_tag_program(function);
    let flags = BpfProgramFlags { frags: wanted.frags, bound_to: Some(ifindex) };
    load_with(&code, "slipring_vlan", map, flags).map_err(BpfError::into_io)
}

fn load_with(
    code: &BpfCode,
    name: &str,
    map: &BpfMap,
    flags: BpfProgramFlags,
) -> Result<BpfProgram, BpfError> {
    let insns = code.bind(|name| (name == SOCKETS).then_some(map.raw_fd()));
    let insns = insns.expect("the programs use no other map");
    BpfProgram::load(BpfProgramKind::Xdp, name, &insns, flags)
}

fn redirect_program() -> BpfCode {
    let mut program = Assembler::new();
    program.put(mov(BpfReg::R6, BpfReg::R1));
    redirect_to_socket(&mut program);
    assembled(&program)
}

/// `return bpf_redirect_map(map, ctx->rx_queue_index, XDP_PASS)`, with the context in `R6`.
fn redirect_to_socket(program: &mut Assembler) {
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_RX_QUEUE_OFFSET))
        .load_map(BpfReg::R1, SOCKETS)
        .put_all([mov_imm(BpfReg::R3, XDP_PASS), call(BpfHelper::RedirectMap), exit()]);
}

/// If the device keeps a tag outside the frame, moves the start of the frame and the two addresses
/// 4 bytes to the front, and writes the tag after the addresses. Then redirects the frame.
///
/// ```text
///   before       | destination | source | type ...
///   after   | destination | source | TPID | TCI | type ...
/// ```
fn reinsert_tag_program(kernel_function: i32) -> BpfCode {
    let mut program = Assembler::new();
    program.put(mov(BpfReg::R6, BpfReg::R1));
    read_tag(&mut program, kernel_function);
    program
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, "redirect")
        .put_all([mov(BpfReg::R1, BpfReg::R6), mov_imm(BpfReg::R2, -4)])
        .put(call(BpfHelper::XdpAdjustHead))
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, "redirect")
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_DATA_OFFSET))
        .put(load(AccessWidth::Word, BpfReg::R3, BpfReg::R6, CTX_DATA_END_OFFSET))
        .put_all([mov(BpfReg::R4, BpfReg::R2), add_imm(BpfReg::R4, 16)])
        .jump_if(BpfReg::R4, JumpIf::Gt, BpfReg::R3, "redirect");
    write_tag(&mut program);
    program.label("redirect");
    redirect_to_socket(&mut program);
    assembled(&program)
}

const PROTO_STACK_OFFSET: i16 = -8;
const TCI_STACK_OFFSET: i16 = -4;

/// Writes the VLAN tag that the device keeps outside the frame to the BPF stack. Sets `R0` to 0 if
/// there is such a tag.
fn read_tag(program: &mut Assembler, kernel_function: i32) {
    program.put_all([
        mov(BpfReg::R1, BpfReg::R6),
        // The kernel function writes the protocol and the tag to these addresses. The verifier
        // requires the memory to be initialised.
        store_imm(AccessWidth::Word, BpfReg::R10, PROTO_STACK_OFFSET, 0),
        store_imm(AccessWidth::Word, BpfReg::R10, TCI_STACK_OFFSET, 0),
        mov(BpfReg::R2, BpfReg::R10),
        add_imm(BpfReg::R2, PROTO_STACK_OFFSET as i32),
        mov(BpfReg::R3, BpfReg::R10),
        add_imm(BpfReg::R3, TCI_STACK_OFFSET as i32),
        call_kernel(kernel_function),
    ]);
}

/// Moves the twelve bytes of addresses from `R2 + 4` down by four, and writes the tag after them.
fn write_tag(program: &mut Assembler) {
    for offset in [0, 4, 8] {
        program.put(load(AccessWidth::Word, BpfReg::R5, BpfReg::R2, offset + 4));
        program.put(store(AccessWidth::Word, BpfReg::R2, offset, BpfReg::R5));
    }
    program.put_all([
        // The protocol is in network byte order, the control word in host byte order.
        load(AccessWidth::Half, BpfReg::R4, BpfReg::R10, PROTO_STACK_OFFSET),
        load(AccessWidth::Half, BpfReg::R5, BpfReg::R10, TCI_STACK_OFFSET),
        to_big_endian(BpfReg::R5, 16),
        alu(AluOp::Lsh, BpfReg::R5, 16),
        alu(AluOp::Or, BpfReg::R4, BpfReg::R5),
        store(AccessWidth::Word, BpfReg::R2, 12, BpfReg::R4),
    ]);
}

fn assembled(program: &Assembler) -> BpfCode {
    program.assemble().expect("each label of these programs is defined once, close by")
}

#[cfg(test)]
mod tests {
    use slipring_bpf::{BpfRedirect, Interpreter, SimulatedMap, XdpMeta};

    use super::*;

    const FUNCTION: i32 = 77;
    const XDP_REDIRECT: u32 = 4;

    /// A queue 1 with socket 9, and a device that keeps the tag 0x8100, 0x6007 of its frames.
    fn device() -> Interpreter {
        let mut interpreter = Interpreter::new();
        let map = SimulatedMap::new(BpfMapSpec::of_descriptors(BpfMapKind::XskMap, 2));
        interpreter.add_map(SOCKETS, map);
        assert!(interpreter.set_reference(SOCKETS, 1, 9));
        interpreter.set_function(FUNCTION, |memory, [_, proto, tci, ..]| {
            memory.bytes(proto, 2)?.copy_from_slice(&0x8100_u16.to_be_bytes());
            memory.bytes(tci, 2)?.copy_from_slice(&0x6007_u16.to_ne_bytes());
            Some(0)
        });
        interpreter
    }

    fn frame() -> Vec<u8> {
        (0..60).collect()
    }

    #[test]
    fn frames_of_a_queue_with_a_socket_go_to_it_and_others_to_the_host() {
        let mut device = device();
        let mut run = |rx_queue| {
            let meta = XdpMeta { ifindex: 3, rx_queue };
            let outcome = device.run_xdp(&redirect_program(), &frame(), meta).unwrap();
            (outcome.action, outcome.redirect)
        };
        assert_eq!(run(1), (XDP_REDIRECT, Some(BpfRedirect::MapEntry(9))));
        assert_eq!(run(0), (XDP_PASS as u32, None));
        assert_eq!(run(7), (XDP_PASS as u32, None));
    }

    #[test]
    fn a_tag_that_the_device_kept_is_put_after_the_addresses() {
        let meta = XdpMeta { ifindex: 3, rx_queue: 1 };
        let outcome = device().run_xdp(&reinsert_tag_program(FUNCTION), &frame(), meta).unwrap();
        assert_eq!(outcome.action, XDP_REDIRECT);
        let tagged = [&frame()[..12], &[0x81, 0, 0x60, 7], &frame()[12..]].concat();
        assert_eq!(outcome.frame, tagged);
    }

    #[test]
    fn a_frame_without_a_tag_stays_as_it_is() {
        let mut device = device();
        const ENODATA: u64 = 61;
        device.set_function(FUNCTION, |_, _| Some(ENODATA.wrapping_neg()));
        let meta = XdpMeta { ifindex: 3, rx_queue: 1 };
        let outcome = device.run_xdp(&reinsert_tag_program(FUNCTION), &frame(), meta).unwrap();
        assert_eq!((outcome.action, outcome.frame), (XDP_REDIRECT, frame()));
    }
}
