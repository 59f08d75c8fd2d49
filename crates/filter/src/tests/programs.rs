//! Compares the check of programs with a check that tries every path, and the interpreter with a
//! simple one.

use std::collections::BTreeSet;
use std::format;
use std::vec;
use std::vec::Vec;

use proptest::collection;
use proptest::prelude::*;
use proptest::sample::select;

use crate::insn::{self, CbpfInsn};
use crate::{CbpfProgram, CbpfProgramError};

/// Instructions that are likely to pass the check; some are loads followed by a comparison.
fn insns() -> impl Strategy<Value = Vec<CbpfInsn>> {
    let chunk = prop_oneof![
        4 => insn(KNOWN_CODES).prop_map(|insn| vec![insn]),
        1 => (insn(LOADS), insn(BRANCHES)).prop_map(|(load, branch)| vec![load, branch]),
    ];
    collection::vec(chunk, 0..10).prop_map(|chunks| {
        let mut insns = chunks.concat();
        insns.push(CbpfInsn::new(insn::RET_A, 0));
        insns
    })
}

const LOADS: &[u16] = &[0x20, 0x28, 0x30, 0x40, 0x48, 0x50];
const BRANCHES: &[u16] = &[0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d];
const KNOWN_CODES: &[u16] = &[
    0x00, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x60, 0x80, 0x01, 0x61, 0x81, 0xb1, 0x02, 0x03, 0x04,
    0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x84, 0x94, 0xa4, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c,
    0x6c, 0x7c, 0x9c, 0xac, 0x05, 0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d, 0x06, 0x16, 0x07,
    0x87,
];

fn insn(codes: &'static [u16]) -> impl Strategy<Value = CbpfInsn> {
    let k = prop_oneof![9 => 0u32..5, 1 => any::<u32>()];
    (select(codes), 0u8..3, 0u8..3, k).prop_map(|(code, jt, jf, k)| CbpfInsn { code, jt, jf, k })
}

/// Runs instructions one by one. Decodes the class, size and mode of each code.
fn run_plainly(insns: &[CbpfInsn], frame: &[u8], wire_len: u32) -> Option<u32> {
    let (mut a, mut x, mut mem) = (0u32, 0u32, [0u32; 16]);
    let mut at = 0;
    loop {
        let CbpfInsn { code, jt, jf, k } = insns[at];
        at += 1;
        let operand = if code & 8 == 0 { k } else { x };
        match code & 7 {
            0 => a = load(code, k, x, frame, wire_len, &mem)?,
            1 if code >> 5 == 5 => x = (load(0x30, k, x, frame, wire_len, &mem)? & 15) << 2,
            1 => x = load(code, k, x, frame, wire_len, &mem)?,
            2 => mem[k as usize] = a,
            3 => mem[k as usize] = x,
            4 => {
                a = match code >> 4 {
                    0 => a.wrapping_add(operand),
                    1 => a.wrapping_sub(operand),
                    2 => a.wrapping_mul(operand),
                    3 => (operand != 0).then(|| a / operand)?,
                    4 => a | operand,
                    5 => a & operand,
                    6 => ((u64::from(a)) << operand.min(32)) as u32,
                    7 => (u64::from(a) >> operand.min(32)) as u32,
                    8 => 0u32.wrapping_sub(a),
                    9 => (operand != 0).then(|| a % operand)?,
                    _ => a ^ operand,
                };
            }
            5 => {
                at += match code >> 4 {
                    0 => k as usize,
                    1 => usize::from(if a == operand { jt } else { jf }),
                    2 => usize::from(if a > operand { jt } else { jf }),
                    3 => usize::from(if a >= operand { jt } else { jf }),
                    _ => usize::from(if a & operand != 0 { jt } else { jf }),
                };
            }
            6 => return Some(if code & 0x10 == 0 { k } else { a }),
            _ if code & 0x80 == 0 => x = a,
            _ => a = x,
        }
    }
}

