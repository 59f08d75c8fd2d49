//! The program against the engine in user space: what the program forwards, the engine forwards in
//! the same way.

use std::cell::RefCell;
use std::sync::Arc;

use proptest::prelude::*;
use slipring_classify::dir24::Dir24;
use slipring_fib::{
    FibPortIndex, ForwardingTables, Ipv4Lookup, Ipv6Lookup, TargetIndex, VrfIndex, VrfTables,
};
use slipring_route::{RouteBatch, RouteConfig, RouteEngine, RouteFrame, RouteVerdict};

use super::context::XDP_REDIRECT;
use super::kernel_tests::frames;
use crate::testing::{HASH, LOCAL, Simulation, snapshot};
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

fn engine(router: &mut Simulation) -> RouteEngine {
    let tables = snapshot();
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

/// The port to which the engine forwards a frame, and the frame that leaves.
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

/// Why the program leaves frames to the kernel that the engine forwards: sources in 240.0.0.0/4,
/// and those that share a bit with an own address; next hops on the same interface, which need a
/// redirect; subinterfaces; IPv6 packets over a route's MTU below 1280, which the engine ignores.
const LEFT_TO_THE_KERNEL: [PassReason; 4] =
    [PassReason::Address, PassReason::SamePort, PassReason::PortDown, PassReason::TooBig];

#[test]
fn what_the_program_forwards_the_engine_forwards_alike() {
    let mut router = Simulation::new(false);
    let mut engine = engine(&mut router);
    let count = RefCell::new(0);
    let cell = RefCell::new((&mut router, &mut engine));
    let config =
        ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(frame in frames())| {
        // A block that does not exist, which only the program checks for.
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
