//! The program at tcx ingress, which does with a frame what the filter has decided, and the program
//! that returns frames to the kernel.
//!
//! ```text
//!   token "taken"  --> dropped: the engine has a copy
//!   token "direct" --> egress port of the next hop still usable? --no--> stack
//!                      --> cut off bytes after the packet --> rewrite --> redirect
//!   no token       --> stack
//! ```
//!
//! Frames are rewritten by helpers, not by stores to the frame: a program with such stores begins
//! with a copy of every shared frame, even if the router does not handle the frame, and drops it if
//! there is no memory for the copy.

use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, call, exit, load, load_imm64, mov,
    mov_imm, store, store_imm,
};
use slipring_bpf::{Assembler, BpfCode};

use super::direct::{HEADERS_SHIFT, LENGTHS_AT, NEXT_HOP_AT};
use super::{InterceptionKeys, SKB_GSO_SIZE, SKB_MARK, halves};
use crate::layout::{self, PassReason, counter};
use crate::program::context::{PortConstants, SKB_LEN, pass_label, stack};
use crate::program::fields::{ETHERTYPE, ipv6};
use crate::program::{count, count_reasons, counters, deliver, emit};

const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;
const F_INGRESS: i32 = 1;
/// Flag of `bpf_check_mtu`: the helper checks the segments of super-frames.
const CHECK_SEGMENTS: i32 = 1;

/// Offset of the rewritten bytes on the stack: the Ethernet header, and the IP header up to the
/// last field that may change.
const REWRITTEN: i16 = -96;
const REWRITTEN_LEN: i32 = 26;

/// By how much the sum of the whole packet changes when the hop limit of IPv6, the upper byte of a
/// little-endian word, decreases by 1. For IPv4 the sum stays the same, because the header's
/// checksum changes too.
const HOP_LIMIT_DIFFERENCE: u64 = !0x0100_u32 as u64;

/// Why the program leaves a direct frame to the kernel.
const REASONS: [PassReason; 4] =
    [PassReason::NoTable, PassReason::PortDown, PassReason::TooBig, PassReason::Length];

/// The tcx program. It counts the frames that the engine got, a super-frame once, and the frames
/// that it forwards itself.
pub(crate) fn tcx_program(constants: &PortConstants, keys: InterceptionKeys) -> BpfCode {
    let mut program = Assembler::new();
    program.put(mov(BpfReg::R6, BpfReg::R1));
    unless_token(&mut program, keys.token, "not-taken");
    drop_taken(&mut program, constants);
    program.label("not-taken");
    unless_token(&mut program, keys.direct_token(), "kernel");
    forward(&mut program, constants);
    count_reasons(&mut program, constants, "pass", REASONS.into_iter());
    program
        .jump("next")
        .label("kernel")
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, SKB_MARK))
        .jump_if32(BpfReg::R1, JumpIf::Ne, keys.returned_mark as i32, "next")
        .put_all([
            mov_imm(BpfReg::R1, 0),
            store(AccessWidth::Word, BpfReg::R6, SKB_MARK, BpfReg::R1),
        ])
        .label("next")
        .put_all([mov_imm(BpfReg::R0, TCX_NEXT), exit()]);
    program.assemble().expect("each label is defined once, and the program is short")
}

/// Jumps to `otherwise` unless the control block contains the token.
fn unless_token(program: &mut Assembler, token: u64, otherwise: &str) {
    for (at, half) in halves(token) {
        program.put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, at));
        program.jump_if32(BpfReg::R1, JumpIf::Ne, half, otherwise);
    }
}

/// Drops and counts a frame that the engine got.
fn drop_taken(program: &mut Assembler, constants: &PortConstants) {
    counters(program, constants, "counted");
    count(program, counter::PACKETS, 1);
    program.put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, SKB_LEN));
    count(program, counter::BYTES, BpfReg::R2);
    program.label("counted").put_all([mov_imm(BpfReg::R0, TCX_DROP), exit()]);
}

/// Forwards a direct frame, or continues at the label of the reason for leaving it to the kernel.
fn forward(program: &mut Assembler, constants: &PortConstants) {
    program
        .put(load(AccessWidth::Word, BpfReg::R9, BpfReg::R6, NEXT_HOP_AT + 4))
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, NEXT_HOP_AT))
        .put_all([alu(AluOp::Lsh, BpfReg::R9, 32), alu(AluOp::Or, BpfReg::R9, BpfReg::R1)])
        .put(load(AccessWidth::Word, BpfReg::R8, BpfReg::R6, LENGTHS_AT));
    egress(program, constants);
    trim(program);
    rewrite(program);
    count_direct(program, constants);
    program.put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R10, stack::EGRESS_PORT)).put_all([
        mov_imm(BpfReg::R2, 0),
        call(BpfHelper::Redirect),
        exit(),
    ]);
}

/// Puts the index of the egress interface on the stack. Leaves the frame to the kernel if the port
/// is not usable, or its interface no longer exists or has a smaller MTU now: otherwise the kernel
/// would drop the redirected frame without counting it, or the interface would drop it.
fn egress(program: &mut Assembler, constants: &PortConstants) {
    let ports = i32::from(constants.limits.ports);
    program.put_all([mov(BpfReg::R4, BpfReg::R9), alu(AluOp::Rsh, BpfReg::R4, 48)]).jump_if(
        BpfReg::R4,
        JumpIf::Ge,
        ports,
        pass_label(PassReason::NoTable),
    );
    deliver::egress_port(program);
    let key = i32::from(stack::KEY);
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R0, layout::PORT_IFINDEX_OFFSET as i16))
        .put(store(AccessWidth::Double, BpfReg::R10, stack::EGRESS_PORT, BpfReg::R2))
        // A length of 0 stands for that of the frame.
        .put(store_imm(AccessWidth::Word, BpfReg::R10, stack::KEY, 0))
        .put_all([mov(BpfReg::R1, BpfReg::R6), mov(BpfReg::R3, BpfReg::R10)])
        .put_all([add_imm(BpfReg::R3, key), mov_imm(BpfReg::R4, 0)])
        .put_all([mov_imm(BpfReg::R5, CHECK_SEGMENTS), call(BpfHelper::CheckMtu)])
        .jump_if(BpfReg::R0, JumpIf::Slt, 0, pass_label(PassReason::PortDown))
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, pass_label(PassReason::TooBig));
}

