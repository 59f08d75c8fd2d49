//! Measures the time that the XDP program takes per frame, in test runs in the kernel: with one
//! route and with full tables.
//!
//! ```text
//! cargo run --release -p slipring-route-bpf --example resident_cost
//! ```
//! Needs CAP_BPF and CAP_NET_ADMIN. The full tables are synthetic: every /24 from 1.0.0.0 to
//! 60.255.255.255 with another target than the one before, which is 3.9 M routes, and 210,000 IPv6
//! /44.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use slipring_classify::dir24::Cells;
use slipring_classify::intervals::IntervalTree;
use slipring_fib::{
    Adjacency, AdjacencyIndex, BUCKETS, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup,
    Ipv6Lookup, NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags,
    VrfIndex, VrfTables,
};
use slipring_route_bpf::{BpfLimits, BpfRouter, ResidentHash, ResidentHeartbeat};
use slipring_simd::Simd;
use slipring_wire::mac::MacAddr;

const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
const HOPS: u16 = 200;
const RUNS: u32 = 1_000_000;
/// Number of frames with different destinations. Each of them needs a test run of its own, which
/// takes the kernel about 20 ms.
const DESTINATIONS: u32 = 32;

#[derive(Debug)]
struct NoLookup(Option<IntervalTree>);

impl Ipv4Lookup for NoLookup {
    fn lookup(&self, _: &[u32], _: &mut [TargetIndex]) {}
}

impl Ipv6Lookup for NoLookup {
    fn lookup(&self, _: &[u128], _: &mut [TargetIndex]) {}

    fn intervals(&self) -> Option<&IntervalTree> {
        self.0.as_ref()
    }
}

fn tables(generation: u64, tree: IntervalTree) -> ForwardingTables {
    let port = |at: u8| FibPort {
        ifindex: 1,
        name: format!("p{at}"),
        mac: MacAddr([2, 0, 0, 0, 0, at]),
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: Vec::new(),
    };
    let adjacency = |_| Adjacency {
        port: FibPortIndex(1),
        next_hop: NextHopAddress::OnLink,
        // This is the MAC address of port 0, on which frames arrive: the kernel repeats a run with
        // the frame that the program has rewritten, so the frame must be for this port again.
        mac: Some(MacAddr([2, 0, 0, 0, 0, 0])),
    };
    let action = |at| match at {
        0 => TargetAction::NoRoute,
        1 => TargetAction::Kernel,
        2 => TargetAction::Balance(0),
        at => TargetAction::Forward(AdjacencyIndex(at - 3)),
    };
    ForwardingTables {
        generation,
        ports: [port(0), port(1)].into(),
        vrfs: [VrfTables { v4: Arc::new(NoLookup(None)), v6: Arc::new(NoLookup(Some(tree))) }]
            .into(),
        targets: (0..HOPS + 3).map(|at| Target { action: action(at), mtu: 0 }).collect(),
        adjacencies: (0..HOPS).map(adjacency).collect(),
        buckets: [[AdjacencyIndex(0); BUCKETS]].into(),
    }
}

fn v4(to: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 9, 9, 9, 9, 9, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 255, 17, 0, 0, 10, 1, 0, 2]);
    frame.extend(to.to_be_bytes());
    let sum: u32 =
        frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0, 9, 0, 9, 0, 26, 0x11, 0x22]);
    frame.resize(60, 0x42);
    frame
}

fn v6(to: u128) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 9, 9, 9, 9, 9, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 10, 17, 255]);
    frame.extend((0xfd01_u128 << 112 | 2).to_be_bytes());
    frame.extend(to.to_be_bytes());
    frame.extend([0, 9, 0, 9, 0, 10, 0x11, 0x22]);
    frame.resize(64, 0x42);
    frame
}

/// Measures the average of many runs of each frame, five times, and prints the smallest, the median
/// and the greatest result. The kernel repeats one frame, so with several frames the caches are
/// warm, except in the first run of each frame.
fn measure(name: &str, router: &BpfRouter, program: &slipring_bpf::BpfProgram, frames: &[Vec<u8>]) {
    measure_expecting(XDP_REDIRECT, name, router, program, frames);
}

