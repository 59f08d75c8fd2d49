//! Classic BPF instructions and their operation codes.

/// A classic BPF instruction, with the layout of the kernel's `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct CbpfInsn {
    /// The operation code, which consists of class, size or operation, and mode.
    pub code: u16,
    /// For a conditional jump, the number of instructions to skip if its test holds.
    pub jt: u8,
    /// For a conditional jump, the number of instructions to skip if its test fails.
    pub jf: u8,
    /// Depending on the operation: a constant, an offset in bytes, a memory slot, or the number of
    /// instructions to jump over.
    pub k: u32,
}

// The kernel reads this layout: the caller of SO_ATTACH_FILTER passes a pointer to these
// structures.
const _: () = assert!(size_of::<CbpfInsn>() == 8 && align_of::<CbpfInsn>() == 4);

impl CbpfInsn {
    /// Makes an instruction whose `jt` and `jf` are 0. The caller sets them for a conditional jump.
    pub(crate) const fn new(code: u16, k: u32) -> Self {
        Self { code, jt: 0, jf: 0, k }
    }
}

/// Maximum number of instructions of a program (`BPF_MAXINSNS`).
pub(crate) const MAX_INSNS: usize = 4096;

/// Number of scratch memory slots that a program has.
pub(crate) const MEM_SLOTS: usize = 16;

/// The kernel treats packet offsets from here on as negative. They refer to ancillary data instead
/// of bytes of the frame.
pub(crate) const FIRST_NEGATIVE_OFFSET: u32 = 0x8000_0000;

/// With this bit, the second operand of an instruction is the index register X instead of `k`.
pub(crate) const X: u16 = 0x08;

pub(crate) const LD_IMM: u16 = 0x00;
pub(crate) const LD_W_ABS: u16 = 0x20;
pub(crate) const LD_H_ABS: u16 = 0x28;
pub(crate) const LD_B_ABS: u16 = 0x30;
pub(crate) const LD_W_IND: u16 = 0x40;
pub(crate) const LD_H_IND: u16 = 0x48;
pub(crate) const LD_B_IND: u16 = 0x50;
pub(crate) const LD_MEM: u16 = 0x60;
pub(crate) const LD_LEN: u16 = 0x80;
pub(crate) const LDX_IMM: u16 = 0x01;
pub(crate) const LDX_MEM: u16 = 0x61;
pub(crate) const LDX_LEN: u16 = 0x81;
/// Sets X to 4 * (byte at k & 15), which is the length of the IPv4 header that starts at k.
pub(crate) const LDX_MSH: u16 = 0xb1;
pub(crate) const ST: u16 = 0x02;
pub(crate) const STX: u16 = 0x03;
pub(crate) const ADD: u16 = 0x04;
pub(crate) const SUB: u16 = 0x14;
pub(crate) const MUL: u16 = 0x24;
pub(crate) const DIV: u16 = 0x34;
pub(crate) const OR: u16 = 0x44;
pub(crate) const AND: u16 = 0x54;
pub(crate) const LSH: u16 = 0x64;
pub(crate) const RSH: u16 = 0x74;
pub(crate) const NEG: u16 = 0x84;
pub(crate) const MOD: u16 = 0x94;
pub(crate) const XOR: u16 = 0xa4;
pub(crate) const JA: u16 = 0x05;
pub(crate) const JEQ: u16 = 0x15;
pub(crate) const JGT: u16 = 0x25;
pub(crate) const JGE: u16 = 0x35;
pub(crate) const JSET: u16 = 0x45;
pub(crate) const RET_K: u16 = 0x06;
pub(crate) const RET_A: u16 = 0x16;
pub(crate) const TAX: u16 = 0x07;
pub(crate) const TXA: u16 = 0x87;

// These combined codes have names because a `match` pattern cannot contain an expression such as
// `JEQ | X`.
pub(crate) const JEQ_X: u16 = JEQ | X;
pub(crate) const JGT_X: u16 = JGT | X;
pub(crate) const JGE_X: u16 = JGE | X;
pub(crate) const JSET_X: u16 = JSET | X;
