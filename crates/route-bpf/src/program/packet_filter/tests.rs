//! Tests of the packet filter in the kernel, with BPF test runs.

use std::cell::RefCell;

use proptest::prelude::*;
use slipring_bpf::{BpfProgram, BpfProgramKind, MappedArray};

use super::*;
use crate::layout::BEATS_OFFSET;
use crate::maps::KernelMaps;
use crate::program::kernel_tests::frames;
use crate::program::tests::{seal, v4, v6};
use crate::program::{context::XDP_REDIRECT, forwarding_program};
use crate::testing::{beat_ahead, constants, in_kernel, target};
use crate::writer::TableWriter;
use crate::{ResidentCounters, ResidentHeartbeat};

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
        let code = socket_filter(&constants, QUEUE, KEYS);
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
