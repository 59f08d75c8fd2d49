//! The instructions that filters compile to: none that is not needed, and jumps of any length.

use std::vec;
use std::vec::Vec;

use crate::assembly::Assembly;
use crate::insn::*;
use crate::{CbpfProgram, compile};

fn codes(text: &str) -> Vec<u16> {
    compile(text).unwrap().insns().iter().map(|insn| insn.code).collect()
}

#[test]
fn a_test_of_bits_is_one_instruction() {
    for text in [
        "ether multicast",
        "ip[6:2] & 0x1fff = 0",
        "tcp port 80",
        "ether[0] & 1 != 0",
        "mpls and ip6",
    ] {
        let codes = codes(text);
        assert!(codes.contains(&JSET), "{text}: {codes:#x?}");
    }
    for text in ["ether multicast", "ip[6:2] & 0x1fff = 0", "tcp port 80", "ether[0] & 1 != 0"] {
        assert!(!codes(text).contains(&AND), "{text}");
    }
}

#[test]
fn constants_are_computed_by_the_compiler() {
    assert_eq!(codes("len = 10 + 2 * 5 - (1 << 3)"), [LD_LEN, JEQ, RET_K, RET_K]);
    assert_eq!(codes("len << 3 = 80"), [LD_LEN, LSH, JEQ, RET_K, RET_K]);
    assert_eq!(codes("len / (1 + 1) = 80"), [LD_LEN, DIV, JEQ, RET_K, RET_K]);
    assert_eq!(codes("ether[1 + 2] = 7"), [LD_B_ABS, JEQ, RET_K, RET_K]);
}

#[test]
fn what_no_kernel_takes_as_a_constant_is_computed_by_the_program() {
    for text in ["len >> (30 + 2) = 0", "len << (30 + 3) = 0"] {
        assert_ne!(compile(text).unwrap().run(&[0; 60], 60), 0, "{text}");
    }
    for text in ["len / (1 - 1) = 1", "ip[0x7ffffff1] = 0", "ip[0x7ffffff2] = 0"] {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        assert_eq!(compile(text).unwrap().run(&frame, 60), 0, "{text}");
    }
}

#[test]
fn a_stored_field_is_still_in_the_accumulator() {
    let loads = codes("ether[0] + ether[0] = 4").iter().filter(|&&code| code == LD_B_ABS).count();
    assert_eq!(loads, 1);
}

#[test]
fn both_targets_of_a_branch_may_be_far() {
    let mut assembly = Assembly::default();
    let (accept, refuse) = (assembly.label(), assembly.label());
    assembly.emit(LD_LEN, 0);
    assembly.branch(JEQ, 60, accept, refuse);
    for _ in 0..300 {
        assembly.emit(RET_K, 3);
    }
    assembly.bind(accept);
    assembly.emit(RET_K, 1);
    assembly.bind(refuse);
    assembly.emit(RET_K, 2);
    let program = CbpfProgram::from_raw(assembly.finish()).unwrap();
    assert_eq!([60, 61].map(|len| program.run(&[], len)), [1, 2]);
}

/// The distance of one jump grows when another becomes long, so layout repeats until none does.
#[test]
fn jumps_near_the_limit_of_a_byte_reach_their_targets() {
    for filler in 240..260 {
        let mut assembly = Assembly::default();
        let (accept, refuse) = (assembly.label(), assembly.label());
        assembly.emit(LD_LEN, 0);
        for len in 0..10 {
            let next = assembly.label();
            assembly.branch(JEQ, len, accept, next);
            assembly.bind(next);
        }
        assembly.branch(JGT, 20, refuse, accept);
        let unreachable = vec![RET_K; filler];
        unreachable.iter().for_each(|&code| assembly.emit(code, 3));
        assembly.bind(refuse);
        assembly.emit(RET_K, 2);
        assembly.bind(accept);
        assembly.emit(RET_K, 1);
        let program = CbpfProgram::from_raw(assembly.finish()).unwrap();
        for len in 0..30 {
            let expected = if len > 20 { 2 } else { 1 };
            assert_eq!(program.run(&[], len), expected, "{filler} {len}");
        }
    }
}
