//! Bursts: every frame of a burst is treated as a single frame would be, whatever else happens
//! during the burst.

use proptest::prelude::*;
use slipring_link::{
    Burst, Carrier, DelaySpec, EntryId, FrameHandle, LinkId, LinkSpec, LossModel, LossPosition,
    LossSpec, NetworkSpec, RateSpec,
};

use crate::support::{Memory, Sim};

const DELAY: u64 = 20_000;

fn plain(delay_ns: u64) -> LinkSpec {
    LinkSpec { delay: DelaySpec::constant(delay_ns), ..LinkSpec::wire("up") }
}

/// Returns the links through which bursts pass. A running link may also be changed to any of them.
fn links() -> [LinkSpec; 5] {
    let loss = LossSpec { model: LossModel::Nth { every: 5, nth: 3 }, position: LossPosition::Pre };
    [
        plain(DELAY),
        plain(DELAY / 4),
        plain(0),
        LinkSpec { rate: RateSpec::Constant { bps: 1_000_000_000 }, ..plain(DELAY) },
        LinkSpec { loss: vec![loss], ..plain(DELAY) },
    ]
}

#[test]
fn a_train_leaves_as_its_frames_arrived_and_only_as_far_as_they_are_due() {
    let mut sim = Sim::link(plain(DELAY));
    let burst = sim.memory.train(&[(10, 60), (20, 1500), (20, 64), (35, 100)]);
    sim.network.push_burst(EntryId(0), burst, &mut sim.memory);
    assert_eq!(sim.network.next_ns(), Some(DELAY + 10));
    sim.run(DELAY + 9);
    assert_eq!(sim.memory.releases(), []);
    sim.run(DELAY + 20);
    assert_eq!(sim.memory.releases(), [DELAY + 10, DELAY + 20, DELAY + 20]);
    let counters = sim.counters();
    assert_eq!((counters.in_flight.packets, counters.in_flight.bytes), (1, 100));
    assert!(counters.is_balanced());
    assert_eq!(sim.network.next_ns(), Some(DELAY + 35));
    sim.finish();
    assert_eq!(sim.memory.handles(), [0, 1, 2, 3]);
    assert_eq!(sim.counters().output.bytes, 1724);
}

#[test]
fn a_burst_knows_what_is_left_of_it() {
    let mut memory = Memory::default();
    let whole = memory.train(&[(10, 60), (20, 1500), (20, 64), (35, 100)]);
    let burst = |handle, packets, bytes, first_ns, last_ns| Burst {
        handle: FrameHandle(handle),
        packets,
        bytes,
        first_ns,
        last_ns,
    };
    assert_eq!(whole, burst(0, 4, 1724, 10, 35));
    assert_eq!((whole.counts().packets, whole.counts().bytes), (4, 1724));
    let mut left = whole;
    let first = left.pop_front(&mut memory).unwrap();
    assert_eq!((first.arrival_ns, first.handle, first.len), (10, FrameHandle(0), 60));
    assert_eq!(left, burst(1, 3, 1664, 20, 35));
    assert_eq!(left.front(&mut memory).unwrap().frame.len, 1500);
    for (until_ns, front, rest) in [
        (9, burst(0, 0, 0, 10, 35), burst(0, 4, 1724, 10, 35)),
        (10, burst(0, 1, 60, 10, 10), burst(1, 3, 1664, 20, 35)),
        (34, burst(0, 3, 1624, 10, 20), burst(3, 1, 100, 35, 35)),
    ] {
        let mut burst = whole;
        assert_eq!(burst.split_until(until_ns, &mut memory), front, "{until_ns}");
        assert_eq!(burst, rest, "{until_ns}");
    }
    let mut all = whole;
    assert_eq!(all.split_until(35, &mut memory), whole);
    assert_eq!((all.packets, all.bytes), (0, 0));
    assert!(all.front(&mut memory).is_none() && all.pop_front(&mut memory).is_none());
    let mut frames = vec![];
    memory.split_burst(&whole, &mut frames);
    let lens: Vec<u32> = frames.iter().map(|frame| frame.len).collect();
    assert_eq!(lens, [60, 1500, 64, 100]);
}

#[test]
fn trains_on_their_way_leave_in_time_after_a_change() {
    let mut sim = Sim::link(plain(DELAY));
    let burst = sim.memory.train(&[(10, 60), (20, 60), (30, 60)]);
    sim.network.push_burst(EntryId(0), burst, &mut sim.memory);
    let rate = RateSpec::Constant { bps: 1_000_000_000 };
    let changed = NetworkSpec::single(LinkSpec { rate, ..plain(DELAY) });
    sim.network.change(50, &changed).unwrap();
    sim.push(60, 125);
    sim.finish();
    assert_eq!(sim.memory.releases(), [10, 20, 30, 1_060].map(|at_ns| at_ns + DELAY));
    assert!(sim.counters().is_balanced());
    assert_eq!(sim.counters().output.packets, 4);
}

#[test]
fn a_link_that_delivers_early_does_so_with_trains() {
    let mut sim = Sim::link(plain(DELAY));
    sim.network.deliver_early(true);
    let burst = sim.memory.train(&[(10, 60), (20, 60)]);
    sim.network.push_burst(EntryId(0), burst, &mut sim.memory);
    sim.run(20);
    assert_eq!(sim.memory.releases(), [DELAY + 10, DELAY + 20]);
}

proptest! {
    /// Batches of frames, each followed by a run, a change of the link, both, or nothing.
    #[test]
    fn frames_fare_in_trains_as_they_do_alone(
        first in 0..links().len(),
        batches in prop::collection::vec(
            (
                prop::collection::vec((0u64..300, 60u32..1500), 1..12),
                prop::option::of(0u64..DELAY / 2),
                prop::option::of((0u64..5_000, 0..links().len())),
            ),
            1..40,
        ),
    ) {
        let links = links();
        let (mut alone, mut coupled) = (Sim::link(links[first].clone()), Sim::link(links[first].clone()));
        let mut now_ns = 0;
        let mut changed_ns = 0;
        for (gaps, wait, change) in batches {
            let mut frames = Vec::new();
            for (gap_ns, len) in gaps {
                now_ns += gap_ns;
                frames.push((now_ns, len));
            }
            frames.iter().for_each(|&(at_ns, len)| _ = alone.push(at_ns, len));
            let burst = coupled.memory.train(&frames);
            coupled.network.push_burst(EntryId(0), burst, &mut coupled.memory);
            now_ns += wait.unwrap_or(0);
            for sim in [&mut alone, &mut coupled] {
                if wait.is_some() {
                    sim.run(now_ns);
                }
                if let Some((later_ns, link)) = change {
                    let plan = NetworkSpec::single(links[link].clone());
                    sim.network.change(changed_ns.max(now_ns + later_ns), &plan).unwrap();
                }
            }
            if let Some((later_ns, _)) = change {
                changed_ns = changed_ns.max(now_ns + later_ns);
            }
            prop_assert_eq!(alone.counters(), coupled.counters());
            prop_assert!(coupled.counters().is_balanced());
        }
        alone.finish();
        coupled.finish();
        prop_assert_eq!(&alone.memory.delivered, &coupled.memory.delivered);
        prop_assert_eq!(&alone.memory.lost, &coupled.memory.lost);
        prop_assert_eq!(alone.network.counters(LinkId(0)), coupled.network.counters(LinkId(0)));
    }
}