fn measure_expecting(
    expected: u32,
    name: &str,
    router: &BpfRouter,
    program: &slipring_bpf::BpfProgram,
    frames: &[Vec<u8>],
) {
    let heartbeat = router.heartbeat();
    let runs = RUNS / frames.len() as u32;
    let mut nanos = Vec::new();
    for _ in 0..5 {
        let mut sum = 0_u64;
        for frame in frames {
            // Each repetition decrements the time to live, which limits their number. On a busy
            // machine, the heartbeat may be too old before the run begins, so the run is tried
            // again.
            let ran = (0..100).find_map(|_| {
                heartbeat.beat_all(ResidentHeartbeat::now());
                let run = program.test_run(frame, runs.min(200)).unwrap();
                (run.result == expected).then_some(run.nanos)
            });
            sum += u64::from(
                ran.unwrap_or_else(|| panic!("{name}: {:?}", router.counters(FibPortIndex(0)))),
            );
        }
        nanos.push(sum / frames.len() as u64);
    }
    nanos.sort_unstable();
    println!("{name:32} {} / {} / {} ns", nanos[0], nanos[2], nanos[4]);
}

fn main() {
    let mut router = BpfRouter::create(BpfLimits::default(), ResidentHash::default()).unwrap();
    let one_route = IntervalTree::build(&[(0_u128, 3)], Simd::detect());
    router.apply(&tables(1, one_route)).unwrap();
    let program = router.program(FibPortIndex(0), false).unwrap();
    let (root, _) = router.cells(VrfIndex(0)).unwrap();
    let mut table = router.ipv4_table(VrfIndex(0)).unwrap();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    println!("min / median / max of 5, load {}", &load[..4]);
    root.fill(0..1 << 24, 3);
    let one = [v4(0x0a03_0002)];
    measure_expecting(XDP_PASS, "nothing (disabled)", &router, &program, &one);
    router.enable();
    measure("IPv4, 1 route", &router, &program, &one);
    measure("IPv6, 1 route", &router, &program, &[v6(0xfd03 << 112 | 2)]);
    root.fill(0..1 << 24, 2);
    measure("IPv4, several next hops", &router, &program, &one);

    let start = std::time::Instant::now();
    for slot in 1 << 16..61 << 16 {
        let number = 3 + (slot % u32::from(HOPS)) as u16;
        table.set(slot << 8, slot << 8 | 0xff, &[(slot << 8, number)]).unwrap();
    }
    println!("{} routes written in {:?}", 60 << 16, start.elapsed());
    let mut starts = vec![(0_u128, 3_u32)];
    for at in 0..210_000_u32 {
        let number = 3 + at % u32::from(HOPS);
        starts.push((0x2001_u128 << 112 | u128::from(at) << 84, number));
    }
    let tree = IntervalTree::build(&starts, Simd::detect());
    let start = std::time::Instant::now();
    let (nodes, levels) = (tree.nodes().len(), tree.levels());
    router.apply(&tables(2, tree)).unwrap();
    println!("{nodes} IPv6 nodes, {levels} levels, written in {:?}", start.elapsed());
    let start = std::time::Instant::now();
    for _ in 0..10 {
        router.quiesce().unwrap();
    }
    println!("a wait for running programs: {:?}", start.elapsed() / 10);
    let scattered = |at: u32| at.wrapping_mul(0x9e37_79b1);
    let frames: Vec<_> = (0..DESTINATIONS)
        .map(|at| v4((1 << 24) + ((u64::from(scattered(at)) * (60 << 24)) >> 32) as u32))
        .collect();
    measure("IPv4, 3.9 M routes", &router, &program, &frames);
    let frames: Vec<_> = (0..DESTINATIONS)
        .map(|at| {
            let route = (u64::from(scattered(at)) * 210_000) >> 32;
            v6(0x2001_u128 << 112 | u128::from(route) << 84 | 7)
        })
        .collect();
    measure("IPv6, 210 k routes", &router, &program, &frames);
    println!("maps: {:.1} MiB", router.memory_bytes() as f64 / f64::from(1 << 20));
}
