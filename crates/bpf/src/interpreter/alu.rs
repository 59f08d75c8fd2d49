//! The arithmetic of instructions.

use crate::insn::{AluOp, AtomicOp, JumpIf};

/// `a op b` in 64 bits; `None` if the operation is unknown.
pub(super) fn alu64(op: u8, a: u64, b: u64) -> Option<u64> {
    let shift = b as u32 & 63;
    Some(match op {
        op if op == AluOp::Add as u8 => a.wrapping_add(b),
        op if op == AluOp::Sub as u8 => a.wrapping_sub(b),
        op if op == AluOp::Mul as u8 => a.wrapping_mul(b),
        op if op == AluOp::Div as u8 => a.checked_div(b).unwrap_or(0),
        op if op == AluOp::Mod as u8 => a.checked_rem(b).unwrap_or(a),
        op if op == AluOp::Or as u8 => a | b,
        op if op == AluOp::And as u8 => a & b,
        op if op == AluOp::Xor as u8 => a ^ b,
        op if op == AluOp::Mov as u8 => b,
        op if op == AluOp::Lsh as u8 => a << shift,
        op if op == AluOp::Rsh as u8 => a >> shift,
        op if op == AluOp::Arsh as u8 => ((a as i64) >> shift) as u64,
        _ => return None,
    })
}

/// Like [`alu64`], but on the low 32 bits; the high bits are cleared.
pub(super) fn alu32(op: u8, a: u64, b: u64) -> Option<u64> {
    let (low_a, low_b, shift) = (a as u32, b as u32, b as u32 & 31);
    Some(match op {
        op if op == AluOp::Lsh as u8 => (low_a << shift).into(),
        op if op == AluOp::Rsh as u8 => (low_a >> shift).into(),
        op if op == AluOp::Arsh as u8 => (((low_a as i32) >> shift) as u32).into(),
        _ => u64::from(alu64(op, low_a.into(), low_b.into())? as u32),
    })
}

/// Converts the low `bits` (16, 32 or 64) of `value` to network byte order and clears the others;
/// `None` for another number of bits.
pub(super) fn to_big_endian(value: u64, bits: i32) -> Option<u64> {
    Some(match bits {
        16 => (value as u16).to_be().into(),
        32 => (value as u32).to_be().into(),
        64 => value.to_be(),
        _ => return None,
    })
}

/// Whether a condition holds for 64-bit numbers; for 32-bit numbers, pass sign-extended arguments.
pub(super) fn holds(condition: u8, a: u64, b: u64) -> Option<bool> {
    let (signed_a, signed_b) = (a as i64, b as i64);
    Some(match condition {
        op if op == JumpIf::Eq as u8 => a == b,
        op if op == JumpIf::Ne as u8 => a != b,
        op if op == JumpIf::Gt as u8 => a > b,
        op if op == JumpIf::Ge as u8 => a >= b,
        op if op == JumpIf::Lt as u8 => a < b,
        op if op == JumpIf::Le as u8 => a <= b,
        op if op == JumpIf::Set as u8 => a & b != 0,
        op if op == JumpIf::Sgt as u8 => signed_a > signed_b,
        op if op == JumpIf::Sge as u8 => signed_a >= signed_b,
        op if op == JumpIf::Slt as u8 => signed_a < signed_b,
        op if op == JumpIf::Sle as u8 => signed_a <= signed_b,
        _ => return None,
    })
}

/// The value that an atomic operation writes to memory. `compare` is the value that
/// [`AtomicOp::CompareExchange`] expects there.
pub(super) fn atomic(op: i32, old: u64, operand: u64, compare: u64) -> Option<u64> {
    Some(match op {
        op if op == AtomicOp::Exchange as i32 => operand,
        op if op == AtomicOp::CompareExchange as i32 => {
            if old == compare {
                operand
            } else {
                old
            }
        }
        op => match op & !FETCH {
            op if op == AtomicOp::Add as i32 => old.wrapping_add(operand),
            op if op == AtomicOp::Or as i32 => old | operand,
            op if op == AtomicOp::And as i32 => old & operand,
            op if op == AtomicOp::Xor as i32 => old ^ operand,
            _ => return None,
        },
    })
}

/// Bit of an atomic operation: the previous value goes into a register.
pub(super) const FETCH: i32 = 1;
