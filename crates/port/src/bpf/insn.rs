//! BPF instructions, as constructors named after the assembler's mnemonics.

/// One instruction slot (`struct bpf_insn`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insn {
    code: u8,
    /// Destination in the low, source in the high four bits.
    registers: u8,
    offset: i16,
    imm: i32,
}

const _: () = assert!(size_of::<Insn>() == 8);

/// A register. `R1` holds the context at the start, `R0` the result at the end; calls take
/// `R1` to `R5` and clobber them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "registers have no more meaning than their names")]
pub enum Reg {
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
pub enum Helper {
    /// `bpf_skb_vlan_push(skb, protocol, tci)`
    SkbVlanPush = 18,
    /// `bpf_redirect(ifindex, flags)`
    Redirect = 23,
    /// `bpf_xdp_adjust_head(ctx, delta)`
    XdpAdjustHead = 44,
    /// `bpf_redirect_map(map, key, flags)`
    RedirectMap = 51,
}

const fn insn(code: u8, dst: Reg, src: Reg, offset: i16, imm: i32) -> Insn {
    Insn { code, registers: dst as u8 | (src as u8) << 4, offset, imm }
}

/// `dst = imm`
#[must_use]
pub const fn mov_imm(dst: Reg, imm: i32) -> Insn {
    insn(0xb7, dst, Reg::R0, 0, imm)
}

/// `dst = src`
#[must_use]
pub const fn mov(dst: Reg, src: Reg) -> Insn {
    insn(0xbf, dst, src, 0, 0)
}

/// `dst += imm`
#[must_use]
pub const fn add_imm(dst: Reg, imm: i32) -> Insn {
    insn(0x07, dst, Reg::R0, 0, imm)
}

/// `dst |= src`
#[must_use]
pub const fn or(dst: Reg, src: Reg) -> Insn {
    insn(0x4f, dst, src, 0, 0)
}

/// `dst <<= imm`
#[must_use]
pub const fn shl_imm(dst: Reg, imm: i32) -> Insn {
    insn(0x67, dst, Reg::R0, 0, imm)
}

/// `dst = be16(dst)`: swaps the low two bytes and clears the rest.
#[must_use]
pub const fn swap16(dst: Reg) -> Insn {
    insn(0xdc, dst, Reg::R0, 0, 16)
}

/// Width of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
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
pub const fn load(width: Width, dst: Reg, src: Reg, offset: i16) -> Insn {
    insn(0x61 | width as u8, dst, src, offset, 0)
}

/// `*(width *)(dst + offset) = src`
#[must_use]
pub const fn store(width: Width, dst: Reg, offset: i16, src: Reg) -> Insn {
    insn(0x63 | width as u8, dst, src, offset, 0)
}

/// `*(width *)(dst + offset) = imm`
#[must_use]
pub const fn store_imm(width: Width, dst: Reg, offset: i16, imm: i32) -> Insn {
    insn(0x62 | width as u8, dst, Reg::R0, offset, imm)
}

/// `dst = map`: two slots.
#[must_use]
pub const fn load_map(dst: Reg, map_fd: i32) -> [Insn; 2] {
    [insn(0x18, dst, Reg::R1, 0, map_fd), insn(0, Reg::R0, Reg::R0, 0, 0)]
}

/// `if (dst as u32) == imm goto +offset`
#[must_use]
pub const fn jeq32_imm(dst: Reg, imm: i32, offset: i16) -> Insn {
    insn(0x16, dst, Reg::R0, offset, imm)
}

/// `if dst != imm goto +offset`
#[must_use]
pub const fn jne_imm(dst: Reg, imm: i32, offset: i16) -> Insn {
    insn(0x55, dst, Reg::R0, offset, imm)
}

/// `if dst > src goto +offset`, unsigned.
#[must_use]
pub const fn jgt(dst: Reg, src: Reg, offset: i16) -> Insn {
    insn(0x2d, dst, src, offset, 0)
}

/// Calls a helper.
#[must_use]
pub const fn call(helper: Helper) -> Insn {
    insn(0x85, Reg::R0, Reg::R0, 0, helper as i32)
}

/// Calls a kernel function by its BTF id.
#[must_use]
pub const fn call_kernel(btf_id: i32) -> Insn {
    insn(0x85, Reg::R0, Reg::R2, 0, btf_id)
}

/// Returns `R0`.
#[must_use]
pub const fn exit() -> Insn {
    insn(0x95, Reg::R0, Reg::R0, 0, 0)
}
