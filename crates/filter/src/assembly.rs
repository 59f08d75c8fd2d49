//! Turns instructions with labels into a program: resolves the labels and extends jumps whose
//! distance does not fit in a byte.
//!
//! Jumps only lead forward, so code is emitted front to back, and all jumps to a label are known
//! when the label is bound. The jumps determine what the registers contain at the label. A load of
//! a value that is already in the register is omitted.

use alloc::vec;
use alloc::vec::Vec;

use crate::insn::{self, CbpfInsn};

/// A position in the program, which may not be known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(usize);

#[derive(Debug, Clone, Copy)]
enum AssemblyOp {
    Plain(CbpfInsn),
    Branch { code: u16, k: u32, on_true: Label, on_false: Label },
}

/// The known content of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RegisterContent {
    /// The result of this load from the frame.
    Field { code: u16, at: u32 },
    /// The result of this load, at an offset after the IPv4 header at `header`.
    FieldAfter { header: u32, code: u16, at: u32 },
    /// The length of the IPv4 header at this offset.
    HeaderLen(u32),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RegisterContents {
    a: Option<RegisterContent>,
    x: Option<RegisterContent>,
}

impl RegisterContents {
    /// Keeps the content of each register that is the same in both states.
    fn or(self, other: Self) -> Self {
        Self { a: self.a.filter(|_| self.a == other.a), x: self.x.filter(|_| self.x == other.x) }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct LabelState {
    /// Index into the operations, once placed.
    op: usize,
    /// The contents of the registers that are common to all jumps to this label so far; `None` if
    /// there was no jump.
    registers: Option<RegisterContents>,
}

#[derive(Debug, Default)]
pub(crate) struct Assembly {
    ops: Vec<AssemblyOp>,
    labels: Vec<LabelState>,
    registers: RegisterContents,
}

impl Assembly {
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(LabelState::default());
        Label(self.labels.len() - 1)
    }

    /// Binds a label to this position. The code before it must end in a jump or return.
    pub(crate) fn bind(&mut self, label: Label) {
        let op = self.ops.len();
        let place = &mut self.labels[label.0];
        place.op = op;
        self.registers = place.registers.unwrap_or_default();
    }

    /// Loads the field at a fixed offset into A, unless A already contains it.
    pub(crate) fn load(&mut self, code: u16, at: u32) {
        let field = Some(RegisterContent::Field { code, at });
        if self.registers.a != field {
            self.ops.push(AssemblyOp::Plain(CbpfInsn::new(code, at)));
            self.registers.a = field;
        }
    }

    /// Loads the field at `at` plus the length of the IPv4 header at `header`, unless A
    /// contains it.
    pub(crate) fn load_after(&mut self, header: u32, code: u16, at: u32) {
        let field = Some(RegisterContent::FieldAfter { header, code, at });
        if self.registers.a != field {
            self.load_header_len(header);
            self.ops.push(AssemblyOp::Plain(CbpfInsn::new(code, at)));
            self.registers.a = field;
        }
    }

    /// Loads the length of the IPv4 header at `header` into X, unless X contains it.
    pub(crate) fn load_header_len(&mut self, header: u32) {
        let len = Some(RegisterContent::HeaderLen(header));
        if self.registers.x != len {
            self.ops.push(AssemblyOp::Plain(CbpfInsn::new(insn::LDX_MSH, header)));
            self.registers.x = len;
        }
    }

    /// Emits any other instruction that is not a jump.
    pub(crate) fn emit(&mut self, code: u16, k: u32) {
        self.ops.push(AssemblyOp::Plain(CbpfInsn::new(code, k)));
        match code {
            insn::ST | insn::RET_K => {}
            insn::TAX => self.registers.x = None,
            _ => self.registers.a = None,
        }
    }

    pub(crate) fn branch(&mut self, code: u16, k: u32, on_true: Label, on_false: Label) {
        self.ops.push(AssemblyOp::Branch { code, k, on_true, on_false });
        for label in [on_true, on_false] {
            let arriving = &mut self.labels[label.0].registers;
            let merged = arriving.map_or(self.registers, |before| before.or(self.registers));
            *arriving = Some(merged);
        }
    }

    /// Returns the finished instructions. Every label that is jumped to must have been bound.
    pub(crate) fn finish(self) -> Vec<CbpfInsn> {
        let mut layout = JumpLayout::new(&self);
        while layout.lengthen() {}
        layout.insns()
    }
}

/// The positions of all operations while jumps are being extended.
///
/// A far target gets its own unconditional jump right after the branch: `branch -> [ja true]
/// [ja false]`.
struct JumpLayout<'a> {
    assembly: &'a Assembly,
    /// For each operation, whether its true and its false target are farther than a branch reaches.
    far: Vec<(bool, bool)>,
    /// The position of each operation, and a final entry for the end.
    starts: Vec<usize>,
}

impl<'a> JumpLayout<'a> {
    fn new(assembly: &'a Assembly) -> Self {
        let count = assembly.ops.len();
        Self { assembly, far: vec![(false, false); count], starts: (0..=count).collect() }
    }

    /// Marks targets out of reach as far and recomputes all positions; returns `false` once all are
    /// in reach.
    fn lengthen(&mut self) -> bool {
        let mut changed = false;
        for (i, op) in self.assembly.ops.iter().enumerate() {
            let AssemblyOp::Branch { on_true, on_false, .. } = op else {
                continue;
            };
            let reach = |label: &Label| self.distance(i, *label) <= usize::from(u8::MAX);
            let far = (self.far[i].0 || !reach(on_true), self.far[i].1 || !reach(on_false));
            changed |= far != self.far[i];
            self.far[i] = far;
        }
        let mut start = 0;
        for (i, &(true_far, false_far)) in self.far.iter().enumerate() {
            self.starts[i] = start;
            start += 1 + usize::from(true_far) + usize::from(false_far);
        }
        self.starts[self.far.len()] = start;
        changed
    }

    /// The number of instructions between operation `i` and a label after it.
    fn distance(&self, i: usize, label: Label) -> usize {
        self.starts[self.assembly.labels[label.0].op] - self.starts[i] - 1
    }

    fn insns(&self) -> Vec<CbpfInsn> {
        let mut insns = Vec::with_capacity(self.starts[self.far.len()]);
        for (i, op) in self.assembly.ops.iter().enumerate() {
            match *op {
                AssemblyOp::Plain(insn) => insns.push(insn),
                AssemblyOp::Branch { code, k, on_true, on_false } => {
                    self.branch(i, CbpfInsn::new(code, k), on_true, on_false, &mut insns)
                }
            }
        }
        insns
    }

    fn branch(
        &self,
        i: usize,
        branch: CbpfInsn,
        on_true: Label,
        on_false: Label,
        insns: &mut Vec<CbpfInsn>,
    ) {
        let (true_far, false_far) = self.far[i];
        let mut jumps = Vec::new();
        let mut skip = |label: Label, far: bool| {
            let distance = self.distance(i, label);
            if !far {
                return distance as u8;
            }
            let slot = jumps.len();
            jumps.push(CbpfInsn::new(insn::JA, (distance - slot - 1) as u32));
            slot as u8
        };
        let jt = skip(on_true, true_far);
        let jf = skip(on_false, false_far);
        insns.push(CbpfInsn { jt, jf, ..branch });
        insns.append(&mut jumps);
    }
}
