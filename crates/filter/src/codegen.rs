//! Turns conditions and arithmetic into instructions.
//!
//! Conditions become jumps: the rest of a condition is skipped once its result is known. Arithmetic
//! leaves its value in A. While the right operand is computed, a left operand that is not constant
//! is in scratch memory.

use crate::assembly::{Assembly, Label};
use crate::ast::{Arith, BinaryOp, FieldSize, Filter, Relation, RelationOp};
use crate::check::CbpfProgramError;
use crate::cond::{Compare, Cond, FieldLocation, FieldTest};
use crate::error::FilterError;
use crate::insn::{self, FIRST_NEGATIVE_OFFSET, MAX_INSNS, MEM_SLOTS};
use crate::interpreter;
use crate::layers::{self, LayerOffsets};
use crate::names::FilterProtocol;
use crate::program::CbpfProgram;

type CodegenResult = Result<(), FilterError>;

impl Filter {
    /// Compiles the filter to a program that keeps at most `snap_len` bytes of each accepted frame.
    ///
    /// # Errors
    /// [`FilterError::TooManyValues`] if an arithmetic expression needs too much scratch memory;
    /// [`FilterError::TooLong`] if the program has too many instructions.
    pub fn compile(&self, snap_len: u32) -> Result<CbpfProgram, FilterError> {
        let mut assembly = Assembly::default();
        if let Some(expr) = &self.expr {
            let (accept, refuse) = (assembly.label(), assembly.label());
            CbpfGenerator { assembly: &mut assembly }.cond(&layers::lower(expr), accept, refuse)?;
            assembly.bind(refuse);
            assembly.emit(insn::RET_K, 0);
            assembly.bind(accept);
        }
        assembly.emit(insn::RET_K, snap_len);
        let insns = assembly.finish();
        let count = insns.len();
        CbpfProgram::from_raw(insns).map_err(|error| too_long(error, count))
    }
}

/// Converts an error of the check to a filter error. Generated code can fail the check only if it
/// is too long.
fn too_long(error: CbpfProgramError, insns: usize) -> FilterError {
    debug_assert!(matches!(error, CbpfProgramError::TooLong { .. }), "{error}");
    FilterError::TooLong { insns, limit: MAX_INSNS }
}

struct CbpfGenerator<'a> {
    assembly: &'a mut Assembly,
}

