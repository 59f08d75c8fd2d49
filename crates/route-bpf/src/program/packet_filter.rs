//! The programs of an interface whose frames go to the user-space engine through AF_PACKET.
//!
//! A packet socket only gets a copy: the kernel would forward the same frame. So a filter on the
//! socket decides once about each frame, and the decision travels in the socket buffer to a program
//! that runs later:
//!
//! ```text
//!   driver, GRO --> packet sockets -----> tcx ingress --> stack
//!                   filter: whose?        token "taken": drops the frame
//!                    | engine's: "taken"  token "direct": rewrites headers, redirects to egress
//!                    | direct: "direct", next hop
//!                    |         (no copy for the ring)
//!                    '--> ring --> engine
//! ```
//!
//! A frame is *direct* if a lookup is all that it needs: the filter applies the checks of the
//! forwarding program to it ([`direct`]). All other frames for the engine go through the ring.
//!
//! # Why exactly one of engine, tcx program and kernel handles a frame
//! 1. The filter and the tcx program see the same socket buffer. For packet sockets the stack only
//!    takes a reference, and it does not replace the buffer before tcx. GRO, RPS and generic XDP
//!    come before both.
//! 2. The control block of the buffer (`cb`) belongs to the layer that processes the buffer.
//!    Between the two programs that is the receive path, which does not change these bytes. The
//!    kernel clears them before it runs a filter, so an old token does not survive. If no filter
//!    runs (no socket, a buffer from the memory reserve, another interface), the bytes have
//!    arbitrary values from a previous layer. The tokens are random 64-bit numbers for each
//!    attachment, so such values do not equal a token.
//! 3. The heartbeat and the tables are read only by the filter. Changes before the tcx program runs
//!    do not matter: the router or the kernel takes over between two frames. Both programs run in
//!    one read-side section of RCU, so a wait for programs covers both, and the egress port in the
//!    control block keeps its meaning.
//! 4. Of several sockets (fanout) one gets the frame, and only the filter of that one runs.
//! 5. If the filter has accepted a frame and the ring is full, the socket counts the frame as
//!    dropped.
//! 6. The tcx program is the first of its interface. Without a socket it passes everything.
//! 7. A direct frame is in no ring. If the tcx program cannot send it, or no longer runs, the
//!    kernel forwards the frame. After the redirect, the frame is in the kernel's transmit path,
//!    like the frames that the kernel forwards, and the interface or its queueing discipline counts
//!    drops.
//!
//! If another socket of the same interface was bound earlier and its eBPF filter writes `cb`, it
//! would overwrite the token, and the frame would be forwarded twice. Classic filters (tcpdump,
//! DHCP) do not use `cb`.
//!
//! # What the engine gets
//! The engine gets the frames that [`hand_over`] would give it and that are for the interface's MAC
//! address. TCP super-frames of GRO are included, since the port segments them; other super-frames
//! go to the kernel.
//!
//! A frame that the engine returns to the kernel arrives again on the same interface, with a mark
//! by which the filter recognises it ([`injection`]). The tcx program removes the mark.

mod direct;
mod tcx;

use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfReg, JumpIf, add_imm, alu, exit, load, mov, mov_imm, store,
};
use slipring_bpf::{Assembler, BpfCode};

use super::context::{Family, PortConstants, SKB_LEN, pass_label, stack};
use super::fields::{ETHERNET_LEN, ETHERTYPE, ipv4, ipv6};
use super::{choose, count_reasons, emit, hand_over, queue_is_alive};
use crate::layout::{self, PassReason, map};
pub(crate) use tcx::{injection, tcx_program};

/// Offsets in `struct __sk_buff`.
const SKB_PKT_TYPE: i16 = 4;
const SKB_MARK: i16 = 8;
const SKB_VLAN_PRESENT: i16 = 20;
const SKB_CB: i16 = 48;
const SKB_GSO_SIZE: i16 = 176;

/// The packet type of frames for the interface's own MAC address.
const PACKET_HOST: i32 = 0;
/// Maximum length of a packet that the kernel can segment, since the length field has 16 bits.
const MAX_PACKET_LEN: i32 = u16::MAX as i32;
const TCP: i32 = 6;

/// The result with which the filter gives the whole frame to the socket.
const WHOLE_FRAME: i32 = -1;

/// Offset of the headers on the stack. With it, the addresses of both IP versions, at 30 and 38
/// bytes, are aligned.
const HEADERS: i16 = -126;

/// The keys that the filters of an interface's sockets and its tcx program share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterceptionKeys {
    /// Marks frames for the engine, in their control block.
    pub(crate) token: u64,
    /// `skb->mark` of frames that the engine returns to the kernel.
    pub(crate) returned_mark: u32,
}

impl InterceptionKeys {
    /// Returns the token of frames that the tcx program forwards.
    const fn direct_token(self) -> u64 {
        !self.token
    }
}

