//! Tests of the cache: the states of RFC 4861, 7.3.2 and appendix C, the queues of held frames, and
//! neighbours that the kernel keeps.

use super::*;
use crate::{HoldDropCause, HoldRefusal, NeighbourClaim, NeighbourState};
use std::vec;

const HOST: &str = "fd00::9";

fn new() -> NeighbourCache<u32> {
    cache(NeighbourLimits::default())
}

/// Returns a cache in which `HOST` has been reachable at `mac(9)` since time 0.
fn reachable() -> NeighbourCache<u32> {
    let mut cache = new();
    assert!(cache.solicit(ip(HOST), 0));
    cache.learn(NeighbourClaim::answer(ip(HOST), mac(9)), 0);
    events(&mut cache);
    cache
}

fn advertisement(last: u8, solicited: bool, overrides: bool) -> NeighbourClaim {
    NeighbourClaim {
        address: ip(HOST),
        mac: Some(mac(last)),
        makes_entry: false,
        is_solicited: solicited,
        overrides,
        is_router: Some(false),
    }
}

#[test]
fn an_unknown_address_is_asked_for_three_times_a_second_apart_and_then_fails() {
    let mut cache = new();
    cache.hold(ip(HOST), 1, 60, 0).unwrap();
    let ask = NeighbourEvent::Solicit { target: ip(HOST), mac: None };
    assert_eq!(events(&mut cache), vec![ask.clone()]);
    for second in 1..=2 {
        assert_eq!(cache.next_ns(), Some(second * SECOND));
        cache.tick(second * SECOND - 1);
        assert_eq!(events(&mut cache), vec![]);
        cache.tick(second * SECOND);
        assert_eq!(events(&mut cache), vec![ask.clone()]);
    }
    cache.tick(3 * SECOND);
    let (next_hop, cause) = (ip(HOST), HoldDropCause::Unanswered);
    assert_eq!(events(&mut cache), vec![NeighbourEvent::Dropped { next_hop, frame: 1, cause }]);
    assert_eq!(view(&cache, ip(HOST), 3 * SECOND).state, NeighbourState::Failed);
    assert_eq!((cache.next_ns(), cache.waiting(), cache.is_balanced()), (None, 0, true));
    // The next frame starts a new solicitation.
    cache.hold(ip(HOST), 2, 60, 9 * SECOND).unwrap();
    assert_eq!(events(&mut cache), vec![ask]);
}

#[test]
fn a_late_tick_does_not_ask_in_a_burst() {
    let mut cache = new();
    cache.hold(ip(HOST), 1, 60, 0).unwrap();
    events(&mut cache);
    cache.tick(60 * SECOND);
    assert_eq!(events(&mut cache).len(), 1);
    assert_eq!(cache.next_ns(), Some(61 * SECOND));
}

#[test]
fn reachable_time_is_random_between_15_and_45_seconds() {
    let mut times = vec![];
    for number in 0..200 {
        let host = IpAddr::from([10, 0, 0, number]);
        let mut cache = NeighbourCache::<u32>::new(
            NeighbourTimers::default(),
            NeighbourLimits::default(),
            number.into(),
        );
        cache.solicit(host, 0);
        cache.learn(NeighbourClaim::answer(host, mac(1)), 0);
        let is_fresh =
            |second: &u64| view(&cache, host, second * SECOND).state == NeighbourState::Reachable;
        times.push((0..100).take_while(is_fresh).count());
    }
    let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!((15..=18).contains(least) && (42..=46).contains(most), "{least} to {most}");
}

#[test]
fn a_stale_neighbour_is_used_for_five_seconds_and_then_probed_directly_three_times() {
    let mut cache = reachable();
    let start = 50 * SECOND;
    assert_eq!(view(&cache, ip(HOST), start).state, NeighbourState::Stale);
    assert_eq!(cache.next_ns(), None, "an unused neighbour is not probed");
    assert_eq!(cache.resolve(ip(HOST), start), Some(mac(9)));
    assert_eq!(view(&cache, ip(HOST), start).state, NeighbourState::Delay);
    assert_eq!(cache.next_ns(), Some(start + 5 * SECOND));
    let probe = NeighbourEvent::Solicit { target: ip(HOST), mac: Some(mac(9)) };
    for second in 5..8 {
        cache.tick(start + second * SECOND - 1);
        assert_eq!(events(&mut cache), vec![]);
        cache.tick(start + second * SECOND);
        assert_eq!(events(&mut cache), vec![probe.clone()]);
        assert_eq!(cache.resolve(ip(HOST), start + second * SECOND), Some(mac(9)));
    }
    cache.tick(start + 8 * SECOND);
    let lost = NeighbourEvent::Changed { neighbour: ip(HOST), mac: None };
    assert_eq!(events(&mut cache), vec![lost]);
    assert_eq!(cache.resolve(ip(HOST), start + 8 * SECOND), None);
}

