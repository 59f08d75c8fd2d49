//! Tests of single instructions, as bpf(4) describes them: comparisons, scratch memory, the limits
//! of the check's rules, and the text form of libpcap's `bpf_image`.

use std::format;
use std::vec;
use std::vec::Vec;

use crate::insn::*;
use crate::{CbpfProgram, CbpfProgramError};

const ACCEPT: CbpfInsn = CbpfInsn::new(RET_K, 1);
const REJECT: CbpfInsn = CbpfInsn::new(RET_K, 0);

fn branch(code: u16, jt: u8, jf: u8, k: u32) -> CbpfInsn {
    CbpfInsn { code, jt, jf, k }
}

fn run(insns: Vec<CbpfInsn>, frame: &[u8]) -> u32 {
    CbpfProgram::from_raw(insns).unwrap().run(frame, frame.len() as u32)
}

type Comparison = (u16, fn(u32, u32) -> bool);
const COMPARISONS: [Comparison; 4] =
    [(JEQ, |a, k| a == k), (JGT, |a, k| a > k), (JGE, |a, k| a >= k), (JSET, |a, k| a & k != 0)];

#[test]
fn comparisons_hold_for_constants_and_for_the_index_register() {
    for (code, holds) in COMPARISONS {
        for (a, b) in [(4, 5), (5, 5), (6, 5), (2, 1), (0, 0)] {
            let tail = [ACCEPT, REJECT];
            let with_k = [CbpfInsn::new(LD_IMM, a), branch(code, 0, 1, b)];
            let with_x =
                [CbpfInsn::new(LDX_IMM, b), CbpfInsn::new(LD_IMM, a), branch(code | X, 0, 1, 0)];
            for head in [with_k.to_vec(), with_x.to_vec()] {
                let verdict = run([head, tail.to_vec()].concat(), &[]);
                assert_eq!(verdict != 0, holds(a, b), "{code:#x} of {a} and {b}");
            }
        }
    }
}

#[test]
fn comparisons_of_a_loaded_field_leave_the_field_in_the_accumulator() {
    let loads = [(LD_B_ABS, 1), (LD_H_ABS, 2), (LD_W_ABS, 4), (LD_B_IND, 1), (LD_H_IND, 2)];
    for (load, size) in loads {
        for (code, holds) in COMPARISONS {
            for (value, k) in [(4, 5), (5, 5), (6, 5), (2, 1)] {
                let mut frame = [0; 4];
                frame[size - 1] = value;
                let mut insns = vec![
                    CbpfInsn::new(load, 0),
                    branch(code, 0, 1, k),
                    CbpfInsn::new(ADD, 100),
                    CbpfInsn::new(RET_A, 0),
                ];
                let value = u32::from(value);
                let expected = if holds(value, k) { value + 100 } else { value };
                assert_eq!(run(insns.clone(), &frame), expected, "{load:#x} {code:#x}");
                insns.insert(0, CbpfInsn::new(LDX_IMM, 0));
                assert_eq!(run(insns, &frame), expected, "{load:#x} {code:#x}");
            }
        }
    }
}

#[test]
fn every_memory_slot_keeps_its_own_value() {
    for (store, load) in [(ST, LD_MEM), (STX, LDX_MEM), (ST, LDX_MEM), (STX, LD_MEM)] {
        for slot in 0..16 {
            let mut insns = Vec::new();
            for written in 0..16 {
                let set = if store == ST { LD_IMM } else { LDX_IMM };
                insns.push(CbpfInsn::new(set, 100 + written));
                insns.push(CbpfInsn::new(store, written));
            }
            insns.push(CbpfInsn::new(load, slot));
            insns.extend((load == LDX_MEM).then(|| CbpfInsn::new(TXA, 0)));
            insns.push(CbpfInsn::new(RET_A, 0));
            assert_eq!(run(insns, &[]), 100 + slot, "{store:#x} {load:#x}");
        }
    }
}

#[test]
fn a_program_may_have_4096_instructions() {
    assert_eq!(run(vec![ACCEPT; 4096], &[]), 1);
}

