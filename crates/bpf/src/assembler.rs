//! Programs in which labels and maps have names.

use std::collections::BTreeMap;

use crate::insn::{
    BpfInsn, BpfReg, CLASS_JMP, CLASS_JMP32, JUMP_ALWAYS, JumpIf, LOAD_IMM64, Operand,
    PSEUDO_MAP_FD, PSEUDO_MAP_VALUE, insn, with_operand,
};

/// Collects instructions; labels may be used before they are defined.
///
/// ```
/// use slipring_bpf::Assembler;
/// use slipring_bpf::insn::{AccessWidth, BpfReg, JumpIf, exit, load, mov_imm};
///
/// let mut program = Assembler::new();
/// program
///     .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R1, 12))
///     .put(mov_imm(BpfReg::R0, 1))
///     .jump_if(BpfReg::R2, JumpIf::Eq, 1, "end")
///     .put(mov_imm(BpfReg::R0, 2))
///     .label("end")
///     .put(exit());
/// assert!(program.assemble().is_ok());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Assembler {
    insns: Vec<BpfInsn>,
    labels: BTreeMap<String, usize>,
    jumps: Vec<(usize, String)>,
    maps: Vec<String>,
    duplicate: Option<String>,
}

/// Why a program cannot be assembled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A jump to a label that does not exist.
    #[error("there is no label `{0}`")]
    UnknownLabel(String),
    /// A label that is defined twice.
    #[error("label `{0}` is defined twice")]
    DuplicateLabel(String),
    /// A jump over more than 32767 instructions.
    #[error("label `{0}` is too far away")]
    TooFar(String),
    /// A map for which [`BpfCode::bind`] gets no descriptor.
    #[error("the program uses map `{0}`, which it was not given")]
    UnknownMap(String),
}

impl Assembler {
    /// Creates an empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an instruction.
    pub fn put(&mut self, insn: BpfInsn) -> &mut Self {
        self.insns.push(insn);
        self
    }

    /// Appends instructions.
    pub fn put_all(&mut self, insns: impl IntoIterator<Item = BpfInsn>) -> &mut Self {
        self.insns.extend(insns);
        self
    }

    /// Defines `name` as the label of the next instruction.
    pub fn label(&mut self, name: &str) -> &mut Self {
        if self.labels.insert(name.to_owned(), self.insns.len()).is_some() {
            self.duplicate.get_or_insert_with(|| name.to_owned());
        }
        self
    }

    /// `goto name`
    pub fn jump(&mut self, name: &str) -> &mut Self {
        self.jump_by(insn(JUMP_ALWAYS, BpfReg::R0, 0, 0, 0), name)
    }

    /// `if reg condition operand goto name`
    pub fn jump_if(
        &mut self,
        reg: BpfReg,
        condition: JumpIf,
        operand: impl Into<Operand>,
        name: &str,
    ) -> &mut Self {
        self.jump_by(with_operand(CLASS_JMP | condition as u8, reg, operand.into(), 0), name)
    }

    /// Like [`Self::jump_if`], but compares the low 32 bits.
    pub fn jump_if32(
        &mut self,
        reg: BpfReg,
        condition: JumpIf,
        operand: impl Into<Operand>,
        name: &str,
    ) -> &mut Self {
        self.jump_by(with_operand(CLASS_JMP32 | condition as u8, reg, operand.into(), 0), name)
    }

    /// The position of the next instruction, for [`Self::retarget_since`].
    #[must_use]
    pub fn position(&self) -> usize {
        self.insns.len()
    }

    /// Redirects those jumps that were appended at `position` or later and whose label satisfies
    /// `is_replaced`: they go to label `name` instead. So code that was written with the labels of
    /// one program can be part of another.
    pub fn retarget_since(
        &mut self,
        position: usize,
        is_replaced: impl Fn(&str) -> bool,
        name: &str,
    ) -> &mut Self {
        let since = self.jumps.iter_mut().filter(|(at, _)| *at >= position);
        since.filter(|(_, to)| is_replaced(to)).for_each(|(_, to)| name.clone_into(to));
        self
    }

    fn jump_by(&mut self, insn: BpfInsn, name: &str) -> &mut Self {
        self.jumps.push((self.insns.len(), name.to_owned()));
        self.put(insn)
    }

    /// `dst = map`, as helper functions expect it.
    pub fn load_map(&mut self, dst: BpfReg, map: &str) -> &mut Self {
        self.load_of_map(dst, PSEUDO_MAP_FD, map, 0)
    }

    /// `dst = &map[0] + offset` of an array map, without a lookup: for arrays with one value.
    pub fn load_map_value(&mut self, dst: BpfReg, map: &str, offset: u32) -> &mut Self {
        self.load_of_map(dst, PSEUDO_MAP_VALUE, map, offset)
    }

    fn load_of_map(&mut self, dst: BpfReg, source: u8, map: &str, offset: u32) -> &mut Self {
        let known = self.maps.iter().position(|name| name == map);
        let slot = known.unwrap_or_else(|| {
            self.maps.push(map.to_owned());
            self.maps.len() - 1
        });
        self.put(insn(LOAD_IMM64, dst, source, 0, slot as i32));
        self.put(insn(0, BpfReg::R0, 0, 0, offset as i32))
    }