impl CbpfGenerator<'_> {
    fn cond(&mut self, cond: &Cond<'_>, on_true: Label, on_false: Label) -> CodegenResult {
        match cond {
            Cond::Field(test) => {
                self.field(*test, on_true, on_false);
                Ok(())
            }
            Cond::Relation(relation, offsets) => {
                self.relation(relation, *offsets, on_true, on_false)
            }
            Cond::Not(inner) => self.cond(inner, on_false, on_true),
            Cond::All(parts) => self.chain(parts, |next| (next, on_false), (on_true, on_false)),
            Cond::Any(parts) => self.chain(parts, |next| (on_true, next), (on_true, on_false)),
        }
    }

    /// Compiles the parts of an `and` or `or`, in order. Each part except the last jumps either to
    /// the next part or out of the chain; `to_next` returns these two targets, given the label of
    /// the next part. The last part jumps to `on_true` or `on_false`.
    fn chain(
        &mut self,
        parts: &[Cond<'_>],
        to_next: impl Fn(Label) -> (Label, Label),
        (on_true, on_false): (Label, Label),
    ) -> CodegenResult {
        let Some((last, before)) = parts.split_last() else {
            return Ok(());
        };
        for part in before {
            let next = self.assembly.label();
            let (on_true, on_false) = to_next(next);
            self.cond(part, on_true, on_false)?;
            self.assembly.bind(next);
        }
        self.cond(last, on_true, on_false)
    }

    fn field(&mut self, test: FieldTest, on_true: Label, on_false: Label) {
        match test.location {
            FieldLocation::Frame(at) => self.assembly.load(load_abs(test.size), at),
            FieldLocation::AfterIpv4 { header, offset } => {
                self.assembly.load_after(header, load_ind(test.size), header + offset);
            }
        }
        let jump = match test.compare {
            Compare::Eq => insn::JEQ,
            Compare::Gt => insn::JGT,
            Compare::Ge => insn::JGE,
        };
        let is_bit_test = test.compare == Compare::Eq && test.mask != u32::MAX;
        if is_bit_test && test.value == 0 {
            self.assembly.branch(insn::JSET, test.mask, on_false, on_true);
        } else if is_bit_test && test.value == test.mask && test.mask.is_power_of_two() {
            self.assembly.branch(insn::JSET, test.mask, on_true, on_false);
        } else {
            if test.mask != u32::MAX {
                self.assembly.emit(insn::AND, test.mask);
            }
            self.assembly.branch(jump, test.value, on_true, on_false);
        }
    }

    fn relation(
        &mut self,
        relation: &Relation,
        offsets: LayerOffsets,
        on_true: Label,
        on_false: Label,
    ) -> CodegenResult {
        let Relation { op, left, right } = relation;
        let (jump, negated) = match op {
            RelationOp::Eq => (insn::JEQ, false),
            RelationOp::Ne => (insn::JEQ, true),
            RelationOp::Gt => (insn::JGT, false),
            RelationOp::Le => (insn::JGT, true),
            RelationOp::Ge => (insn::JGE, false),
            RelationOp::Lt => (insn::JGE, true),
        };
        let (on_true, on_false) = if negated { (on_false, on_true) } else { (on_true, on_false) };
        if let (insn::JEQ, Some(0), Some((field, mask))) = (jump, fold(right), bit_test(left)) {
            self.value(field, offsets, 0)?;
            self.assembly.branch(insn::JSET, mask, on_false, on_true);
        } else if let Some(k) = fold(right) {
            self.value(left, offsets, 0)?;
            self.assembly.branch(jump, k, on_true, on_false);
        } else {
            self.pair(left, right, offsets, 0)?;
            self.assembly.branch(jump | insn::X, 0, on_true, on_false);
        }
        Ok(())
    }

    /// Emits code that computes a value in A. The code may overwrite the scratch memory slots from
    /// `slot` on.
    fn value(&mut self, arith: &Arith, offsets: LayerOffsets, slot: usize) -> CodegenResult {
        if let Some(number) = fold(arith) {
            self.assembly.emit(insn::LD_IMM, number);
            return Ok(());
        }
        match arith {
            Arith::Number(number) => self.assembly.emit(insn::LD_IMM, *number),
            Arith::Len => self.assembly.emit(insn::LD_LEN, 0),
            Arith::Load { base, index, size } => {
                return self.load(*base, index, *size, offsets, slot);
            }
            Arith::Neg(inner) => {
                self.value(inner, offsets, slot)?;
                self.assembly.emit(insn::NEG, 0);
            }
            Arith::Binary(op, left, right) => {
                if let Some(k) = fold(right).filter(|&k| is_valid_constant(*op, k)) {
                    self.value(left, offsets, slot)?;
                    self.assembly.emit(alu_code(*op), k);
                } else {
                    self.pair(left, right, offsets, slot)?;
                    self.assembly.emit(alu_code(*op) | insn::X, 0);
                }
            }
        }
        Ok(())
    }

    /// Emits code that computes `left` in A and `right` in X.
    fn pair(
        &mut self,
        left: &Arith,
        right: &Arith,
        offsets: LayerOffsets,
        slot: usize,
    ) -> CodegenResult {
        if let Some(number) = fold(left) {
            self.value(right, offsets, slot)?;
            self.assembly.emit(insn::TAX, 0);
            self.assembly.emit(insn::LD_IMM, number);
            return Ok(());
        }
        if slot >= MEM_SLOTS {
            return Err(FilterError::TooManyValues { limit: MEM_SLOTS });
        }
        self.value(left, offsets, slot)?;
        self.assembly.emit(insn::ST, slot as u32);
        self.value(right, offsets, slot + 1)?;
        self.assembly.emit(insn::TAX, 0);
        self.assembly.emit(insn::LD_MEM, slot as u32);
        Ok(())
    }

    fn load(
        &mut self,
        base: FilterProtocol,
        index: &Arith,
        size: FieldSize,
        offsets: LayerOffsets,
        slot: usize,
    ) -> CodegenResult {
        let location = offsets.header(base);
        let start = match location {
            FieldLocation::Frame(start) => start,
            FieldLocation::AfterIpv4 { header, .. } => header,
        };
        let fixed = fold(index)
            .and_then(|index| index.checked_add(start))
            .filter(|at| *at < FIRST_NEGATIVE_OFFSET);
        match (location, fixed) {
            (FieldLocation::Frame(_), Some(at)) => self.assembly.load(load_abs(size), at),
            (FieldLocation::Frame(_), None) => {
                self.value(index, offsets, slot)?;
                self.assembly.emit(insn::TAX, 0);
                self.assembly.emit(load_ind(size), start);
            }
            (FieldLocation::AfterIpv4 { header, .. }, Some(at)) => {
                self.assembly.load_after(header, load_ind(size), at);
            }
            (FieldLocation::AfterIpv4 { header, .. }, None) => {
                self.value(index, offsets, slot)?;
                self.assembly.load_header_len(header);
                self.assembly.emit(insn::ADD | insn::X, 0);
                self.assembly.emit(insn::TAX, 0);
                self.assembly.emit(load_ind(size), start);
            }
        }
        Ok(())
    }
}

