//! The loop that executes one instruction after the other.

use std::collections::BTreeMap;

use super::memory::{CONTEXT, MAPS, Memory, STACK, STACK_SIZE};
use super::{BpfRedirect, Fault, KernelFunction, alu};
use crate::assembler::BpfCode;
use crate::insn::{
    AtomicOp, BpfInsn, CALL, CLASS_ALU, CLASS_ALU64, CLASS_JMP, CLASS_JMP32, CLASS_LDX, CLASS_ST,
    CLASS_STX, EXIT, JUMP_ALWAYS, LOAD_IMM64, MODE_ATOMIC, MODE_MEM, OP_END, OP_NEG,
    PSEUDO_KERNEL_CALL, PSEUDO_MAP_FD, PSEUDO_MAP_VALUE, SOURCE_REG,
};

const MAX_STEPS: usize = 1_000_000;

/// Value of registers that a call has clobbered: no valid address, and no likely number.
const CLOBBERED: u64 = 0xdead_dead_dead_dead;

/// The parts of [`super::Interpreter`] that a run only reads.
#[derive(Clone, Copy)]
pub(super) struct World<'w> {
    pub(super) now_ns: u64,
    pub(super) names: &'w [String],
    pub(super) programs: &'w [BpfCode],
    pub(super) functions: &'w BTreeMap<i32, KernelFunction>,
}

pub(super) struct Run<'w> {
    pub(super) world: World<'w>,
    pub(super) memory: Memory<'w>,
    pub(super) regs: [u64; 11],
    /// Position of the current instruction, in slots.
    pub(super) at: usize,
    pub(super) redirect: Option<BpfRedirect>,
    pub(super) tail_calls: u32,
}

/// How execution continues after an instruction.
pub(super) enum Next {
    /// Skips this many slots; 0 continues with the next instruction.
    Skip(i64),
    /// Continues at the start of the program with this number.
    Program(usize),
    Exit,
}

impl<'w> Run<'w> {
    pub(super) fn new(world: World<'w>, memory: Memory<'w>) -> Self {
        let mut regs = [CLOBBERED; 11];
        regs[1] = CONTEXT;
        regs[10] = STACK + STACK_SIZE as u64;
        Self { world, memory, regs, at: 0, redirect: None, tail_calls: 0 }
    }

    pub(super) fn run(
        mut self,
        code: &BpfCode,
    ) -> Result<(u64, Memory<'w>, Option<BpfRedirect>), Fault> {
        let mut code = code;
        for _ in 0..MAX_STEPS {
            match self.step(code)? {
                Next::Skip(slots) => {
                    let next = self.at as i64 + 1 + slots;
                    self.at = usize::try_from(next).unwrap_or(usize::MAX);
                }
                Next::Program(number) => (code, self.at) = (&self.world.programs[number], 0),
                Next::Exit => return Ok((self.regs[0], self.memory, self.redirect)),
            }
        }
        Err(Fault::Endless)
    }

    fn step(&mut self, code: &BpfCode) -> Result<Next, Fault> {
        let past = Fault::PastTheEnd { at: self.at };
        let insn = *code.insns().get(self.at).ok_or(past)?;
        match (insn.code, insn.code & 7) {
            (EXIT, _) => return Ok(Next::Exit),
            (CALL, _) => return self.call(insn),
            (LOAD_IMM64, _) => return self.load_imm64(code, insn),
            (JUMP_ALWAYS, _) => return Ok(Next::Skip(insn.offset.into())),
            (_, CLASS_JMP | CLASS_JMP32) => return self.jump(insn),
            (_, CLASS_ALU | CLASS_ALU64) => self.alu(insn)?,
            (_, CLASS_LDX | CLASS_ST | CLASS_STX) => self.access(insn)?,
            _ => return Err(self.unknown(insn)),
        }
        Ok(Next::Skip(0))
    }

    pub(super) fn unknown(&self, insn: BpfInsn) -> Fault {
        Fault::UnknownInsn { at: self.at, code: insn.code }
    }

    fn dst(&mut self, insn: BpfInsn) -> Result<&mut u64, Fault> {
        let fault = self.unknown(insn);
        self.regs.get_mut(usize::from(insn.registers & 15)).ok_or(fault)
    }

    fn src(&self, insn: BpfInsn) -> Result<u64, Fault> {
        self.regs.get(usize::from(insn.registers >> 4)).copied().ok_or(self.unknown(insn))
    }

    fn operand(&self, insn: BpfInsn) -> Result<u64, Fault> {
        if insn.code & SOURCE_REG != 0 { self.src(insn) } else { Ok(i64::from(insn.imm) as u64) }
    }

