//! Tests of policers.

use slipring_link::{LinkDropCause, LinkSpec, MeterSpec, PoliceAction, PoliceSpec};
use slipring_wire::FrameSpec;

use crate::support::Sim;

fn policed(police: PoliceSpec) -> LinkSpec {
    LinkSpec { police: Some(police), ..LinkSpec::wire("up") }
}

#[test]
fn a_bucket_passes_its_burst_and_then_its_rate() {
    let mut sim = Sim::link(policed(PoliceSpec::bucket(8_000_000, 10_000)));
    (0..100).for_each(|_| _ = sim.push(0, 1000));
    sim.run(0);
    assert_eq!(sim.memory.delivered.len(), 10);
    assert_eq!(sim.memory.lost_to(LinkDropCause::Police), 90);
    (1..=100).for_each(|ms| _ = sim.push(ms * 1_000_000, 1000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 110);
}

#[test]
fn slow_buckets_fill_exactly() {
    // Because of rounding, TLEM loses a quarter of 10 kbit/s, and everything below 7.6 kbit/s.
    let mut sim = Sim::link(policed(PoliceSpec::bucket(1_000, 125)));
    (0..100).for_each(|second| _ = sim.push(second * 1_000_000_000, 125));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 100);
}

#[test]
fn two_rates_mark_first_and_drop_then() {
    let meter = MeterSpec::Rfc2698 {
        committed_bps: 8_000,
        committed_burst: 3_000,
        peak_bps: 8_000,
        peak_burst: 6_000,
    };
    let police = PoliceSpec { meter, exceed: PoliceAction::Mark, violate: PoliceAction::Drop };
    let mut sim = Sim::link(policed(police));
    let mut frame = FrameSpec::default().build(1_000).unwrap().bytes;
    frame[15] = 2;
    (0..10).for_each(|_| _ = sim.push_frame(0, &frame));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 6);
    assert_eq!(sim.counters().marked.packets, 3);
    assert_eq!(sim.memory.lost_to(LinkDropCause::Police), 4);
}
