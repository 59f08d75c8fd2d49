//! Steps 3 and 5 of the program, for IPv6: checks the header and the addresses, and looks up the
//! target.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfReg, JumpIf, add_imm, alu, load, load_imm64, mov, mov_imm, store,
    to_big_endian,
};
use slipring_classify::intervals::{MAX_STEPS, NODE_FLAG};

use super::context::{Family, PortConstants, pass_label, stack};
use super::fields::ipv6::{DESTINATION, HOP_LIMIT, NEXT_HEADER, PAYLOAD_LENGTH, SOURCE, VERSION};
use super::{choose, deliver, emit, partial, reverse_path};
use crate::layout::{self, PassReason, map};

const HEADER_LEN: i32 = 40;
const HOP_BY_HOP: i32 = 0;

/// Forwards the IPv6 packet of the frame from `R7` to `R2`.
pub(super) fn forward(program: &mut Assembler, constants: &PortConstants) {
    program.label("v6");
    emit::at_least(program, Family::V6.headers_len(), pass_label(PassReason::Length));
    validate(program, constants);
    if constants.is_software {
        partial::pass_unfinished(program, Family::V6);
    }
    look_up(program, constants);
    choose::adjacency(program, constants, Family::V6);
    deliver::egress(program, constants, Family::V6);
    reverse_path::check(program, constants, Family::V6);
    deliver::rewrite(program, Family::V6);
}

/// Step 3: the header (RFC 8200) and the addresses (RFC 4291); `R8` = length with the header. The
/// frame is long enough for the header.
pub(super) fn validate(program: &mut Assembler, constants: &PortConstants) {
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, VERSION))
        .put(alu(AluOp::And, BpfReg::R1, 0xf0))
        .jump_if(BpfReg::R1, JumpIf::Ne, 0x60, pass_label(PassReason::Options))
        .put(load(AccessWidth::Half, BpfReg::R8, BpfReg::R7, PAYLOAD_LENGTH))
        .put_all([to_big_endian(BpfReg::R8, 16), add_imm(BpfReg::R8, HEADER_LEN)]);
    emit::within_frame(program, constants);
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, NEXT_HEADER))
        .jump_if(BpfReg::R1, JumpIf::Eq, HOP_BY_HOP, pass_label(PassReason::Options))
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, HOP_LIMIT))
        .jump_if(BpfReg::R1, JumpIf::Le, 1, pass_label(PassReason::Ttl));
    for address in [SOURCE, DESTINATION] {
        routable(program, address);
    }
    not_local(program);
}

/// Passes the frame to the kernel if the source may be an address of this machine.
fn not_local(program: &mut Assembler) {
    let half = |register, offset| load(AccessWidth::Double, register, BpfReg::R7, offset);
    program
        .put_all([half(BpfReg::R1, SOURCE), half(BpfReg::R3, SOURCE + 8)])
        .put_all([alu(AluOp::Xor, BpfReg::R1, BpfReg::R3), to_big_endian(BpfReg::R1, 64)])
        .put_all(load_imm64(BpfReg::R3, layout::LOCAL_MULTIPLIER_V6))
        .put_all([alu(AluOp::Mul, BpfReg::R1, BpfReg::R3), alu(AluOp::Rsh, BpfReg::R1, 48)]);
    emit::pass_local(program);
}

/// Passes the frame to the kernel if the address is multicast (ff00::/8), link-local (fe80::/10),
/// or begins with 64 zeros: unspecified, loopback, or with an embedded IPv4 address.
fn routable(program: &mut Assembler, address: i16) {
    let not_forwarded = pass_label(PassReason::Address);
    program
        .put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R7, address))
        .jump_if(BpfReg::R1, JumpIf::Eq, 0, not_forwarded)
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, address))
        .put_all([to_big_endian(BpfReg::R1, 16), mov(BpfReg::R3, BpfReg::R1)])
        .jump_if(BpfReg::R1, JumpIf::Ge, 0xff00, not_forwarded)
        .put(alu(AluOp::And, BpfReg::R3, 0xffc0))
        .jump_if(BpfReg::R3, JumpIf::Eq, 0xfe80, not_forwarded);
}