#[test]
fn a_confirmation_during_delay_or_probe_makes_it_reachable_again() {
    for ticks in 0..3 {
        let mut cache = reachable();
        cache.resolve(ip(HOST), 50 * SECOND);
        (0..ticks).for_each(|second| cache.tick((55 + second) * SECOND));
        match ticks {
            0 => cache.confirm(ip(HOST), 58 * SECOND),
            _ => cache.learn(advertisement(9, true, true), 58 * SECOND),
        }
        assert_eq!(view(&cache, ip(HOST), 58 * SECOND).state, NeighbourState::Reachable);
        assert_eq!(cache.next_ns(), None);
    }
}

#[test]
fn an_advertisement_about_nobody_asked_for_is_discarded() {
    let mut cache = new();
    cache.learn(advertisement(9, true, true), 0);
    cache.confirm(ip(HOST), 0);
    assert!(cache.is_empty());
    // A solicited advertisement also does not make a failed neighbour reachable.
    cache.solicit(ip(HOST), 0);
    (1..4).for_each(|second| cache.tick(second * SECOND));
    cache.learn(advertisement(9, true, true), 4 * SECOND);
    assert_eq!(view(&cache, ip(HOST), 4 * SECOND).state, NeighbourState::Failed);
}

#[test]
fn an_advertisement_resolves_and_is_believed_as_far_as_it_is_solicited() {
    for (solicited, state) in [(true, NeighbourState::Reachable), (false, NeighbourState::Stale)] {
        let mut cache = new();
        cache.hold(ip(HOST), 1, 60, 0).unwrap();
        cache.hold(ip(HOST), 2, 60, 0).unwrap();
        // RFC 4861, 7.2.5: for an incomplete entry, an advertisement without a link-layer address
        // is discarded.
        let without = NeighbourClaim { mac: None, ..advertisement(9, true, true) };
        cache.learn(without, 1);
        assert_eq!(view(&cache, ip(HOST), 1).state, NeighbourState::Incomplete);
        // For an incomplete entry, the override flag does not matter.
        cache.learn(advertisement(9, solicited, false), 2);
        assert_eq!(view(&cache, ip(HOST), 2).state, state);
        let sent: Vec<u32> = events(&mut cache)
            .into_iter()
            .filter_map(|event| match event {
                NeighbourEvent::Released { frame, mac: to, .. } if to == mac(9) => Some(frame),
                _ => None,
            })
            .collect();
        assert_eq!(sent, [1, 2]);
    }
}

/// The effect of an advertisement on a reachable and on a stale entry, according to RFC 4861,
/// appendix C.
#[test]
fn advertisements_change_known_neighbours_as_the_table_of_the_rfc_says() {
    use NeighbourState::{Reachable, Stale};
    for (start, last, solicited, overrides, state, address) in [
        (Reachable, 9, true, false, Reachable, 9),
        (Reachable, 9, false, true, Reachable, 9),
        (Reachable, 9, false, false, Reachable, 9),
        (Reachable, 8, true, false, Stale, 9),
        (Reachable, 8, false, false, Stale, 9),
        (Reachable, 8, true, true, Reachable, 8),
        (Reachable, 8, false, true, Stale, 8),
        (Stale, 9, true, false, Reachable, 9),
        (Stale, 9, false, true, Stale, 9),
        (Stale, 8, true, false, Stale, 9),
        (Stale, 8, false, false, Stale, 9),
        (Stale, 8, true, true, Reachable, 8),
        (Stale, 8, false, true, Stale, 8),
    ] {
        let mut cache = reachable();
        let now = if start == Reachable { SECOND } else { 50 * SECOND };
        assert_eq!(view(&cache, ip(HOST), now).state, start);
        cache.learn(advertisement(last, solicited, overrides), now);
        let after = view(&cache, ip(HOST), now);
        let case = (start, last, solicited, overrides);
        assert_eq!((after.state, after.mac), (state, Some(mac(address))), "{case:?}");
        let event = events(&mut cache);
        assert_eq!(event.len(), usize::from(address == 8), "{case:?}: {event:?}");
    }
}

#[test]
fn the_router_flag_follows_advertisements_and_not_solicitations() {
    let mut cache = reachable();
    let router = NeighbourClaim { is_router: Some(true), ..advertisement(9, true, true) };
    cache.learn(router, 1);
    assert!(view(&cache, ip(HOST), 1).is_router);
    cache.learn(NeighbourClaim::question(ip(HOST), mac(9)), 2);
    assert!(view(&cache, ip(HOST), 2).is_router);
    // RFC 4861, 7.2.5: if an advertisement has another MAC address and no override flag, a
    // reachable entry becomes stale, and nothing else of an entry is updated.
    cache.learn(advertisement(8, true, false), 3);
    assert!(view(&cache, ip(HOST), 3).is_router);
    cache.learn(advertisement(9, true, true), 4);
    assert!(!view(&cache, ip(HOST), 4).is_router);
}

