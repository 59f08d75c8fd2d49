use super::*;
use crate::assembler::Assembler;
use crate::insn::{
    AccessWidth, AluOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, alu32, call, exit, load,
    load_imm64, mov, mov_imm, store, store_imm, to_big_endian,
};
use crate::map::{BpfMapKind, BpfMapSpec};

const FRAME: [u8; 20] = [7; 20];

fn run(program: &mut Assembler) -> Result<XdpOutcome, Fault> {
    let code = program.assemble().unwrap();
    Interpreter::new().run_xdp(&code, &FRAME, XdpMeta { ifindex: 5, rx_queue: 6 })
}

/// The result of instructions that leave their result in `R0`.
fn result(insns: &[crate::insn::BpfInsn]) -> u32 {
    run(Assembler::new().put_all(insns.iter().copied()).put(exit())).unwrap().action
}

#[test]
fn narrow_arithmetic_clears_the_upper_half() {
    let start = load_imm64(BpfReg::R0, 0xffff_ffff_8000_0000);
    let high = alu(AluOp::Rsh, BpfReg::R0, 32);
    let after = |insn| result(&[start[0], start[1], insn, high]);
    assert_eq!(after(alu(AluOp::Add, BpfReg::R0, 1)), 0xffff_ffff);
    assert_eq!(after(alu32(AluOp::Add, BpfReg::R0, 1)), 0);
    assert_eq!(after(alu32(AluOp::Arsh, BpfReg::R0, 4)), 0);
    assert_eq!(after(to_big_endian(BpfReg::R0, 32)), 0);
}

#[test]
fn the_coarse_clock_and_the_frame_s_length_are_known_to_programs() {
    let mut interpreter = Interpreter::new();
    interpreter.now_ns = 77;
    let mut run = |helper| {
        let code = Assembler::new().put_all([call(helper), exit()]).assemble().unwrap();
        interpreter.run_xdp(&code, &FRAME, XdpMeta::default()).unwrap().action
    };
    assert_eq!((run(BpfHelper::KtimeGetCoarseNs), run(BpfHelper::XdpGetBuffLen)), (77, 20));
}

#[test]
fn a_program_reads_what_was_written_to_an_array_in_memory() {
    let spec = BpfMapSpec::mappable_array(12, 2);
    let array = crate::MappedArray::in_memory(&spec).unwrap();
    array.write(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let mut map = SimulatedMap::new(spec);
    map.copy_from(&array);
    assert_eq!(map.get(&[1, 0, 0, 0]).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(map.get(&[0; 4]).unwrap(), [0; 12]);
}

#[test]
fn division_by_zero_gives_zero_and_modulo_the_dividend() {
    let start = [mov_imm(BpfReg::R0, 7), mov_imm(BpfReg::R2, 0)];
    let after = |insn| result(&[start[0], start[1], insn]);
    assert_eq!(after(alu(AluOp::Div, BpfReg::R0, BpfReg::R2)), 0);
    assert_eq!(after(alu(AluOp::Mod, BpfReg::R0, BpfReg::R2)), 7);
}

#[test]
fn the_context_has_the_frame_s_bounds_interface_and_queue() {
    let field = |offset| load(AccessWidth::Word, BpfReg::R0, BpfReg::R1, offset);
    assert_eq!((result(&[field(12)]), result(&[field(16)])), (5, 6));
    let len = [
        load(AccessWidth::Word, BpfReg::R0, BpfReg::R1, 4),
        load(AccessWidth::Word, BpfReg::R2, BpfReg::R1, 0),
        alu(AluOp::Sub, BpfReg::R0, BpfReg::R2),
    ];
    assert_eq!(result(&len), 20);
}

#[test]
fn an_access_outside_of_the_frame_or_the_stack_is_a_fault() {
    let read = |offset| {
        run(Assembler::new()
            .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R1, 0))
            .put_all([load(AccessWidth::Word, BpfReg::R0, BpfReg::R2, offset), exit()]))
    };
    assert_eq!(read(16).unwrap().action, 0x0707_0707);
    assert!(matches!(read(17), Err(Fault::OutOfBounds { at: 1, width: 4, .. })));
    assert!(matches!(read(-1), Err(Fault::OutOfBounds { .. })));
    let push = |offset| {
        run(Assembler::new()
            .put(store_imm(AccessWidth::Double, BpfReg::R10, offset, 1))
            .put_all([mov_imm(BpfReg::R0, 0), exit()]))
    };
    assert!(push(-512).is_ok());
    assert!(matches!(push(-513), Err(Fault::OutOfBounds { .. })));
    assert!(matches!(push(-7), Err(Fault::OutOfBounds { .. })));
}

#[test]
fn what_cannot_go_on_is_a_fault_and_not_a_panic() {
    assert_eq!(run(&mut Assembler::new()), Err(Fault::PastTheEnd { at: 0 }));
    let endless = run(Assembler::new().label("top").jump("top"));
    assert_eq!(endless, Err(Fault::Endless));
    let unknown = run(Assembler::new().put(call(BpfHelper::SkbVlanPush)));
    assert_eq!(unknown, Err(Fault::UnknownFunction { at: 0, number: 18 }));
    let no_map = run(Assembler::new().load_map(BpfReg::R1, "none"));
    assert_eq!(no_map, Err(Fault::WrongMap { at: 0 }));
    let strange = crate::insn::insn(0xff, BpfReg::R0, 0, 0, 0);
    let strange = run(Assembler::new().put(strange));
    assert_eq!(strange, Err(Fault::UnknownInsn { at: 0, code: 0xff }));
}