#[test]
fn a_slot_must_be_written_on_the_paths_that_reach_its_read_and_on_no_others() {
    let (read, write) = (CbpfInsn::new(LD_MEM, 3), CbpfInsn::new(ST, 3));
    let skip = |k| CbpfInsn::new(JA, k);
    let nothing = CbpfInsn::new(LD_IMM, 0);
    // In these programs, one of the two paths that begin at the second instruction bypasses the
    // write.
    let unwritten = [
        vec![nothing, branch(JEQ, 1, 0, 0), write, read, ACCEPT],
        vec![nothing, branch(JEQ, 0, 1, 0), write, read, ACCEPT],
        vec![nothing, branch(JEQ, 0, 1, 0), skip(1), write, read, ACCEPT],
        vec![nothing, branch(JEQ, 0, 2, 0), skip(2), nothing, write, read, ACCEPT],
    ];
    for insns in unwritten {
        let error = CbpfProgram::from_raw(insns.clone()).unwrap_err();
        assert!(matches!(error, CbpfProgramError::SlotNotWritten { slot: 3, .. }), "{insns:?}");
    }
    // In these programs, the path without the write returns, or the read is never reached.
    let written = [
        vec![branch(JEQ, 0, 2, 0), write, skip(1), ACCEPT, read, ACCEPT],
        vec![branch(JEQ, 1, 0, 0), ACCEPT, write, read, ACCEPT],
        vec![ACCEPT, read, ACCEPT],
        vec![skip(1), read, ACCEPT],
    ];
    for insns in written {
        assert!(CbpfProgram::from_raw(insns.clone()).is_ok(), "{insns:?}");
    }
}

#[test]
fn programs_are_equal_if_their_instructions_are() {
    let program = |insns| CbpfProgram::from_raw(insns).unwrap();
    assert_eq!(program(vec![ACCEPT]), program(vec![ACCEPT]));
    assert_ne!(program(vec![ACCEPT]), program(vec![REJECT]));
}

/// Compares with the texts of libpcap's `bpf_image`, for codes that libpcap's compiler rarely or
/// never emits.
#[test]
fn every_instruction_has_its_mnemonic() {
    let two_operands = [
        (ADD, "add"),
        (SUB, "sub"),
        (MUL, "mul"),
        (DIV, "div"),
        (MOD, "mod"),
        (LSH, "lsh"),
        (RSH, "rsh"),
    ];
    for (code, word) in two_operands {
        assert_eq!(text(code, 17), format!("(007) {word:<8} #17"));
        assert_eq!(text(code | X, 17), format!("(007) {word:<8} x"));
    }
    for (code, word) in [(AND, "and"), (OR, "or"), (XOR, "xor")] {
        assert_eq!(text(code, 17), format!("(007) {word:<8} #0x11"));
        assert_eq!(text(code | X, 17), format!("(007) {word:<8} x"));
    }
    for (code, word) in [(JEQ, "jeq"), (JGT, "jgt"), (JGE, "jge"), (JSET, "jset")] {
        let constant = branch(code, 2, 5, 17).mnemonic(7);
        assert_eq!(format!("{constant}"), format!("(007) {word:<8} #0x11            jt 10\tjf 13"));
        let index = branch(code | X, 2, 5, 0).mnemonic(7);
        assert_eq!(format!("{index}"), format!("(007) {word:<8} x                jt 10\tjf 13"));
    }
    let others = [
        (LD_LEN, "ld       #pktlen"),
        (LDX_LEN, "ldx      #pktlen"),
        (LD_IMM, "ld       #0x11"),
        (LDX_IMM, "ldx      #0x11"),
        (LDX_MSH, "ldxb     4*([17]&0xf)"),
        (LD_MEM, "ld       M[17]"),
        (LDX_MEM, "ldx      M[17]"),
        (ST, "st       M[17]"),
        (STX, "stx      M[17]"),
        (JA, "ja       25"),
        (NEG, "neg      "),
        (TAX, "tax      "),
        (TXA, "txa      "),
        (RET_A, "ret      "),
        (0xff, "unimp    0xff"),
    ];
    for (code, expected) in others {
        assert_eq!(text(code, 17), format!("(007) {expected}"));
    }
}

fn text(code: u16, k: u32) -> std::string::String {
    format!("{}", CbpfInsn::new(code, k).mnemonic(7))
}
