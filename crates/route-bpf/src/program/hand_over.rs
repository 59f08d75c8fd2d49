//! The program of a port whose packets are forwarded by the engine in user space. It follows step 2
//! of the program in [`super`].
//!
//! The kernel keeps these packets: those whose route leads to it, such as packets for this machine,
//! or refuses packets (`blackhole`, `unreachable`, `prohibit`); those to groups, to link-local IPv6
//! addresses, and to 240.0.0.0/4; those with options, which the engine does not process (unless
//! rules must check them); and those from 0.0.0.0/8, which the kernel forwards. All other IP
//! packets go to the socket of the queue, including those that will be dropped or answered, because
//! the engine counts each by its cause.
//!
//! ```text
//!   group, link-local, options ----------------> kernel
//!   look up --> target of the kernel ----------> kernel
//!           '-> any other --> socket of the queue, or the kernel if the queue has none
//! ```

use slipring_bpf::Assembler;
use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, alu, call, exit, load, mov, mov_imm,
};

use super::context::{CTX_RX_QUEUE, Family, PortConstants, XDP_PASS, XDP_REDIRECT, pass_label};
use super::fields::{ipv4 as v4, ipv6 as v6};
use super::{choose, count, counters, emit, ipv4, ipv6};
use crate::layout::{PassReason, counter, map};

/// The first byte of multicast addresses. For IPv4 it is the lowest one; from it on, no address
/// belongs to a host.
const FIRST_GROUP: i32 = 224;
const IPV6_GROUP: i32 = 0xff;
/// The first 16 bits of `fe80::/10`, and their mask.
const LINK_LOCAL: i32 = 0xfe80;
const LINK_LOCAL_MASK: i32 = 0xffc0;
/// The first byte of an IPv4 header of 20 bytes. Greater values of version 4 mean that there are
/// options.
const PLAIN_V4: i32 = 0x45;
const LONGEST_V4: i32 = 0x4f;

/// Whether the program leaves frames to the kernel for this reason.
pub(super) const fn passes_for(reason: PassReason) -> bool {
    matches!(
        reason,
        PassReason::Disabled
            | PassReason::Stale
            | PassReason::Policy
            | PassReason::OtherMac
            | PassReason::Tagged
            | PassReason::NotIp
            | PassReason::Options
            | PassReason::Address
            | PassReason::Kernel
            | PassReason::NoTable
            | PassReason::NoSocket
    )
}

/// Passes the packet of the frame, which begins at `R7` and ends at `R2`, to the engine or to the
/// kernel.
pub(super) fn to_socket(program: &mut Assembler, constants: &PortConstants) {
    program.label("v4");
    pass_special_v4(program, constants.takes_options);
    ipv4::look_up(program, constants);
    choose::pass_kernel(program, constants);
    program.jump("socket");
    program.label("v6");
    emit::at_least(program, Family::V6.headers_len(), pass_label(PassReason::NotIp));
    pass_special_v6(program, constants.takes_options);
    ipv6::look_up(program, constants);
    choose::pass_kernel(program, constants);
    redirect(program, constants);
}

/// Passes to the kernel the packets that it keeps because of their header. The frame's headers are
/// at `R7`.
pub(super) fn pass_special_v4(program: &mut Assembler, takes_options: bool) {
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, v4::DESTINATION))
        .jump_if(BpfReg::R1, JumpIf::Ge, FIRST_GROUP, pass_label(PassReason::Address))
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, v4::SOURCE))
        .jump_if(BpfReg::R1, JumpIf::Eq, 0, pass_label(PassReason::Address));
    if takes_options {
        return;
    }
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, v4::VERSION))
        .jump_if(BpfReg::R1, JumpIf::Le, PLAIN_V4, "v4:plain")
        .jump_if(BpfReg::R1, JumpIf::Le, LONGEST_V4, pass_label(PassReason::Options))
        .label("v4:plain");
}

/// Like [`pass_special_v4`], but for IPv6.
pub(super) fn pass_special_v6(program: &mut Assembler, takes_options: bool) {
    const HOP_BY_HOP: i32 = 0;
    if !takes_options {
        program.put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, v6::NEXT_HEADER)).jump_if(
            BpfReg::R1,
            JumpIf::Eq,
            HOP_BY_HOP,
            pass_label(PassReason::Options),
        );
    }
    program
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, v6::DESTINATION))
        .jump_if(BpfReg::R1, JumpIf::Eq, IPV6_GROUP, pass_label(PassReason::Address))
        .put(alu(AluOp::Lsh, BpfReg::R1, 8))
        .put(load(AccessWidth::Byte, BpfReg::R3, BpfReg::R7, v6::DESTINATION + 1))
        .put_all([
            alu(AluOp::Or, BpfReg::R1, BpfReg::R3),
            alu(AluOp::And, BpfReg::R1, LINK_LOCAL_MASK),
        ])
        .jump_if(BpfReg::R1, JumpIf::Eq, LINK_LOCAL, pass_label(PassReason::Address));
}

/// Redirects the frame to the socket of its queue. Counts it with its whole length.
fn redirect(program: &mut Assembler, constants: &PortConstants) {
    program
        .label("socket")
        .put_all([mov(BpfReg::R1, BpfReg::R6), call(BpfHelper::XdpGetBuffLen)])
        .put(mov(BpfReg::R8, BpfReg::R0))
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_RX_QUEUE))
        .load_map(BpfReg::R1, map::SOCKETS)
        .put_all([mov_imm(BpfReg::R3, XDP_PASS), call(BpfHelper::RedirectMap)])
        .jump_if(BpfReg::R0, JumpIf::Ne, XDP_REDIRECT, pass_label(PassReason::NoSocket));
    counters(program, constants, "handed_over");
    count(program, counter::PACKETS, 1);
    count(program, counter::BYTES, BpfReg::R8);
    program.label("handed_over").put_all([mov_imm(BpfReg::R0, XDP_REDIRECT), exit()]);
}
