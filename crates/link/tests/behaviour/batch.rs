//! Tests that a link treats the frames of a batch as it treats single frames.

use proptest::prelude::*;
use slipring_link::{
    DelaySpec, Discipline, EntryId, FrameArrival, HoldSpec, LinkQueueSpec, LinkSpec, LossModel,
    LossPosition, LossSpec, NetworkSpec, OrderPolicy, RateSpec,
};
use slipring_model::aqm::CoDelSpec;
use slipring_model::{Chance, Dist};
use slipring_wire::FrameSpec;

use crate::random::{link, traffic};
use crate::support::Sim;

/// Generates links without most of the stages that prevent batches. Such a link takes frames in
/// batches while it is not full, unless its order, its marks or the gaps of its delay prevent that.
fn blind_link() -> impl Strategy<Value = LinkSpec> {
    let rate = prop_oneof![
        Just(RateSpec::Unlimited),
        (1_000_000_000u64..400_000_000_000).prop_map(|bps| RateSpec::Constant { bps }),
    ];
    let discipline = prop_oneof![
        Just(Discipline::DropTail),
        Just(Discipline::DropHead),
        Just(Discipline::CoDel(CoDelSpec {
            target_ns: 1_000,
            interval_ns: 5_000,
            ..CoDelSpec::default()
        })),
    ];
    let parts = (link(), rate, discipline, any::<bool>(), any::<bool>());
    parts.prop_map(|(link, rate, discipline, drifts, marks)| {
        let drift = DelaySpec {
            half_life_ns: Some(40_000),
            ..DelaySpec::random(Dist::normal(20_000.0, 3_000.0).expect("a law"))
        };
        LinkSpec {
            police: None,
            hold: None,
            queue: LinkQueueSpec {
                discipline,
                mark_above_ns: if marks { Some(0) } else { link.queue.mark_above_ns },
                ..link.queue
            },
            rate,
            profile: None,
            corrupt: None,
            duplicate: None,
            delay: if drifts { drift } else { link.delay },
            ..link
        }
    })
}

/// Plays steps of [`traffic`]. The frames between two runs of the network are pushed together, or
/// one by one. Halfway, the link begins to keep the order, if it did not before.
fn play(link: LinkSpec, traffic: &[(u64, u32, bool, bool)], together: bool) -> Sim {
    let mut sim = Sim::new(&NetworkSpec::single(link.clone()), 3);
    let strict = NetworkSpec::single(LinkSpec { order: OrderPolicy::Strict, ..link });
    let half_ns = traffic[..traffic.len() / 2].iter().map(|step| step.0).sum();
    sim.network.change(half_ns, &strict).unwrap();
    let mut frame = FrameSpec::default().build(60).unwrap().bytes;
    let (mut now_ns, mut batch) = (0, vec![]);
    let push = |sim: &mut Sim, frames: &mut Vec<FrameArrival>| {
        sim.network.push(EntryId(0), frames, &mut sim.memory);
        frames.clear();
    };
    for &(gap_ns, len, capable, run) in traffic {
        now_ns += gap_ns;
        if run || !together {
            push(&mut sim, &mut batch);
        }
        if run {
            sim.run(now_ns);
        }
        frame[15] = if capable { 2 } else { 0 };
        let handle = sim.memory.store(&frame);
        batch.push(FrameArrival { arrival_ns: now_ns, handle, len });
    }
    push(&mut sim, &mut batch);
    sim.finish();
    sim
}

/// Adds a stage that does nothing, but makes the link take frames one by one.
fn step_by_step(link: &LinkSpec) -> LinkSpec {
    let hold = HoldSpec { chance: Chance::NEVER, hold_ns: 1 };
    LinkSpec { hold: Some(hold), ..link.clone() }
}

fn assert_same(one: &Sim, other: &Sim) -> Result<(), TestCaseError> {
    let (one, other) = ((one.counters(), &one.memory), (other.counters(), &other.memory));
    prop_assert_eq!(one.0, other.0);
    prop_assert_eq!(&one.1.delivered, &other.1.delivered);
    prop_assert_eq!(&one.1.bytes, &other.1.bytes);
    prop_assert_eq!(&one.1.lost, &other.1.lost);
    prop_assert_eq!(&one.1.joined, &other.1.joined);
    prop_assert_eq!(&one.1.queued, &other.1.queued);
    prop_assert_eq!(&one.1.notifications, &other.1.notifications);
    Ok(())
}

#[test]
fn frames_beyond_one_batch_and_lost_among_them_leave_as_they_should() {
    let every =
        |every, position| LossSpec { model: LossModel::Nth { every, nth: every }, position };
    let link = LinkSpec {
        loss: vec![every(10, LossPosition::Pre), every(7, LossPosition::Post)],
        rate: RateSpec::Constant { bps: 8_000_000_000 },
        delay: DelaySpec::constant(1_000),
        order: OrderPolicy::Strict,
        ..LinkSpec::wire("up")
    };
    let steps: Vec<_> = (0..200).map(|_| (100, 60, false, false)).collect();
    let sim = play(link, &steps, true);
    let lost: Vec<_> = sim.memory.lost.iter().map(|lost| (lost.handle.0, lost.at_ns)).collect();
    assert_eq!(lost[..3], [(6, 760), (9, 1_000), (13, 1_460)]);
    // Each loss model counts all frames. Counted from 0, frames 69 and 139 are both a tenth and a
    // seventh frame.
    assert_eq!(lost.len(), 20 + 28 - 2);
    let kept = (0..200).filter(|number| lost.iter().all(|lost| lost.0 != *number));
    let releases: Vec<u64> = kept.map(|number| u64::from(number + 1) * 100 + 1_060).collect();
    assert_eq!(sim.memory.releases(), releases);
    assert!(sim.counters().is_balanced());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 4000 }))]

    #[test]
    fn frames_fare_in_batches_as_they_do_one_by_one(link in blind_link(), traffic in traffic()) {
        let by_steps = play(step_by_step(&link), &traffic, true);
        assert_same(&play(link.clone(), &traffic, true), &by_steps)?;
        let alone = play(step_by_step(&link), &traffic, false);
        assert_same(&play(link, &traffic, false), &alone)?;
    }
}
