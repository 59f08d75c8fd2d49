//! Tests of the packet filter in the kernel, with BPF test runs.

use std::cell::RefCell;

use proptest::prelude::*;
use slipring_bpf::{BpfProgram, BpfProgramKind, MappedArray};
use slipring_fib::{FibPortIndex, ReversePathMode};

use super::*;
use crate::layout::BEATS_OFFSET;
use crate::maps::KernelMaps;
use crate::program::context::{HeaderAccess, XDP_REDIRECT};
use crate::program::forwarding_program;
use crate::program::kernel_tests::{frames, frames_of_sources};
use crate::program::tests::{seal, v4, v6};
use crate::testing::{beat_ahead, constants, hop_mac, in_kernel, snapshot_checking, target};
use crate::writer::TableWriter;
use crate::{ResidentCounters, ResidentHeartbeat, ResidentOptions};

const KEYS: InterceptionKeys =
    InterceptionKeys { token: 0x8765_4321_1234_5679, returned_mark: 0xdead_beef };
const QUEUE: u16 = 1;

struct InKernel {
    writer: TableWriter<KernelMaps>,
    filter: BpfProgram,
    xdp: BpfProgram,
}

impl InKernel {
    /// Returns `None`, and prints why, if BPF is not permitted.
    fn new() -> Option<Self> {
        let writer = in_kernel()?;
        let constants = PortConstants { tag_function: None, ..constants(false) };
        let copied = PortConstants { headers: HeaderAccess::Copy, ..constants };
        let code = socket_filter(&copied, QUEUE, KEYS);
        let filter = writer.host.load_for_skb(BpfProgramKind::SocketFilter, &code).unwrap();
        let xdp = writer.host.load(&forwarding_program(&constants), None, None).unwrap();
        Some(Self { writer, filter, xdp })
    }

    fn control(&self) -> &MappedArray {
        &self.writer.control
    }

    /// Whether the filter takes a frame. In test runs, filters start after the Ethernet header, so
    /// another Ethernet header precedes the frame, addressed to the loopback interface.
    fn takes(&self, frame: &[u8]) -> bool {
        let result = self.filter.test_run(&[&[0; 14], frame].concat(), 1).unwrap().result;
        assert!([0, u32::MAX].contains(&result), "{result}");
        result != 0
    }

    /// Like [`Self::new`], but frames may be direct.
    fn with_direct(mode: ReversePathMode) -> Option<Self> {
        let mut kernel = Self::new()?;
        let direct = ResidentOptions { direct: true, ..ResidentOptions::default() };
        kernel.writer.set_options(FibPortIndex(0), direct);
        kernel.writer.apply(&snapshot_checking(mode)).unwrap();
        Some(kernel)
    }

    /// Whether a frame is direct: the filter neither takes it nor leaves it to the kernel.
    fn is_direct(&self, frame: &[u8]) -> bool {
        let before = self.counters();
        !self.takes(frame) && self.counters() == before
    }

    fn counters(&self) -> ResidentCounters {
        ResidentCounters::sum(&self.writer.host.counters(0).unwrap())
    }

    /// The reason for which a frame is left to the kernel; `None` if the filter takes it.
    fn reason(&self, frame: &[u8]) -> Option<PassReason> {
        let before = self.counters();
        let taken = self.takes(frame);
        let after = self.counters();
        let increased = |reason: &PassReason| after.passed(*reason) > before.passed(*reason);
        let reasons: Vec<_> = PassReason::ALL.iter().copied().filter(increased).collect();
        assert_eq!(reasons.len(), usize::from(!taken), "{reasons:?}");
        reasons.first().copied()
    }
}

fn changed(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    frame[at] = byte;
    if frame[12] == 8 {
        seal(&mut frame);
    }
    frame
}

