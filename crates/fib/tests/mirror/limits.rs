//! Tests of full tables, indices and blocks: packets for objects without space are left to the
//! kernel.

use slipring_fib::*;

use crate::kernel::{self, dump, tell};
use crate::*;

fn limited(limits: FibLimits) -> Mirror {
    mirror_of(MirrorConfig { limits, ..config() })
}

#[test]
fn a_route_beyond_the_limit_makes_its_covering_prefix_go_to_the_kernel() {
    let limits = FibLimits { routes: 8, ..FibLimits::default() };
    let mut mirror = limited(limits);
    let default = kernel::via("0.0.0.0/0", "10.1.0.2", 1);
    let inner = kernel::via("20.1.0.0/16", "10.1.0.2", 1);
    tell(&mut mirror, &[default.clone(), inner.clone()]);
    assert_eq!(gateway(&publish(&mut mirror), "21.1.1.1"), "10.1.0.2");
    tell(&mut mirror, &[kernel::via("20.0.0.0/8", "10.2.0.2", 2)]);
    let tables = publish(&mut mirror);
    assert_eq!(action(&tables, "20.2.0.1"), TargetAction::Kernel);
    assert_eq!(action(&tables, "21.1.1.1"), TargetAction::Kernel);
    assert_eq!(gateway(&tables, "20.1.1.1"), "10.1.0.2");
    assert_eq!(mirror.counters().refused_routes, 1);
    assert!(mirror.needs_resync().is_empty());
    // When the covering default route is removed, packets for the refused route still go to the
    // kernel.
    tell(&mut mirror, &[default.deleted()]);
    assert_eq!(action(&publish(&mut mirror), "20.2.0.1"), TargetAction::Kernel);
    // When there is space again, the mirror requests a dump. The refused route is not in this dump,
    // so its packets no longer go to the kernel.
    assert!(mirror.needs_resync().contains(DumpKind::Ipv4Routes));
    let routes = [connected_v4(), vec![inner]].concat();
    dump(&mut mirror, DumpKind::Ipv4Routes, &routes);
    assert_eq!(action(&publish(&mut mirror), "20.2.0.1"), TargetAction::NoRoute);
    let refused = kernel::via("20.0.0.0/8", "10.2.0.2", 2);
    dump(&mut mirror, DumpKind::Ipv4Routes, &[routes, vec![refused]].concat());
    assert_eq!(gateway(&publish(&mut mirror), "20.2.0.1"), "10.2.0.2");
}

#[test]
fn a_prefix_added_around_a_refused_one_is_the_kernels_too() {
    let limits = FibLimits { routes: 8, ..FibLimits::default() };
    let mut mirror = limited(limits);
    let default = kernel::via("0.0.0.0/0", "10.1.0.2", 1);
    let other = kernel::via("30.0.0.0/8", "10.1.0.2", 1);
    tell(&mut mirror, &[default, other.clone(), kernel::via("20.1.0.0/16", "10.2.0.2", 2)]);
    tell(&mut mirror, &[other.deleted(), kernel::via("20.0.0.0/8", "10.1.0.3", 1)]);
    assert_eq!(action(&publish(&mut mirror), "20.1.0.1"), TargetAction::Kernel);
}

#[test]
fn without_adjacencies_routes_are_the_kernels_until_some_are_free() {
    let limits = FibLimits { adjacencies: 70, ..FibLimits::default() };
    let mut mirror = limited(limits);
    let routes: Vec<_> = (0..100)
        .map(|at| kernel::via(&format!("{}.0.0.0/8", at + 20), &format!("10.2.1.{at}"), 2))
        .collect();
    tell(&mut mirror, &routes);
    let tables = publish(&mut mirror);
    assert_eq!(action(&tables, "119.0.0.1"), TargetAction::Kernel);
    assert!(mirror.counters().exhausted >= 30);
    drop(tables);
    for route in &routes[..90] {
        tell(&mut mirror, &[route.clone().deleted()]);
    }
    for _ in 0..3 {
        publish(&mut mirror);
    }
    assert_eq!(gateway(&mirror_tables(&mut mirror), "119.0.0.1"), "10.2.1.99");
}

#[test]
fn after_an_exhaustion_a_new_route_writes_only_its_own_addresses() {
    let limits = FibLimits { adjacencies: 2, ..FibLimits::default() };
    let (table, written) = ranges::RangeTable::counting();
    let mut mirror = mirror_with(MirrorConfig { limits, ..config() }, vec![table]);
    tell(&mut mirror, &[kernel::via("20.0.0.0/8", "10.1.0.2", 1)]);
    publish(&mut mirror);
    assert!(mirror.counters().exhausted > 0);
    let before = written.load(std::sync::atomic::Ordering::Relaxed);
    tell(&mut mirror, &[kernel::via("21.0.0.0/8", "10.1.0.3", 1)]);
    publish(&mut mirror);
    assert_eq!(written.load(std::sync::atomic::Ordering::Relaxed) - before, 1 << 24);
}

