//! Step 2: the Ethernet header.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{AccessWidth, BpfReg, JumpIf, load};

use super::{Family, PortConstants, emit, pass_label};
use crate::layout::{self, PassReason, map};

/// Bytes of the header, without tags.
pub(super) const HEADER_LEN: i32 = 14;
const ETHERTYPE: i16 = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Continues at `v4` or `v6`, with the frame in `R7` to `R2`, which has room for an IPv4 header.
/// A tag is another EtherType here: a subinterface would be found by it, as another port.
pub(super) fn demultiplex(program: &mut Assembler, constants: &PortConstants) {
    emit::bounds(program, Family::V4.headers_len(), pass_label(PassReason::NotIp));
    port_forwards(program, constants);
    program
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, ETHERTYPE))
        .jump_if(BpfReg::R1, JumpIf::Eq, i32::from(IPV4.to_be()), "v4")
        .jump_if(BpfReg::R1, JumpIf::Eq, i32::from(IPV6.to_be()), "v6")
        .jump(pass_label(PassReason::NotIp));
}

/// Leaves unless the frame is sent to the port's MAC address, and the port forwards what arrives.
fn port_forwards(program: &mut Assembler, constants: &PortConstants) {
    let record = u32::from(constants.port.0) * layout::PORT_SIZE;
    let (policy, other) = (pass_label(PassReason::Policy), pass_label(PassReason::OtherMac));
    program
        .load_map_value(BpfReg::R3, map::PORTS, record)
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R7, 0))
        .put(load(AccessWidth::Word, BpfReg::R4, BpfReg::R3, 0))
        .jump_if32(BpfReg::R1, JumpIf::Ne, BpfReg::R4, other)
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, 4))
        .put(load(AccessWidth::Half, BpfReg::R4, BpfReg::R3, 4))
        .jump_if32(BpfReg::R1, JumpIf::Ne, BpfReg::R4, other)
        .put(load(AccessWidth::Half, BpfReg::R4, BpfReg::R3, layout::PORT_FLAGS_OFFSET as i16))
        .jump_if(BpfReg::R4, JumpIf::Set, i32::from(layout::PORT_INGRESS), "forwards")
        .jump(policy)
        .label("forwards");
}
