//! Runs a checked program on a frame.
//!
//! Instructions are decoded once, so that executing a step needs only one jump table. Jump targets
//! are absolute. A load and the comparison after it become one step in the frequent cases, because
//! a filter consists mostly of such pairs. Step `i` starts with instruction `i`, so every jump
//! target stays valid.

use alloc::vec::Vec;

use crate::check::is_branch;
use crate::insn::{self, CbpfInsn, MEM_SLOTS};

#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedInsn {
    op: DecodedOp,
    /// Index of the next step. After a comparison, the next step if the comparison holds.
    next: u16,
    /// For a comparison, the index of the next step if the comparison does not hold.
    otherwise: u16,
    /// Offset of a load, in bytes.
    at: u32,
    /// Constant operand, or index of a memory slot.
    k: u32,
}

#[derive(Debug, Clone, Copy)]
enum DecodedOp {
    LoadByte,
    LoadHalf,
    LoadWord,
    LoadByteIndexed,
    LoadHalfIndexed,
    LoadWordIndexed,
    LoadHeaderLen,
    LoadConst,
    LoadLen,
    LoadMem,
    LoadXConst,
    LoadXLen,
    LoadXMem,
    Store,
    StoreX,
    /// Arithmetic with a constant. Contains the operation code.
    Alu(u8),
    /// Arithmetic with X. Contains the operation code.
    AluX(u8),
    Neg,
    ToX,
    ToA,
    Jump,
    Eq,
    Gt,
    Ge,
    Set,
    EqX,
    GtX,
    GeX,
    SetX,
    ByteEq,
    HalfEq,
    WordEq,
    ByteSet,
    HalfSet,
    HalfIndexedEq,
    Return,
    ReturnA,
}

/// Decodes a program that has passed the check.
pub(crate) fn decode(insns: &[CbpfInsn]) -> Vec<DecodedInsn> {
    (0..insns.len()).map(|at| step(at, insns)).collect()
}

fn step(at: usize, insns: &[CbpfInsn]) -> DecodedInsn {
    let insn = insns[at];
    if let Some(branch) = insns.get(at + 1)
        && let Some(op) = fused(insn.code, branch.code)
    {
        let test = DecodedInsn { op, at: insn.k, ..plain(at + 1, *branch) };
        return test;
    }
    plain(at, insn)
}

fn plain(at: usize, insn: CbpfInsn) -> DecodedInsn {
    // The cast is exact: a program has at most 4096 instructions, and no jump leaves it.
    let target = |skip: usize| (at + 1 + skip) as u16;
    let (next, otherwise) = match insn.code {
        insn::JA => (target(insn.k as usize), 0),
        code if is_branch(code) => (target(insn.jt.into()), target(insn.jf.into())),
        _ => (target(0), 0),
    };
    DecodedInsn { op: op(insn.code), next, otherwise, at: insn.k, k: insn.k }
}

/// Returns the operation that combines a load with the comparison after it; `None` if there is no
/// such operation.
fn fused(load: u16, branch: u16) -> Option<DecodedOp> {
    match (load, branch) {
        (insn::LD_B_ABS, insn::JEQ) => Some(DecodedOp::ByteEq),
        (insn::LD_H_ABS, insn::JEQ) => Some(DecodedOp::HalfEq),
        (insn::LD_W_ABS, insn::JEQ) => Some(DecodedOp::WordEq),
        (insn::LD_B_ABS, insn::JSET) => Some(DecodedOp::ByteSet),
        (insn::LD_H_ABS, insn::JSET) => Some(DecodedOp::HalfSet),
        (insn::LD_H_IND, insn::JEQ) => Some(DecodedOp::HalfIndexedEq),
        _ => None,
    }
}

fn op(code: u16) -> DecodedOp {
    match code {
        insn::LD_B_ABS => DecodedOp::LoadByte,
        insn::LD_H_ABS => DecodedOp::LoadHalf,
        insn::LD_W_ABS => DecodedOp::LoadWord,
        insn::LD_B_IND => DecodedOp::LoadByteIndexed,
        insn::LD_H_IND => DecodedOp::LoadHalfIndexed,
        insn::LD_W_IND => DecodedOp::LoadWordIndexed,
        insn::LDX_MSH => DecodedOp::LoadHeaderLen,
        insn::LD_IMM => DecodedOp::LoadConst,
        insn::LD_LEN => DecodedOp::LoadLen,
        insn::LD_MEM => DecodedOp::LoadMem,
        insn::LDX_IMM => DecodedOp::LoadXConst,
        insn::LDX_LEN => DecodedOp::LoadXLen,
        insn::LDX_MEM => DecodedOp::LoadXMem,
        insn::ST => DecodedOp::Store,
        insn::STX => DecodedOp::StoreX,
        insn::NEG => DecodedOp::Neg,
        insn::TAX => DecodedOp::ToX,
        insn::TXA => DecodedOp::ToA,
        insn::JA => DecodedOp::Jump,
        insn::JEQ => DecodedOp::Eq,
        insn::JGT => DecodedOp::Gt,
        insn::JGE => DecodedOp::Ge,
        insn::JSET => DecodedOp::Set,
        insn::JEQ_X => DecodedOp::EqX,
        insn::JGT_X => DecodedOp::GtX,
        insn::JGE_X => DecodedOp::GeX,
        insn::JSET_X => DecodedOp::SetX,
        insn::RET_K => DecodedOp::Return,
        insn::RET_A => DecodedOp::ReturnA,
        alu if alu & insn::X == 0 => DecodedOp::Alu(alu as u8),
        alu => DecodedOp::AluX(alu as u8),
    }
}

