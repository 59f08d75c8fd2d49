//! The XDP program that forwards, as a list of small parts.
//!
//! There is one program per interface; the properties of the interface are constants in it
//! ([`PortConstants`]). A frame passes these steps:
//!
//! ```text
//!  1 guard       forwarding is enabled, and the queue's heartbeat is recent
//!  2 Ethernet    to the port's MAC address; IPv4 or IPv6 without a tag, in the frame or removed
//!                from it by the driver; the port forwards
//!  3 validate    header lengths, version, checksum, time to live, addresses
//!  4 finished    on software devices: the transport checksum is complete
//!  5 look up     destination --> target index: DIR-24-8, or the interval tree
//!  6 choose      target --> adjacency; of several next hops, one by a hash of the flow
//!  7 egress      adjacency --> port: not the ingress; up; MTU large enough; source accepted
//!  8 trim        bytes after the packet are cut off
//!  9 rewrite     MAC addresses, time to live, checksum (RFC 1624)
//! 10 transmit    redirect to the port's interface, count
//! ```
//!
//! On a port whose frames are forwarded in user space, the program in `hand_over` follows step 2.
//!
//! Up to step 7, the program changes nothing. For every frame that it does not forward, it counts
//! the reason and returns `XDP_PASS`: the kernel then handles the frame as if the program did not
//! exist. The program only drops packets whose source fails the port's check, and packets for more
//! unknown hosts than the kernel could resolve. It counts these as well. After step 7 the frame is
//! forwarded, unless its end cannot be cut off (left to the kernel) or its egress interface no
//! longer exists (dropped).
//!
//! # Registers
//! `R6` the context, `R7` the start of the frame, `R8` the length of the IP packet, `R9` the result
//! of the lookup so far; `R0` to `R5` are scratch. Words that must survive the call of a helper are
//! on the stack, at the offsets in [`context::stack`].
//!
//! # Invariants
//! 1. A frame is forwarded only if the kernel would also forward it, and would change no more of
//!    its packet than the fields of step 9.
//! 2. The words of target, bucket, adjacency and egress port are read once per frame, so each is
//!    consistent in itself.

mod balance;
mod choose;
pub(crate) mod context;
mod deliver;
mod emit;
#[cfg(test)]
mod engine_tests;
mod ethernet;
mod fields;
mod hand_over;
mod ipv4;
mod ipv6;
#[cfg(test)]
pub(crate) mod kernel_tests;
pub(crate) mod packet_filter;
mod partial;
mod reverse_path;
#[cfg(test)]
pub(crate) mod tests;
mod unresolved;

use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, call, exit, load, mov, mov_imm,
    store,
};
use slipring_bpf::{Assembler, BpfCode};

use crate::layout::{self, PassReason, counter, map};
use context::{
    CTX_RX_QUEUE, Family, PortConstants, XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_REDIRECT, pass_label,
    stack,
};

/// The program of an interface.
pub(crate) fn forwarding_program(constants: &PortConstants) -> BpfCode {
    let mut program = Assembler::new();
    program.put(mov(BpfReg::R6, BpfReg::R1));
    guard(&mut program, constants);
    ethernet::demultiplex(&mut program, constants);
    if constants.has_sockets {
        hand_over::to_socket(&mut program, constants);
    } else {
        ipv4::forward(&mut program, constants);
        ipv6::forward(&mut program, constants);
        [Family::V4, Family::V6]
            .into_iter()
            .for_each(|family| unresolved::limit(&mut program, family));
        transmit(&mut program, constants);
    }
    pass(&mut program, constants);
    if !constants.has_sockets {
        drop_frame(&mut program, constants);
    }
    program.assemble().expect("each label is defined once, and the program is short")
}

/// Step 1: passes the frame to the kernel unless forwarding is enabled and the heartbeat of the
/// frame's queue is recent.
///
/// A heartbeat may be ahead of the clock by as much as it may be old: both sides read a clock that
/// advances in ticks.
fn guard(program: &mut Assembler, constants: &PortConstants) {
    let queues = i32::from(constants.limits.queues);
    program.put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_RX_QUEUE)).jump_if(
        BpfReg::R2,
        JumpIf::Ge,
        queues,
        pass_label(PassReason::Stale),
    );
    queue_is_alive(program);
}

