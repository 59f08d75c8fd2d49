//! The end of step 7: drops packets whose source fails the port's check (RFC 3704), as the kernel's
//! `rp_filter` does for IPv4.
//!
//! The source is looked up in the tables of the egress port, like the destination of an answer. The
//! result of this lookup is a code for each port, in `sources`.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{AccessWidth, AluOp, BpfReg, JumpIf, alu, load, store};

use super::context::{Family, PortConstants, pass_label, stack};
use super::fields::{ipv4 as v4, ipv6 as v6};
use super::{emit, ipv4, ipv6};
use crate::layout::{self, PassReason, map};
use crate::sources::{self, SourceCode};

/// Checks the packet's source, if the port checks sources of this family. Continues only if the
/// source passes. `R9` is the adjacency's word before and afterwards.
pub(super) fn check(program: &mut Assembler, constants: &PortConstants, family: Family) {
    let (accepted, checked) = (family.label("source-accepted"), family.label("source-checked"));
    let shift = match family {
        Family::V4 => 0,
        Family::V6 => layout::PORT_V6_SHIFT,
    };
    let record = u32::from(constants.port.0) * layout::PORT_SIZE;
    program
        .load_map_value(BpfReg::R3, map::PORTS, record)
        .put(load(AccessWidth::Half, BpfReg::R4, BpfReg::R3, layout::PORT_FLAGS_OFFSET as i16))
        .put(alu(AluOp::And, BpfReg::R4, i32::from(layout::PORT_CHECKS << shift)))
        .jump_if(BpfReg::R4, JumpIf::Eq, 0, &checked)
        .put(store(AccessWidth::Double, BpfReg::R10, stack::CHECKS, BpfReg::R4))
        .put(store(AccessWidth::Double, BpfReg::R10, stack::ADJACENCY, BpfReg::R9));
    vrf_of_egress(program);
    match family {
        Family::V4 => {
            emit::table_of_vrf(program, map::V4);
            ipv4::target(program, constants, v4::SOURCE, "v4:source-found");
        }
        Family::V6 => {
            emit::table_of_vrf(program, map::V6);
            ipv6::target(program, constants, v6::SOURCE, "v6:source");
        }
    }
    code(program, constants);
    judge(program, layout::PORT_STRICT << shift, &accepted);
    program
        .label(&accepted)
        .put(load(AccessWidth::Double, BpfReg::R9, BpfReg::R10, stack::ADJACENCY))
        .label(&checked);
}

/// `R1` = the VRF of the egress port.
fn vrf_of_egress(program: &mut Assembler) {
    program
        .put(load(AccessWidth::Double, BpfReg::R3, BpfReg::R10, stack::EGRESS_PORT))
        .load_map_value(BpfReg::R1, map::PORTS, layout::PORT_VRF_OFFSET)
        .put(alu(AluOp::Mul, BpfReg::R3, layout::PORT_SIZE as i32))
        .put(alu(AluOp::Add, BpfReg::R1, BpfReg::R3))
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R1, 0));
}

/// Replaces the source's target in `R9` by the target's code for this port.
fn code(program: &mut Assembler, constants: &PortConstants) {
    let (port, limits) = (constants.port.0, constants.limits);
    let word_at = 8 * (u32::from(port) / sources::PORTS_PER_WORD);
    let targets = i32::from(limits.targets);
    program
        .jump_if(BpfReg::R9, JumpIf::Ge, targets, pass_label(PassReason::NoTable))
        .load_map_value(BpfReg::R1, map::SOURCES, word_at)
        .put(alu(AluOp::Mul, BpfReg::R9, limits.source_size() as i32))
        .put(alu(AluOp::Add, BpfReg::R1, BpfReg::R9))
        .put(load(AccessWidth::Double, BpfReg::R9, BpfReg::R1, 0))
        .put(alu(AluOp::Rsh, BpfReg::R9, sources::shift(port) as i32))
        .put(alu(AluOp::And, BpfReg::R9, 3));
}

/// Drops the frame if the code in `R9` requires this, leaves it to the kernel if only the kernel
/// can check it, and otherwise goes to `accepted`. `strict_flag` is the flag of the strict check.
fn judge(program: &mut Assembler, strict_flag: u16, accepted: &str) {
    let is = |code| code as i32;
    let only_kernel = pass_label(PassReason::ReversePath);
    let (strict, loose) =
        (pass_label(PassReason::ReversePathStrict), pass_label(PassReason::ReversePathLoose));
    program
        .jump_if(BpfReg::R9, JumpIf::Eq, is(SourceCode::Here), accepted)
        .jump_if(BpfReg::R9, JumpIf::Eq, is(SourceCode::Kernel), only_kernel)
        .put(load(AccessWidth::Double, BpfReg::R4, BpfReg::R10, stack::CHECKS))
        .jump_if(BpfReg::R4, JumpIf::Set, i32::from(strict_flag), strict)
        .jump_if(BpfReg::R9, JumpIf::Eq, is(SourceCode::NoRoute), loose);
}
