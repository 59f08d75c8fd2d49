//! Runs the same frames in the kernel and in the interpreter.

use proptest::prelude::*;
use slipring_bpf::BpfProgram;
use slipring_fib::ReversePathMode;

use super::context::PortConstants;
use super::forwarding_program;
use super::tests::{from_source, seal, v4, v6};
use crate::ResidentCounters;
use crate::layout::PassReason;
use crate::maps::KernelMaps;
use crate::testing::{Simulation, beat_ahead, constants, in_kernel, snapshot_checking, target};
use crate::writer::TableWriter;

/// A router in the kernel with the tables of the test snapshot, and the program of its port 0.
struct InKernel {
    writer: TableWriter<KernelMaps>,
    program: BpfProgram,
}

impl InKernel {
    /// Returns `None`, and prints why, if BPF is not permitted.
    fn new(is_software: bool) -> Option<Self> {
        let writer = in_kernel()?;
        // Test runs have no driver that could report tags, so the program does not ask one.
        let constants = PortConstants { tag_function: None, ..constants(is_software) };
        let program = writer.host.load(&forwarding_program(&constants), None, None).unwrap();
        Some(Self { writer, program })
    }

    fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        beat_ahead(&self.writer);
        let run = self.program.test_run(frame, 1).unwrap();
        (run.result, run.frame)
    }

    fn counters(&self) -> ResidentCounters {
        ResidentCounters::sum(&self.writer.host.counters(0).unwrap())
    }
}

/// A nearly valid frame for any target: some bytes are changed, the frame is cut or lengthened, and
/// in most cases the checksum is correct.
pub(crate) fn frames() -> impl Strategy<Value = Vec<u8>> {
    let address = (0..4_u8, 0..target::COUNT + 2, any::<u8>());
    let changes = prop::collection::vec(
        (0..60_usize, prop_oneof![Just(0), Just(1), Just(6), Just(0xff), any::<u8>()]),
        0..4,
    );
    let lengths = prop_oneof![3 => Just(None), 1 => (14..1700_usize).prop_map(Some)];
    (any::<bool>(), address, changes, lengths, 0..8_u8).prop_map(
        |(is_v6, (net, target, last), changes, length, sealed)| {
            let mut frame = match is_v6 {
                true if net == 0 => v6(0xff, last.into()),
                true => v6(target, last.into()),
                false if net == 1 => v4([10, 1, 0, target as u8]),
                false => v4([10, net & 2, target as u8, last]),
            };
            for (at, byte) in changes {
                frame[at] = byte;
            }
            if let Some(length) = length {
                frame.resize(length, last);
                if sealed & 1 == 1 && length >= 54 {
                    // The length in the header is corrected.
                    let (at, value) = if is_v6 { (18, length - 54) } else { (16, length - 14) };
                    frame[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
                }
            }
            if sealed > 0 && !is_v6 && frame.len() >= 34 {
                seal(&mut frame);
            }
            frame
        },
    )
}

/// Like [`frames`], but some sources are addresses that stand for targets.
pub(crate) fn frames_of_sources() -> impl Strategy<Value = Vec<u8>> {
    (frames(), prop::option::of(0..target::COUNT)).prop_map(|(frame, target)| match target {
        Some(target) => from_source(frame, target),
        None => frame,
    })
}

fn agree(is_software: bool, mode: ReversePathMode) {
    let Some(mut kernel) = InKernel::new(is_software) else { return };
    kernel.writer.apply(&snapshot_checking(mode)).unwrap();
    let mut simulation = Simulation::new(is_software).checking(mode);
    let mut seen = std::collections::BTreeSet::new();
    // With a check of sources, few of the random frames are forwarded, so more cases are run.
    let cases = if matches!(mode, ReversePathMode::Off) { 4000 } else { 40_000 };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let cell = std::cell::RefCell::new((&mut simulation, &mut seen));
    proptest!(config, |(frame in frames_of_sources())| {
        let mut cell = cell.borrow_mut();
        let (simulation, seen) = &mut *cell;
        let outcome = simulation.run(&frame);
        prop_assert_eq!((outcome.action, &outcome.frame), {
            let (action, out) = kernel.run(&frame);
            (action, &out.clone())
        });
        seen.insert(outcome.action);
    });
    let (ours, theirs) = (simulation.counters(), kernel.counters());
    assert_eq!(ours, theirs, "counters");
    let missing: Vec<_> =
        PassReason::ALL.iter().filter(|&&reason| ours.passed(reason) == 0).collect();
    println!("not reached: {missing:?}; forwarded {}", ours.packets);
    assert!(ours.packets > 100, "{ours:?}");
}

#[test]
fn the_kernel_and_the_interpreter_agree_on_random_frames() {
    agree(false, ReversePathMode::Off);
}

#[test]
fn they_agree_on_software_devices() {
    agree(true, ReversePathMode::Off);
}

#[test]
fn they_agree_on_sources() {
    agree(false, ReversePathMode::Strict);
    agree(true, ReversePathMode::Loose);
}