    fn alu(&mut self, insn: BpfInsn) -> Result<(), Fault> {
        let (op, operand) = (insn.code & 0xf0, self.operand(insn)?);
        let is_wide = insn.code & 7 == CLASS_ALU64;
        let fault = self.unknown(insn);
        let dst = self.dst(insn)?;
        let result = match op {
            _ if insn.offset != 0 => None,
            OP_NEG if is_wide => Some(dst.wrapping_neg()),
            OP_END if !is_wide && insn.code & SOURCE_REG != 0 => alu::to_big_endian(*dst, insn.imm),
            _ if is_wide => alu::alu64(op, *dst, operand),
            _ => alu::alu32(op, *dst, operand),
        };
        *dst = result.ok_or(fault)?;
        Ok(())
    }

    fn jump(&mut self, insn: BpfInsn) -> Result<Next, Fault> {
        let (mut a, mut b) = (*self.dst(insn)?, self.operand(insn)?);
        if insn.code & 7 == CLASS_JMP32 {
            // Sign extension keeps the order of both signed and unsigned numbers, so the comparison
            // of 64 bits also serves for operands of 32 bits.
            (a, b) = (i64::from(a as i32) as u64, i64::from(b as i32) as u64);
        }
        let holds = alu::holds(insn.code & 0xf0, a, b).ok_or(self.unknown(insn))?;
        Ok(Next::Skip(if holds { insn.offset.into() } else { 0 }))
    }

    fn access(&mut self, insn: BpfInsn) -> Result<(), Fault> {
        let width = match insn.code & 0x18 {
            0x10 => 1,
            0x08 => 2,
            0x00 => 4,
            _ => 8,
        };
        let is_load = insn.code & 7 == CLASS_LDX;
        let base = if is_load { self.src(insn)? } else { *self.dst(insn)? };
        let address = base.wrapping_add_signed(insn.offset.into());
        let outside = Fault::OutOfBounds { at: self.at, address, width };
        match (insn.code & 0xe0, insn.code & 7) {
            (MODE_MEM, CLASS_LDX) => {
                *self.dst(insn)? = self.memory.read(address, width).ok_or(outside)?;
            }
            (MODE_MEM, CLASS_ST) => {
                let value = i64::from(insn.imm) as u64;
                self.memory.write(address, width, value).ok_or(outside)?;
            }
            (MODE_MEM, _) => {
                let value = self.src(insn)?;
                self.memory.write(address, width, value).ok_or(outside)?;
            }
            (MODE_ATOMIC, CLASS_STX) if width >= 4 => self.atomic(insn, address, width)?,
            _ => return Err(self.unknown(insn)),
        }
        Ok(())
    }

    fn atomic(&mut self, insn: BpfInsn, address: u64, width: usize) -> Result<(), Fault> {
        let outside = Fault::OutOfBounds { at: self.at, address, width };
        let mask = if width == 8 { u64::MAX } else { u32::MAX.into() };
        let (operand, compare) = (self.src(insn)? & mask, self.regs[0] & mask);
        let old = self.memory.read(address, width).ok_or(outside.clone())?;
        let new = alu::atomic(insn.imm, old, operand, compare).ok_or(self.unknown(insn))?;
        self.memory.write(address, width, new).ok_or(outside)?;
        if insn.imm == AtomicOp::CompareExchange as i32 {
            self.regs[0] = old;
        } else if insn.imm & alu::FETCH != 0 {
            self.regs[usize::from(insn.registers >> 4)] = old;
        }
        Ok(())
    }

    /// Executes an instruction of two slots, which loads a constant, a map or the address of a
    /// map's value.
    fn load_imm64(&mut self, code: &BpfCode, insn: BpfInsn) -> Result<Next, Fault> {
        let past = Fault::PastTheEnd { at: self.at + 1 };
        let second = code.insns().get(self.at + 1).ok_or(past)?.imm as u32;
        let wrong = Fault::WrongMap { at: self.at };
        let map = || {
            let name = code.map_names().nth(insn.imm as usize)?;
            self.world.names.iter().position(|known| known == name)
        };
        let value = match insn.registers >> 4 {
            0 => u64::from(second) << 32 | u64::from(insn.imm as u32),
            PSEUDO_MAP_FD => MAPS | map().ok_or(wrong)? as u64,
            PSEUDO_MAP_VALUE => Memory::value_address(map().ok_or(wrong)?, second as usize),
            _ => return Err(self.unknown(insn)),
        };
        *self.dst(insn)? = value;
        Ok(Next::Skip(1))
    }

    fn call(&mut self, insn: BpfInsn) -> Result<Next, Fault> {
        let next = if insn.registers >> 4 == PSEUDO_KERNEL_CALL {
            self.call_function(insn.imm)?
        } else {
            self.call_helper(insn.imm)?
        };
        self.regs[1..=5].fill(CLOBBERED);
        if let Next::Program(_) = next {
            self.regs[1] = CONTEXT;
        }
        Ok(next)
    }
}
