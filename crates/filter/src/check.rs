//! The check that every program must pass before it runs. It applies the rules of the kernel's
//! validator, so a program that passes can also be attached to a socket.

use alloc::vec;

use crate::insn::{self, CbpfInsn, MAX_INSNS};

/// Why a program was rejected. `at` is always the index of the faulty instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CbpfProgramError {
    /// The program has no instructions.
    #[error("the program is empty")]
    Empty,
    /// The program has more instructions than a kernel accepts.
    #[error("the program has {insns} instructions, more than {limit}")]
    TooLong {
        /// How many instructions the program has.
        insns: usize,
        /// How many instructions a program may have.
        limit: usize,
    },
    /// The operation code is unknown.
    #[error("instruction {at}: unknown operation code {code:#06x}")]
    UnknownCode {
        /// Index of the instruction.
        at: usize,
        /// The instruction's operation code.
        code: u16,
    },
    /// A jump leads out of the program.
    #[error("instruction {at}: jump beyond the end of the program")]
    JumpOutOfRange {
        /// Index of the instruction.
        at: usize,
    },
    /// An instruction uses a memory slot that does not exist.
    #[error("instruction {at}: there is no memory slot {slot}")]
    NoSuchSlot {
        /// Index of the instruction.
        at: usize,
        /// Index of the memory slot.
        slot: u32,
    },
    /// An instruction reads a memory slot that was not written on every path to it.
    #[error("instruction {at}: memory slot {slot} may be read before it is written")]
    SlotNotWritten {
        /// Index of the instruction.
        at: usize,
        /// Index of the memory slot.
        slot: u32,
    },
    /// An instruction divides by the constant 0, or takes a remainder modulo 0.
    #[error("instruction {at}: division by zero")]
    DivisionByZero {
        /// Index of the instruction.
        at: usize,
    },
    /// An instruction shifts by a constant above 31.
    #[error("instruction {at}: shift by {bits} bits, more than 31")]
    ShiftTooFar {
        /// Index of the instruction.
        at: usize,
        /// The shift distance in bits.
        bits: u32,
    },
    /// An instruction reads at an offset that the kernel treats as negative. It would read
    /// ancillary data instead of the frame.
    #[error("instruction {at}: offset {offset:#010x} is not inside a frame")]
    NegativeOffset {
        /// Index of the instruction.
        at: usize,
        /// The offset that the instruction uses.
        offset: u32,
    },
    /// The last instruction is not a return, so the program could continue after its end.
    #[error("the last instruction does not return")]
    NoReturn,
}

/// Checks a whole program.
pub(crate) fn check(insns: &[CbpfInsn]) -> Result<(), CbpfProgramError> {
    let Some(last) = insns.last() else {
        return Err(CbpfProgramError::Empty);
    };
    if insns.len() > MAX_INSNS {
        return Err(CbpfProgramError::TooLong { insns: insns.len(), limit: MAX_INSNS });
    }
    for (at, insn) in insns.iter().enumerate() {
        check_code(at, insn)?;
        check_operand(at, insn)?;
        check_jumps(at, insn, insns.len())?;
    }
    if !matches!(last.code, insn::RET_K | insn::RET_A) {
        return Err(CbpfProgramError::NoReturn);
    }
    check_slots_written(insns)
}

/// Returns whether an instruction is a conditional jump.
pub(crate) fn is_branch(code: u16) -> bool {
    matches!(code & !insn::X, insn::JEQ | insn::JGT | insn::JGE | insn::JSET)
}

fn check_code(at: usize, insn: &CbpfInsn) -> Result<(), CbpfProgramError> {
    use crate::insn::*;
    let known = match insn.code {
        LD_IMM | LD_MEM | LD_LEN | LDX_IMM | LDX_MEM | LDX_LEN | LDX_MSH | ST | STX => true,
        LD_W_ABS | LD_H_ABS | LD_B_ABS | LD_W_IND | LD_H_IND | LD_B_IND => true,
        NEG | JA | RET_K | RET_A | TAX | TXA => true,
        code => matches!(
            code & !X,
            ADD | SUB | MUL | DIV | OR | AND | LSH | RSH | MOD | XOR | JEQ | JGT | JGE | JSET
        ),
    };
    if known {
        return Ok(());
    }
    Err(CbpfProgramError::UnknownCode { at, code: insn.code })
}

fn check_operand(at: usize, insn: &CbpfInsn) -> Result<(), CbpfProgramError> {
    use crate::insn::*;
    let k = insn.k;
    match insn.code {
        DIV | MOD if k == 0 => Err(CbpfProgramError::DivisionByZero { at }),
        LSH | RSH if k > 31 => Err(CbpfProgramError::ShiftTooFar { at, bits: k }),
        LD_MEM | LDX_MEM | ST | STX if k as usize >= MEM_SLOTS => {
            Err(CbpfProgramError::NoSuchSlot { at, slot: k })
        }
        LD_W_ABS | LD_H_ABS | LD_B_ABS | LDX_MSH if k >= FIRST_NEGATIVE_OFFSET => {
            Err(CbpfProgramError::NegativeOffset { at, offset: k })
        }
        _ => Ok(()),
    }
}

fn check_jumps(at: usize, insn: &CbpfInsn, len: usize) -> Result<(), CbpfProgramError> {
    let farthest = if insn.code == insn::JA {
        insn.k as usize
    } else if is_branch(insn.code) {
        usize::from(insn.jt.max(insn.jf))
    } else {
        return Ok(());
    };
    // Jump distances are unsigned and count from the next instruction, so no jump can lead
    // backwards.
    if farthest >= len - at - 1 {
        return Err(CbpfProgramError::JumpOutOfRange { at });
    }
    Ok(())
}

/// Checks in one pass, from front to back, that every slot is written on *every* path to each
/// instruction that reads it. One pass is enough because jumps only lead forward.
fn check_slots_written(insns: &[CbpfInsn]) -> Result<(), CbpfProgramError> {
    const UNREACHED: u16 = u16::MAX;
    let mut arriving = vec![UNREACHED; insns.len()];
    let mut written = 0u16;
    for (at, insn) in insns.iter().enumerate() {
        written &= arriving[at];
        match insn.code {
            insn::ST | insn::STX => written |= 1 << insn.k,
            insn::LD_MEM | insn::LDX_MEM if written & (1 << insn.k) == 0 => {
                return Err(CbpfProgramError::SlotNotWritten { at, slot: insn.k });
            }
            insn::JA => {
                arriving[at + 1 + insn.k as usize] &= written;
                written = UNREACHED;
            }
            insn::RET_K | insn::RET_A => written = UNREACHED,
            code if is_branch(code) => {
                arriving[at + 1 + usize::from(insn.jt)] &= written;
                arriving[at + 1 + usize::from(insn.jf)] &= written;
                written = UNREACHED;
            }
            _ => {}
        }
    }
    Ok(())
}