/// Step 5: `R9` = the target index of the destination.
pub(super) fn look_up(program: &mut Assembler, constants: &PortConstants) {
    emit::table_of_port(program, constants, map::V6);
    target(program, constants, DESTINATION, "v6");
}

/// `R9` = the target index of the address at an offset, by the tree of
/// [`IntervalTree`](slipring_classify::intervals::IntervalTree) in the table at `R0`. The labels of
/// this lookup begin with `labels`.
///
/// `R3` is the entry, `R4` the half of the address that is searched, `R9` the levels of the upper
/// half's tree.
pub(super) fn target(program: &mut Assembler, constants: &PortConstants, at: i16, labels: &str) {
    let found = format!("{labels}:found");
    program
        .put(load(AccessWidth::Double, BpfReg::R4, BpfReg::R7, at + 8))
        .put(to_big_endian(BpfReg::R4, 64))
        .put(store(AccessWidth::Double, BpfReg::R10, stack::LOWER, BpfReg::R4))
        .put(load(AccessWidth::Double, BpfReg::R4, BpfReg::R7, at))
        .put(to_big_endian(BpfReg::R4, 64))
        .put(load(AccessWidth::Word, BpfReg::R3, BpfReg::R0, 0))
        .put(load(AccessWidth::Word, BpfReg::R9, BpfReg::R0, 4));
    for step in 0..MAX_STEPS {
        descend(program, constants, step, labels);
    }
    program
        .jump_if(
            BpfReg::R3,
            JumpIf::Ge,
            i32::from(constants.limits.targets),
            pass_label(PassReason::NoTable),
        )
        .label(&found)
        .put(mov(BpfReg::R9, BpfReg::R3));
}

/// One step from the entry `R3` to the entry below it, or to the label `found` if it is a target
/// index.
fn descend(program: &mut Assembler, constants: &PortConstants, step: u32, labels: &str) {
    let nodes = constants.limits.v6_nodes as i32;
    let label = |name: &str| format!("{labels}:{name}{step}");
    let (node, same_half, found) = (label("node"), label("half"), format!("{labels}:found"));
    program
        .jump_if32(BpfReg::R3, JumpIf::Slt, 0, &node)
        .jump(&found)
        .label(&node)
        .jump_if(BpfReg::R9, JumpIf::Ne, step as i32, &same_half)
        .put(load(AccessWidth::Double, BpfReg::R4, BpfReg::R10, stack::LOWER))
        .label(&same_half)
        .put(alu(AluOp::And, BpfReg::R3, (NODE_FLAG - 1) as i32))
        .jump_if(BpfReg::R3, JumpIf::Ge, nodes, pass_label(PassReason::NoTable))
        .put(alu(AluOp::Mul, BpfReg::R3, layout::NODE_SIZE as i32))
        .put_all([mov(BpfReg::R1, BpfReg::R0), alu(AluOp::Add, BpfReg::R1, BpfReg::R3)]);
    last_key(program, &label("above"));
    let entries = layout::NODES_OFFSET + layout::NODE_ENTRIES_OFFSET;
    program.put(alu(AluOp::Sub, BpfReg::R1, BpfReg::R5)).put(load(
        AccessWidth::Word,
        BpfReg::R3,
        BpfReg::R1,
        entries as i16,
    ));
}

/// Moves `R1` from the first key of a node to the last key that is not above `R4`, by binary
/// search. `R5` = the offset of this key from the first key, minus the offset of its entry from the
/// first entry, in bytes.
fn last_key(program: &mut Assembler, labels: &str) {
    program.put(mov_imm(BpfReg::R5, 0));
    let mut keys = layout::NODE_KEYS / 2;
    while keys > 0 {
        let above = format!("{labels}-{keys}");
        let bytes = 8 * keys as i32;
        program
            .put(load(
                AccessWidth::Double,
                BpfReg::R2,
                BpfReg::R1,
                layout::NODES_OFFSET as i16 + bytes as i16,
            ))
            .jump_if(BpfReg::R2, JumpIf::Gt, BpfReg::R4, &above)
            .put_all([add_imm(BpfReg::R1, bytes), add_imm(BpfReg::R5, bytes / 2)])
            .label(&above);
        keys /= 2;
    }
}
