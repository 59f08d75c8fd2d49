//! Runs a checked program over a frame.
//!
//! Instructions are decoded once, so that a step needs no more than one jump table: targets are
//! absolute, and a load that a comparison follows is one step with it, since most of a filter is
//! just that. Step `i` begins with instruction `i`, so every target stays valid.

use alloc::vec::Vec;

use crate::check::is_branch;
use crate::insn::{self, Insn, MEM_SLOTS};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    op: Op,
    /// Next step; for comparisons, the one to take when they hold.
    next: u16,
    /// For comparisons, the step to take when they do not hold.
    otherwise: u16,
    /// Offset of a load, in bytes.
    at: u32,
    /// Constant, or memory slot.
    k: u32,
}

#[derive(Debug, Clone, Copy)]
enum Op {
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
    /// Any arithmetic with a constant, by its operation code.
    Alu(u8),
    /// Any arithmetic with X, by its operation code.
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

/// Decodes a program that has passed its check.
pub(crate) fn decode(insns: &[Insn]) -> Vec<Step> {
    (0..insns.len()).map(|at| step(at, insns)).collect()
}

fn step(at: usize, insns: &[Insn]) -> Step {
    let insn = insns[at];
    if let Some(branch) = insns.get(at + 1)
        && let Some(op) = fused(insn.code, branch.code)
    {
        let test = Step { op, at: insn.k, ..plain(at + 1, *branch) };
        return test;
    }
    plain(at, insn)
}

fn plain(at: usize, insn: Insn) -> Step {
    // A program has at most 4096 instructions and every target is inside it.
    let target = |skip: usize| (at + 1 + skip) as u16;
    let (next, otherwise) = match insn.code {
        insn::JA => (target(insn.k as usize), 0),
        code if is_branch(code) => (target(insn.jt.into()), target(insn.jf.into())),
        _ => (target(0), 0),
    };
    Step { op: op(insn.code), next, otherwise, at: insn.k, k: insn.k }
}

/// The step that a load and the comparison behind it make together.
fn fused(load: u16, branch: u16) -> Option<Op> {
    match (load, branch) {
        (insn::LD_B_ABS, insn::JEQ) => Some(Op::ByteEq),
        (insn::LD_H_ABS, insn::JEQ) => Some(Op::HalfEq),
        (insn::LD_W_ABS, insn::JEQ) => Some(Op::WordEq),
        (insn::LD_B_ABS, insn::JSET) => Some(Op::ByteSet),
        (insn::LD_H_ABS, insn::JSET) => Some(Op::HalfSet),
        (insn::LD_H_IND, insn::JEQ) => Some(Op::HalfIndexedEq),
        _ => None,
    }
}

fn op(code: u16) -> Op {
    match code {
        insn::LD_B_ABS => Op::LoadByte,
        insn::LD_H_ABS => Op::LoadHalf,
        insn::LD_W_ABS => Op::LoadWord,
        insn::LD_B_IND => Op::LoadByteIndexed,
        insn::LD_H_IND => Op::LoadHalfIndexed,
        insn::LD_W_IND => Op::LoadWordIndexed,
        insn::LDX_MSH => Op::LoadHeaderLen,
        insn::LD_IMM => Op::LoadConst,
        insn::LD_LEN => Op::LoadLen,
        insn::LD_MEM => Op::LoadMem,
        insn::LDX_IMM => Op::LoadXConst,
        insn::LDX_LEN => Op::LoadXLen,
        insn::LDX_MEM => Op::LoadXMem,
        insn::ST => Op::Store,
        insn::STX => Op::StoreX,
        insn::NEG => Op::Neg,
        insn::TAX => Op::ToX,
        insn::TXA => Op::ToA,
        insn::JA => Op::Jump,
        insn::JEQ => Op::Eq,
        insn::JGT => Op::Gt,
        insn::JGE => Op::Ge,
        insn::JSET => Op::Set,
        insn::JEQ_X => Op::EqX,
        insn::JGT_X => Op::GtX,
        insn::JGE_X => Op::GeX,
        insn::JSET_X => Op::SetX,
        insn::RET_K => Op::Return,
        insn::RET_A => Op::ReturnA,
        alu if alu & insn::X == 0 => Op::Alu(alu as u8),
        alu => Op::AluX(alu as u8),
    }
}

/// Runs decoded steps. `None` is a read outside the frame or a division by zero.
// Longer than a function should be: it is the table of the instruction set.
pub(crate) fn run(steps: &[Step], frame: &[u8], wire_len: u32) -> Option<u32> {
    let (mut a, mut x, mut mem) = (0u32, 0u32, [0u32; MEM_SLOTS]);
    let mut step = steps.first()?;
    loop {
        let k = step.k;
        let holds = match step.op {
            Op::HalfEq => {
                a = half(frame, step.at)?;
                a == k
            }
            Op::ByteEq => {
                a = byte(frame, step.at)?;
                a == k
            }
            Op::WordEq => {
                a = word(frame, step.at)?;
                a == k
            }
            Op::HalfSet => {
                a = half(frame, step.at)?;
                a & k != 0
            }
            Op::ByteSet => {
                a = byte(frame, step.at)?;
                a & k != 0
            }
            Op::HalfIndexedEq => {
                a = half(frame, x.checked_add(step.at)?)?;
                a == k
            }
            Op::Eq => a == k,
            Op::Gt => a > k,
            Op::Ge => a >= k,
            Op::Set => a & k != 0,
            Op::EqX => a == x,
            Op::GtX => a > x,
            Op::GeX => a >= x,
            Op::SetX => a & x != 0,
            Op::Return => return Some(k),
            Op::ReturnA => return Some(a),
            other => {
                match other {
                    Op::LoadHalf => a = half(frame, k)?,
                    Op::LoadByte => a = byte(frame, k)?,
                    Op::LoadWord => a = word(frame, k)?,
                    Op::LoadHalfIndexed => a = half(frame, x.checked_add(k)?)?,
                    Op::LoadByteIndexed => a = byte(frame, x.checked_add(k)?)?,
                    Op::LoadWordIndexed => a = word(frame, x.checked_add(k)?)?,
                    Op::LoadHeaderLen => x = (byte(frame, k)? & 15) * 4,
                    Op::LoadConst => a = k,
                    Op::LoadLen => a = wire_len,
                    Op::LoadMem => a = mem[k as usize % MEM_SLOTS],
                    Op::LoadXConst => x = k,
                    Op::LoadXLen => x = wire_len,
                    Op::LoadXMem => x = mem[k as usize % MEM_SLOTS],
                    Op::Store => mem[k as usize % MEM_SLOTS] = a,
                    Op::StoreX => mem[k as usize % MEM_SLOTS] = x,
                    Op::Alu(code) => a = alu(code.into(), a, k)?,
                    Op::AluX(code) => a = alu(code.into(), a, x)?,
                    Op::Neg => a = a.wrapping_neg(),
                    Op::ToX => x = a,
                    Op::ToA => a = x,
                    _ => {}
                }
                true
            }
        };
        step = steps.get(usize::from(if holds { step.next } else { step.otherwise }))?;
    }
}

/// `a op b` for the arithmetic operations; `None` for a division by zero.
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