/// Makes a change that the test does not check. Returns the snapshot after it.
fn mirror_tables(mirror: &mut Mirror) -> std::sync::Arc<ForwardingTables> {
    tell(mirror, &[kernel::neighbour(2, "10.2.200.1", 2, 1)]);
    publish(mirror)
}

#[test]
fn without_tail_blocks_a_slot_is_the_kernels_as_a_whole() {
    let mut mirror = mirror_with(config(), vec![heap_table(1)]);
    let hosts =
        [kernel::via("20.0.0.1/32", "10.1.0.2", 1), kernel::via("20.0.1.1/32", "10.1.0.2", 1)];
    tell(&mut mirror, &[kernel::via("20.0.0.0/8", "10.2.0.2", 2)]);
    tell(&mut mirror, &hosts);
    let tables = publish(&mut mirror);
    assert_eq!(
        (gateway(&tables, "20.0.0.1"), gateway(&tables, "20.0.0.2")),
        ("10.1.0.2".into(), "10.2.0.2".into())
    );
    assert_eq!(action(&tables, "20.0.1.1"), TargetAction::Kernel);
    assert_eq!(action(&tables, "20.0.1.2"), TargetAction::Kernel);
    assert_eq!(gateway(&tables, "20.0.2.1"), "10.2.0.2");
    assert_eq!(mirror.counters().exhausted_blocks, 1);
    drop(tables);
    // When a block is free again, the slot is written.
    tell(&mut mirror, &[kernel::via("20.0.0.1/32", "10.1.0.2", 1).deleted()]);
    publish(&mut mirror);
    publish(&mut mirror);
    let tables = publish(&mut mirror);
    assert_eq!(gateway(&tables, "20.0.1.1"), "10.1.0.2");
    assert_eq!(gateway(&tables, "20.0.1.2"), "10.2.0.2");
}

#[test]
fn an_index_is_not_used_again_while_a_snapshot_with_its_old_meaning_is_held() {
    let mut mirror = mirror();
    let first = kernel::via("20.0.0.0/8", "10.1.0.2", 1);
    tell(&mut mirror, std::slice::from_ref(&first));
    let held = publish(&mut mirror);
    let old = index(&held, "20.1.1.1");
    tell(&mut mirror, &[first.deleted(), kernel::via("21.0.0.0/8", "10.2.0.2", 2)]);
    assert_ne!(index(&publish(&mut mirror), "21.1.1.1"), old);
    tell(&mut mirror, &[kernel::via("22.0.0.0/8", "10.2.0.3", 2)]);
    assert_ne!(index(&publish(&mut mirror), "22.1.1.1"), old);
    drop(held);
    tell(&mut mirror, &[kernel::via("23.0.0.0/8", "10.2.0.4", 2)]);
    assert_eq!(index(&publish(&mut mirror), "23.1.1.1"), old);
}

#[test]
fn readers_without_a_reference_keep_indices_until_they_have_moved_on() {
    let mut mirror = mirror_of(MirrorConfig { has_external_readers: true, ..config() });
    let first = kernel::via("20.0.0.0/8", "10.1.0.2", 1);
    tell(&mut mirror, std::slice::from_ref(&first));
    let old = index(&publish(&mut mirror), "20.1.1.1");
    tell(&mut mirror, &[first.deleted()]);
    let generation = publish(&mut mirror).generation;
    mirror.quiesced(generation);
    // A reader of the snapshot `generation` may have found the index `old` in the IPv4 table before
    // the table was written.
    tell(&mut mirror, &[kernel::via("21.0.0.0/8", "10.2.0.2", 2)]);
    let tables = publish(&mut mirror);
    assert_ne!(index(&tables, "21.1.1.1"), old);
    mirror.quiesced(tables.generation);
    tell(&mut mirror, &[kernel::via("22.0.0.0/8", "10.2.0.3", 2)]);
    assert_eq!(index(&publish(&mut mirror), "22.1.1.1"), old);
}

#[test]
fn until_ipv4_tables_are_written_their_readers_find_the_old_route_in_the_new_snapshot() {
    let mut mirror = mirror_with(config(), vec![heap_table(2)]);
    let changed = ["20.0.0.0/8", "21.0.0.1/32"];
    let by = |gateway: &str, ifindex| {
        changed.map(|prefix| kernel::via(prefix, gateway, ifindex).flagged(kernel::REPLACE))
    };
    tell(&mut mirror, &by("10.1.0.2", 1));
    publish(&mut mirror);
    for gateways in [["10.1.0.2", "10.2.0.2"], ["10.2.0.2", "10.1.0.3"], ["10.1.0.3", "10.2.0.3"]] {
        let [old, new] = gateways;
        tell(&mut mirror, &by(new, if new.starts_with("10.1.") { 1 } else { 2 }));
        let tables = mirror.publish().unwrap();
        for to in ["20.1.1.1", "21.0.0.1"] {
            assert_eq!(gateway(&tables, to), old, "{to} before the tables are written");
        }
        mirror.write_ipv4();
        for to in ["20.1.1.1", "21.0.0.1"] {
            assert_eq!(gateway(&tables, to), new, "{to} after the tables are written");
        }
    }
}

