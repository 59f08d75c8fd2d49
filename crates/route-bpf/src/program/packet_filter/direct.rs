//! Decides in the socket filter which frames the tcx program forwards: those that the forwarding
//! program of XDP would forward. The filter has already found that the router handles the frame.
//!
//! ```text
//!   cb | token u64 | MAC address of the next hop, egress port | lengths u32 |
//! ```
//!
//! A frame that does not pass all checks goes through the ring to the engine, which answers, holds,
//! fragments, or drops and counts it. So this code decides by which path a frame is forwarded, not
//! whether it is forwarded.
//!
//! TCP super-frames are direct, too, if their segments fit the egress MTU. If they went through the
//! ring, later segments of the same flow would overtake them.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfReg, JumpIf, add_imm, alu, exit, load, mov, mov_imm, store,
};

use super::{InterceptionKeys, SKB_CB, SKB_GSO_SIZE, put_token};
use crate::layout::{self, PassReason, map};
use crate::program::context::{Family, PortConstants, SKB_LEN, stack};
use crate::program::fields::ETHERNET_LEN;
use crate::program::{choose, deliver, emit, ipv4, ipv6, reverse_path};

/// Offset of the next hop in the control block, after the token.
pub(super) const NEXT_HOP_AT: i16 = SKB_CB + 8;
/// Offset of the lengths in the control block: the frame without bytes after the packet, and, from
/// bit [`HEADERS_SHIFT`] on, the headers that each segment of a super-frame repeats.
pub(super) const LENGTHS_AT: i16 = SKB_CB + 16;
pub(super) const HEADERS_SHIFT: i32 = 20;

const MIN_TCP_HEADER: i32 = 20;
/// Offset of the byte in the TCP header whose upper half is the header's length in words.
const TCP_DATA_OFFSET: i32 = 12;

/// Goes to "direct" if the tcx program can forward the packet whose headers are at `R7`, otherwise
/// to "take". Out, in the first case: `R9` the adjacency's word.
pub(super) fn decide(program: &mut Assembler, constants: &PortConstants, family: Family) {
    let start = program.position();
    is_permitted(program, constants);
    match family {
        Family::V4 => ipv4::validate(program, constants),
        Family::V6 => ipv6::validate(program, constants),
    }
    lengths(program, family);
    program.put(load(AccessWidth::Double, BpfReg::R9, BpfReg::R10, stack::TARGET));
    choose::adjacency(program, constants, family);
    deliver::egress(program, constants, family);
    reverse_path::check(program, constants, family);
    program.retarget_since(start, |to| is_refusal(to, family), "take").jump("direct");
}

/// Whether a label means that the forwarding program does not forward the packet.
fn is_refusal(label: &str, family: Family) -> bool {
    PassReason::ALL.iter().any(|reason| reason.name() == label)
        || label == family.label("unresolved")
}

/// Jumps to "take" unless frames that arrive on the port may be direct.
fn is_permitted(program: &mut Assembler, constants: &PortConstants) {
    let record = u32::from(constants.port.0) * layout::PORT_SIZE;
    program
        .load_map_value(BpfReg::R3, map::PORTS, record)
        .put(load(AccessWidth::Half, BpfReg::R4, BpfReg::R3, layout::PORT_FLAGS_OFFSET as i16))
        .put(alu(AluOp::And, BpfReg::R4, i32::from(layout::PORT_DIRECT)))
        .jump_if(BpfReg::R4, JumpIf::Eq, 0, "take");
}

/// Writes the frame's lengths to the stack. If it is a super-frame, `R8` becomes the length of the
/// packet in its longest segment.
fn lengths(program: &mut Assembler, family: Family) {
    let single = family.label("one-segment");
    program
        .put_all([mov(BpfReg::R1, BpfReg::R8), add_imm(BpfReg::R1, ETHERNET_LEN)])
        .put(store(AccessWidth::Double, BpfReg::R10, stack::LENGTHS, BpfReg::R1))
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, SKB_GSO_SIZE))
        .jump_if(BpfReg::R2, JumpIf::Eq, 0, &single)
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, SKB_LEN))
        .jump_if(BpfReg::R1, JumpIf::Ne, BpfReg::R2, "take");
    headers_of_segment(program, family);
    program
        .put_all([mov(BpfReg::R2, BpfReg::R1), alu(AluOp::Lsh, BpfReg::R2, HEADERS_SHIFT)])
        .put(load(AccessWidth::Double, BpfReg::R3, BpfReg::R10, stack::LENGTHS))
        .put(alu(AluOp::Or, BpfReg::R2, BpfReg::R3))
        .put(store(AccessWidth::Double, BpfReg::R10, stack::LENGTHS, BpfReg::R2))
        .put(load(AccessWidth::Word, BpfReg::R8, BpfReg::R6, SKB_GSO_SIZE))
        .put_all([alu(AluOp::Add, BpfReg::R8, BpfReg::R1), add_imm(BpfReg::R8, -ETHERNET_LEN)])
        .label(&single);
}

/// `R1` = the length of the Ethernet, IP and TCP headers.
fn headers_of_segment(program: &mut Assembler, family: Family) {
    let before = family.headers_len();
    emit::copy_bytes(program, before + TCP_DATA_OFFSET, stack::FLOW, 1);
    program
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, "take")
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R10, stack::FLOW))
        .put_all([alu(AluOp::Rsh, BpfReg::R1, 4), alu(AluOp::Lsh, BpfReg::R1, 2)])
        .jump_if(BpfReg::R1, JumpIf::Lt, MIN_TCP_HEADER, "take")
        .put(add_imm(BpfReg::R1, before));
}

/// Emits the end of the filter for a direct frame: writes token, next hop `R9` and lengths to the
/// control block. The socket does not get the frame.
pub(super) fn mark(program: &mut Assembler, keys: InterceptionKeys) {
    program.label("direct");
    put_token(program, keys.direct_token());
    let word = |at, from| store(AccessWidth::Word, BpfReg::R6, at, from);
    program
        .put(word(NEXT_HOP_AT, BpfReg::R9))
        .put_all([alu(AluOp::Rsh, BpfReg::R9, 32), word(NEXT_HOP_AT + 4, BpfReg::R9)])
        .put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R10, stack::LENGTHS))
        .put(word(LENGTHS_AT, BpfReg::R1))
        .put_all([mov_imm(BpfReg::R0, 0), exit()]);
}
