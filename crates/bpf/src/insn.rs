//! BPF instructions, as constructors named after the assembler's mnemonics.
//!
//! Jumps are not here: [`crate::Assembler`] creates them from labels.

/// One instruction slot (`struct bpf_insn`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfInsn {
    pub(crate) code: u8,
    /// Destination register in the low four bits, source register in the high four bits.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) imm: i32,
}

const _: () = assert!(size_of::<BpfInsn>() == 8);

/// A register. `R1` holds the context at the start, `R0` the result at the end; calls take `R1` to
/// `R5` as arguments and clobber them. `R10` points to the end of the stack, which has 512 bytes.
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
    /// `bpf_map_lookup_elem(map, key)`
    MapLookup = 1,
    /// `bpf_map_update_elem(map, key, value, flags)`
    MapUpdate = 2,
    /// `bpf_map_delete_elem(map, key)`
    MapDelete = 3,
    /// `bpf_ktime_get_ns()`: CLOCK_MONOTONIC.
    KtimeGetNs = 5,
    /// `bpf_tail_call(ctx, program_array, index)`
    TailCall = 12,
    /// `bpf_skb_store_bytes(skb, offset, from, len, flags)`: overwrites bytes of the frame.
    SkbStoreBytes = 9,
    /// `bpf_clone_redirect(skb, ifindex, flags)`: sends a copy immediately.
    CloneRedirect = 13,
    /// `bpf_skb_vlan_push(skb, protocol, tci)`
    SkbVlanPush = 18,
    /// `bpf_redirect(ifindex, flags)`
    Redirect = 23,
    /// `bpf_skb_load_bytes(skb, offset, to, len)`: copies bytes of the frame.
    SkbLoadBytes = 26,
    /// `bpf_skb_change_tail(skb, len, flags)`: makes the frame longer or shorter.
    SkbChangeTail = 38,
    /// `bpf_csum_update(skb, difference)`: corrects the checksum that the device has computed.
    CsumUpdate = 40,
    /// `bpf_xdp_adjust_head(ctx, delta)`
    XdpAdjustHead = 44,
    /// `bpf_redirect_map(map, key, flags)`
    RedirectMap = 51,
    /// `bpf_xdp_adjust_tail(ctx, delta)`
    XdpAdjustTail = 65,
    /// `bpf_probe_read_kernel(to, len, from)`: copies memory of the kernel, or returns an error.
    ProbeReadKernel = 113,
    /// `bpf_ktime_get_coarse_ns()`: CLOCK_MONOTONIC_COARSE, which is behind by up to a tick of the
    /// kernel's clock and does not read the hardware (Linux 5.11).
    KtimeGetCoarseNs = 160,
    /// `bpf_check_mtu(ctx, ifindex, len, difference, flags)`: whether a frame fits an interface
    /// (Linux 5.12).
    CheckMtu = 163,
    /// `bpf_xdp_get_buff_len(ctx)`: bytes of the frame in all its buffers (Linux 5.18).
    XdpGetBuffLen = 188,
}

/// The second operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(BpfReg),
    /// A constant, sign-extended to 64 bits.
    Imm(i32),
}

