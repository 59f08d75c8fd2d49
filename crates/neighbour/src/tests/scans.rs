//! Tests that the limits hold, no matter which addresses are requested or claimed.

use super::*;
use crate::{HoldDropCause, NeighbourClaim, NeighbourState, SnoopTable, SnoopedAddress};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SMALL: NeighbourLimits = NeighbourLimits {
    entries: 12,
    incomplete: 5,
    frames_per_neighbour: 3,
    bytes_per_neighbour: 300,
    frames: 8,
    bytes: 500,
};

fn host(number: u32) -> IpAddr {
    IpAddr::V4((0x0a00_0000 + number).into())
}

#[test]
fn a_scan_of_a_large_subnet_is_bounded_and_a_new_host_still_gets_through() {
    let mut cache = cache(NeighbourLimits::default());
    let limits = NeighbourLimits::default();
    for number in 0..65_534 {
        // 10,000 frames are sent per second, each to a different host.
        let now = u64::from(number) * SECOND / 10_000;
        cache.tick(now);
        cache.hold(host(number), number, 60, now).unwrap();
        assert!(cache.len() <= limits.entries && cache.waiting() <= limits.incomplete);
        if number % 1000 == 500 {
            // After each 1000 frames, one is sent to a host that exists. It answers after 10 ms.
            let (real, answer) = (host(1 << 20 | number), NeighbourClaim::answer);
            cache.hold(real, number, 60, now).unwrap();
            cache.learn(answer(real, mac(1)), now + SECOND / 100);
            assert_eq!(cache.resolve(real, now + SECOND / 100), Some(mac(1)));
        }
        events(&mut cache);
    }
    assert!(cache.is_balanced());
    assert!(cache.counters().dropped_for(HoldDropCause::Evicted) > 0);
}

#[test]
fn a_host_that_answered_survives_a_scan_and_a_flood_of_claims() {
    let mut cache = cache(SMALL);
    let friends: Vec<IpAddr> = (0..6).map(host).collect();
    for &friend in &friends {
        cache.solicit(friend, 0);
        cache.learn(NeighbourClaim::answer(friend, mac(1)), 0);
    }
    for number in 100..5_000 {
        let now = u64::from(number) * 1000;
        cache.hold(host(number), number, 60, now).unwrap();
        cache.learn(NeighbourClaim::question(host(10_000 + number), mac(2)), now);
        assert!(cache.len() <= SMALL.entries);
    }
    for &friend in &friends {
        assert_eq!(cache.resolve(friend, SECOND), Some(mac(1)));
    }
}

#[test]
fn a_confirmed_neighbour_that_nobody_uses_gives_way_after_a_minute() {
    let mut cache = cache(SMALL);
    for number in 0..12 {
        cache.solicit(host(number), 0);
        cache.learn(NeighbourClaim::answer(host(number), mac(1)), 0);
    }
    assert_eq!(cache.hold(host(100), 1, 60, SECOND).map_err(|(frame, _)| frame), Err(1));
    assert!(cache.hold(host(100), 1, 60, 110 * SECOND).is_ok());
}

#[test]
fn when_all_queues_are_full_the_oldest_question_gives_way() {
    let mut cache = cache(SMALL);
    for number in 0..4 {
        cache.hold(host(number), number * 2, 60, number.into()).unwrap();
        cache.hold(host(number), number * 2 + 1, 60, number.into()).unwrap();
    }
    events(&mut cache);
    cache.hold(host(9), 99, 60, 9).unwrap();
    let lost: Vec<_> = events(&mut cache)
        .into_iter()
        .filter_map(|event| match event {
            NeighbourEvent::Dropped { frame, cause, .. } => Some((frame, cause)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(0, HoldDropCause::Evicted), (1, HoldDropCause::Evicted)]);
    assert!(cache.get(host(0), 9).is_none() && cache.is_balanced());
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Use(u32, u32),
    Answer(u32),
    Claim(u32),
    Wait(u64),
    LinkDown,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40u32, 1..320u32).prop_map(|(host, len)| Step::Use(host, len)),
        3 => (0..40u32).prop_map(Step::Answer),
        4 => (0..400u32).prop_map(Step::Claim),
        3 => (0..3 * SECOND).prop_map(Step::Wait),
        1 => (0..90 * SECOND).prop_map(Step::Wait),
        1 => Just(Step::LinkDown),
    ]
}

