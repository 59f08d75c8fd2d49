//! A checked classic BPF program and the interpreter that runs it over one frame.

use alloc::vec::Vec;

use crate::check::{self, ProgramError};
use crate::insn::{self, Insn};

/// A classic BPF program that has passed its check.
///
/// # Invariants
/// Held by the check in the only constructor: every jump leads forward inside the program, the
/// last instruction returns, memory slots exist and are written before they are read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    insns: Vec<Insn>,
}

impl Program {
    /// Checks instructions from elsewhere and makes them runnable.
    ///
    /// # Errors
    /// The first rule broken; see [`ProgramError`].
    pub fn from_raw(insns: Vec<Insn>) -> Result<Self, ProgramError> {
        check::check(&insns)?;
        Ok(Self { insns })
    }

    /// The instructions, laid out as the `struct sock_filter` array of `SO_ATTACH_FILTER`.
    #[must_use]
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// The instructions as bytes of a `struct sock_filter` array in native byte order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.insns.len() * size_of::<Insn>());
        for insn in &self.insns {
            bytes.extend_from_slice(&insn.code.to_ne_bytes());
            bytes.extend_from_slice(&[insn.jt, insn.jf]);
            bytes.extend_from_slice(&insn.k.to_ne_bytes());
        }
        bytes
    }

    /// Runs the program over a frame and returns how many of its bytes to keep, 0 to refuse it.
    ///
    /// `frame` is what was captured, from the first byte of the Ethernet header, VLAN tags
    /// included; `wire_len` is the frame's length on the wire in bytes (the `len` of the
    /// language). A program that reads beyond `frame`, or divides by zero, refuses the frame.
    #[must_use]
    pub fn run(&self, frame: &[u8], wire_len: u32) -> u32 {
        self.interpret(frame, wire_len).unwrap_or(0)
    }

    /// One `match` per instruction. `None` is a read outside the frame or a division by zero.
    // Longer than a function should be: it is the table of the instruction set.
    fn interpret(&self, frame: &[u8], wire_len: u32) -> Option<u32> {
        use crate::insn::*;
        let (mut a, mut x, mut mem) = (0u32, 0u32, [0u32; MEM_SLOTS]);
        let mut pc = 0usize;
        loop {
            let insn = self.insns.get(pc)?;
            pc += 1;
            let k = insn.k;
            let holds = match insn.code {
                JEQ => a == k,
                JGT => a > k,
                JGE => a >= k,
                JSET => a & k != 0,
                JEQ_X => a == x,
                JGT_X => a > x,
                JGE_X => a >= x,
                JSET_X => a & x != 0,
                RET_K => return Some(k),
                RET_A => return Some(a),
                JA => {
                    pc += k as usize;
                    continue;
                }
                code => {
                    match code {
                        LD_H_ABS => a = half(frame, k)?,
                        LD_B_ABS => a = byte(frame, k)?,
                        LD_W_ABS => a = word(frame, k)?,
                        LD_H_IND => a = half(frame, x.checked_add(k)?)?,
                        LD_B_IND => a = byte(frame, x.checked_add(k)?)?,
                        LD_W_IND => a = word(frame, x.checked_add(k)?)?,
                        LDX_MSH => x = (byte(frame, k)? & 15) * 4,
                        LD_IMM => a = k,
                        LD_LEN => a = wire_len,
                        LD_MEM => a = mem[k as usize % MEM_SLOTS],
                        LDX_IMM => x = k,
                        LDX_LEN => x = wire_len,
                        LDX_MEM => x = mem[k as usize % MEM_SLOTS],
                        ST => mem[k as usize % MEM_SLOTS] = a,
                        STX => mem[k as usize % MEM_SLOTS] = x,
                        TAX => x = a,
                        TXA => a = x,
                        NEG => a = a.wrapping_neg(),
                        _ => a = alu(code, a, if code & X == 0 { k } else { x })?,
                    }
                    continue;
                }
            };
            pc += usize::from(if holds { insn.jt } else { insn.jf });
        }
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