/// Cuts off bytes after the packet, such as the padding of short frames.
fn trim(program: &mut Assembler) {
    frame_length(program, BpfReg::R2);
    program
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, SKB_LEN))
        .jump_if(BpfReg::R1, JumpIf::Le, BpfReg::R2, "exact")
        .put_all([mov(BpfReg::R1, BpfReg::R6), mov_imm(BpfReg::R3, 0)])
        .put(call(BpfHelper::SkbChangeTail))
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, pass_label(PassReason::Length))
        .label("exact");
}

/// `register` = the length of the frame, from the lengths in `R8`.
fn frame_length(program: &mut Assembler, register: BpfReg) {
    program
        .put_all([mov(register, BpfReg::R8), alu(AluOp::And, register, (1 << HEADERS_SHIFT) - 1)]);
}

/// Sets the MAC addresses, the time to live and the checksum, in a copy on the stack, and writes
/// the copy back.
fn rewrite(program: &mut Assembler) {
    let length = pass_label(PassReason::Length);
    emit::copy_bytes(program, 0, REWRITTEN, REWRITTEN_LEN);
    program
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, length)
        .put_all([mov(BpfReg::R7, BpfReg::R10), add_imm(BpfReg::R7, REWRITTEN.into())]);
    deliver::mac_addresses(program);
    let v6 = i32::from(0x86dd_u16.to_be());
    program.put(load(AccessWidth::Half, BpfReg::R9, BpfReg::R7, ETHERTYPE)).jump_if(
        BpfReg::R9,
        JumpIf::Eq,
        v6,
        "v6",
    );
    deliver::decrement_ttl(program);
    program.jump("store").label("v6");
    deliver::decrement_byte(program, ipv6::HOP_LIMIT);
    program
        .label("store")
        .put_all([mov(BpfReg::R1, BpfReg::R6), mov_imm(BpfReg::R2, 0), mov(BpfReg::R3, BpfReg::R7)])
        .put_all([mov_imm(BpfReg::R4, REWRITTEN_LEN), mov_imm(BpfReg::R5, 0)])
        .put(call(BpfHelper::SkbStoreBytes))
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, length)
        .jump_if(BpfReg::R9, JumpIf::Ne, v6, "rewritten")
        // An error means that the device has not computed a checksum.
        .put(mov(BpfReg::R1, BpfReg::R6))
        .put_all(load_imm64(BpfReg::R2, HOP_LIMIT_DIFFERENCE))
        .put(call(BpfHelper::CsumUpdate))
        .label("rewritten");
}

/// Counts a direct frame: a super-frame as the segments in which it leaves.
fn count_direct(program: &mut Assembler, constants: &PortConstants) {
    counters(program, constants, "sent");
    frame_length(program, BpfReg::R4);
    program
        .put(mov_imm(BpfReg::R2, 1))
        .put_all([mov(BpfReg::R3, BpfReg::R8), alu(AluOp::Rsh, BpfReg::R3, HEADERS_SHIFT)])
        .put(load(AccessWidth::Word, BpfReg::R5, BpfReg::R6, SKB_GSO_SIZE))
        .jump_if(BpfReg::R3, JumpIf::Eq, 0, "one-segment")
        .jump_if(BpfReg::R5, JumpIf::Eq, 0, "one-segment")
        // The number of segments, from the payload, rounded up.
        .put_all([mov(BpfReg::R2, BpfReg::R4), alu(AluOp::Sub, BpfReg::R2, BpfReg::R3)])
        .put_all([alu(AluOp::Add, BpfReg::R2, BpfReg::R5), add_imm(BpfReg::R2, -1)])
        .put(alu(AluOp::Div, BpfReg::R2, BpfReg::R5))
        // All segments but one add headers.
        .put_all([mov(BpfReg::R5, BpfReg::R2), add_imm(BpfReg::R5, -1)])
        .put_all([alu(AluOp::Mul, BpfReg::R5, BpfReg::R3), alu(AluOp::Add, BpfReg::R4, BpfReg::R5)])
        .label("one-segment");
    count(program, counter::DIRECT_PACKETS, BpfReg::R2);
    count(program, counter::DIRECT_BYTES, BpfReg::R4);
    program.label("sent");
}

/// The program that makes the kernel receive a frame on an interface, with the mark of returned
/// frames. It is executed as a BPF test run on the frame; its result is 0, or 1 if the kernel's
/// receive queue is full, or a negative error number.
pub(crate) fn injection(ifindex: u32, keys: InterceptionKeys) -> BpfCode {
    let mut program = Assembler::new();
    program
        .put(store_imm(AccessWidth::Word, BpfReg::R1, SKB_MARK, keys.returned_mark as i32))
        .put_all([mov_imm(BpfReg::R2, ifindex as i32), mov_imm(BpfReg::R3, F_INGRESS)])
        .put_all([call(BpfHelper::CloneRedirect), exit()]);
    program.assemble().expect("the program has no labels")
}
