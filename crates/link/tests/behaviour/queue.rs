//! Behaviour of queues.

use slipring_link::{AdmitPolicy, Discipline, LinkDropCause, LinkQueueSpec, LinkSpec};

use crate::rate::constant;
use crate::support::Sim;

fn limited(queue: LinkQueueSpec) -> LinkSpec {
    LinkSpec { queue, ..constant(1_000_000) }
}

#[test]
fn a_strict_byte_limit_counts_the_frame_on_the_line() {
    let mut sim =
        Sim::link(limited(LinkQueueSpec { bytes: Some(10_000), ..LinkQueueSpec::default() }));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 10);
    assert_eq!(sim.memory.lost_to(LinkDropCause::Queue), 10);
}

#[test]
fn a_queue_tells_how_deep_it_is_with_each_frame_that_joins_it() {
    let mut sim = Sim::link(limited(LinkQueueSpec::default()));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    let depths = |sim: &Sim| -> Vec<_> {
        sim.memory.joined.iter().map(|joined| (joined.packets, joined.bytes)).collect()
    };
    assert_eq!(depths(&sim), (1..=20).map(|n| (n, n * 1000)).collect::<Vec<_>>());
    // Here, a full queue is exactly as long as its limit, and frames that it refuses do not enter
    // it.
    let mut sim =
        Sim::link(limited(LinkQueueSpec { bytes: Some(100_000), ..LinkQueueSpec::default() }));
    (0..1000).for_each(|n| _ = sim.push(n * 1_000_000, 1000));
    let full = depths(&sim).into_iter().max();
    assert_eq!((full, depths(&sim).len()), (Some((100, 100_000)), 1000 - sim.memory.lost.len()));
    assert!(!sim.memory.lost.is_empty());
}

#[test]
fn tlem_admits_one_more() {
    let queue =
        LinkQueueSpec { bytes: Some(10_000), admit: AdmitPolicy::Tlem, ..LinkQueueSpec::default() };
    let mut sim = Sim::link(limited(queue));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 11);
}

#[test]
fn a_packet_limit_counts_packets() {
    let mut sim =
        Sim::link(limited(LinkQueueSpec { packets: Some(3), ..LinkQueueSpec::default() }));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 3);
}

#[test]
fn a_time_limit_counts_what_is_ahead() {
    // Each frame takes 8 ms, so the fourth frame would wait 24 ms.
    let mut sim = Sim::link(limited(LinkQueueSpec {
        delay_ns: Some(16_000_000),
        ..LinkQueueSpec::default()
    }));
    (0..20).for_each(|_| _ = sim.push(0, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 3);
}

#[test]
fn room_is_free_when_the_frame_on_the_line_is_through() {
    let mut sim =
        Sim::link(limited(LinkQueueSpec { packets: Some(1), ..LinkQueueSpec::default() }));
    sim.push(0, 1000);
    sim.push(7_999_999, 1000);
    sim.push(8_000_000, 1000);
    sim.finish();
    assert_eq!(sim.memory.releases(), [8_000_000, 16_000_000]);
    assert_eq!(sim.counters().drops[LinkDropCause::Queue].packets, 1);
}

fn drophead(queue: LinkQueueSpec) -> Sim {
    Sim::link(limited(LinkQueueSpec { discipline: Discipline::DropHead, ..queue }))
}

#[test]
fn drophead_keeps_the_newest_frames_whatever_the_limit() {
    let limits = [
        LinkQueueSpec { packets: Some(4), ..LinkQueueSpec::default() },
        LinkQueueSpec { bytes: Some(4000), ..LinkQueueSpec::default() },
        // Each frame takes 8 ms, so at most three frames wait in addition to the frame on the
        // line.
        LinkQueueSpec { delay_ns: Some(30_000_000), ..LinkQueueSpec::default() },
    ];
    for limit in limits {
        let mut sim = drophead(limit);
        (0..20).for_each(|_| _ = sim.push(0, 1000));
        sim.finish();
        assert_eq!(sim.memory.handles(), [0, 17, 18, 19]);
        let lost: Vec<_> = sim.memory.lost.iter().map(|lost| lost.handle.0).collect();
        assert_eq!(lost, (1..17).collect::<Vec<_>>());
    }
}

#[test]
fn drophead_keeps_what_waits_from_a_frame_that_fits_in_no_case() {
    let mut sim = drophead(LinkQueueSpec { bytes: Some(3000), ..LinkQueueSpec::default() });
    for len in [1000, 1000, 2500] {
        sim.push(0, len);
    }
    sim.finish();
    assert_eq!(sim.memory.handles(), [0, 1]);
    // The frame on the line takes 40 ms, whichever frames are dropped. There is space when no more
    // than 30 ms of this time are left.
    let mut sim =
        drophead(LinkQueueSpec { delay_ns: Some(30_000_000), ..LinkQueueSpec::default() });
    for (at_ns, len) in [(0, 5000), (9_999_999, 1000), (10_000_000, 1000), (18_000_000, 1000)] {
        sim.push(at_ns, len);
    }
    sim.finish();
    assert_eq!(sim.memory.handles(), [0, 2, 3]);
}