#[test]
fn a_solicitation_makes_a_stale_entry_and_changes_only_another_address() {
    let mut cache = new();
    cache.learn(NeighbourClaim::question(ip(HOST), mac(9)), 0);
    assert_eq!(view(&cache, ip(HOST), 0).state, NeighbourState::Stale);
    let mut cache = reachable();
    cache.learn(NeighbourClaim::question(ip(HOST), mac(9)), 1);
    assert_eq!(view(&cache, ip(HOST), 1).state, NeighbourState::Reachable);
    cache.learn(NeighbourClaim::question(ip(HOST), mac(8)), 2);
    let after = view(&cache, ip(HOST), 2);
    assert_eq!((after.state, after.mac), (NeighbourState::Stale, Some(mac(8))));
}

#[test]
fn a_full_queue_gives_up_its_oldest_frame() {
    let limits = NeighbourLimits {
        frames_per_neighbour: 3,
        bytes_per_neighbour: 1000,
        ..NeighbourLimits::default()
    };
    let displaced = |cache: &mut NeighbourCache<u32>| -> Vec<u32> {
        let drops = events(cache).into_iter().filter_map(|event| match event {
            NeighbourEvent::Dropped { frame, cause: HoldDropCause::Displaced, .. } => Some(frame),
            _ => None,
        });
        drops.collect()
    };
    let mut by_frames = cache(limits);
    (0..5).for_each(|frame| by_frames.hold(ip(HOST), frame, 10, 0).unwrap());
    assert_eq!((displaced(&mut by_frames), by_frames.waiting()), (vec![0, 1], 3));
    let mut by_bytes = cache(limits);
    by_bytes.hold(ip(HOST), 0, 400, 0).unwrap();
    by_bytes.hold(ip(HOST), 1, 400, 0).unwrap();
    by_bytes.hold(ip(HOST), 2, 900, 0).unwrap();
    assert_eq!((displaced(&mut by_bytes), by_bytes.waiting()), (vec![0, 1], 1));
    assert_eq!(by_bytes.hold(ip(HOST), 3, 1001, 0), Err((3, HoldRefusal::TooLong)));
    assert!(by_bytes.is_balanced());
    assert_eq!(by_bytes.counters().refused, 1);
}

#[test]
fn a_neighbour_that_the_kernel_keeps_changes_only_when_the_kernel_says_so() {
    let mut cache = new();
    cache.hold(ip(HOST), 1, 60, 0).unwrap();
    // The caller asks the kernel, which answers through netlink.
    assert!(cache.install(ip(HOST), mac(9), 1));
    let event = events(&mut cache);
    assert_eq!(
        event[1..],
        [
            NeighbourEvent::Changed { neighbour: ip(HOST), mac: Some(mac(9)) },
            NeighbourEvent::Released { next_hop: ip(HOST), mac: mac(9), frame: 1 },
        ]
    );
    cache.learn(advertisement(8, true, true), 2);
    cache.confirm(ip(HOST), 2);
    cache.flush();
    assert_eq!(cache.resolve(ip(HOST), 1000 * SECOND), Some(mac(9)));
    assert_eq!((cache.next_ns(), events(&mut cache)), (None, vec![]));
    // The kernel reports another MAC address, and then a failure.
    assert!(cache.install(ip(HOST), mac(8), 3));
    assert_eq!(cache.resolve(ip(HOST), 3), Some(mac(8)));
    cache.fail(ip(HOST));
    assert_eq!(cache.resolve(ip(HOST), 4), None);
    cache.hold(ip(HOST), 2, 60, 5).unwrap();
    cache.fail(ip(HOST));
    let dropped = events(&mut cache).pop().unwrap();
    let cause = HoldDropCause::Unanswered;
    assert_eq!(dropped, NeighbourEvent::Dropped { next_hop: ip(HOST), frame: 2, cause });
    assert!(cache.is_balanced());
}

#[test]
fn a_link_that_goes_down_forgets_neighbours_and_counts_their_frames() {
    let mut cache = reachable();
    let other = ip("fd00::8");
    cache.hold(other, 1, 60, 0).unwrap();
    cache.flush();
    assert!(cache.is_empty() && cache.is_balanced());
    assert_eq!(cache.counters().dropped_for(HoldDropCause::Flushed), 1);
    assert_eq!(cache.next_ns(), None);
    assert_eq!(cache.resolve(ip(HOST), 1), None);
}

#[test]
fn waiting_frames_are_listed_in_their_order_until_they_are_released() {
    let mut cache = new();
    let other = "fd00::8";
    for (host, frame) in [(HOST, 1), (other, 2), (HOST, 3)] {
        cache.hold(ip(host), frame, 60, 0).unwrap();
    }
    assert_eq!(cache.waiting_frames().copied().collect::<vec::Vec<_>>(), vec![2, 1, 3]);
    cache.learn(NeighbourClaim::answer(ip(HOST), mac(9)), 1);
    assert_eq!(cache.waiting_frames().copied().collect::<vec::Vec<_>>(), vec![2]);
}
