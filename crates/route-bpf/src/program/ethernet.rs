//! Step 2: the Ethernet header.

use slipring_bpf::Assembler;
use slipring_bpf::insn::{AccessWidth, BpfReg, JumpIf, add_imm, call_kernel, load, mov, store_imm};

use super::context::{CTX_DATA_END, Family, PortConstants, pass_label, stack};
use super::emit;
use super::fields::ETHERTYPE;
use crate::layout::{self, PassReason, map};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Continues at `v4` or `v6`. The frame begins at `R7` and ends at `R2`, and is long enough for an
/// IPv4 header. A tagged frame has another EtherType, so it goes to the kernel: its tag would mean
/// a subinterface, which is another port.
pub(super) fn demultiplex(program: &mut Assembler, constants: &PortConstants) {
    emit::bounds(program, Family::V4.headers_len(), pass_label(PassReason::NotIp));
    port_forwards(program, constants);
    if let Some(function) = constants.tag_function {
        no_tag_beside(program, function);
    }
    program
        .put(load(AccessWidth::Half, BpfReg::R1, BpfReg::R7, ETHERTYPE))
        .jump_if(BpfReg::R1, JumpIf::Eq, i32::from(IPV4.to_be()), "v4")
        .jump_if(BpfReg::R1, JumpIf::Eq, i32::from(IPV6.to_be()), "v6")
        .jump(pass_label(PassReason::NotIp));
}

/// Passes the frame to the kernel unless it was sent to the port's MAC address and the port
/// forwards arriving frames.
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

/// Passes the frame to the kernel if the device has removed a VLAN tag from it. Afterwards, `R2` is
/// again the end of the frame.
fn no_tag_beside(program: &mut Assembler, function: i32) {
    let tag = i32::from(stack::TAG);
    program
        // The kernel function writes the tag's protocol and the tag to the two halves of this
        // double word. The verifier requires that they are initialised.
        .put(store_imm(AccessWidth::Double, BpfReg::R10, stack::TAG, 0))
        .put_all([mov(BpfReg::R1, BpfReg::R6), mov(BpfReg::R2, BpfReg::R10)])
        .put_all([add_imm(BpfReg::R2, tag), mov(BpfReg::R3, BpfReg::R10)])
        .put_all([add_imm(BpfReg::R3, tag + 4), call_kernel(function)])
        .jump_if(BpfReg::R0, JumpIf::Eq, 0, pass_label(PassReason::Tagged))
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, CTX_DATA_END));
}
