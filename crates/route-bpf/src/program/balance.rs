//! Step 6 with several next hops: the flow's hash, which [`crate::flow_hash`] defines.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{AccessWidth, AluOp, BpfReg, JumpIf, add_imm, alu, load, load_imm64, mov};

use super::{CTX_DATA_END, Family, PortConstants, choose, ipv4, ipv6, pass_label};
use crate::flow_hash::{HAS_PORTS, MULTIPLIER};
use crate::layout::{self, PassReason, map};

/// In: `R9` the target's word, `R7` the frame. Out: `R1` the adjacency index in the bucket of the
/// flow.
pub(super) fn bucket(program: &mut Assembler, constants: &PortConstants, family: Family) {
    hash(program, constants, family);
    let groups = i32::from(constants.limits.groups);
    choose::index(program);
    program
        .jump_if(BpfReg::R1, JumpIf::Ge, groups, pass_label(PassReason::NoTable))
        .put(alu(AluOp::Mul, BpfReg::R1, layout::GROUP_SIZE as i32))
        .put_all([alu(AluOp::Rsh, BpfReg::R0, 56), alu(AluOp::Lsh, BpfReg::R0, 1)])
        .load_map_value(BpfReg::R2, map::BUCKETS, 0)
        .put_all([alu(AluOp::Add, BpfReg::R2, BpfReg::R1), alu(AluOp::Add, BpfReg::R2, BpfReg::R0)])
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R2, 0));
}

/// `R0` = the hash of the flow; `R1` to `R5` are overwritten.
fn hash(program: &mut Assembler, constants: &PortConstants, family: Family) {
    ports_and_protocol(program, family);
    program
        .put_all(load_imm64(BpfReg::R0, constants.seed))
        .put_all(load_imm64(BpfReg::R4, MULTIPLIER));
    let words: &[i16] = match family {
        Family::V4 => &[ipv4::SOURCE],
        Family::V6 => &ipv6::ADDRESS_WORDS,
    };
    for &offset in words {
        program.put(load(AccessWidth::Double, BpfReg::R5, BpfReg::R7, offset));
        mix(program);
    }
    program.put(mov(BpfReg::R5, BpfReg::R3));
    mix(program);
    program.put(alu(AluOp::Mul, BpfReg::R0, BpfReg::R4));
}

/// Mixes the word `R5` into the hash `R0`; `R4` is the multiplier.
fn mix(program: &mut Assembler) {
    program.put_all([
        alu(AluOp::Xor, BpfReg::R0, BpfReg::R5),
        alu(AluOp::Mul, BpfReg::R0, BpfReg::R4),
        mov(BpfReg::R5, BpfReg::R0),
        alu(AluOp::Rsh, BpfReg::R5, 32),
        alu(AluOp::Xor, BpfReg::R0, BpfReg::R5),
    ]);
}

/// `R3` = the ports in the low 32 bits and the protocol above; the ports are 0 in fragments, in
/// truncated packets and with other protocols.
fn ports_and_protocol(program: &mut Assembler, family: Family) {
    let (has, without) = (family.label("has-ports"), family.label("without-ports"));
    let protocol = match family {
        Family::V4 => ipv4::PROTOCOL,
        Family::V6 => ipv6::NEXT_HEADER,
    };
    program
        .put(load(AccessWidth::Byte, BpfReg::R3, BpfReg::R7, protocol))
        .put_all([mov(BpfReg::R1, BpfReg::R3), alu(AluOp::Lsh, BpfReg::R3, 32)]);
    for protocol in HAS_PORTS {
        program.jump_if(BpfReg::R1, JumpIf::Eq, i32::from(protocol), &has);
    }
    program.jump(&without).label(&has);
    if family == Family::V4 {
        program.put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, ipv4::FRAGMENT)).jump_if(
            BpfReg::R1,
            JumpIf::Set,
            i32::from(ipv4::FRAGMENT_BITS.to_be()),
            &without,
        );
    }
    let ports_end = family.headers_len() + 4;
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_DATA_END))
        .put_all([mov(BpfReg::R1, BpfReg::R7), add_imm(BpfReg::R1, ports_end)])
        .jump_if(BpfReg::R1, JumpIf::Gt, BpfReg::R2, &without)
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R7, family.headers_len() as i16))
        .put(alu(AluOp::Or, BpfReg::R3, BpfReg::R1))
        .label(&without);
}
