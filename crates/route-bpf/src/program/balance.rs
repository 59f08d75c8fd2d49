//! Step 6 for routes with several next hops: computes the hash of the flow, which `flow_hash`
//! defines.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfReg, JumpIf, add_imm, alu, alu32, load, load_imm64, mov, mov_imm, store,
    to_big_endian,
};

use super::context::{CTX_DATA_END, Family, HeaderAccess, PortConstants, pass_label, stack};
use super::emit;
use super::fields::{ETHERNET_LEN, ipv4, ipv6};
use crate::flow_hash::{HAS_PORTS, MULTIPLIERS};
use crate::layout::{self, PassReason, map};

/// In: `R9` the target's word, `R7` the frame. Out: `R1` the adjacency index in the bucket that the
/// flow's hash selects.
pub(super) fn bucket(program: &mut Assembler, constants: &PortConstants, family: Family) {
    match family {
        Family::V4 => hash_v4(program, constants),
        Family::V6 => hash_v6(program, constants),
    }
    let groups = i32::from(constants.limits.groups);
    emit::target_index(program);
    program
        .jump_if(BpfReg::R1, JumpIf::Ge, groups, pass_label(PassReason::NoTable))
        .put(alu(AluOp::Mul, BpfReg::R1, layout::GROUP_SIZE as i32))
        .put_all([alu(AluOp::And, BpfReg::R0, 0xff), alu(AluOp::Lsh, BpfReg::R0, 1)])
        .load_map_value(BpfReg::R2, map::BUCKETS, 0)
        .put_all([alu(AluOp::Add, BpfReg::R2, BpfReg::R1), alu(AluOp::Add, BpfReg::R2, BpfReg::R0)])
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R2, 0));
}

/// `R0` = the hash of the flow; `R1` to `R5` are overwritten.
fn hash_v4(program: &mut Assembler, constants: &PortConstants) {
    ports(program, constants, Family::V4);
    program
        .put(alu(AluOp::Lsh, BpfReg::R3, 8))
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, ipv4::PROTOCOL))
        .put(alu(AluOp::Or, BpfReg::R3, BpfReg::R1))
        .put(store(AccessWidth::Double, BpfReg::R10, stack::FLOW, BpfReg::R3));
    addresses_v4(program, constants.hash.seed);
    program.put_all(load_imm64(BpfReg::R2, MULTIPLIERS[0]));
    fold(program);
    finish(program, MULTIPLIERS[1]);
}

/// Like [`hash_v4`], but for IPv6.
fn hash_v6(program: &mut Assembler, constants: &PortConstants) {
    ports(program, constants, Family::V6);
    program.put(alu(AluOp::Lsh, BpfReg::R3, 32));
    if constants.hash.uses_flow_label {
        program
            .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R7, ipv6::VERSION))
            .put_all([to_big_endian(BpfReg::R1, 32), alu(AluOp::And, BpfReg::R1, 0xf_ffff)])
            .put_all([alu(AluOp::Lsh, BpfReg::R1, 8), alu(AluOp::Or, BpfReg::R3, BpfReg::R1)]);
    }
    let (seed, [m0, m1, m2]) = (constants.hash.seed, MULTIPLIERS);
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, ipv6::NEXT_HEADER))
        .put(alu(AluOp::Or, BpfReg::R3, BpfReg::R1))
        .put(store(AccessWidth::Double, BpfReg::R10, stack::FLOW, BpfReg::R3));
    word_xor(program, BpfReg::R1, ipv6::SOURCE, seed);
    word_xor(program, BpfReg::R2, ipv6::DESTINATION, m0);
    fold(program);
    program.put(store(AccessWidth::Double, BpfReg::R10, stack::ADDRESSES, BpfReg::R0));
    word_xor(program, BpfReg::R1, ipv6::SOURCE + 8, m1);
    word_xor(program, BpfReg::R2, ipv6::DESTINATION + 8, seed);
    fold(program);
    program.put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R10, stack::ADDRESSES)).put(alu(
        AluOp::Xor,
        BpfReg::R0,
        BpfReg::R1,
    ));
    finish(program, m2);
}

/// `R0 = fold(R0 ^ the flow's word on the stack, multiplier)`.
fn finish(program: &mut Assembler, multiplier: u64) {
    program
        .put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R10, stack::FLOW))
        .put(alu(AluOp::Xor, BpfReg::R1, BpfReg::R0))
        .put_all(load_imm64(BpfReg::R2, multiplier));
    fold(program);
}