/// Runs decoded steps on a frame and returns the program's result. Returns `None` on a read outside
/// the frame or a division by zero.
// This function is long because it handles the whole instruction set.
pub(crate) fn run(steps: &[DecodedInsn], frame: &[u8], wire_len: u32) -> Option<u32> {
    let (mut a, mut x, mut mem) = (0u32, 0u32, [0u32; MEM_SLOTS]);
    let mut step = steps.first()?;
    loop {
        let k = step.k;
        let holds = match step.op {
            DecodedOp::HalfEq => {
                a = half(frame, step.at)?;
                a == k
            }
            DecodedOp::ByteEq => {
                a = byte(frame, step.at)?;
                a == k
            }
            DecodedOp::WordEq => {
                a = word(frame, step.at)?;
                a == k
            }
            DecodedOp::HalfSet => {
                a = half(frame, step.at)?;
                a & k != 0
            }
            DecodedOp::ByteSet => {
                a = byte(frame, step.at)?;
                a & k != 0
            }
            DecodedOp::HalfIndexedEq => {
                a = half(frame, x.checked_add(step.at)?)?;
                a == k
            }
            DecodedOp::Eq => a == k,
            DecodedOp::Gt => a > k,
            DecodedOp::Ge => a >= k,
            DecodedOp::Set => a & k != 0,
            DecodedOp::EqX => a == x,
            DecodedOp::GtX => a > x,
            DecodedOp::GeX => a >= x,
            DecodedOp::SetX => a & x != 0,
            DecodedOp::Return => return Some(k),
            DecodedOp::ReturnA => return Some(a),
            other => {
                match other {
                    DecodedOp::LoadHalf => a = half(frame, k)?,
                    DecodedOp::LoadByte => a = byte(frame, k)?,
                    DecodedOp::LoadWord => a = word(frame, k)?,
                    DecodedOp::LoadHalfIndexed => a = half(frame, x.checked_add(k)?)?,
                    DecodedOp::LoadByteIndexed => a = byte(frame, x.checked_add(k)?)?,
                    DecodedOp::LoadWordIndexed => a = word(frame, x.checked_add(k)?)?,
                    DecodedOp::LoadHeaderLen => x = (byte(frame, k)? & 15) * 4,
                    DecodedOp::LoadConst => a = k,
                    DecodedOp::LoadLen => a = wire_len,
                    DecodedOp::LoadMem => a = mem[k as usize % MEM_SLOTS],
                    DecodedOp::LoadXConst => x = k,
                    DecodedOp::LoadXLen => x = wire_len,
                    DecodedOp::LoadXMem => x = mem[k as usize % MEM_SLOTS],
                    DecodedOp::Store => mem[k as usize % MEM_SLOTS] = a,
                    DecodedOp::StoreX => mem[k as usize % MEM_SLOTS] = x,
                    DecodedOp::Alu(code) => a = alu(code.into(), a, k)?,
                    DecodedOp::AluX(code) => a = alu(code.into(), a, x)?,
                    DecodedOp::Neg => a = a.wrapping_neg(),
                    DecodedOp::ToX => x = a,
                    DecodedOp::ToA => a = x,
                    _ => {}
                }
                true
            }
        };
        step = steps.get(usize::from(if holds { step.next } else { step.otherwise }))?;
    }
}

/// Computes `a op b` for the arithmetic operations; `None` for a division by zero.
pub(crate) fn alu(code: u16, a: u32, b: u32) -> Option<u32> {
    Some(match code & !insn::X {
        insn::ADD => a.wrapping_add(b),
        insn::SUB => a.wrapping_sub(b),
        insn::MUL => a.wrapping_mul(b),
        insn::DIV => a.checked_div(b)?,
        insn::MOD => a.checked_rem(b)?,
        insn::OR => a | b,
        insn::AND => a & b,
        insn::XOR => a ^ b,
        insn::LSH => a.checked_shl(b).unwrap_or(0),
        insn::RSH => a.checked_shr(b).unwrap_or(0),
        _ => return None,
    })
}

#[inline]
fn byte(frame: &[u8], at: u32) -> Option<u32> {
    frame.get(at as usize).copied().map(u32::from)
}

#[inline]
fn half(frame: &[u8], at: u32) -> Option<u32> {
    let bytes = frame.get(at as usize..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes).into())
}

#[inline]
fn word(frame: &[u8], at: u32) -> Option<u32> {
    let bytes = frame.get(at as usize..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}
