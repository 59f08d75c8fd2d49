//! Compares the program with the engine in user space: the engine must forward what the program
//! forwards, in the same way.

use std::cell::RefCell;
use std::sync::Arc;

use proptest::prelude::*;
use slipring_classify::dir24::Dir24;
use slipring_fib::{
    FibPortIndex, ForwardingTables, Ipv4Lookup, Ipv6Lookup, ReversePathMode, TargetIndex, VrfIndex,
    VrfTables,
};
use slipring_route::{
    RouteBatch, RouteConfig, RouteDropCause, RouteEngine, RouteFrame, RouteVerdict,
};

use super::context::{XDP_DROP, XDP_REDIRECT};
use super::kernel_tests::{frames, frames_of_sources};
use super::tests::{v4_to, v6_to};
use crate::testing::{HASH, LOCAL, SOCKET, Simulation, snapshot, snapshot_checking, target};
use crate::{MappedCells, PassReason};

/// The tables of the test router, for the engine.
#[derive(Debug)]
struct Lookups {
    v4: Dir24<MappedCells>,
    v6: Arc<dyn Ipv6Lookup>,
}

impl Ipv4Lookup for Lookups {
    fn lookup(&self, destinations: &[u32], targets: &mut [TargetIndex]) {
        self.v4.lookup_with(destinations, targets, TargetIndex);
    }
}

impl Ipv6Lookup for Lookups {
    fn lookup(&self, destinations: &[u128], targets: &mut [TargetIndex]) {
        let tree = self.v6.intervals().unwrap();
        for (target, &destination) in targets.iter_mut().zip(destinations) {
            *target = TargetIndex(tree.get(destination) as u16);
        }
    }
}

fn engine(router: &mut Simulation, tables: ForwardingTables) -> RouteEngine {
    let (root, tail) = MappedCells::of(&router.writer.v4(VrfIndex(0)).unwrap());
    let lookups =
        Arc::new(Lookups { v4: Dir24::new(root, tail), v6: Arc::clone(&tables.vrfs[0].v6) });
    let vrfs = [VrfTables { v4: lookups.clone(), v6: lookups }].into();
    let config = RouteConfig {
        seed: HASH.seed,
        uses_flow_label: HASH.uses_flow_label,
        own_addresses: vec![LOCAL.into()],
        ..RouteConfig::default()
    };
    RouteEngine::new(config, Arc::new(ForwardingTables { vrfs, ..tables }))
}

/// Returns the port to which the engine forwards a frame, and the frame as it leaves.
fn forwarded_by_engine(
    engine: &mut RouteEngine,
    frame: &[u8],
) -> Result<(FibPortIndex, Vec<u8>), Option<RouteVerdict>> {
    let mut bytes = frame.to_vec();
    let mut batch = RouteBatch::new();
    let mut frames = [RouteFrame::new(&mut bytes, FibPortIndex(0))];
    engine.process(&mut batch, &mut frames, 1 << 40);
    match batch.verdict(0) {
        Some(RouteVerdict::Forward(forwarded)) => {
            let range = forwarded.range();
            Ok((forwarded.port, [forwarded.prepend(), &bytes[range]].concat()))
        }
        verdict => Err(verdict),
    }
}

/// Reasons for which the program leaves frames to the kernel although the engine forwards them:
/// sources in 240.0.0.0/4, or with the hash of an own address; next hops on the same interface,
/// which need a redirect; subinterfaces; IPv6 packets larger than a route's MTU below 1280, which
/// the engine treats as 1280.
const LEFT_TO_THE_KERNEL: [PassReason; 4] =
    [PassReason::Address, PassReason::SamePort, PassReason::PortDown, PassReason::TooBig];

#[test]
fn what_the_program_forwards_the_engine_forwards_alike() {
    let mut router = Simulation::new(false);
    let mut engine = engine(&mut router, snapshot());
    let count = RefCell::new(0);
    let cell = RefCell::new((&mut router, &mut engine));
    let config =
        ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(frame in frames())| {
        // Excludes 10.2.0.0/24, whose table entry names a block that does not exist: only the
        // program checks that.
        prop_assume!(frame.get(30..33) != Some(&[10, 2, 0]) || frame[12] != 8);
        let mut cell = cell.borrow_mut();
        let (router, engine) = &mut *cell;
        let before = router.counters();
        let outcome = router.run(&frame);
        let theirs = forwarded_by_engine(engine, &frame);
        if outcome.action == XDP_REDIRECT as u32 {
            let Some(slipring_bpf::BpfRedirect::MapEntry(entry)) = outcome.redirect else {
                panic!("{outcome:?}");
            };
            let ours = (FibPortIndex(entry as u16 - 100), outcome.frame);
            prop_assert_eq!(theirs, Ok(ours));
            *count.borrow_mut() += 1;
        } else if theirs.is_ok() {
            let after = router.counters();
            let mut reasons = PassReason::ALL.iter().copied();
            let reason = reasons.find(|&one| after.passed(one) > before.passed(one)).unwrap();
            prop_assert!(LEFT_TO_THE_KERNEL.contains(&reason), "{:?}", reason);
        }
    });
    let both = count.into_inner();
    assert!(both > 200, "{both}");
}