/// `R1` = both addresses, xor `value`; `R2` is overwritten. They are loaded one by one, since a
/// copy of the headers on the stack has them at an offset that is no multiple of 8.
fn addresses_v4(program: &mut Assembler, value: u64) {
    for (register, offset) in [(BpfReg::R1, ipv4::SOURCE), (BpfReg::R2, ipv4::DESTINATION)] {
        program
            .put(load(AccessWidth::Word, register, BpfReg::R7, offset))
            .put(to_big_endian(register, 32));
    }
    program
        .put_all([alu(AluOp::Lsh, BpfReg::R1, 32), alu(AluOp::Or, BpfReg::R1, BpfReg::R2)])
        .put_all(load_imm64(BpfReg::R2, value))
        .put(alu(AluOp::Xor, BpfReg::R1, BpfReg::R2));
}

/// `register` = big-endian word of the frame at the offset, xor `value`; `R5` is overwritten.
fn word_xor(program: &mut Assembler, register: BpfReg, offset: i16, value: u64) {
    program
        .put(load(AccessWidth::Double, register, BpfReg::R7, offset))
        .put(to_big_endian(register, 64))
        .put_all(load_imm64(BpfReg::R5, value))
        .put(alu(AluOp::Xor, register, BpfReg::R5));
}

/// `R0` = the exclusive or of the halves of the 128-bit product of `R1` and `R2`, from products of
/// 32-bit halves; `R1` to `R5` are overwritten.
fn fold(program: &mut Assembler) {
    use BpfReg::{R0, R1, R2, R3, R4, R5};
    let low = |dst, src| alu32(AluOp::Mov, dst, src);
    let high = |dst| alu(AluOp::Rsh, dst, 32);
    let (times, plus) = (AluOp::Mul, AluOp::Add);
    program
        // The low half of the product.
        .put_all([mov(R0, R1), alu(times, R0, R2)])
        // R3 and R1 are the halves of the first factor, R4 and R2 the halves of the second factor.
        .put_all([low(R3, R1), high(R1), low(R4, R2), high(R2)])
        // R5 is the carry from the low product. The low halves of the mixed products are then added
        // to R5. Their high halves, and the high half of R5, are added to the high product in R1.
        .put_all([mov(R5, R3), alu(times, R5, R4), high(R5)])
        .put_all([alu(times, R3, R2), alu(times, R4, R1), alu(times, R1, R2)])
        .put_all([low(R2, R3), alu(plus, R5, R2), low(R2, R4), alu(plus, R5, R2)])
        .put_all([high(R5), high(R3), high(R4)])
        .put_all([alu(plus, R1, R3), alu(plus, R1, R4), alu(plus, R1, R5)])
        .put(alu(AluOp::Xor, R0, R1));
}

/// `R3` = both ports in one word, or 0 for fragments, truncated packets and other protocols.
fn ports(program: &mut Assembler, constants: &PortConstants, family: Family) {
    let (has, without) = (family.label("has-ports"), family.label("without-ports"));
    let protocol = match family {
        Family::V4 => ipv4::PROTOCOL,
        Family::V6 => ipv6::NEXT_HEADER,
    };
    program.put(mov_imm(BpfReg::R3, 0)).put(load(
        AccessWidth::Byte,
        BpfReg::R1,
        BpfReg::R7,
        protocol,
    ));
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
        // The ports must be inside the packet; the frame may be longer.
        .jump_if(BpfReg::R8, JumpIf::Lt, ports_end - ETHERNET_LEN, &without);
    match constants.headers {
        HeaderAccess::Frame => load_ports(program, family, &without),
        HeaderAccess::Copy => copy_ports(program, family, &without),
    }
    program.put(to_big_endian(BpfReg::R3, 32)).label(&without);
}

/// `R3` = the ports. The verifier requires the comparison with the end of the frame.
fn load_ports(program: &mut Assembler, family: Family, without: &str) {
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_DATA_END))
        .put_all([mov(BpfReg::R1, BpfReg::R7), add_imm(BpfReg::R1, family.headers_len() + 4)])
        .jump_if(BpfReg::R1, JumpIf::Gt, BpfReg::R2, without)
        .put(load(AccessWidth::Word, BpfReg::R3, BpfReg::R7, family.headers_len() as i16));
}

/// `R3` = the ports, which the copy of the headers on the stack does not contain.
fn copy_ports(program: &mut Assembler, family: Family, without: &str) {
    emit::copy_bytes(program, family.headers_len(), stack::FLOW, 4);
    program.put(mov_imm(BpfReg::R3, 0)).jump_if(BpfReg::R0, JumpIf::Ne, 0, without).put(load(
        AccessWidth::Word,
        BpfReg::R3,
        BpfReg::R10,
        stack::FLOW,
    ));
}
