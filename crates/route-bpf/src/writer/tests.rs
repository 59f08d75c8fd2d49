//! Tests of which words BPF programs can see while a snapshot replaces another.

use super::*;
use crate::layout::{PassReason, mac_word};
use crate::program::tests::{forwarded, v4, v6};
use crate::testing::{LIMITS, MemoryMaps, Simulation, hop_mac, port_mac, snapshot, target};
use slipring_fib::{AdjacencyIndex, NextHopAddress};

const XDP_REDIRECT: u32 = 4;
const NO_WAIT: [u64; 0] = [];

/// Applies a snapshot to the test router while watching a word. Returns the values of the word each
/// time the writer waits for BPF programs.
fn applied(tables: &ForwardingTables, watched: (&'static str, usize)) -> Vec<u64> {
    let mut writer = TableWriter::create(MemoryMaps::default(), LIMITS).unwrap();
    writer.apply(&snapshot_like(tables)).unwrap();
    writer.host.watched = Some(watched);
    writer.host.waits.clear();
    writer.apply(tables).unwrap();
    std::mem::take(&mut writer.host.waits)
}

/// Returns the test snapshot with the IPv6 tree of another snapshot, so that the tree need not be
/// replaced.
fn snapshot_like(tables: &ForwardingTables) -> ForwardingTables {
    ForwardingTables { vrfs: Arc::clone(&tables.vrfs), ..snapshot() }
}

fn with_adjacencies(tables: &mut ForwardingTables, change: impl FnOnce(&mut Vec<Adjacency>)) {
    let mut adjacencies = tables.adjacencies.to_vec();
    change(&mut adjacencies);
    tables.adjacencies = adjacencies.into();
}

fn with_target(tables: &mut ForwardingTables, at: u16, action: TargetAction) {
    let mut targets = tables.targets.to_vec();
    targets[usize::from(at)].action = action;
    tables.targets = targets.into();
}

fn target_at(at: u16) -> (&'static str, usize) {
    (map::TARGETS, usize::from(at) * layout::TARGET_SIZE as usize)
}

/// A neighbour that is not in the test snapshot.
fn another() -> NextHopAddress {
    NextHopAddress::Via("192.0.2.1".parse().unwrap())
}

#[test]
fn the_same_tables_and_a_new_mac_address_need_no_wait() {
    let mut tables = snapshot();
    assert_eq!(applied(&tables, target_at(target::FORWARD)), NO_WAIT);
    with_adjacencies(&mut tables, |all| all[0].mac = Some(hop_mac(77)));
    assert_eq!(applied(&tables, target_at(target::FORWARD)), NO_WAIT);
    with_target(&mut tables, target::FORWARD, TargetAction::Forward(AdjacencyIndex(4)));
    assert_eq!(applied(&tables, target_at(target::FORWARD)), NO_WAIT, "the adjacencies stay");
}

#[test]
fn a_target_leaves_an_adjacency_before_that_becomes_another_neighbour() {
    let kernel = layout::target_word(ActionCode::Kernel, 0, 0);
    let mut tables = snapshot();
    with_adjacencies(&mut tables, |all| all[0].next_hop = another());
    assert_eq!(applied(&tables, target_at(target::FORWARD)), NO_WAIT, "its neighbour was replaced");
    with_target(&mut tables, target::FORWARD, TargetAction::Forward(AdjacencyIndex(4)));
    assert_eq!(applied(&tables, target_at(target::FORWARD)), [kernel]);
    // A BPF program that sees the new target also sees the new neighbour.
    let mut tables = snapshot();
    with_adjacencies(&mut tables, |all| all[0].next_hop = another());
    with_target(&mut tables, target::BLACKHOLE, TargetAction::Forward(AdjacencyIndex(0)));
    assert_eq!(applied(&tables, target_at(target::BLACKHOLE)), NO_WAIT);
}

#[test]
fn a_bucket_leaves_an_adjacency_before_that_becomes_another_neighbour() {
    let mut tables = snapshot();
    with_adjacencies(&mut tables, |all| all[4].next_hop = another());
    let mut buckets = tables.buckets[0];
    buckets[1] = AdjacencyIndex(0);
    tables.buckets = [buckets].into();
    assert_eq!(applied(&tables, (map::BUCKETS, 0)), [u64::MAX]);
}

#[test]
fn a_port_is_out_of_use_before_it_becomes_another_interface() {
    let mut tables = snapshot();
    let mut ports = tables.ports.to_vec();
    ports[1].ifindex = 2;
    tables.ports = ports.into();
    let record = (map::PORTS, layout::PORT_SIZE as usize);
    assert_eq!(applied(&tables, record), [0]);
    let mut router = Simulation::new(false);
    router.writer.apply(&tables).unwrap();
    let flags = layout::PORT_INGRESS | layout::PORT_EGRESS;
    let word = load(&router.writer.ports, layout::PORT_SIZE as usize);
    assert_eq!(word, mac_word(port_mac(1), flags));
}

#[test]
fn programs_use_the_new_snapshot_after_it_is_applied() {
    let mut router = Simulation::new(false);
    let frame = v4([10, 0, target::BLACKHOLE as u8, 1]);
    assert_eq!(router.reason(&frame), PassReason::Kernel);
    let mut tables = snapshot();
    with_adjacencies(&mut tables, |all| all[0].next_hop = another());
    with_target(&mut tables, target::BLACKHOLE, TargetAction::Forward(AdjacencyIndex(4)));
    router.writer.apply(&tables).unwrap();
    router.copy_maps();
    let outcome = router.run(&frame);
    assert_eq!((outcome.action, outcome.frame), (XDP_REDIRECT, forwarded(&frame, 2, 4)));
}

#[test]
fn what_the_maps_have_no_place_for_is_left_to_the_kernel() {
    let mut router = Simulation::new(false);
    let mut tables = snapshot();
    let beyond = [
        (target::FORWARD, TargetAction::Forward(AdjacencyIndex(LIMITS.adjacencies))),
        (target::BLACKHOLE, TargetAction::Balance(LIMITS.groups)),
    ];
    for (at, action) in beyond {
        with_target(&mut tables, at, action);
    }
    with_adjacencies(&mut tables, |all| all[4].port = FibPortIndex(LIMITS.ports));
    router.writer.apply(&tables).unwrap();
    router.copy_maps();
    for (at, _) in beyond {
        assert_eq!(router.reason(&v4([10, 0, at as u8, 1])), PassReason::Kernel);
    }
    let port = router.reason(&v4([10, 0, target::SMALL_PORT as u8, 1]));
    assert_eq!(port, PassReason::Unresolved);
}

#[test]
fn a_removed_port_forwards_nothing() {
    let mut router = Simulation::new(false);
    let mut tables = snapshot();
    tables.ports = tables.ports[..1].into();
    router.writer.apply(&tables).unwrap();
    router.copy_maps();
    let frame = v4([10, 0, target::FORWARD as u8, 1]);
    assert_eq!(router.reason(&frame), PassReason::PortDown);
}

/// An IPv6 table that has only the tree that programs search, of any size.
#[derive(Debug)]
struct Large(IntervalTree);

impl slipring_fib::Ipv6Lookup for Large {
    fn lookup(&self, _: &[u128], _: &mut [slipring_fib::TargetIndex]) {}

    fn intervals(&self) -> Option<&IntervalTree> {
        Some(&self.0)
    }
}

#[test]
fn a_tree_without_space_leaves_ipv6_to_the_kernel_until_a_smaller_one_comes() {
    let mut router = Simulation::new(false);
    let frame = v6(target::FORWARD, 1);
    let with = |starts: u32| {
        let starts: Vec<_> = (0..starts).map(|at| (u128::from(at) << 64, at % 2 + 2)).collect();
        let tree = IntervalTree::build(&starts, slipring_simd::Simd::detect());
        let mut tables = snapshot();
        let mut vrfs = tables.vrfs.to_vec();
        vrfs[0].v6 = Arc::new(Large(tree));
        tables.vrfs = vrfs.into();
        tables
    };
    router.writer.apply(&with(16 * LIMITS.v6_nodes)).unwrap();
    router.copy_maps();
    assert_eq!(router.reason(&frame), PassReason::NoTable);
    router.writer.apply(&with(1)).unwrap();
    router.copy_maps();
    assert_eq!(router.run(&frame).action, XDP_REDIRECT);
}

#[test]
fn snapshots_are_kept_until_no_program_uses_them() {
    let mut writer = TableWriter::create(MemoryMaps::default(), LIMITS).unwrap();
    let first = snapshot();
    let targets = Arc::downgrade(&first.targets);
    let second = ForwardingTables { generation: 2, ..snapshot_like(&first) };
    writer.apply(&first).unwrap();
    drop(first);
    assert_eq!(writer.quiesced_generation(), 1);
    writer.apply(&second).unwrap();
    assert_eq!((writer.quiesced_generation(), targets.strong_count()), (1, 1));
    writer.quiesce().unwrap();
    assert_eq!((writer.quiesced_generation(), targets.strong_count()), (2, 0));
}