#[test]
fn the_engine_gets_what_it_can_handle_and_the_kernel_the_rest() {
    let Some(kernel) = InKernel::new() else { return };
    let reason = |frame: &[u8]| {
        beat_ahead(&kernel.writer);
        kernel.reason(frame)
    };
    let ttl_1 = changed(v4([10, 0, 2, 1]), 22, 1);
    for target in [target::FORWARD, target::NO_ROUTE, target::UNRESOLVED, target::BALANCE] {
        assert_eq!(reason(&v4([10, 1, 0, target as u8])), None, "{target}");
        assert_eq!(reason(&v6(0xff, target.into())), None, "{target}");
    }
    assert_eq!(reason(&ttl_1), None);
    let cases = [
        (v4([10, 1, 0, target::KERNEL as u8]), PassReason::Kernel),
        (v6(0xff, target::KERNEL.into()), PassReason::Kernel),
        (v4([224, 0, 0, 5]), PassReason::Address),
        (changed(v6(0xff, target::FORWARD.into()), 38, 0xff), PassReason::Address),
        (changed(v4([10, 0, 2, 1]), 13, 6), PassReason::NotIp),
        (changed(v4([10, 0, 2, 1]), 14, 0x46), PassReason::Options),
        (v4([10, 0, 2, 1])[..33].to_vec(), PassReason::NotIp),
        (v6(0xff, target::FORWARD.into())[..53].to_vec(), PassReason::NotIp),
        (v4([10, 2, 0, 1]), PassReason::NoTable),
    ];
    for (frame, expected) in cases {
        assert_eq!(reason(&frame), Some(expected), "{frame:02x?}");
    }
}

#[test]
fn the_kernel_gets_everything_without_a_heartbeat_of_the_queue_and_before_the_start() {
    let Some(kernel) = InKernel::new() else { return };
    let frame = v4([10, 0, target::FORWARD as u8, 1]);
    let word = |offset: u32| {
        let word = kernel.control().atomic::<std::sync::atomic::AtomicU64>(0, offset as usize);
        word.unwrap()
    };
    let order = std::sync::atomic::Ordering::Relaxed;
    // This word is the heartbeat of queue 0. The frame's queue is another one, so its heartbeat is
    // still missing.
    word(BEATS_OFFSET).store(ResidentHeartbeat::now(), order);
    assert_eq!(kernel.reason(&frame), Some(PassReason::Stale));
    beat_ahead(&kernel.writer);
    assert_eq!(kernel.reason(&frame), None);
    word(BEATS_OFFSET + 8 * u32::from(QUEUE))
        .store(ResidentHeartbeat::now() - 2 * layout::BEAT_LIMIT_NS, order);
    assert_eq!(kernel.reason(&frame), Some(PassReason::Stale));
    beat_ahead(&kernel.writer);
    word(layout::ENABLED_OFFSET).store(0, order);
    assert_eq!(kernel.reason(&frame), Some(PassReason::Disabled));
}

#[test]
fn a_frame_is_direct_if_nothing_but_a_lookup_is_to_do() {
    let Some(mut kernel) = InKernel::with_direct(ReversePathMode::Off) else { return };
    let is_direct = |kernel: &InKernel, frame: &[u8]| {
        beat_ahead(&kernel.writer);
        kernel.is_direct(frame)
    };
    for target in 0..target::COUNT {
        let expected = matches!(target, target::FORWARD | target::BALANCE | target::SMALL_PORT);
        // A frame of the test fits the MTU of 1000.
        let expected = expected || target == target::MTU_1000;
        assert_eq!(is_direct(&kernel, &v4([10, 1, 0, target as u8])), expected, "{target}");
        assert_eq!(is_direct(&kernel, &v6(0xff, target.into())), expected, "{target}");
    }
    let forwarded = v4([10, 0, target::FORWARD as u8, 1]);
    assert!(is_direct(&kernel, &[&forwarded[..], &[0; 9]].concat()), "with padding");
    for (at, byte) in [(22, 1), (14, 0x46), (26, 127), (30, 127)] {
        assert!(!is_direct(&kernel, &changed(forwarded.clone(), at, byte)), "{byte} at {at}");
    }
    kernel.writer.set_options(FibPortIndex(0), ResidentOptions::default());
    assert!(!is_direct(&kernel, &forwarded));
    beat_ahead(&kernel.writer);
    assert_eq!(kernel.reason(&forwarded), None, "the engine gets it");
}

