//! Packets whose next hop has no known MAC address: the kernel resolves it and holds the packet.
//! During a scan of a subnet, the kernel would have to resolve every address, at the cost of other
//! packets, and far beyond the number of neighbours that it can store (`gc_thresh3`). So packets
//! for new hosts of connected subnets are left to the kernel at a limited rate; packets for further
//! hosts are dropped.
//!
//! ```text
//!   gateway ------------------------------------------------------------> kernel
//!   host --> slot of the address: asked for in the last 3 ticks? --yes--> kernel; tick = now
//!                |no
//!                '--> hosts of this tick below the limit? --yes--> kernel; takes the slot if free
//!                         |no
//!                         '--> dropped
//! ```
//! A tick is a little more than a second, and the kernel gives up after three. So once the kernel
//! has begun to resolve a host, the limit does not apply to this host until the kernel gives up.
//! Such a host keeps its slot; for another host with the same slot, every packet counts. Programs
//! on other CPUs may write the same words at the same time: a few hosts more than the limit are let
//! through then.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, alu32, call, load, load_imm64,
    mov, mov_imm, store,
};

use super::context::{Family, pass_label};
use super::fields::{ipv4, ipv6};
use crate::layout::{self, PassReason, map};

/// Leaves the frame to the kernel, or drops it if it is for a new host beyond the limit. In: `R4`,
/// the value in place of the adjacency's port, which says whether the next hop is a host of a
/// connected subnet.
pub(super) fn limit(program: &mut Assembler, family: Family) {
    let unresolved = pass_label(PassReason::Unresolved);
    program.label(&family.label("unresolved")).jump_if(
        BpfReg::R4,
        JumpIf::Ne,
        i32::from(layout::HOST_WITHOUT_MAC),
        unresolved,
    );
    key(program, family);
    let (limit_at, _) = offsets(family);
    program
        .load_map_value(BpfReg::R1, map::CONTROL, limit_at)
        .put(load(AccessWidth::Double, BpfReg::R9, BpfReg::R1, 0))
        .jump_if(BpfReg::R9, JumpIf::Eq, 0, unresolved);
    tick_and_slot(program);
    let new = family.label("new-host");
    program
        .put_all([mov(BpfReg::R4, BpfReg::R3), alu(AluOp::Rsh, BpfReg::R4, 32)])
        .put_all([alu32(AluOp::Mov, BpfReg::R2, BpfReg::R0)])
        .put_all([alu32(AluOp::Sub, BpfReg::R2, BpfReg::R3), mov_imm(BpfReg::R5, 1)])
        .jump_if(BpfReg::R2, JumpIf::Gt, layout::RESOLVING_TICKS, &new)
        // The kernel is already resolving the host that the slot stands for: the packet's host, or
        // another host with the same slot.
        .put(mov_imm(BpfReg::R5, 0))
        .jump_if(BpfReg::R4, JumpIf::Ne, BpfReg::R8, &new)
        .put(store(AccessWidth::Word, BpfReg::R1, 0, BpfReg::R0))
        .jump(unresolved)
        .label(&new);
    count_host(program, family);
    program
        .jump_if(BpfReg::R5, JumpIf::Eq, 0, unresolved)
        .put_all([alu(AluOp::Lsh, BpfReg::R8, 32), alu(AluOp::Or, BpfReg::R8, BpfReg::R0)])
        .put(store(AccessWidth::Double, BpfReg::R1, 0, BpfReg::R8))
        .jump(unresolved);
}

/// `R8` = 32 bits that stand for the destination.
fn key(program: &mut Assembler, family: Family) {
    match family {
        Family::V4 => {
            program.put(load(AccessWidth::Word, BpfReg::R8, BpfReg::R7, ipv4::DESTINATION));
        }
        Family::V6 => {
            program
                .put(load(AccessWidth::Double, BpfReg::R8, BpfReg::R7, ipv6::DESTINATION))
                .put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R7, ipv6::DESTINATION + 8))
                .put(alu(AluOp::Xor, BpfReg::R8, BpfReg::R1))
                .put_all(load_imm64(BpfReg::R1, layout::LOCAL_MULTIPLIER_V6))
                .put_all([
                    alu(AluOp::Mul, BpfReg::R8, BpfReg::R1),
                    alu(AluOp::Rsh, BpfReg::R8, 32),
                ]);
        }
    }
}

/// `R0` = the tick of this moment, below 2^32; `R1` = the slot of the key `R8`, and `R3` its word.
fn tick_and_slot(program: &mut Assembler) {
    program
        .put(call(BpfHelper::KtimeGetCoarseNs))
        .put(alu(AluOp::Rsh, BpfReg::R0, layout::TICK_BITS))
        .put(alu32(AluOp::Mov, BpfReg::R0, BpfReg::R0))
        .put(mov(BpfReg::R2, BpfReg::R8))
        .put(alu32(AluOp::Mul, BpfReg::R2, layout::LOCAL_MULTIPLIER as i32))
        .put(alu32(AluOp::Rsh, BpfReg::R2, 32 - layout::HOST_SLOT_BITS))
        .put(alu(AluOp::Lsh, BpfReg::R2, 3))
        .load_map_value(BpfReg::R1, map::HOSTS, layout::HOST_SLOTS_OFFSET)
        .put(alu(AluOp::Add, BpfReg::R1, BpfReg::R2))
        .put(load(AccessWidth::Double, BpfReg::R3, BpfReg::R1, 0));
}

/// Counts one more host in the tick `R0`, or drops the packet if there were already `R9` hosts.
/// Overwrites `R2` to `R4`.
fn count_host(program: &mut Assembler, family: Family) {
    let same_tick = family.label("same-tick");
    let (_, counter_at) = offsets(family);
    program
        .load_map_value(BpfReg::R2, map::HOSTS, counter_at)
        .put(load(AccessWidth::Double, BpfReg::R3, BpfReg::R2, 0))
        .put_all([mov(BpfReg::R4, BpfReg::R3), alu(AluOp::Rsh, BpfReg::R4, 32)])
        .jump_if(BpfReg::R4, JumpIf::Eq, BpfReg::R0, &same_tick)
        .put_all([mov(BpfReg::R3, BpfReg::R0), alu(AluOp::Lsh, BpfReg::R3, 32)])
        .label(&same_tick)
        .put(alu32(AluOp::Mov, BpfReg::R4, BpfReg::R3))
        .jump_if(BpfReg::R4, JumpIf::Ge, BpfReg::R9, pass_label(PassReason::UnresolvedLimit))
        .put(add_imm(BpfReg::R3, 1))
        .put(store(AccessWidth::Double, BpfReg::R2, 0, BpfReg::R3));
}

/// The offsets of a family's limit in `control`, and of its number of hosts in `hosts`.
const fn offsets(family: Family) -> (u32, u32) {
    match family {
        Family::V4 => (layout::HOST_LIMITS_OFFSET, 0),
        Family::V6 => (layout::HOST_LIMITS_OFFSET + 8, 8),
    }
}