    /// Resolves the labels and returns the program.
    ///
    /// # Errors
    /// A label that is missing, defined twice, or out of reach.
    pub fn assemble(&self) -> Result<BpfCode, AssembleError> {
        if let Some(name) = &self.duplicate {
            return Err(AssembleError::DuplicateLabel(name.clone()));
        }
        let mut insns = self.insns.clone();
        for (at, name) in &self.jumps {
            let to = self.labels.get(name);
            let to = *to.ok_or_else(|| AssembleError::UnknownLabel(name.clone()))?;
            let distance = to as i64 - (*at as i64 + 1);
            insns[*at].offset =
                i16::try_from(distance).map_err(|_| AssembleError::TooFar(name.clone()))?;
        }
        Ok(BpfCode { insns, maps: self.maps.clone() })
    }
}

/// An assembled program in which maps are still named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfCode {
    /// Instructions. In those that load a map, `imm` is an index into `maps`.
    insns: Vec<BpfInsn>,
    maps: Vec<String>,
}

impl BpfCode {
    /// The names of the maps that the program uses.
    pub fn map_names(&self) -> impl Iterator<Item = &str> {
        self.maps.iter().map(String::as_str)
    }

    pub(crate) fn insns(&self) -> &[BpfInsn] {
        &self.insns
    }

    /// Replaces the names of maps by the descriptors that `descriptor_of` returns.
    ///
    /// # Errors
    /// [`AssembleError::UnknownMap`].
    pub fn bind(
        &self,
        descriptor_of: impl Fn(&str) -> Option<i32>,
    ) -> Result<Vec<BpfInsn>, AssembleError> {
        let unknown = |name: &String| AssembleError::UnknownMap(name.clone());
        let descriptors: Result<Vec<_>, _> =
            self.maps.iter().map(|name| descriptor_of(name).ok_or_else(|| unknown(name))).collect();
        let (descriptors, mut insns) = (descriptors?, self.insns.clone());
        let mut at = 0;
        while let Some(insn) = insns.get_mut(at) {
            let is_wide = insn.code == LOAD_IMM64;
            if is_wide && matches!(insn.registers >> 4, PSEUDO_MAP_FD | PSEUDO_MAP_VALUE) {
                insn.imm = descriptors[insn.imm as usize];
            }
            at += if is_wide { 2 } else { 1 };
        }
        Ok(insns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insn::{exit, mov_imm};

    #[test]
    fn only_jumps_after_a_position_are_retargeted() {
        let mut program = Assembler::new();
        program.jump("a");
        let position = program.position();
        program.jump("a").jump("b").retarget_since(position, |to| to == "a", "c");
        program.label("a").put(exit()).label("b").put(exit()).label("c").put(exit());
        let offsets: Vec<_> =
            program.assemble().unwrap().insns().iter().map(|insn| insn.offset).collect();
        assert_eq!(offsets[..3], [2, 3, 1]);
    }

    #[test]
    fn jumps_count_from_the_instruction_after_them() {
        let mut program = Assembler::new();
        program.label("top").jump("end").put(mov_imm(BpfReg::R0, 1)).jump("top").label("end");
        program.jump_if(BpfReg::R1, JumpIf::Eq, BpfReg::R2, "end").put(exit());
        let code = program.assemble().unwrap();
        let offsets: Vec<_> = code.insns().iter().map(|insn| insn.offset).collect();
        assert_eq!(offsets, [2, 0, -3, -1, 0]);
    }

    #[test]
    fn labels_that_lead_nowhere_are_named() {
        let assembled = |program: &mut Assembler| program.assemble().unwrap_err();
        assert_eq!(
            assembled(Assembler::new().jump("x")),
            AssembleError::UnknownLabel("x".to_owned())
        );
        let twice = AssembleError::DuplicateLabel("x".to_owned());
        assert_eq!(assembled(Assembler::new().label("x").label("x")), twice);
        let mut far = Assembler::new();
        far.jump("x").put_all(vec![exit(); 0x8000]).label("x");
        assert_eq!(assembled(&mut far), AssembleError::TooFar("x".to_owned()));
        let mut near = Assembler::new();
        near.jump("x").put_all(vec![exit(); 0x7fff]).label("x");
        assert!(near.assemble().is_ok());
    }

    #[test]
    fn each_map_has_one_descriptor_and_constants_stay_constants() {
        let mut program = Assembler::new();
        program.load_map(BpfReg::R1, "a").load_map_value(BpfReg::R2, "b", 8);
        program.load_map(BpfReg::R3, "a");
        program.put_all(crate::insn::load_imm64(BpfReg::R4, 1)).put(exit());
        let code = program.assemble().unwrap();
        assert_eq!(code.map_names().collect::<Vec<_>>(), ["a", "b"]);
        let bound = code.bind(|name| Some(if name == "a" { 7 } else { 9 })).unwrap();
        let imms: Vec<_> = bound.iter().map(|insn| insn.imm).collect();
        assert_eq!(imms, [7, 0, 9, 8, 7, 0, 1, 0, 0]);
        let error = code.bind(|name| (name == "a").then_some(7)).unwrap_err();
        assert_eq!(error.to_string(), "the program uses map `b`, which it was not given");
    }
}