/// Returns the value of an expression that does not depend on the frame. Returns `None` if the
/// expression depends on the frame or divides by zero. In these cases, the program computes the
/// value at run time.
fn fold(arith: &Arith) -> Option<u32> {
    match arith {
        Arith::Number(number) => Some(*number),
        Arith::Len | Arith::Load { .. } => None,
        Arith::Neg(inner) => fold(inner).map(u32::wrapping_neg),
        Arith::Binary(op, left, right) => {
            interpreter::alu(alu_code(*op), fold(left)?, fold(right)?)
        }
    }
}

/// Returns the field and the mask of an expression `field & mask` whose mask is constant; `None`
/// for other expressions.
fn bit_test(arith: &Arith) -> Option<(&Arith, u32)> {
    let Arith::Binary(BinaryOp::And, field, mask) = arith else {
        return None;
    };
    Some((field, fold(mask)?))
}

/// Returns whether an instruction accepts this constant as its second operand.
fn is_valid_constant(op: BinaryOp, k: u32) -> bool {
    match op {
        BinaryOp::Div | BinaryOp::Mod => k != 0,
        BinaryOp::Shl | BinaryOp::Shr => k < 32,
        _ => true,
    }
}

fn alu_code(op: BinaryOp) -> u16 {
    match op {
        BinaryOp::Add => insn::ADD,
        BinaryOp::Sub => insn::SUB,
        BinaryOp::Mul => insn::MUL,
        BinaryOp::Div => insn::DIV,
        BinaryOp::Mod => insn::MOD,
        BinaryOp::And => insn::AND,
        BinaryOp::Or => insn::OR,
        BinaryOp::Xor => insn::XOR,
        BinaryOp::Shl => insn::LSH,
        BinaryOp::Shr => insn::RSH,
    }
}

fn load_abs(size: FieldSize) -> u16 {
    match size {
        FieldSize::Byte => insn::LD_B_ABS,
        FieldSize::Half => insn::LD_H_ABS,
        FieldSize::Word => insn::LD_W_ABS,
    }
}

fn load_ind(size: FieldSize) -> u16 {
    match size {
        FieldSize::Byte => insn::LD_B_IND,
        FieldSize::Half => insn::LD_H_IND,
        FieldSize::Word => insn::LD_W_IND,
    }
}