#[test]
fn the_filter_chooses_for_tcx_what_the_xdp_program_forwards() {
    // With a check of sources, few of the random frames are forwarded, so more cases are run.
    for (mode, cases) in [(ReversePathMode::Off, 6000), (ReversePathMode::Strict, 40_000)] {
        let Some(kernel) = InKernel::with_direct(mode) else { return };
        let counts = RefCell::new([0, 0]);
        let config =
            ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(frame in frames_of_sources())| {
            beat_ahead(&kernel.writer);
            let before = kernel.counters().passed(PassReason::OtherMac);
            let forwarded = kernel.xdp.test_run(&frame, 1).unwrap().result == XDP_REDIRECT as u32;
            // The test cannot set the packet type, by which the filter recognises frames for other
            // MAC addresses.
            let is_ours = kernel.counters().passed(PassReason::OtherMac) == before;
            let is_direct = kernel.is_direct(&frame);
            prop_assert!(is_direct == forwarded || is_direct && !is_ours);
            counts.borrow_mut()[usize::from(is_direct)] += 1;
        });
        let [others, direct] = counts.into_inner();
        assert!(others > 100 && direct > 100, "{others} {direct}");
    }
}

/// A filter that checks the headers of a packet and looks up its destination. Its result is the
/// packet's adjacency, or -1 if the packet is not forwarded.
fn choosing_filter(constants: &PortConstants, family: Family) -> BpfCode {
    let mut program = Assembler::new();
    program.put(mov(BpfReg::R6, BpfReg::R1));
    headers(&mut program, family);
    match family {
        Family::V4 => crate::program::ipv4::validate(&mut program, constants),
        Family::V6 => crate::program::ipv6::validate(&mut program, constants),
    }
    match family {
        Family::V4 => crate::program::ipv4::look_up(&mut program, constants),
        Family::V6 => crate::program::ipv6::look_up(&mut program, constants),
    }
    choose::adjacency(&mut program, constants, family);
    program.put_all([mov(BpfReg::R0, BpfReg::R1), exit()]);
    let is_reason = |to: &str| PassReason::ALL.iter().any(|reason| reason.name() == to);
    program.retarget_since(0, is_reason, "refused");
    program.label("refused").put_all([mov_imm(BpfReg::R0, -1), exit()]);
    program.assemble().unwrap()
}

#[test]
fn the_filter_chooses_among_next_hops_as_the_xdp_program_does() {
    let Some(kernel) = InKernel::new() else { return };
    let constants = PortConstants { headers: HeaderAccess::Copy, ..constants(false) };
    for family in [Family::V4, Family::V6] {
        let filter = choosing_filter(&constants, family);
        let filter = kernel.writer.host.load_for_skb(BpfProgramKind::SocketFilter, &filter);
        let filter = filter.unwrap();
        let mut chosen = std::collections::BTreeSet::new();
        for last in 0..64 {
            beat_ahead(&kernel.writer);
            // The last byte of the source, and that of its port.
            let frame = match family {
                Family::V4 => changed(v4([10, 1, 0, target::BALANCE as u8]), 29, last),
                Family::V6 => changed(v6(0xff, target::BALANCE.into()), 37, last),
            };
            let frame = changed(frame, family.headers_len() as usize + 1, last);
            let sent = kernel.xdp.test_run(&frame, 1).unwrap().frame;
            let found = filter.test_run(&[&[0; 14], &frame[..]].concat(), 1).unwrap().result;
            assert_eq!(sent[..6], hop_mac(found as u16).0, "{frame:02x?}");
            chosen.insert(found);
        }
        assert_eq!(chosen.len(), 2, "both next hops");
    }
}

#[test]
fn what_the_xdp_program_forwards_the_filter_takes() {
    let Some(kernel) = InKernel::new() else { return };
    let counts = RefCell::new([0, 0]);
    let config =
        ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(frame in frames())| {
        beat_ahead(&kernel.writer);
        let forwarded = kernel.xdp.test_run(&frame, 1).unwrap().result == XDP_REDIRECT as u32;
        let taken = kernel.takes(&frame);
        prop_assert!(taken || !forwarded);
        counts.borrow_mut()[0] += usize::from(forwarded);
        counts.borrow_mut()[1] += usize::from(!taken);
    });
    let [forwarded, left] = counts.into_inner();
    assert!(forwarded > 200 && left > 200, "{forwarded} {left}");
}
