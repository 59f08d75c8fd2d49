//! Step 6: chooses an adjacency for a target.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{AccessWidth, AluOp, BpfReg, JumpIf, alu, load, mov};

use super::context::{Family, PortConstants, pass_label};
use super::{balance, emit};
use crate::layout::{self, ActionCode, PassReason, map};

/// In: `R9` a target index. Out: `R9` the target's word, `R1` an adjacency index.
pub(super) fn adjacency(program: &mut Assembler, constants: &PortConstants, family: Family) {
    target_word(program, constants);
    let (forward, balance) = (family.label("forward"), family.label("balance"));
    program
        .put_all([mov(BpfReg::R1, BpfReg::R9), alu(AluOp::Rsh, BpfReg::R1, 48)])
        .jump_if(BpfReg::R1, JumpIf::Eq, ActionCode::Forward as i32, &forward)
        .jump_if(BpfReg::R1, JumpIf::Eq, ActionCode::Balance as i32, &balance)
        .jump_if(
            BpfReg::R1,
            JumpIf::Eq,
            ActionCode::NoRoute as i32,
            pass_label(PassReason::NoRoute),
        )
        .jump(pass_label(PassReason::Kernel))
        .label(&balance);
    balance::bucket(program, constants, family);
    let chosen = family.label("chosen");
    program.jump(&chosen).label(&forward);
    emit::target_index(program);
    program.label(&chosen);
}

/// Passes the frame to the kernel if the kernel handles packets for the target `R9`.
pub(super) fn pass_kernel(program: &mut Assembler, constants: &PortConstants) {
    target_word(program, constants);
    program.put(alu(AluOp::Rsh, BpfReg::R9, 48)).jump_if(
        BpfReg::R9,
        JumpIf::Eq,
        ActionCode::Kernel as i32,
        pass_label(PassReason::Kernel),
    );
}

/// `R9` = the word of the target `R9`.
fn target_word(program: &mut Assembler, constants: &PortConstants) {
    let targets = i32::from(constants.limits.targets);
    program
        .jump_if(BpfReg::R9, JumpIf::Ge, targets, pass_label(PassReason::NoTable))
        .load_map_value(BpfReg::R1, map::TARGETS, 0)
        .put(alu(AluOp::Mul, BpfReg::R9, layout::TARGET_SIZE as i32))
        .put(alu(AluOp::Add, BpfReg::R1, BpfReg::R9))
        .put(load(AccessWidth::Double, BpfReg::R9, BpfReg::R1, 0));
}
