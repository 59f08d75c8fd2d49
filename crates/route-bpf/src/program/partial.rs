//! Step 4: transport checksums that a sender on this machine left to its device.
//!
//! A sender on this machine whose packets reach the router through a software device leaves the
//! checksum of TCP and UDP half finished in the frame: the field contains the folded sum of the
//! pseudo header, and metadata next to the frame say that the rest is missing. A program does not
//! see the metadata, and a redirect loses them, so the receiver would drop the packet. The kernel
//! keeps the metadata. Hence frames whose checksum may be half finished go to the kernel:
//!
//! - TCP and UDP whose checksum equals the sum of the pseudo header. By chance, this also holds for
//!   one finished checksum in 65535, which does no harm.
//! - UDP without a checksum: a tunnel, in which the inner checksum may be half finished.
//! - all other protocols except ICMP: SCTP, whose checksum has no such pattern, and other tunnels.
//!
//! Fragments have finished checksums: the kernel finishes the checksum of a packet before it
//! fragments the packet.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{AccessWidth, AluOp, BpfReg, JumpIf, alu, load, mov, to_big_endian};

use super::context::{Family, pass_label};
use super::emit;
use super::fields::{ETHERNET_LEN, ipv4, ipv6};
use crate::layout::PassReason;

const ICMP: i32 = 1;
const TCP: i32 = 6;
const UDP: i32 = 17;
const FRAGMENT: i32 = 44;
const ICMPV6: i32 = 58;

/// Offset of the checksum in the transport header.
const TCP_CHECKSUM: i16 = 16;
const UDP_CHECKSUM: i16 = 6;

/// Passes the frame to the kernel if the packet's transport checksum may be unfinished. In: `R7` to
/// `R2` the frame, `R8` the length of the packet.
pub(super) fn pass_unfinished(program: &mut Assembler, family: Family) {
    let [tcp, udp, compare, finished] =
        ["tcp", "udp", "compare", "finished"].map(|name| family.label(name));
    let unfinished = pass_label(PassReason::PartialChecksum);
    whole(program, family, &finished);
    program
        .jump_if(BpfReg::R1, JumpIf::Eq, TCP, &tcp)
        .jump_if(BpfReg::R1, JumpIf::Eq, UDP, &udp)
        .jump(unfinished)
        .label(&tcp);
    load_checksum(program, family, TCP_CHECKSUM);
    program.jump(&compare).label(&udp);
    load_checksum(program, family, UDP_CHECKSUM);
    program.jump_if(BpfReg::R4, JumpIf::Eq, 0, unfinished).label(&compare);
    sum_pseudo_header(program, family);
    program.jump_if(BpfReg::R3, JumpIf::Eq, BpfReg::R4, unfinished).label(&finished);
}

/// `R1` = the protocol; jumps to `finished` for fragments and ICMP.
fn whole(program: &mut Assembler, family: Family, finished: &str) {
    match family {
        Family::V4 => program
            .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, ipv4::FRAGMENT))
            .jump_if(BpfReg::R1, JumpIf::Set, i32::from(ipv4::FRAGMENT_BITS.to_be()), finished)
            .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, ipv4::PROTOCOL))
            .jump_if(BpfReg::R1, JumpIf::Eq, ICMP, finished),
        Family::V6 => program
            .put(load(AccessWidth::Byte, BpfReg::R1, BpfReg::R7, ipv6::NEXT_HEADER))
            .jump_if(BpfReg::R1, JumpIf::Eq, FRAGMENT, finished)
            .jump_if(BpfReg::R1, JumpIf::Eq, ICMPV6, finished),
    };
}

/// `R4` = the checksum at an offset in the transport header; `R5` = the protocol in `R1`.
fn load_checksum(program: &mut Assembler, family: Family, offset: i16) {
    let at = family.headers_len() as i16 + offset;
    program.put(mov(BpfReg::R5, BpfReg::R1));
    emit::at_least(program, i32::from(at) + 2, pass_label(PassReason::PartialChecksum));
    program.put(load(AccessWidth::Half, BpfReg::R4, BpfReg::R7, at));
}

/// `R3` = the folded sum of the pseudo header: addresses, length, and the protocol `R5`.
fn sum_pseudo_header(program: &mut Assembler, family: Family) {
    let addresses = match family {
        Family::V4 => (ipv4::SOURCE..ipv4::SOURCE + 8).step_by(4),
        Family::V6 => (ipv6::SOURCE..ipv6::SOURCE + 32).step_by(4),
    };
    emit::sum_words(program, BpfReg::R3, BpfReg::R1, addresses);
    let header = family.headers_len() - ETHERNET_LEN;
    program
        .put_all([to_big_endian(BpfReg::R5, 16), alu(AluOp::Add, BpfReg::R3, BpfReg::R5)])
        .put_all([mov(BpfReg::R1, BpfReg::R8), alu(AluOp::Sub, BpfReg::R1, header)])
        .put_all([to_big_endian(BpfReg::R1, 16), alu(AluOp::Add, BpfReg::R3, BpfReg::R1)]);
    emit::fold(program, BpfReg::R3, BpfReg::R1);
}