/// The filter of the socket of worker `queue`. The engine gets the frames for which the filter
/// returns a value other than 0.
pub(crate) fn socket_filter(
    constants: &PortConstants,
    queue: u16,
    keys: InterceptionKeys,
) -> BpfCode {
    let mut program = Assembler::new();
    program
        .put(mov(BpfReg::R6, BpfReg::R1))
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, SKB_MARK))
        .jump_if32(BpfReg::R1, JumpIf::Eq, keys.returned_mark as i32, "kernel")
        .put(mov_imm(BpfReg::R2, queue.into()));
    queue_is_alive(&mut program);
    metadata(&mut program);
    headers(&mut program, Family::V4);
    port_takes(&mut program, constants);
    program
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, ETHERTYPE))
        .jump_if(BpfReg::R1, JumpIf::Eq, i32::from(0x0800_u16.to_be()), "v4")
        .jump_if(BpfReg::R1, JumpIf::Ne, i32::from(0x86dd_u16.to_be()), NOT_IP);
    headers(&mut program, Family::V6);
    decide(&mut program, constants, Family::V6);
    program.label("v4");
    decide(&mut program, constants, Family::V4);
    take(&mut program, keys);
    direct::mark(&mut program, keys);
    count_reasons(&mut program, constants, "pass", REASONS.iter().copied());
    program.label("kernel").put_all([mov_imm(BpfReg::R0, 0), exit()]);
    program.assemble().expect("each label is defined once, and the program is short")
}

const NOT_IP: &str = pass_label(PassReason::NotIp);

/// The reasons for which the filter leaves frames to the kernel.
const REASONS: [PassReason; 12] = [
    PassReason::Disabled,
    PassReason::Stale,
    PassReason::Policy,
    PassReason::OtherMac,
    PassReason::Tagged,
    PassReason::NotIp,
    PassReason::Options,
    PassReason::Length,
    PassReason::Address,
    PassReason::PartialChecksum,
    PassReason::Kernel,
    PassReason::NoTable,
];

/// Leaves the frame to the kernel if it is not for the port's MAC address, if a tag was removed
/// from it, or if it is too long.
fn metadata(program: &mut Assembler) {
    program
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, SKB_PKT_TYPE))
        .jump_if(BpfReg::R1, JumpIf::Ne, PACKET_HOST, pass_label(PassReason::OtherMac))
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, SKB_VLAN_PRESENT))
        .jump_if(BpfReg::R1, JumpIf::Ne, 0, pass_label(PassReason::Tagged))
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, SKB_LEN))
        .jump_if(
            BpfReg::R1,
            JumpIf::Gt,
            MAX_PACKET_LEN + ETHERNET_LEN,
            pass_label(PassReason::Length),
        );
}

/// `R7` = a copy of the Ethernet and IP header on the stack. Leaves the frame to the kernel if it
/// is shorter than these headers.
fn headers(program: &mut Assembler, family: Family) {
    program.put_all([mov(BpfReg::R7, BpfReg::R10), add_imm(BpfReg::R7, HEADERS.into())]);
    emit::copy_bytes(program, 0, HEADERS, family.headers_len());
    program.jump_if(BpfReg::R0, JumpIf::Ne, 0, NOT_IP);
}

/// Leaves the frame to the kernel unless the engine handles frames that arrive on the port.
fn port_takes(program: &mut Assembler, constants: &PortConstants) {
    let record = u32::from(constants.port.0) * layout::PORT_SIZE;
    program
        .load_map_value(BpfReg::R3, map::PORTS, record)
        .put(load(AccessWidth::Half, BpfReg::R4, BpfReg::R3, layout::PORT_FLAGS_OFFSET as i16))
        .put(alu(AluOp::And, BpfReg::R4, i32::from(layout::PORT_INGRESS)))
        .jump_if(BpfReg::R4, JumpIf::Eq, 0, pass_label(PassReason::Policy));
}

/// Goes to "take" if the engine handles the packet whose headers are at `R7`, or to "direct" if the
/// tcx program does.
fn decide(program: &mut Assembler, constants: &PortConstants, family: Family) {
    match family {
        Family::V4 => {
            segmentable(program, family, ipv4::PROTOCOL);
            hand_over::pass_special_v4(program, constants.takes_options);
            super::ipv4::look_up(program, constants);
        }
        Family::V6 => {
            segmentable(program, family, ipv6::NEXT_HEADER);
            hand_over::pass_special_v6(program, constants.takes_options);
            super::ipv6::look_up(program, constants);
        }
    }
    program.put(store(AccessWidth::Double, BpfReg::R10, stack::TARGET, BpfReg::R9));
    choose::pass_kernel(program, constants);
    direct::decide(program, constants, family);
}

/// Leaves the frame to the kernel if it is a super-frame of a protocol other than TCP.
fn segmentable(program: &mut Assembler, family: Family, protocol: i16) {
    let single = family.label("single");
    program
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, SKB_GSO_SIZE))
        .jump_if(BpfReg::R1, JumpIf::Eq, 0, &single)
        .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, protocol))
        .jump_if(BpfReg::R1, JumpIf::Ne, TCP, pass_label(PassReason::PartialChecksum))
        .label(&single);
}

/// Emits the end of the filter for a frame that the engine handles: writes the token to the control
/// block, and gives the whole frame to the socket.
fn take(program: &mut Assembler, keys: InterceptionKeys) {
    program.label("take");
    put_token(program, keys.token);
    program.put_all([mov_imm(BpfReg::R0, WHOLE_FRAME), exit()]);
}

/// Writes a token to the control block.
fn put_token(program: &mut Assembler, token: u64) {
    for (at, half) in halves(token) {
        program.put(mov_imm(BpfReg::R1, half)).put(store(
            AccessWidth::Word,
            BpfReg::R6,
            at,
            BpfReg::R1,
        ));
    }
}

/// The two words of a token, each with its offset in the control block.
fn halves(token: u64) -> [(i16, i32); 2] {
    [(SKB_CB, token as i32), (SKB_CB + 4, (token >> 32) as i32)]
}

#[cfg(test)]
mod tests;