fn load(code: u16, k: u32, x: u32, frame: &[u8], wire_len: u32, mem: &[u32; 16]) -> Option<u32> {
    let at = match code >> 5 {
        0 => return Some(k),
        1 => u64::from(k),
        2 => u64::from(k) + u64::from(x),
        3 => return Some(mem[k as usize]),
        _ => return Some(wire_len),
    };
    let size = [4, 2, 1][usize::from(code >> 3 & 3)];
    if at + size > frame.len() as u64 {
        return None;
    }
    let bytes = &frame[at as usize..(at + size) as usize];
    Some(bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
}

/// Returns whether a path through the program reads a memory slot that it has not written. Tries
/// every path.
fn reads_before_writing(insns: &[CbpfInsn]) -> bool {
    let mut seen = BTreeSet::new();
    let mut ways = vec![(0usize, 0u16)];
    while let Some((at, written)) = ways.pop() {
        if !seen.insert((at, written)) {
            continue;
        }
        let insn = insns[at];
        match insn.code {
            insn::RET_K | insn::RET_A => {}
            insn::JA => ways.push((at + 1 + insn.k as usize, written)),
            insn::LD_MEM | insn::LDX_MEM if written & 1 << insn.k == 0 => return true,
            insn::ST | insn::STX => ways.push((at + 1, written | 1 << insn.k)),
            code if crate::check::is_branch(code) => {
                ways.push((at + 1 + usize::from(insn.jt), written));
                ways.push((at + 1 + usize::from(insn.jf), written));
            }
            _ => ways.push((at + 1, written)),
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_instructions_are_checked_without_panic(
        insns in collection::vec((any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>()), 0..9)
    ) {
        let insns = insns.into_iter().map(|(code, jt, jf, k)| CbpfInsn { code, jt, jf, k }).collect();
        let _ = CbpfProgram::from_raw(insns);
    }

    #[test]
    fn programs_run_as_if_one_instruction_at_a_time(
        insns in insns(),
        frame in collection::vec(any::<u8>(), 0..9),
    ) {
        if let Ok(program) = CbpfProgram::from_raw(insns.clone()) {
            let expected = run_plainly(&insns, &frame, 9).unwrap_or(0);
            prop_assert_eq!(program.run(&frame, 9), expected);
        }
    }

    #[test]
    fn the_check_finds_slots_that_some_way_has_not_written(insns in insns()) {
        match CbpfProgram::from_raw(insns.clone()) {
            Ok(_) => prop_assert!(!reads_before_writing(&insns)),
            Err(CbpfProgramError::SlotNotWritten { .. }) => prop_assert!(reads_before_writing(&insns)),
            Err(_) => {}
        }
    }
}

#[test]
fn the_interpreter_computes_modulo_two_to_the_32() {
    use crate::insn::*;
    let cases = [
        (ADD, u32::MAX, 2, 1),
        (SUB, 1, 2, u32::MAX),
        (MUL, 0x8000_0001, 2, 2),
        (DIV, 7, 2, 3),
        (MOD, 7, 4, 3),
        (OR, 5, 2, 7),
        (AND, 6, 3, 2),
        (XOR, 6, 3, 5),
        (LSH, 3, 31, 0x8000_0000),
        (RSH, 0x8000_0000, 31, 1),
    ];
    for (code, a, b, result) in cases {
        let constant = [CbpfInsn::new(LD_IMM, a), CbpfInsn::new(code, b), CbpfInsn::new(RET_A, 0)];
        let register = [
            CbpfInsn::new(LDX_IMM, b),
            CbpfInsn::new(LD_IMM, a),
            CbpfInsn::new(code | X, 0),
            CbpfInsn::new(RET_A, 0),
        ];
        for insns in [constant.to_vec(), register.to_vec()] {
            assert_eq!(CbpfProgram::from_raw(insns).unwrap().run(&[], 0), result, "{code:#x}");
        }
    }
}

#[test]
fn reads_end_exactly_at_the_end_of_the_frame() {
    use crate::insn::*;
    let frame = [1, 2, 3, 4, 5];
    for (abs, ind, last) in
        [(LD_B_ABS, LD_B_IND, 4), (LD_H_ABS, LD_H_IND, 3), (LD_W_ABS, LD_W_IND, 1)]
    {
        for (at, inside) in [(last, true), (last + 1, false), (0x7fff_ffff, false)] {
            let direct = vec![CbpfInsn::new(abs, at), CbpfInsn::new(RET_K, 9)];
            let indexed =
                vec![CbpfInsn::new(LDX_IMM, at), CbpfInsn::new(ind, 0), CbpfInsn::new(RET_K, 9)];
            for insns in [direct, indexed] {
                let verdict = CbpfProgram::from_raw(insns).unwrap().run(&frame, 5);
                assert_eq!(verdict != 0, inside, "{abs:#x} at {at}");
            }
        }
    }
}

#[test]
fn bytes_are_laid_out_as_the_kernel_reads_them() {
    let insns = vec![
        CbpfInsn { code: insn::JEQ, jt: 0, jf: 0, k: 0x0102_0304 },
        CbpfInsn::new(insn::RET_K, 1),
    ];
    let bytes = CbpfProgram::from_raw(insns).unwrap().to_bytes();
    let mut expected = Vec::new();
    expected.extend(0x15u16.to_ne_bytes());
    expected.extend([0, 0]);
    expected.extend(0x0102_0304u32.to_ne_bytes());
    assert_eq!(bytes[..8], expected);
    assert_eq!(bytes.len(), 16);
}

#[test]
fn the_check_names_the_broken_rule() {
    use crate::insn::*;
    let ret = CbpfInsn::new(RET_K, 1);
    let jump = |code, jt, jf, k| CbpfInsn { code, jt, jf, k };
    let cases: [(Vec<CbpfInsn>, &str); 11] = [
        (vec![], "the program is empty"),
        (vec![ret; 4097], "the program has 4097 instructions, more than 4096"),
        (vec![CbpfInsn::new(0xff, 0), ret], "instruction 0: unknown operation code 0x00ff"),
        (vec![ret, jump(JEQ, 0, 1, 0), ret], "instruction 1: jump beyond the end of the program"),
        (vec![jump(JA, 0, 0, u32::MAX), ret], "instruction 0: jump beyond the end of the program"),
        (vec![CbpfInsn::new(ST, 16), ret], "instruction 0: there is no memory slot 16"),
        (
            vec![jump(JEQ, 1, 0, 0), CbpfInsn::new(ST, 3), CbpfInsn::new(LD_MEM, 3), ret],
            "instruction 2: memory slot 3 may be read before it is written",
        ),
        (vec![CbpfInsn::new(DIV, 0), ret], "instruction 0: division by zero"),
        (vec![CbpfInsn::new(LSH, 32), ret], "instruction 0: shift by 32 bits, more than 31"),
        (
            vec![CbpfInsn::new(LD_W_ABS, 0xffff_f000), ret],
            "instruction 0: offset 0xfffff000 is not inside a frame",
        ),
        (vec![ret, CbpfInsn::new(TAX, 0)], "the last instruction does not return"),
    ];
    for (insns, message) in cases {
        assert_eq!(format!("{}", CbpfProgram::from_raw(insns).unwrap_err()), message);
    }
}
