//! Sequences of instructions that several parts of the program need.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, alu32, call, load, mov, mov_imm,
    store, store_imm,
};

use super::context::{
    CTX_DATA, CTX_DATA_END, HeaderAccess, PortConstants, SKB_LEN, pass_label, stack,
};
use super::fields::ETHERNET_LEN;
use crate::layout::{self, PassReason, map};

/// `R0 = lookup(R1, key on the stack)`, or jumps to `otherwise`.
pub(super) fn look_up(program: &mut Assembler, otherwise: &str) {
    program
        .put_all([mov(BpfReg::R2, BpfReg::R10), add_imm(BpfReg::R2, stack::KEY.into())])
        .put(call(BpfHelper::MapLookup))
        .jump_if(BpfReg::R0, JumpIf::Eq, 0, otherwise);
}

/// `R7` and `R2` = start and end of the frame, or jumps to `otherwise` if it has fewer than `len`
/// bytes.
pub(super) fn bounds(program: &mut Assembler, len: i32, otherwise: &str) {
    program.put(load(AccessWidth::Word, BpfReg::R7, BpfReg::R6, CTX_DATA)).put(load(
        AccessWidth::Word,
        BpfReg::R2,
        BpfReg::R6,
        CTX_DATA_END,
    ));
    at_least(program, len, otherwise);
}

/// Jumps to `otherwise` if the frame from `R7` to `R2` has fewer than `len` bytes.
pub(super) fn at_least(program: &mut Assembler, len: i32, otherwise: &str) {
    program.put_all([mov(BpfReg::R1, BpfReg::R7), add_imm(BpfReg::R1, len)]);
    program.jump_if(BpfReg::R1, JumpIf::Gt, BpfReg::R2, otherwise);
}

/// Folds the sum of 16-bit words in `sum` to 16 bits with end-around carry. `sum` is below 2^48 and
/// `scratch` is overwritten.
pub(super) fn fold(program: &mut Assembler, sum: BpfReg, scratch: BpfReg) {
    program.put_all([
        mov(scratch, sum),
        alu(AluOp::Rsh, scratch, 32),
        alu32(AluOp::Mov, sum, sum),
        alu(AluOp::Add, sum, scratch),
    ]);
    for _ in 0..2 {
        program.put_all([
            mov(scratch, sum),
            alu(AluOp::Rsh, scratch, 16),
            alu(AluOp::And, sum, 0xffff),
            alu(AluOp::Add, sum, scratch),
        ]);
    }
}

/// `sum` = the sum of the 32-bit words of the frame at these offsets.
pub(super) fn sum_words(
    program: &mut Assembler,
    sum: BpfReg,
    scratch: BpfReg,
    offsets: impl IntoIterator<Item = i16>,
) {
    for (at, offset) in offsets.into_iter().enumerate() {
        let into = if at == 0 { sum } else { scratch };
        program.put(load(AccessWidth::Word, into, BpfReg::R7, offset));
        if at > 0 {
            program.put(alu(AluOp::Add, sum, scratch));
        }
    }
}

/// `R0` = the table of the port's VRF in an array of maps; passes the frame to the kernel if the
/// VRF has no table.
pub(super) fn table_of_port(program: &mut Assembler, constants: &PortConstants, tables: &str) {
    let vrf_at = u32::from(constants.port.0) * layout::PORT_SIZE + layout::PORT_VRF_OFFSET;
    program.load_map_value(BpfReg::R1, map::PORTS, vrf_at).put(load(
        AccessWidth::Half,
        BpfReg::R1,
        BpfReg::R1,
        0,
    ));
    table_of_vrf(program, tables);
}

/// Like [`table_of_port`], but for the VRF in `R1`.
pub(super) fn table_of_vrf(program: &mut Assembler, tables: &str) {
    program
        .put(store(AccessWidth::Word, BpfReg::R10, stack::KEY, BpfReg::R1))
        .load_map(BpfReg::R1, tables);
    look_up(program, pass_label(PassReason::NoTable));
    program.put(mov(BpfReg::R1, BpfReg::R0));
    program.put(store_imm(AccessWidth::Word, BpfReg::R10, stack::KEY, 0));
    look_up(program, pass_label(PassReason::NoTable));
}

/// Passes the frame to the kernel if the bit `R1`, below 2^16, is set in the set of local
/// addresses.
pub(super) fn pass_local(program: &mut Assembler) {
    program
        .put_all([mov(BpfReg::R3, BpfReg::R1), alu(AluOp::Rsh, BpfReg::R3, 6)])
        .put(alu(AluOp::Lsh, BpfReg::R3, 3))
        .load_map_value(BpfReg::R4, map::LOCAL, 0)
        .put(alu(AluOp::Add, BpfReg::R4, BpfReg::R3))
        .put(load(AccessWidth::Double, BpfReg::R3, BpfReg::R4, 0))
        .put_all([alu(AluOp::And, BpfReg::R1, 63), alu(AluOp::Rsh, BpfReg::R3, BpfReg::R1)])
        .jump_if(BpfReg::R3, JumpIf::Set, 1, pass_label(PassReason::Address));
}

/// `R1` = the index in the target's word `R9`.
pub(super) fn target_index(program: &mut Assembler) {
    program.put_all([
        mov(BpfReg::R1, BpfReg::R9),
        alu(AluOp::Rsh, BpfReg::R1, 32),
        alu(AluOp::And, BpfReg::R1, 0xffff),
    ]);
}

/// Copies `len` bytes of a socket buffer's frame at an offset to the stack. `R0` is 0 if the frame
/// has them.
pub(super) fn copy_bytes(program: &mut Assembler, offset: i32, to: i16, len: i32) {
    program
        .put_all([mov(BpfReg::R1, BpfReg::R6), mov_imm(BpfReg::R2, offset)])
        .put_all([mov(BpfReg::R3, BpfReg::R10), add_imm(BpfReg::R3, to.into())])
        .put_all([mov_imm(BpfReg::R4, len), call(BpfHelper::SkbLoadBytes)]);
}

/// Jumps to the label of a wrong length if the packet of `R8` bytes ends after the frame. In a
/// frame that is read directly, `R2` is its end.
pub(super) fn within_frame(program: &mut Assembler, constants: &PortConstants) {
    match constants.headers {
        HeaderAccess::Frame => end_of_packet(program),
        HeaderAccess::Copy => {
            program
                .put_all([mov(BpfReg::R1, BpfReg::R8), add_imm(BpfReg::R1, ETHERNET_LEN)])
                .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, SKB_LEN));
        }
    }
    program.jump_if(BpfReg::R1, JumpIf::Gt, BpfReg::R2, pass_label(PassReason::Length));
}

/// `R1` = the end of the packet, from its start in `R7` and its length in `R8`.
pub(super) fn end_of_packet(program: &mut Assembler) {
    program
        .put_all([mov(BpfReg::R1, BpfReg::R7), alu(AluOp::Add, BpfReg::R1, BpfReg::R8)])
        .put(add_imm(BpfReg::R1, ETHERNET_LEN));
}
