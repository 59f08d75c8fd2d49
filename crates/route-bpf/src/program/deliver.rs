//! Steps 7 to 9: the egress port, and the frame's new headers.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, alu32, call, load, load_imm64,
    mov, store,
};

use super::context::{CTX_DATA, CTX_DATA_END, Family, PortConstants, pass_label, stack};
use super::emit;
use super::fields::{ETHERNET_LEN, ipv4, ipv6};
use crate::layout::{self, PassReason, map};

/// Step 7. In: `R1` an adjacency index, `R9` the target's word. Out: `R9` the adjacency's word; the
/// egress port and its MAC address on the stack.
pub(super) fn egress(program: &mut Assembler, constants: &PortConstants, family: Family) {
    let limits = constants.limits;
    program
        .jump_if(
            BpfReg::R1,
            JumpIf::Ge,
            i32::from(limits.adjacencies),
            pass_label(PassReason::NoTable),
        )
        .load_map_value(BpfReg::R2, map::ADJACENCIES, 0)
        .put(alu(AluOp::Mul, BpfReg::R1, layout::ADJACENCY_SIZE as i32))
        .put(alu(AluOp::Add, BpfReg::R2, BpfReg::R1))
        .put(load(AccessWidth::Double, BpfReg::R3, BpfReg::R2, 0))
        .put_all([mov(BpfReg::R4, BpfReg::R3), alu(AluOp::Rsh, BpfReg::R4, 48)])
        .jump_if(BpfReg::R4, JumpIf::Ge, i32::from(limits.ports), &family.label("unresolved"))
        .jump_if(
            BpfReg::R4,
            JumpIf::Eq,
            i32::from(constants.port.0),
            pass_label(PassReason::SamePort),
        )
        .put(store(AccessWidth::Double, BpfReg::R10, stack::EGRESS_PORT, BpfReg::R4));
    egress_port(program);
    fits(program, family);
    program.put(mov(BpfReg::R9, BpfReg::R3));
}

/// `R0` = the record of the port `R4`, and `R5` its MTU; passes the frame to the kernel if the port
/// is down. Puts the port's first word on the stack.
pub(super) fn egress_port(program: &mut Assembler) {
    program
        .load_map_value(BpfReg::R0, map::PORTS, 0)
        .put(alu(AluOp::Mul, BpfReg::R4, layout::PORT_SIZE as i32))
        .put(alu(AluOp::Add, BpfReg::R0, BpfReg::R4))
        .put(load(AccessWidth::Double, BpfReg::R2, BpfReg::R0, 0))
        .put(store(AccessWidth::Double, BpfReg::R10, stack::EGRESS, BpfReg::R2))
        .put(load(AccessWidth::Word, BpfReg::R5, BpfReg::R0, layout::PORT_MTU_OFFSET as i16))
        .put_all([alu(AluOp::Rsh, BpfReg::R2, 48)])
        .put(alu(AluOp::And, BpfReg::R2, i32::from(layout::PORT_EGRESS)))
        .jump_if(BpfReg::R2, JumpIf::Eq, 0, pass_label(PassReason::PortDown));
}

/// Passes the frame to the kernel if the packet of `R8` bytes is larger than the port's MTU `R5`,
/// or than the MTU in the target's word `R9`, if that is not 0.
fn fits(program: &mut Assembler, family: Family) {
    let (fits, too_big) = (family.label("fits"), pass_label(PassReason::TooBig));
    program
        .jump_if(BpfReg::R8, JumpIf::Gt, BpfReg::R5, too_big)
        .put(alu32(AluOp::Mov, BpfReg::R1, BpfReg::R9))
        .jump_if(BpfReg::R1, JumpIf::Eq, 0, &fits)
        .jump_if(BpfReg::R8, JumpIf::Gt, BpfReg::R1, too_big)
        .label(&fits);
}

/// Steps 8 and 9; continues at "transmit".
pub(super) fn rewrite(program: &mut Assembler, family: Family) {
    trim(program, family);
    mac_addresses(program);
    match family {
        Family::V4 => decrement_ttl(program),
        Family::V6 => decrement_byte(program, ipv6::HOP_LIMIT),
    }
    program.jump("transmit");
}

/// Step 8: cuts off bytes after the packet, such as the padding of short Ethernet frames.
fn trim(program: &mut Assembler, family: Family) {
    let (exact, no_room) = (family.label("exact"), pass_label(PassReason::Length));
    program.put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_DATA_END));
    emit::end_of_packet(program);
    program
        .jump_if(BpfReg::R1, JumpIf::Ge, BpfReg::R2, &exact)
        .put_all([mov(BpfReg::R1, BpfReg::R6), call(BpfHelper::XdpGetBuffLen)])
        .put_all([mov(BpfReg::R2, BpfReg::R8), add_imm(BpfReg::R2, ETHERNET_LEN)])
        .put_all([alu(AluOp::Sub, BpfReg::R2, BpfReg::R0), mov(BpfReg::R1, BpfReg::R6)])
        .put(call(BpfHelper::XdpAdjustTail))
        .jump_if(BpfReg::R0, JumpIf::Ne, 0, no_room)
        .put(load(AccessWidth::Word, BpfReg::R7, BpfReg::R6, CTX_DATA))
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_DATA_END));
    emit::at_least(program, family.headers_len(), no_room);
    program.label(&exact);
}

/// Step 9: sets the destination and source address to those of the adjacency and of the egress
/// port.
pub(super) fn mac_addresses(program: &mut Assembler) {
    program
        .put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R10, stack::EGRESS))
        .put_all(load_imm64(BpfReg::R2, (1 << 48) - 1))
        .put_all([alu(AluOp::And, BpfReg::R9, BpfReg::R2), mov(BpfReg::R2, BpfReg::R1)])
        .put_all([alu(AluOp::Lsh, BpfReg::R2, 48), alu(AluOp::Or, BpfReg::R9, BpfReg::R2)])
        .put(store(AccessWidth::Double, BpfReg::R7, 0, BpfReg::R9))
        .put(alu(AluOp::Rsh, BpfReg::R1, 16))
        .put(store(AccessWidth::Word, BpfReg::R7, 8, BpfReg::R1));
}

/// Step 9: subtracts 1 from the time to live and adds it to the checksum, in ones' complement (RFC
/// 1624, RFC 1141).
pub(super) fn decrement_ttl(program: &mut Assembler) {
    decrement_byte(program, ipv4::TTL);
    program
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, ipv4::CHECKSUM))
        .put(add_imm(BpfReg::R1, 0x0100_u16.to_be().into()))
        // Adds the carry, and changes 0xffff to 0. Both are 0 in ones' complement, and the checksum
        // of a header is never 0xffff.
        .put_all([mov(BpfReg::R2, BpfReg::R1), add_imm(BpfReg::R2, 1)])
        .put(alu(AluOp::Rsh, BpfReg::R2, 16))
        .put(alu(AluOp::Add, BpfReg::R1, BpfReg::R2))
        .put(store(AccessWidth::Half, BpfReg::R7, ipv4::CHECKSUM, BpfReg::R1));
}

pub(super) fn decrement_byte(program: &mut Assembler, offset: i16) {
    program.put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, offset)).put_all([
        add_imm(BpfReg::R1, -1),
        store(AccessWidth::Byte, BpfReg::R7, offset, BpfReg::R1),
    ]);
}
