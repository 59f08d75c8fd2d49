//! Tests that the interpreter and the kernel agree, with random programs and random changes of
//! maps.
#![allow(clippy::unwrap_used)]

mod lab;

use proptest::prelude::*;
use slipring_bpf::insn::{
    AccessWidth, AluOp, AtomicOp, BpfInsn, BpfReg, JumpIf, Operand, alu, alu32, atomic, exit, load,
    load_imm64, mov, neg, store, store_imm, to_big_endian,
};
use slipring_bpf::{
    Assembler, BpfCode, BpfMap, BpfMapKind, BpfMapSpec, Interpreter, SimulatedMap, UpdateMode,
    XdpMeta,
};

/// The configuration for a number of cases; failing cases are printed, not written into the tree.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Registers that hold numbers. `R9` points to the value of the map "cells", and `R10` to the end
/// of the stack.
const REGS: [BpfReg; 8] = [
    BpfReg::R0,
    BpfReg::R2,
    BpfReg::R3,
    BpfReg::R4,
    BpfReg::R5,
    BpfReg::R6,
    BpfReg::R7,
    BpfReg::R8,
];
/// Number of 8-byte words that programs use on the stack, and in the map.
const SLOTS: i16 = 8;
const CELLS: BpfMapSpec = BpfMapSpec::new(BpfMapKind::Array, 4, 8 * SLOTS as u32, 1);

/// A part of a program, with neither an exit nor an access outside memory.
#[derive(Debug, Clone)]
enum Part {
    Plain(BpfInsn),
    /// A 32-bit compare-and-exchange in the map, at this offset and with this register. It clears
    /// the upper half of `R0` (RFC 9669, 5.3), but Linux 6.18 omits that where its verifier,
    /// wrongly, finds that no path reads this half. So an instruction that clears it follows.
    CompareExchange32(i16, BpfReg),
    /// Skips this many parts if the condition holds.
    Skip {
        reg: BpfReg,
        condition: JumpIf,
        operand: Operand,
        is_wide: bool,
        parts: usize,
    },
}

fn reg() -> impl Strategy<Value = BpfReg> {
    prop::sample::select(&REGS[..])
}

/// Chooses numbers near boundaries, and arbitrary numbers.
fn number() -> impl Strategy<Value = i32> {
    let edges = [0, 1, -1, 2, 63, 64, i32::MAX, i32::MIN, 0xffff, 0x8000];
    prop_oneof![prop::sample::select(edges.to_vec()), any::<i32>()]
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![reg().prop_map(Operand::Reg), number().prop_map(Operand::Imm)]
}

fn arithmetic() -> impl Strategy<Value = BpfInsn> {
    use AluOp::{Add, And, Arsh, Div, Lsh, Mod, Mov, Mul, Or, Rsh, Sub, Xor};
    let ops = [Add, Sub, Mul, Div, Or, And, Lsh, Rsh, Mod, Xor, Mov, Arsh];
    (prop::sample::select(ops.to_vec()), reg(), operand(), any::<bool>()).prop_map(
        |(op, dst, operand, is_wide)| {
            // The verifier refuses operations with an invalid constant.
            let operand = match (op, operand) {
                (Lsh | Rsh | Arsh, Operand::Imm(imm)) => Operand::Imm(imm & 31),
                (Div | Mod, Operand::Imm(0)) => Operand::Imm(7),
                (_, operand) => operand,
            };
            if is_wide { alu(op, dst, operand) } else { alu32(op, dst, operand) }
        },
    )
}

fn memory() -> impl Strategy<Value = BpfInsn> {
    use AccessWidth::{Byte, Double, Half, Word};
    let widths = prop::sample::select(&[(Byte, 1), (Half, 2), (Word, 4), (Double, 8)][..]);
    (widths, 0..SLOTS, 0..8i16, reg(), number(), 0..3).prop_map(
        |((width, bytes), slot, within, reg, imm, kind)| {
            let offset = -8 * (slot + 1) + within / bytes * bytes;
            match kind {
                0 => load(width, reg, BpfReg::R10, offset),
                1 => store(width, BpfReg::R10, offset, reg),
                _ => store_imm(width, BpfReg::R10, offset, imm),
            }
        },
    )
}