/// Checks that the engine drops for `cause` what the program drops, forwards what the program
/// forwards, and that the program's reason has the name of `cause`.
fn check_alike(mode: ReversePathMode, cause: RouteDropCause) {
    let mut router = Simulation::new(false).checking(mode);
    let mut engine = engine(&mut router, snapshot_checking(mode));
    let dropped = RefCell::new(0);
    let cell = RefCell::new((&mut router, &mut engine));
    let config =
        ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(frame in frames_of_sources())| {
        // Excludes 10.2.0.0/24, whose table entry names a block that does not exist: only the
        // program checks that.
        prop_assume!(frame.get(30..33) != Some(&[10, 2, 0]) || frame[12] != 8);
        let mut cell = cell.borrow_mut();
        let (router, engine) = &mut *cell;
        let action = router.run(&frame).action;
        let theirs = forwarded_by_engine(engine, &frame);
        if action == XDP_DROP as u32 {
            prop_assert_eq!(theirs, Err(Some(RouteVerdict::Drop(cause))));
            *dropped.borrow_mut() += 1;
        } else if action == XDP_REDIRECT as u32 {
            prop_assert!(theirs.is_ok(), "{:?}", theirs);
        }
    });
    let dropped = dropped.into_inner();
    let reason = PassReason::ALL.iter().find(|reason| reason.name() == cause.name()).unwrap();
    assert!(dropped > 100 && router.counters().passed(*reason) == dropped, "{dropped}");
}

#[test]
fn what_the_program_drops_for_its_source_the_engine_drops_for_the_same_cause() {
    check_alike(ReversePathMode::Strict, RouteDropCause::ReversePathStrict);
    check_alike(ReversePathMode::Loose, RouteDropCause::ReversePathLoose);
}

/// The program of `hand_over` hands over, unchanged, what the forwarding program forwards. It also
/// hands over some frames that the forwarding program leaves to the kernel, for example those that
/// the engine drops, answers or holds.
#[test]
fn what_one_program_forwards_the_other_hands_over_unchanged() {
    let mut resident = Simulation::new(false);
    let mut handing = Simulation::with_socket();
    let count = RefCell::new(0);
    let cell = RefCell::new((&mut resident, &mut handing));
    let config =
        ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(frame in frames())| {
        let mut cell = cell.borrow_mut();
        let (resident, handing) = &mut *cell;
        let before = handing.counters();
        let (forwarded, handed) = (resident.run(&frame), handing.run(&frame));
        prop_assert_eq!(&handed.frame, &frame);
        let after = handing.counters();
        prop_assert_eq!(after.seen(), before.seen() + 1);
        if handed.action == XDP_REDIRECT as u32 {
            let socket = Some(slipring_bpf::BpfRedirect::MapEntry(SOCKET));
            prop_assert_eq!((handed.redirect, after.packets), (socket, before.packets + 1));
            prop_assert_eq!(after.bytes, before.bytes + frame.len() as u64);
        } else {
            prop_assert_ne!(forwarded.action, XDP_REDIRECT as u32);
        }
        *count.borrow_mut() += u32::from(forwarded.action == XDP_REDIRECT as u32);
    });
    let both = count.into_inner();
    assert!(both > 200, "{both}");
}

#[test]
fn packets_of_the_kernel_and_of_queues_without_a_socket_are_not_handed_over() {
    let mut router = Simulation::with_socket();
    let plain = v4_to(target::FORWARD);
    let to = |at: usize, bytes: &[u8]| {
        let mut frame = plain.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let v6 = |at: usize, bytes: &[u8]| {
        let mut frame = v6_to(target::FORWARD);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    for (frame, reason) in [
        (v4_to(target::KERNEL), PassReason::Kernel),
        (v6_to(target::KERNEL), PassReason::Kernel),
        (to(30, &[224, 0, 0, 5]), PassReason::Address),
        (to(30, &[255; 4]), PassReason::Address),
        (to(26, &[0, 1, 2, 3]), PassReason::Address),
        (v6(38, &[0xff, 2]), PassReason::Address),
        (v6(38, &[0xfe, 0x80]), PassReason::Address),
        (to(14, &[0x46]), PassReason::Options),
        (v6(20, &[0]), PassReason::Options),
        (to(12, &[8, 6]), PassReason::NotIp),
        (to(0, &[2, 9, 9, 9, 9, 9]), PassReason::OtherMac),
    ] {
        assert_eq!(router.reason(&frame), reason);
    }
    assert_eq!(router.run_on_queue(&plain, 1).action, super::context::XDP_PASS as u32);
    assert_eq!(router.counters().passed(PassReason::NoSocket), 1);
    // The program of `hand_over` also hands over frames that the engine drops or answers.
    for frame in [to(22, &[1]), to(24, &[0, 0]), to(14, &[0x44]), v4_to(target::NO_ROUTE)] {
        assert_eq!(router.run(&frame).action, XDP_REDIRECT as u32);
    }
}
