//! Steps 3 and 5 of the forwarding program ([`super`]) for IPv4.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfReg, JumpIf, add_imm, alu, alu32, load, mov, to_big_endian,
};

use super::context::{Family, PortConstants, pass_label};
use super::fields::ipv4::{DESTINATION, SOURCE, TOTAL_LENGTH, TTL, VERSION};
use super::{choose, deliver, emit, partial, reverse_path};
use crate::layout::{self, PassReason, map};

/// Forwards the IPv4 packet of the frame that begins at `R7` and ends at `R2`.
pub(super) fn forward(program: &mut Assembler, constants: &PortConstants) {
    program.label("v4");
    validate(program, constants);
    if constants.is_software {
        partial::pass_unfinished(program, Family::V4);
    }
    look_up(program, constants);
    choose::adjacency(program, constants, Family::V4);
    deliver::egress(program, constants, Family::V4);
    reverse_path::check(program, constants, Family::V4);
    deliver::rewrite(program, Family::V4);
}

/// Step 3: the checks of RFC 1812, section 5.2.2, and of section 5.3.7 for addresses; `R8` = total
/// length.
pub(super) fn validate(program: &mut Assembler, constants: &PortConstants) {
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, VERSION))
        .jump_if(BpfReg::R1, JumpIf::Ne, 0x45, pass_label(PassReason::Options))
        .put(load(AccessWidth::Half, BpfReg::R8, BpfReg::R7, TOTAL_LENGTH))
        .put(to_big_endian(BpfReg::R8, 16))
        .jump_if(BpfReg::R8, JumpIf::Lt, 20, pass_label(PassReason::Length));
    emit::within_frame(program, constants);
    emit::sum_words(program, BpfReg::R1, BpfReg::R3, (VERSION..VERSION + 20).step_by(4));
    emit::fold(program, BpfReg::R1, BpfReg::R3);
    program
        .jump_if(BpfReg::R1, JumpIf::Ne, 0xffff, pass_label(PassReason::Checksum))
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, TTL))
        .jump_if(BpfReg::R1, JumpIf::Le, 1, pass_label(PassReason::Ttl));
    for address in [SOURCE, DESTINATION] {
        unicast(program, address);
    }
    not_local(program);
}

/// Passes the frame to the kernel if the address at offset `address` begins with 0, with 127, or
/// with 224 or more.
fn unicast(program: &mut Assembler, address: i16) {
    let not_forwarded = pass_label(PassReason::Address);
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, address))
        .jump_if(BpfReg::R1, JumpIf::Eq, 0, not_forwarded)
        .jump_if(BpfReg::R1, JumpIf::Eq, 127, not_forwarded)
        .jump_if(BpfReg::R1, JumpIf::Ge, 224, not_forwarded);
}

/// Passes the frame to the kernel if the source may be an address of this machine. The kernel drops
/// such packets as martians.
fn not_local(program: &mut Assembler) {
    program
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R7, SOURCE))
        .put(to_big_endian(BpfReg::R1, 32))
        .put(alu32(AluOp::Mul, BpfReg::R1, layout::LOCAL_MULTIPLIER as i32))
        .put(alu32(AluOp::Rsh, BpfReg::R1, 16));
    emit::pass_local(program);
}

/// Step 5: `R9` = the target index of the destination, by DIR-24-8.
pub(super) fn look_up(program: &mut Assembler, constants: &PortConstants) {
    emit::table_of_port(program, constants, map::V4);
    target(program, constants, DESTINATION, "v4:found");
}

/// `R9` = the target index of the address at offset `at`, by the table at `R0`. The lookup defines
/// the label `found`, which must not exist yet.
pub(super) fn target(program: &mut Assembler, constants: &PortConstants, at: i16, found: &str) {
    program
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R7, at))
        .put_all([to_big_endian(BpfReg::R1, 32), mov(BpfReg::R2, BpfReg::R1)])
        .put_all([alu(AluOp::Rsh, BpfReg::R2, 8), alu(AluOp::Lsh, BpfReg::R2, 1)])
        .put_all([mov(BpfReg::R3, BpfReg::R0), alu(AluOp::Add, BpfReg::R3, BpfReg::R2)])
        .put(load(AccessWidth::Half, BpfReg::R9, BpfReg::R3, 0))
        .jump_if(BpfReg::R9, JumpIf::Lt, i32::from(layout::BLOCK_FLAG), found);
    tail(program, constants);
    program.label(found);
}

/// `R9` = the target index of the address `R1` in a block of 256 cells, one for each last byte. On
/// entry, `R9` is the number of the block with its flag, and `R0` the table.
fn tail(program: &mut Assembler, constants: &PortConstants) {
    let no_table = pass_label(PassReason::NoTable);
    let blocks = i32::from(constants.limits.tail_blocks);
    let tail_at = 2 * layout::ROOT_CELLS as i32;
    program
        .put(alu(AluOp::And, BpfReg::R9, i32::from(layout::BLOCK_FLAG - 1)))
        .jump_if(BpfReg::R9, JumpIf::Ge, blocks, no_table)
        .put_all([alu(AluOp::Lsh, BpfReg::R9, 8), alu(AluOp::And, BpfReg::R1, 0xff)])
        .put_all([alu(AluOp::Add, BpfReg::R9, BpfReg::R1), alu(AluOp::Lsh, BpfReg::R9, 1)])
        .put_all([alu(AluOp::Add, BpfReg::R0, BpfReg::R9), add_imm(BpfReg::R0, tail_at)])
        .put(load(AccessWidth::Half, BpfReg::R9, BpfReg::R0, 0))
        .jump_if(BpfReg::R9, JumpIf::Ge, i32::from(layout::BLOCK_FLAG), no_table);
}
