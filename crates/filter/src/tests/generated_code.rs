//! Tests of the instructions to which filters are compiled: none is superfluous, and jumps of any
//! length work.

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

/// When one jump becomes long, the distance of another jump may grow. So the layout is recomputed
/// until no jump changes.
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

/// Assembles two paths that meet. `load` emits the code that loads the registers on each path.
/// `after` emits the code where the paths meet.
fn meeting(load: impl Fn(&mut Assembly, u32), after: impl Fn(&mut Assembly)) -> CbpfProgram {
    let mut assembly = Assembly::default();
    let labels = [assembly.label(), assembly.label(), assembly.label()];
    let [first, second, meet] = labels;
    assembly.emit(LD_LEN, 0);
    assembly.branch(JGT, 60, second, first);
    for (number, label) in [(1, first), (2, second)] {
        assembly.bind(label);
        load(&mut assembly, number);
        assembly.branch(JGE, 0, meet, meet);
    }
    assembly.bind(meet);
    after(&mut assembly);
    assembly.emit(RET_A, 0);
    CbpfProgram::from_raw(assembly.finish()).unwrap()
}

#[test]
fn what_both_paths_have_loaded_is_not_loaded_again_where_they_meet() {
    let program = meeting(|code, _| code.load(LD_B_ABS, 14), |code| code.load(LD_B_ABS, 14));
    assert_eq!(program.insns().iter().filter(|insn| insn.code == LD_B_ABS).count(), 2);
}

#[test]
fn what_only_one_path_has_loaded_is_loaded_again_where_they_meet() {
    // IPv4 headers of 20 bytes at offset 14 and of 24 bytes at offset 18. X is the length of one of
    // them.
    let mut frame = [0; 70];
    (frame[14], frame[18], frame[34], frame[38]) = (0x45, 0x46, 7, 9);
    let program = meeting(
        |code, number| code.load_header_len(10 + 4 * number),
        |code| code.load_after(14, LD_B_IND, 14),
    );
    assert_eq!([60, 61].map(|len| program.run(&frame, len)), [7, 7]);
    let program = meeting(
        |code, number| code.load(LD_B_ABS, 30 + 4 * number),
        |code| code.load(LD_B_ABS, 34),
    );
    assert_eq!([60, 61].map(|len| program.run(&frame, len)), [7, 7]);
}
