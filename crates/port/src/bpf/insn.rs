//! BPF instructions, as constructors named after the assembler's mnemonics.

/// One instruction slot (`struct bpf_insn`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfInsn {
    code: u8,
    /// Destination in the low, source in the high four bits.
    registers: u8,
    offset: i16,
    imm: i32,
}

const _: () = assert!(size_of::<BpfInsn>() == 8);

/// A register. `R1` holds the context at the start, `R0` the result at the end; calls take
/// `R1` to `R5` and clobber them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "registers have no more meaning than their names")]
pub enum BpfReg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Helper functions of the kernel (`BPF_FUNC_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfHelper {
    /// `bpf_skb_vlan_push(skb, protocol, tci)`
    SkbVlanPush = 18,
    /// `bpf_redirect(ifindex, flags)`
    Redirect = 23,
    /// `bpf_xdp_adjust_head(ctx, delta)`
    XdpAdjustHead = 44,
    /// `bpf_redirect_map(map, key, flags)`
    RedirectMap = 51,
}

const fn insn(code: u8, dst: BpfReg, src: BpfReg, offset: i16, imm: i32) -> BpfInsn {
    BpfInsn { code, registers: dst as u8 | (src as u8) << 4, offset, imm }
}

/// `dst = imm`
#[must_use]
pub const fn mov_imm(dst: BpfReg, imm: i32) -> BpfInsn {
    insn(0xb7, dst, BpfReg::R0, 0, imm)
}

/// `dst = src`
#[must_use]
pub const fn mov(dst: BpfReg, src: BpfReg) -> BpfInsn {
    insn(0xbf, dst, src, 0, 0)
}

/// `dst += imm`
#[must_use]
pub const fn add_imm(dst: BpfReg, imm: i32) -> BpfInsn {
    insn(0x07, dst, BpfReg::R0, 0, imm)
}

/// `dst |= src`
#[must_use]
pub const fn or(dst: BpfReg, src: BpfReg) -> BpfInsn {
    insn(0x4f, dst, src, 0, 0)
}

/// `dst <<= imm`
#[must_use]
pub const fn shl_imm(dst: BpfReg, imm: i32) -> BpfInsn {
    insn(0x67, dst, BpfReg::R0, 0, imm)
}

/// `dst = be16(dst)`: swaps the low two bytes and clears the rest.
#[must_use]
pub const fn swap16(dst: BpfReg) -> BpfInsn {
    insn(0xdc, dst, BpfReg::R0, 0, 16)
}

/// Width of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessWidth {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// `dst = *(width *)(src + offset)`
#[must_use]
pub const fn load(width: AccessWidth, dst: BpfReg, src: BpfReg, offset: i16) -> BpfInsn {
    insn(0x61 | width as u8, dst, src, offset, 0)
}

/// `*(width *)(dst + offset) = src`
#[must_use]
pub const fn store(width: AccessWidth, dst: BpfReg, offset: i16, src: BpfReg) -> BpfInsn {
    insn(0x63 | width as u8, dst, src, offset, 0)
}

/// `*(width *)(dst + offset) = imm`
#[must_use]
pub const fn store_imm(width: AccessWidth, dst: BpfReg, offset: i16, imm: i32) -> BpfInsn {
    insn(0x62 | width as u8, dst, BpfReg::R0, offset, imm)
}

/// `dst = map`: two slots.
#[must_use]
pub const fn load_map(dst: BpfReg, map_fd: i32) -> [BpfInsn; 2] {
    [insn(0x18, dst, BpfReg::R1, 0, map_fd), insn(0, BpfReg::R0, BpfReg::R0, 0, 0)]
}

/// `if (dst as u32) == imm goto +offset`
#[must_use]
pub const fn jeq32_imm(dst: BpfReg, imm: i32, offset: i16) -> BpfInsn {
    insn(0x16, dst, BpfReg::R0, offset, imm)
}

/// `if dst != imm goto +offset`
#[must_use]
pub const fn jne_imm(dst: BpfReg, imm: i32, offset: i16) -> BpfInsn {
    insn(0x55, dst, BpfReg::R0, offset, imm)
}

/// `if dst > src goto +offset`, unsigned.
#[must_use]
pub const fn jgt(dst: BpfReg, src: BpfReg, offset: i16) -> BpfInsn {
    insn(0x2d, dst, src, offset, 0)
}

/// Calls a helper.
#[must_use]
pub const fn call(helper: BpfHelper) -> BpfInsn {
    insn(0x85, BpfReg::R0, BpfReg::R0, 0, helper as i32)
}

/// Calls a kernel function by its BTF id.
#[must_use]
pub const fn call_kernel(btf_id: i32) -> BpfInsn {
    insn(0x85, BpfReg::R0, BpfReg::R2, 0, btf_id)
}

/// Returns `R0`.
#[must_use]
pub const fn exit() -> BpfInsn {
    insn(0x95, BpfReg::R0, BpfReg::R0, 0, 0)
}