impl From<BpfReg> for Operand {
    fn from(reg: BpfReg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// Arithmetic on registers. Division by zero gives 0, modulo by zero returns the dividend, and
/// shift counts are taken modulo the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the assembler's names")]
pub enum AluOp {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    /// Shift left.
    Lsh = 0x60,
    /// Shift right, filling with zeros.
    Rsh = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    /// Shift right, filling with the sign.
    Arsh = 0xc0,
}

/// Conditions of jumps; those whose names begin with `S` compare as signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the assembler's names")]
pub enum JumpIf {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    /// The operands have a bit in common.
    Set = 0x40,
    Ne = 0x50,
    Sgt = 0x60,
    Sge = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    Slt = 0xc0,
    Sle = 0xd0,
}

/// Atomic operations on memory; `Exchange` and those whose names begin with `Fetch` put the
/// previous value into the source register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the assembler's names")]
pub enum AtomicOp {
    Add = 0x00,
    Or = 0x40,
    And = 0x50,
    Xor = 0xa0,
    FetchAdd = 0x01,
    FetchOr = 0x41,
    FetchAnd = 0x51,
    FetchXor = 0xa1,
    Exchange = 0xe1,
    /// Compares the memory with `R0`, and stores the source register if they are equal. The
    /// previous value of the memory goes into `R0`.
    CompareExchange = 0xf1,
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

/// Bit of the operation code: the second operand is a register, not a constant.
pub(crate) const SOURCE_REG: u8 = 0x08;
pub(crate) const CLASS_LDX: u8 = 1;
pub(crate) const CLASS_ST: u8 = 2;
pub(crate) const CLASS_STX: u8 = 3;
pub(crate) const CLASS_ALU: u8 = 4;
pub(crate) const CLASS_JMP: u8 = 5;
pub(crate) const CLASS_JMP32: u8 = 6;
pub(crate) const CLASS_ALU64: u8 = 7;
/// Mode of loads and stores: an address in a register, plus the offset.
pub(crate) const MODE_MEM: u8 = 0x60;
pub(crate) const MODE_ATOMIC: u8 = 0xc0;
/// A load of the 64-bit constant in this slot and the next.
pub(crate) const LOAD_IMM64: u8 = 0x18;
pub(crate) const JUMP_ALWAYS: u8 = 0x05;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;
pub(crate) const OP_NEG: u8 = 0x80;
pub(crate) const OP_END: u8 = 0xd0;
/// Source register fields of a [`LOAD_IMM64`]. With `PSEUDO_MAP_FD`, `imm` is the descriptor of a
/// map, and the result is the map; with `PSEUDO_MAP_VALUE`, the second slot's `imm` is an offset,
/// and the result is the address of the map's value at that offset.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;
pub(crate) const PSEUDO_MAP_VALUE: u8 = 2;
/// Source register field of a [`CALL`] whose `imm` is the BTF id of a kernel function.
pub(crate) const PSEUDO_KERNEL_CALL: u8 = 2;

pub(crate) const fn insn(code: u8, dst: BpfReg, src: u8, offset: i16, imm: i32) -> BpfInsn {
    BpfInsn { code, registers: dst as u8 | src << 4, offset, imm }
}

/// An instruction whose second operand is a register or a constant.
pub(crate) fn with_operand(code: u8, dst: BpfReg, operand: Operand, offset: i16) -> BpfInsn {
    match operand {
        Operand::Reg(src) => insn(code | SOURCE_REG, dst, src as u8, offset, 0),
        Operand::Imm(imm) => insn(code, dst, 0, offset, imm),
    }
}

/// `dst = dst op operand`
#[must_use]
pub fn alu(op: AluOp, dst: BpfReg, operand: impl Into<Operand>) -> BpfInsn {
    with_operand(CLASS_ALU64 | op as u8, dst, operand.into(), 0)
}

/// `dst = (dst as u32) op (operand as u32)`: the upper half becomes zero.
#[must_use]
pub fn alu32(op: AluOp, dst: BpfReg, operand: impl Into<Operand>) -> BpfInsn {
    with_operand(CLASS_ALU | op as u8, dst, operand.into(), 0)
}

/// `dst = imm`
#[must_use]
pub const fn mov_imm(dst: BpfReg, imm: i32) -> BpfInsn {
    insn(CLASS_ALU64 | AluOp::Mov as u8, dst, 0, 0, imm)
}

/// `dst = src`
#[must_use]
pub const fn mov(dst: BpfReg, src: BpfReg) -> BpfInsn {
    insn(CLASS_ALU64 | AluOp::Mov as u8 | SOURCE_REG, dst, src as u8, 0, 0)
}

/// `dst += imm`
#[must_use]
pub const fn add_imm(dst: BpfReg, imm: i32) -> BpfInsn {
    insn(CLASS_ALU64 | AluOp::Add as u8, dst, 0, 0, imm)
}

/// `dst = -dst`
#[must_use]
pub const fn neg(dst: BpfReg) -> BpfInsn {
    insn(CLASS_ALU64 | OP_NEG, dst, 0, 0, 0)
}

/// `dst = imm`: two slots.
#[must_use]
pub const fn load_imm64(dst: BpfReg, imm: u64) -> [BpfInsn; 2] {
    let high = (imm >> 32) as i32;
    [insn(LOAD_IMM64, dst, 0, 0, imm as i32), insn(0, BpfReg::R0, 0, 0, high)]
}

/// Converts between the host's and network byte order: keeps the low `bits` (16, 32 or 64), swapped
/// on little-endian hosts, and clears the higher bits.
#[must_use]
pub const fn to_big_endian(dst: BpfReg, bits: i32) -> BpfInsn {
    insn(CLASS_ALU | OP_END | SOURCE_REG, dst, 0, 0, bits)
}

/// `dst = *(width *)(src + offset)`
#[must_use]
pub const fn load(width: AccessWidth, dst: BpfReg, src: BpfReg, offset: i16) -> BpfInsn {
    insn(CLASS_LDX | MODE_MEM | width as u8, dst, src as u8, offset, 0)
}

/// `*(width *)(dst + offset) = src`
#[must_use]
pub const fn store(width: AccessWidth, dst: BpfReg, offset: i16, src: BpfReg) -> BpfInsn {
    insn(CLASS_STX | MODE_MEM | width as u8, dst, src as u8, offset, 0)
}

/// `*(width *)(dst + offset) = imm`
#[must_use]
pub const fn store_imm(width: AccessWidth, dst: BpfReg, offset: i16, imm: i32) -> BpfInsn {
    insn(CLASS_ST | MODE_MEM | width as u8, dst, 0, offset, imm)
}

/// Applies `op` to the word at `dst + offset`, atomically. Only [`AccessWidth::Word`] and
/// [`AccessWidth::Double`] are valid.
#[must_use]
pub const fn atomic(
    op: AtomicOp,
    width: AccessWidth,
    dst: BpfReg,
    offset: i16,
    src: BpfReg,
) -> BpfInsn {
    insn(CLASS_STX | MODE_ATOMIC | width as u8, dst, src as u8, offset, op as i32)
}

/// Calls a helper.
#[must_use]
pub const fn call(helper: BpfHelper) -> BpfInsn {
    insn(CALL, BpfReg::R0, 0, 0, helper as i32)
}

/// Calls a kernel function by its BTF id.
#[must_use]
pub const fn call_kernel(btf_id: i32) -> BpfInsn {
    insn(CALL, BpfReg::R0, PSEUDO_KERNEL_CALL, 0, btf_id)
}

/// Ends the program, whose result is `R0`.
#[must_use]
pub const fn exit() -> BpfInsn {
    insn(EXIT, BpfReg::R0, 0, 0, 0)
}