/// Returns the neighbours that a claimed or solicited address must not replace.
fn protected(cache: &NeighbourCache<u32>, now: u64) -> Vec<IpAddr> {
    use NeighbourState::{Delay, Probe, Reachable};
    let entries = cache.iter(now);
    let kept = entries.filter(|view| matches!(view.state, Reachable | Delay | Probe));
    kept.map(|view| view.address).collect()
}

proptest! {
    #[test]
    fn limits_hold_and_every_frame_comes_out_once_and_in_order(
        steps in prop::collection::vec(step(), 1..200)
    ) {
        let mut cache = cache(SMALL);
        let (mut now, mut inside, mut refused) = (0, BTreeMap::<u32, (IpAddr, u32)>::new(), 0);
        let mut last_out = BTreeMap::<IpAddr, u32>::new();
        for (frame, step) in (0..).zip(steps) {
            let before = protected(&cache, now);
            let mut keeps = true;
            match step {
                Step::Use(to, len) => match cache.hold(host(to), frame, len, now) {
                    Ok(()) => drop(inside.insert(frame, (host(to), len))),
                    Err((back, _)) => {
                        prop_assert_eq!(back, frame);
                        refused += 1;
                    }
                },
                Step::Answer(from) => cache.learn(NeighbourClaim::answer(host(from), mac(1)), now),
                Step::Claim(from) => {
                    cache.learn(NeighbourClaim::question(host(from), mac(1)), now);
                }
                Step::Wait(time) => {
                    now += time;
                    cache.tick(now);
                    keeps = false;
                }
                Step::LinkDown => {
                    cache.flush();
                    keeps = false;
                }
            }
            for event in events(&mut cache) {
                if let NeighbourEvent::Released { next_hop, frame, .. }
                    | NeighbourEvent::Dropped { next_hop, frame, .. } = event
                {
                    prop_assert_eq!(inside.remove(&frame).map(|(to, _)| to), Some(next_hop));
                    let earlier = last_out.insert(next_hop, frame);
                    prop_assert!(earlier.is_none_or(|earlier| earlier < frame));
                }
            }
            let after = protected(&cache, now);
            prop_assert!(!keeps || before.iter().all(|host| after.contains(host)), "{:?}", step);
            prop_assert!(cache.len() <= SMALL.entries);
            let asked = cache.iter(now).filter(|view| view.state == NeighbourState::Incomplete);
            prop_assert!(asked.count() <= SMALL.incomplete);
            prop_assert_eq!(cache.waiting(), inside.len());
            prop_assert!(cache.waiting() <= SMALL.frames);
            let bytes: u32 = inside.values().map(|(_, len)| len).sum();
            prop_assert!(u64::from(bytes) <= SMALL.bytes);
            for to in (0..40).map(host) {
                let own: Vec<_> = inside.values().filter(|(at, _)| *at == to).collect();
                prop_assert!(own.len() <= SMALL.frames_per_neighbour);
                let bytes: u32 = own.iter().map(|(_, len)| len).sum();
                prop_assert!(u64::from(bytes) <= SMALL.bytes_per_neighbour);
            }
            prop_assert!(cache.is_balanced());
            prop_assert_eq!(cache.counters().refused, refused);
        }
    }
}

#[test]
fn an_address_that_a_bridge_uses_stays_in_its_full_table() {
    let mut table = SnoopTable::new(8);
    let snooped = |number| SnoopedAddress { address: host(number), mac: mac(1) };
    (0..8).for_each(|number| assert!(table.insert(snooped(number), 0u16)));
    for number in 100..2_000 {
        assert!(table.resolve(host(3)).is_some());
        table.insert(snooped(number), 1);
        assert_eq!(table.len(), 8);
    }
    assert_eq!(table.resolve(host(3)), Some((mac(1), 0)));
    assert!(!table.insert(snooped(3), 0), "nothing has changed");
    assert!(table.insert(snooped(3), 2), "the port has changed");
    // None of the other addresses was looked up, so the newest address has replaced one of them.
    assert!(table.resolve(host(1_999)).is_some());
}