#[test]
fn a_block_is_not_used_again_by_readers_of_the_snapshot_with_which_it_was_retired() {
    let mut mirror = mirror_with(config(), vec![heap_table(1)]);
    let host = |address: &str| kernel::via(&format!("{address}/32"), "10.1.0.2", 1);
    tell(&mut mirror, &[kernel::via("20.0.0.0/8", "10.2.0.2", 2), host("20.0.0.1")]);
    publish(&mut mirror);
    tell(&mut mirror, &[host("20.0.0.1").deleted()]);
    let held = publish(&mut mirror);
    // A reader that has held the snapshot since before the IPv4 table was written may still use the
    // block of 20.0.0.0/24.
    tell(&mut mirror, &[host("20.0.1.1")]);
    assert_eq!(action(&publish(&mut mirror), "20.0.1.1"), TargetAction::Kernel);
    drop(held);
    publish(&mut mirror);
    assert_eq!(gateway(&mirror_tables(&mut mirror), "20.0.1.1"), "10.1.0.2");
}

#[test]
fn a_new_index_in_an_old_snapshot_is_the_kernels() {
    let mut mirror = mirror();
    let old = publish(&mut mirror);
    assert_eq!(old.targets.len(), usize::from(TargetIndex::MAX) + 1);
    tell(&mut mirror, &[kernel::via("20.0.0.0/8", "10.1.0.2", 1)]);
    publish(&mut mirror);
    // IPv4 tables change in place, so the old snapshot shows the change.
    assert_eq!(action(&old, "20.1.1.1"), TargetAction::Kernel);
}

#[test]
fn a_verification_finds_what_differs() {
    let mut mirror = mirror();
    let route = kernel::via("20.0.0.0/8", "10.1.0.2", 1);
    tell(&mut mirror, &[route.clone(), kernel::via("21.0.0.0/8", "10.1.0.2", 1)]);
    publish(&mut mirror);
    let mut kernels = [connected_v4(), connected_v6()].concat();
    kernels.extend([
        kernel::via("21.0.0.0/8", "10.2.0.2", 2),
        kernel::via("22.0.0.0/8", "10.1.0.2", 1),
    ]);
    let report = verify(&mut mirror, &kernels);
    assert_eq!(report, VerifyReport { checked: 8, missing: 1, extra: 1, different: 1 });
    let truth =
        [connected_v4(), connected_v6(), vec![route, kernel::via("21.0.0.0/8", "10.1.0.2", 1)]]
            .concat();
    assert_eq!(verify(&mut mirror, &truth), VerifyReport { checked: 8, ..VerifyReport::default() });
}

fn verify(mirror: &mut Mirror, messages: &[kernel::KernelMessage]) -> VerifyReport {
    mirror.begin_verify().unwrap();
    assert_eq!(mirror.begin_verify(), Err(VerifyBusy));
    for message in messages {
        let bytes = message.bytes();
        for parsed in slipring_rtnetlink::Messages::new(&bytes) {
            if let slipring_rtnetlink::MessageBody::Route(_, route) = parsed.unwrap().body {
                mirror.verify(&route);
            }
        }
    }
    end_verify(mirror).0
}

/// Ends a verification. Returns its report, and the number of parts that it took.
fn end_verify(mirror: &mut Mirror) -> (VerifyReport, usize) {
    let mut parts = 0;
    loop {
        if let Some(report) = mirror.end_verify().unwrap() {
            return (report, parts);
        }
        parts += 1;
    }
}

/// Returns many /24 and /48 routes. Adjacent prefixes have different next hops.
fn many_routes(count: u32) -> Vec<kernel::KernelMessage> {
    let route = |at: u32| {
        let (gateway, bytes) = (2 + at % 2, (at << 8 | 20 << 24).to_be_bytes());
        let v4 = format!("{}.{}.{}.0/24", bytes[0], bytes[1], bytes[2]);
        let v6 = format!("2001:db8:{at:x}::/48");
        [
            kernel::via(&v4, &format!("10.1.0.{gateway}"), 1),
            kernel::via(&v6, &format!("fd01::{gateway}"), 1),
        ]
    };
    (0..count).flat_map(route).collect()
}

