//! What waits for the line.

use slipring_link::{Admit, Cause, LinkSpec, QueueSpec};

use crate::rate::constant;
use crate::support::Sim;

fn limited(queue: QueueSpec) -> LinkSpec {
    LinkSpec { queue, ..constant(1_000_000) }
}

#[test]
fn a_strict_byte_limit_counts_the_frame_on_the_line() {
    let mut sim = Sim::link(limited(QueueSpec { bytes: Some(10_000), ..QueueSpec::default() }));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 10);
    assert_eq!(sim.memory.lost_to(Cause::Queue), 10);
}

#[test]
fn a_queue_tells_how_deep_it_is_with_each_frame_that_joins_it() {
    let mut sim = Sim::link(limited(QueueSpec::default()));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    let depths = |sim: &Sim| -> Vec<_> {
        sim.memory.joined.iter().map(|joined| (joined.packets, joined.bytes)).collect()
    };
    assert_eq!(depths(&sim), (1..=20).map(|n| (n, n * 1000)).collect::<Vec<_>>());
    // A queue that is held full is as deep as its limit, and frames that it refuses do not join.
    let mut sim = Sim::link(limited(QueueSpec { bytes: Some(100_000), ..QueueSpec::default() }));
    (0..1000).for_each(|n| _ = sim.push(n * 1_000_000, 1000));
    let full = depths(&sim).into_iter().max();
    assert_eq!((full, depths(&sim).len()), (Some((100, 100_000)), 1000 - sim.memory.lost.len()));
    assert!(!sim.memory.lost.is_empty());
}

#[test]
fn tlem_admits_one_more() {
    let queue = QueueSpec { bytes: Some(10_000), admit: Admit::Tlem, ..QueueSpec::default() };
    let mut sim = Sim::link(limited(queue));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 11);
}

#[test]
fn a_packet_limit_counts_packets() {
    let mut sim = Sim::link(limited(QueueSpec { packets: Some(3), ..QueueSpec::default() }));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 3);
}

#[test]
fn a_time_limit_counts_what_is_ahead() {
    // Each frame takes 8 ms: the fourth would wait 24 ms.
    let mut sim =
        Sim::link(limited(QueueSpec { delay_ns: Some(16_000_000), ..QueueSpec::default() }));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 3);
}

#[test]
fn room_is_free_when_the_frame_on_the_line_is_through() {
    let mut sim = Sim::link(limited(QueueSpec { packets: Some(1), ..QueueSpec::default() }));
    sim.push(0, 1000);
    sim.push(7_999_999, 1000);
    sim.push(8_000_000, 1000);
    sim.finish();
    assert_eq!(sim.memory.releases(), [8_000_000, 16_000_000]);
    assert_eq!(sim.counters().drops[Cause::Queue].packets, 1);
}