/// Atomic operations, only in the map: the verifier of Linux 6.18 confuses a value that an atomic
/// operation fetches from the stack with the value of another path, and removes code that is
/// needed.
fn atomics() -> impl Strategy<Value = Part> {
    use AtomicOp::{
        Add, And, CompareExchange, Exchange, FetchAdd, FetchAnd, FetchOr, FetchXor, Or, Xor,
    };
    let ops = [Add, Or, And, Xor, FetchAdd, FetchOr, FetchAnd, FetchXor, Exchange, CompareExchange];
    (prop::sample::select(ops.to_vec()), any::<bool>(), 0..SLOTS, reg()).prop_map(
        |(op, is_wide, slot, reg)| {
            if op == CompareExchange && !is_wide {
                return Part::CompareExchange32(8 * slot, reg);
            }
            let width = if is_wide { AccessWidth::Double } else { AccessWidth::Word };
            Part::Plain(atomic(op, width, BpfReg::R9, 8 * slot, reg))
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    use JumpIf::{Eq, Ge, Gt, Le, Lt, Ne, Set, Sge, Sgt, Sle, Slt};
    let conditions = [Eq, Gt, Ge, Set, Ne, Sgt, Sge, Lt, Le, Slt, Sle];
    let skip =
        (prop::sample::select(conditions.to_vec()), reg(), operand(), any::<bool>(), 0..4_usize)
            .prop_map(|(condition, reg, operand, is_wide, parts)| Part::Skip {
                reg,
                condition,
                operand,
                is_wide,
                parts,
            });
    let bits = prop::sample::select(&[16, 32, 64][..]);
    prop_oneof![
        6 => arithmetic().prop_map(Part::Plain),
        3 => memory().prop_map(Part::Plain),
        2 => atomics(),
        1 => reg().prop_map(|reg| Part::Plain(neg(reg))),
        1 => (reg(), bits).prop_map(|(reg, bits)| Part::Plain(to_big_endian(reg, bits))),
        3 => skip,
    ]
}

/// Builds a program that starts with these numbers in the registers and zeros in memory, executes
/// `parts`, and returns a digest of registers and memory.
fn program(numbers: &[u64], parts: &[Part]) -> BpfCode {
    let mut program = Assembler::new();
    for (reg, number) in REGS.iter().zip(numbers) {
        program.put_all(load_imm64(*reg, *number));
    }
    program.load_map_value(BpfReg::R9, "cells", 0);
    for slot in 0..SLOTS {
        program.put(store_imm(AccessWidth::Double, BpfReg::R10, -8 * (slot + 1), 0));
        program.put(store_imm(AccessWidth::Double, BpfReg::R9, 8 * slot, 0));
    }
    for (at, part) in parts.iter().enumerate() {
        program.label(&at.to_string());
        match part {
            Part::Plain(insn) => program.put(*insn),
            Part::CompareExchange32(offset, reg) => {
                let op = AtomicOp::CompareExchange;
                program.put(atomic(op, AccessWidth::Word, BpfReg::R9, *offset, *reg));
                program.put(alu32(AluOp::Mov, BpfReg::R0, Operand::Reg(BpfReg::R0)))
            }
            Part::Skip { reg, condition, operand, is_wide, parts: skipped } => {
                let to = (at + 1 + skipped).min(parts.len()).to_string();
                if *is_wide {
                    program.jump_if(*reg, *condition, *operand, &to)
                } else {
                    program.jump_if32(*reg, *condition, *operand, &to)
                }
            }
        };
    }
    program.label(&parts.len().to_string());
    for reg in &REGS[1..] {
        program.put_all([alu(AluOp::Mul, BpfReg::R0, 31), alu(AluOp::Add, BpfReg::R0, *reg)]);
    }
    for slot in 0..SLOTS {
        for (base, offset) in [(BpfReg::R10, -8 * (slot + 1)), (BpfReg::R9, 8 * slot)] {
            program.put(load(AccessWidth::Double, BpfReg::R1, base, offset));
            let mix = [alu(AluOp::Mul, BpfReg::R0, 31), alu(AluOp::Add, BpfReg::R0, BpfReg::R1)];
            program.put_all(mix);
        }
    }
    program.put_all([mov(BpfReg::R1, BpfReg::R0), alu(AluOp::Rsh, BpfReg::R1, 32)]);
    program.put_all([alu(AluOp::Xor, BpfReg::R0, BpfReg::R1), exit()]);
    program.assemble().unwrap()
}

#[test]
fn random_programs_compute_in_the_interpreter_what_they_compute_in_the_kernel() {
    if !lab::has_bpf() {
        return;
    }
    let edges = [0, 1, u64::MAX, 1 << 63, u64::from(u32::MAX), 1 << 32, 0x8000_0000];
    let number = prop_oneof![prop::sample::select(edges.to_vec()), any::<u64>()];
    let numbers = prop::collection::vec(number, REGS.len());
    let parts = prop::collection::vec(part(), 0..40);
    let cells = BpfMap::create("cells", CELLS).unwrap();
    proptest!(config(2000), |(numbers in numbers, parts in parts)| {
        let code = program(&numbers, &parts);
        let frame = [0; 64];
        let mut interpreter = Interpreter::new();
        interpreter.add_map("cells", SimulatedMap::new(CELLS));
        let simulated = interpreter.run_xdp(&code, &frame, XdpMeta::default()).unwrap();
        let loaded = lab::load(&code, &[("cells", &cells)]).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(loaded.test_run(&frame, 1).unwrap().result, simulated.action);
    });
}

/// One change of a map.
#[derive(Debug, Clone)]
enum Change {
    Set(Vec<u8>, u8, UpdateMode),
    Remove(Vec<u8>),
}

fn change(key: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Change> {
    let modes = [UpdateMode::Any, UpdateMode::Any, UpdateMode::OnlyNew, UpdateMode::OnlyExisting];
    (key, any::<u8>(), prop::sample::select(modes.to_vec()), 0..3).prop_map(
        |(key, value, mode, kind)| match kind {
            0 => Change::Remove(key),
            _ => Change::Set(key, value, mode),
        },
    )
}

/// Makes the same changes in a map of the kernel and in one of the interpreter; compares the result
/// of each change, and then all values.
fn compare(
    spec: BpfMapSpec,
    changes: &[Change],
    keys: impl Iterator<Item = Vec<u8>>,
) -> Result<(), TestCaseError> {
    let (kernel, mut simulated) =
        (BpfMap::create("compared", spec).unwrap(), SimulatedMap::new(spec));
    let value = |byte| vec![byte; spec.value_size as usize];
    let errno = |error: std::io::Error| error.raw_os_error().unwrap();
    for change in changes {
        let (in_kernel, here) = match change {
            Change::Set(key, byte, mode) => (
                kernel.update(key, &value(*byte), *mode).map_err(errno),
                simulated.set(key, &value(*byte), *mode as u64),
            ),
            Change::Remove(key) => (
                match kernel.delete(key) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(libc::ENOENT),
                    Err(error) => Err(errno(error)),
                },
                simulated.remove(key),
            ),
        };
        prop_assert_eq!(in_kernel, here, "{:?}", change);
    }
    for key in keys {
        let here = simulated.get(&key).map(<[u8]>::to_vec);
        prop_assert_eq!(kernel.lookup(&key).unwrap(), here, "{:?}", key);
    }
    Ok(())
}

#[test]
fn hashes_and_arrays_answer_in_the_interpreter_as_in_the_kernel() {
    if !lab::has_bpf() {
        return;
    }
    // There are more keys than fit into the map.
    let keys = || (0..7_u32).map(|key| key.to_ne_bytes().to_vec());
    let key = (0..7_u32).prop_map(|key| key.to_ne_bytes().to_vec());
    proptest!(config(256), |(changes in prop::collection::vec(change(key), 0..40))| {
        for kind in [BpfMapKind::Hash, BpfMapKind::Array] {
            compare(BpfMapSpec::new(kind, 4, 12, 5), &changes, keys())?;
        }
    });
}

#[test]
fn tries_find_the_longest_prefix_in_the_interpreter_as_in_the_kernel() {
    if !lab::has_bpf() {
        return;
    }
    let key = |len: u32, bits: u16| [&len.to_ne_bytes()[..], &bits.to_be_bytes()].concat();
    let all = || (0..64_u16).map(|bits| key(16, bits << 10 | 0x155));
    let prefix = (0..17_u32, any::<u16>()).prop_map(move |(len, bits)| key(len, bits & 0xfc00));
    proptest!(config(256), |(changes in prop::collection::vec(change(prefix), 0..60))| {
        compare(BpfMapSpec::new(BpfMapKind::LpmTrie, 6, 4, 1000), &changes, all())?;
    });
}

#[test]
fn a_batch_sets_all_its_values_and_keys_lists_them() {
    if !lab::has_bpf() {
        return;
    }
    let map = BpfMap::create("batch", BpfMapSpec::new(BpfMapKind::Hash, 2, 3, 100)).unwrap();
    let keys: Vec<u8> = (0..100_u16).flat_map(u16::to_ne_bytes).collect();
    let values: Vec<u8> = (0..100).flat_map(|n| [n, n + 1, n + 2]).collect();
    map.update_batch(&keys, &values).unwrap();
    let mut listed = map.keys().unwrap();
    listed.sort_by_key(|key| u16::from_ne_bytes([key[0], key[1]]));
    assert_eq!(listed.concat(), keys);
    assert_eq!(map.lookup(&99_u16.to_ne_bytes()).unwrap(), Some(vec![99, 100, 101]));
    let one_too_few = map.update_batch(&keys, &values[3..]).unwrap_err();
    assert_eq!(one_too_few.to_string(), "the map takes 300 bytes here, not 297");
}

#[test]
fn what_is_written_to_a_mapped_array_is_what_the_kernel_looks_up() {
    if !lab::has_bpf() {
        return;
    }
    let map = BpfMap::create("mapped", BpfMapSpec::mappable_array(11, 600)).unwrap();
    let values = map.map_values().unwrap();
    assert_eq!((values.len(), values.value_size()), (600, 11));
    for index in [0_u32, 1, 599] {
        let value: Vec<u8> = (0..11).map(|n| n + index as u8).collect();
        values.write(index, &value);
        assert_eq!(map.lookup(&index.to_ne_bytes()).unwrap(), Some(value.clone()));
        let mut read = vec![0; 11];
        values.read(index, &mut read);
        assert_eq!(read, value);
    }
    use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
    values.atomic::<AtomicU32>(599, 4).unwrap().store(7, Ordering::Relaxed);
    map.update(&599_u32.to_ne_bytes(), &[9; 11], UpdateMode::Any).unwrap();
    assert_eq!(values.atomic::<AtomicU8>(599, 10).unwrap().load(Ordering::Relaxed), 9);
    assert!(values.atomic::<AtomicU8>(599, 11).is_none(), "past the value");
    assert!(values.atomic::<AtomicU32>(599, 2).is_none(), "not aligned");
    assert!(values.atomic::<AtomicU32>(600, 0).is_none(), "past the array");
    let plain = BpfMap::create("plain", BpfMapSpec::new(BpfMapKind::Array, 4, 8, 1)).unwrap();
    assert!(plain.map_values().is_err());
}