#[test]
fn the_end_of_a_verification_is_done_in_parts_and_finds_the_same() {
    let mut mirror = mirror();
    let routes = many_routes(20_000);
    tell(&mut mirror, &routes);
    publish(&mut mirror);
    mirror.begin_verify().unwrap();
    let (report, parts) = end_verify(&mut mirror);
    assert_eq!(report, VerifyReport { extra: 40_006, ..VerifyReport::default() });
    // A part processes at most 4096 routes, halves a prefix, or compares the lookups in a prefix
    // with at most 4096 routes.
    assert!(parts > 2 * (40_000 / 4096), "{parts}");
    let truth = [connected_v4(), connected_v6(), routes].concat();
    let report = verify(&mut mirror, &truth);
    assert_eq!(report, VerifyReport { checked: 40_006, ..VerifyReport::default() });
}

#[test]
fn an_ipv6_tree_without_space_leaves_dense_prefixes_to_the_kernel_and_no_others() {
    const NODES: usize = 100;
    let mut mirror = limited(FibLimits { ipv6_nodes: NODES, ..FibLimits::default() });
    let dense = |at: u32| {
        kernel::via(&format!("2001:db8:{at:x}::/48"), ["fd01::2", "fd01::3"][at as usize % 2], 1)
    };
    let sparse: Vec<_> =
        (0..50).map(|at| kernel::via(&format!("2a00:{at:x}::/32"), "fd01::2", 1)).collect();
    tell(&mut mirror, &sparse);
    publish(&mut mirror);
    // The first routes come one at a time, so that a single change finds the tree full. All others
    // come together, before one snapshot.
    let mut told = 0;
    while mirror.counters().exhausted_prefixes == 0 {
        tell(&mut mirror, &[dense(told)]);
        publish(&mut mirror);
        told += 1;
        assert!(told < 4000, "the tree takes all");
    }
    tell(&mut mirror, &(told..4000).map(dense).collect::<Vec<_>>());
    let tables = publish(&mut mirror);
    assert!(tables.vrfs[0].v6.intervals().unwrap().nodes().len() <= NODES);
    for at in 0..50 {
        assert_eq!(gateway(&tables, &format!("2a00:{at:x}::1")), "fd01::2");
    }
    let to_kernel = (0..4000)
        .filter(|at| action(&tables, &format!("2001:db8:{at:x}::1")) == TargetAction::Kernel);
    assert!(to_kernel.count() > 2000);
    // A change elsewhere takes effect, also together with a change within a prefix that is left to
    // the kernel.
    tell(&mut mirror, &[dense(1).deleted(), kernel::via("2a01::/32", "fd01::3", 1)]);
    assert_eq!(gateway(&publish(&mut mirror), "2a01::1"), "fd01::3");
    // When there is space again, the tables contain all routes.
    tell(&mut mirror, &(100..4000).map(|at| dense(at).deleted()).collect::<Vec<_>>());
    let tables = publish(&mut mirror);
    for at in 2..100 {
        assert_eq!(
            gateway(&tables, &format!("2001:db8:{at:x}::1")),
            ["fd01::2", "fd01::3"][at % 2]
        );
    }
}

#[test]
fn pages_of_routes_continue_after_a_prefix() {
    let mut mirror = mirror();
    tell(&mut mirror, &many_routes(50));
    for family in [slipring_rtnetlink::RouteFamily::V4, slipring_rtnetlink::RouteFamily::V6] {
        let all: Vec<_> = mirror.routes(family).collect();
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page: Vec<_> = mirror.routes_after(family, after).take(7).collect();
            let Some(last) = page.last() else { break };
            after = Some((last.table, last.prefix));
            paged.extend(page);
        }
        assert_eq!(paged, all);
        assert_eq!(all.len(), 53);
    }
}

#[test]
fn a_verification_that_a_dump_ends_reports_nothing() {
    let mut mirror = limited(FibLimits::default());
    mirror.begin_verify().unwrap();
    mirror.begin_dump(DumpKind::Ipv4Routes);
    assert_eq!(mirror.end_verify(), Err(VerifyBusy));
    mirror.abort_verify();
}

#[test]
fn a_new_interface_with_the_index_of_a_deleted_port_is_not_that_port() {
    let mut mirror = mirror();
    publish(&mut mirror);
    assert_eq!(mirror.deleted_ports(), [false, false]);
    let link = kernel::link(2, kernel::UP);
    tell(&mut mirror, &[link.clone().deleted()]);
    assert_eq!(mirror.deleted_ports(), [false, true]);
    tell(&mut mirror, &[link, kernel::via("20.0.0.0/8", "10.2.0.2", 2)]);
    let tables = publish(&mut mirror);
    assert!(tables.ports[0].is_up && !tables.ports[1].is_up);
    assert_eq!(action(&tables, "20.0.0.1"), TargetAction::Kernel);
}