#[test]
fn arguments_do_not_outlive_a_call() {
    let clobbered = run(Assembler::new()
        .put_all([call(BpfHelper::KtimeGetNs), load(AccessWidth::Word, BpfReg::R0, BpfReg::R1, 0)])
        .put(exit()));
    assert!(matches!(clobbered, Err(Fault::OutOfBounds { at: 1, .. })), "{clobbered:?}");
}

/// Moves an end of the frame by `delta`. Returns the helper's result, and the frame.
fn adjusted(helper: BpfHelper, delta: i32) -> (i32, Vec<u8>) {
    let outcome =
        run(Assembler::new().put_all([mov_imm(BpfReg::R2, delta), call(helper), exit()])).unwrap();
    (outcome.action as i32, outcome.frame)
}

#[test]
fn a_frame_grows_into_its_room_and_keeps_an_ethernet_header() {
    let (head, tail) = (BpfHelper::XdpAdjustHead, BpfHelper::XdpAdjustTail);
    assert_eq!(adjusted(head, 6), (0, vec![7; 14]));
    assert_eq!(adjusted(head, 7), (-22, vec![7; 20]));
    let (grown, frame) = adjusted(head, -216);
    assert_eq!((grown, frame.len()), (0, 236));
    assert_eq!(adjusted(head, -217).0, -22);
    assert_eq!(adjusted(tail, -6), (0, vec![7; 14]));
    assert_eq!(adjusted(tail, -7).0, -22);
    assert_eq!(adjusted(tail, 2), (0, [[7; 20].as_slice(), &[0; 2]].concat()));
    assert_eq!(adjusted(tail, 4000).0, -22);
}

#[test]
fn a_tail_call_does_not_come_back_and_a_missing_program_is_passed_over() {
    let mut interpreter = Interpreter::new();
    let programs = BpfMapSpec::of_descriptors(BpfMapKind::ProgramArray, 2);
    interpreter.add_map("programs", SimulatedMap::new(programs));
    let caller = |index| {
        let mut program = Assembler::new();
        program.load_map(BpfReg::R2, "programs").put(mov_imm(BpfReg::R3, index));
        program.put_all([call(BpfHelper::TailCall), mov_imm(BpfReg::R0, 1), exit()]);
        program.assemble().unwrap()
    };
    let queue = load(AccessWidth::Word, BpfReg::R0, BpfReg::R1, 16);
    let called = Assembler::new().put_all([queue, exit()]).assemble().unwrap();
    assert!(interpreter.set_program("programs", 1, called));
    assert!(interpreter.set_program("programs", 0, caller(0)));
    let meta = XdpMeta { ifindex: 1, rx_queue: 9 };
    let mut run = |index| interpreter.run_xdp(&caller(index), &FRAME, meta).unwrap().action;
    assert_eq!(run(1), 9);
    assert_eq!(run(2), 1);
    assert_eq!(run(0), 1, "programs that call each other end after 33 calls");
}

#[test]
fn a_program_updates_and_deletes_what_a_lookup_then_finds() {
    let mut interpreter = Interpreter::new();
    interpreter.add_map("map", SimulatedMap::new(BpfMapSpec::new(BpfMapKind::Hash, 4, 8, 1)));
    let helper = |helper| {
        let mut program = Assembler::new();
        program
            .put_all([store_imm(AccessWidth::Word, BpfReg::R10, -4, 3), mov_imm(BpfReg::R4, 0)])
            .put_all([mov_imm(BpfReg::R5, 77), mov(BpfReg::R2, BpfReg::R10)])
            .put(store(AccessWidth::Double, BpfReg::R10, -16, BpfReg::R5))
            .put_all([add_imm(BpfReg::R2, -4), mov(BpfReg::R3, BpfReg::R10)])
            .put(add_imm(BpfReg::R3, -16))
            .load_map(BpfReg::R1, "map")
            .put(call(helper))
            .jump_if(BpfReg::R0, JumpIf::Sle, 0, "end");
        if helper == BpfHelper::MapLookup {
            program.put(load(AccessWidth::Double, BpfReg::R0, BpfReg::R0, 0));
        }
        program.label("end").put(exit());
        program.assemble().unwrap()
    };
    let steps = [
        (BpfHelper::MapLookup, 0),
        (BpfHelper::MapUpdate, 0),
        (BpfHelper::MapLookup, 77),
        (BpfHelper::MapDelete, 0),
        (BpfHelper::MapDelete, -2),
    ];
    for (step, expected) in steps {
        let outcome = interpreter.run_xdp(&helper(step), &FRAME, XdpMeta::default()).unwrap();
        assert_eq!(outcome.action as i32, expected, "{step:?}");
    }
    assert_eq!(interpreter.map("map").unwrap().get(&3_u32.to_ne_bytes()), None);
}