/// Passes the frame to the kernel unless forwarding is enabled and the heartbeat of the queue in
/// `R2` is recent. The caller has checked that the queue is within the limits.
fn queue_is_alive(program: &mut Assembler) {
    let limit = layout::BEAT_LIMIT_NS as i32;
    program
        .load_map_value(BpfReg::R1, map::CONTROL, 0)
        .put(load(AccessWidth::Double, BpfReg::R3, BpfReg::R1, layout::ENABLED_OFFSET as i16))
        .jump_if(BpfReg::R3, JumpIf::Ne, 1, pass_label(PassReason::Disabled))
        .put_all([alu(AluOp::Lsh, BpfReg::R2, 3), alu(AluOp::Add, BpfReg::R1, BpfReg::R2)])
        .put(load(AccessWidth::Double, BpfReg::R9, BpfReg::R1, layout::BEATS_OFFSET as i16))
        .put_all([call(BpfHelper::KtimeGetCoarseNs), alu(AluOp::Sub, BpfReg::R0, BpfReg::R9)])
        .put(add_imm(BpfReg::R0, limit))
        .jump_if(BpfReg::R0, JumpIf::Gt, 2 * limit, pass_label(PassReason::Stale));
}

/// Step 10: redirects the frame to the egress port, and counts it. In: `R8` the packet's length.
fn transmit(program: &mut Assembler, constants: &PortConstants) {
    program
        .label("transmit")
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R10, stack::EGRESS_PORT))
        .load_map(BpfReg::R1, map::EGRESS)
        .put_all([mov_imm(BpfReg::R3, XDP_ABORTED), call(BpfHelper::RedirectMap)])
        .jump_if(BpfReg::R0, JumpIf::Ne, XDP_REDIRECT, "undeliverable");
    counters(program, constants, "transmitted");
    count(program, counter::PACKETS, 1);
    program.put(add_imm(BpfReg::R8, fields::ETHERNET_LEN));
    count(program, counter::BYTES, BpfReg::R8);
    program
        .label("transmitted")
        .put_all([mov_imm(BpfReg::R0, XDP_REDIRECT), exit()])
        .label("undeliverable");
    counters(program, constants, "aborted");
    count(program, counter::REASONS + PassReason::NoDevice as u32, 1);
    program.label("aborted").put_all([mov_imm(BpfReg::R0, XDP_ABORTED), exit()]);
}

/// The end of the program for a frame that is left to the kernel.
fn pass(program: &mut Assembler, constants: &PortConstants) {
    let is_used = |reason| match reason {
        reason if reason.is_drop() => false,
        reason if constants.has_sockets && !hand_over::passes_for(reason) => false,
        PassReason::Options if constants.takes_options => false,
        PassReason::NoSocket => constants.has_sockets,
        PassReason::PartialChecksum => constants.is_software,
        PassReason::Tagged => constants.tag_function.is_some(),
        _ => true,
    };
    let reasons = PassReason::ALL.iter().copied().filter(|&reason| is_used(reason));
    count_reasons(program, constants, "pass", reasons);
    program.put_all([mov_imm(BpfReg::R0, XDP_PASS), exit()]);
}

/// The end of the program for a frame that is dropped: its source fails the check, or there are too
/// many unresolved hosts.
fn drop_frame(program: &mut Assembler, constants: &PortConstants) {
    let reasons =
        [PassReason::ReversePathStrict, PassReason::ReversePathLoose, PassReason::UnresolvedLimit];
    count_reasons(program, constants, "drop", reasons.into_iter());
    program.put_all([mov_imm(BpfReg::R0, XDP_DROP), exit()]);
}

/// Emits a label for each reason. A jump to the label counts the frame for this reason, and then
/// continues with the instructions that are emitted next. The verifier refuses instructions that no
/// path reaches, so all reasons must be in use.
fn count_reasons(
    program: &mut Assembler,
    constants: &PortConstants,
    end: &str,
    reasons: impl Iterator<Item = PassReason>,
) {
    for reason in reasons {
        let at = 8 * (counter::REASONS + reason as u32);
        program.label(pass_label(reason)).put(mov_imm(BpfReg::R9, at as i32)).jump(end);
    }
    let counted = format!("{end}:counted");
    program.label(end);
    counters(program, constants, &counted);
    program.put(alu(AluOp::Add, BpfReg::R0, BpfReg::R9));
    count(program, 0, 1);
    program.label(&counted);
}

/// `R0` = the counters of the port on this CPU, or jumps to `otherwise`.
fn counters(program: &mut Assembler, constants: &PortConstants, otherwise: &str) {
    program.put(mov_imm(BpfReg::R1, constants.port.0.into()));
    program.put(store(AccessWidth::Word, BpfReg::R10, stack::KEY, BpfReg::R1));
    program.load_map(BpfReg::R1, map::COUNTERS);
    emit::look_up(program, otherwise);
}

/// Adds to a counter in the value at `R0`. The increment need not be atomic, because no other
/// program runs on this CPU meanwhile.
fn count(program: &mut Assembler, counter: u32, by: impl Into<slipring_bpf::insn::Operand>) {
    let at = 8 * counter as i16;
    program
        .put(load(AccessWidth::Double, BpfReg::R1, BpfReg::R0, at))
        .put(alu(AluOp::Add, BpfReg::R1, by))
        .put(store(AccessWidth::Double, BpfReg::R0, at, BpfReg::R1));
}
