//! Turns instructions with labels into a program. Resolves the labels. A conditional jump whose
//! distance does not fit in a byte becomes a longer sequence.
//!
//! Jumps only lead forward. So code is emitted from front to back, and all jumps to a label are
//! known when the label is bound. These jumps determine what the registers contain at the label. If
//! a value is already in the register, its load is omitted.

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
    /// The result of this load at offset `at` plus the length of the IPv4 header that starts at
    /// `header`.
    FieldAfter { header: u32, code: u16, at: u32 },
    /// The length in bytes of the IPv4 header that starts at this offset.
    HeaderLen(u32),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RegisterContents {
    a: Option<RegisterContent>,
    x: Option<RegisterContent>,
}

impl RegisterContents {
    /// Returns what is known if either state is possible: the registers that have the same content
    /// in both.
    fn or(self, other: Self) -> Self {
        Self { a: self.a.filter(|_| self.a == other.a), x: self.x.filter(|_| self.x == other.x) }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct LabelState {
    /// Index of the operation at the label, once the label is bound.
    op: usize,
    /// What the registers contain after every jump to this label so far; `None` if there was no
    /// jump yet.
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

    /// Binds a label to this position. The code before it must end with a jump or a return.
    pub(crate) fn bind(&mut self, label: Label) {
        let op = self.ops.len();
        let place = &mut self.labels[label.0];
        place.op = op;
        self.registers = place.registers.unwrap_or_default();
    }

    /// Loads the field at a fixed offset into A. Emits nothing if A already contains it.
    pub(crate) fn load(&mut self, code: u16, at: u32) {
        let field = Some(RegisterContent::Field { code, at });
        if self.registers.a != field {
            self.ops.push(AssemblyOp::Plain(CbpfInsn::new(code, at)));
            self.registers.a = field;
        }
    }

    /// Loads the field at `at` plus the length of the IPv4 header at `header` into A. Emits nothing
    /// if A already contains it.
    pub(crate) fn load_after(&mut self, header: u32, code: u16, at: u32) {
        let field = Some(RegisterContent::FieldAfter { header, code, at });
        if self.registers.a != field {
            self.load_header_len(header);
            self.ops.push(AssemblyOp::Plain(CbpfInsn::new(code, at)));
            self.registers.a = field;
        }
    }

    /// Loads the length of the IPv4 header at `header` into X. Emits nothing if X already contains
    /// it.
    pub(crate) fn load_header_len(&mut self, header: u32) {
        let len = Some(RegisterContent::HeaderLen(header));
        if self.registers.x != len {
            self.ops.push(AssemblyOp::Plain(CbpfInsn::new(insn::LDX_MSH, header)));
            self.registers.x = len;
        }
    }

    /// Emits an instruction that is neither a jump nor one of the loads above.
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

    /// Returns the finished instructions. Every label to which there is a jump must have been
    /// bound.
    pub(crate) fn finish(self) -> Vec<CbpfInsn> {
        let mut layout = JumpLayout::new(&self);
        while layout.lengthen() {}
        layout.insns()
    }
}

/// The positions of all operations. They change while jumps are made longer.
///
/// If a target is too far for a branch, an unconditional jump to it is put right after the branch:
/// `branch -> [ja true] [ja false]`.
struct JumpLayout<'a> {
    assembly: &'a Assembly,
    /// For each operation, whether its true target and its false target are too far for a branch.
    far: Vec<(bool, bool)>,
    /// The position of each operation, and the position after the last one.
    starts: Vec<usize>,
}

impl<'a> JumpLayout<'a> {
    fn new(assembly: &'a Assembly) -> Self {
        let count = assembly.ops.len();
        Self { assembly, far: vec![(false, false); count], starts: (0..=count).collect() }
    }

    /// Marks the targets that are too far, and computes all positions again. Returns `false` if
    /// nothing has changed.
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

    /// Returns the number of instructions between operation `i` and a later label.
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
