//! Tests of the counters of `nat` instances.

use super::*;

/// Counters that all have different values, counted up from `first`.
fn numbered(first: u64) -> NatCounters {
    let [out, inwards, untouched, created, ended, port_taken] =
        core::array::from_fn(|at| first + at as u64);
    let [malformed, refused, no_address, exhausted, collision, full, unknown_fragment] =
        core::array::from_fn(|at| first + 6 + at as u64);
    NatCounters {
        out,
        inwards,
        untouched,
        created,
        ended,
        port_taken,
        malformed,
        refused,
        no_address,
        exhausted,
        collision,
        full,
        unknown_fragment,
    }
}

#[test]
fn counters_of_two_instances_add_up_field_by_field() {
    let mut sum = numbered(10);
    sum.add(&numbered(10));
    sum.add(&NatCounters::default());
    let twice = |field: fn(&NatCounters) -> u64| field(&sum) == 2 * field(&numbered(10));
    assert!(twice(|it| it.out) && twice(|it| it.inwards) && twice(|it| it.untouched));
    assert!(twice(|it| it.created) && twice(|it| it.ended) && twice(|it| it.port_taken));
    assert!(twice(|it| it.malformed) && twice(|it| it.refused) && twice(|it| it.no_address));
    assert!(twice(|it| it.exhausted) && twice(|it| it.collision) && twice(|it| it.full));
    assert!(twice(|it| it.unknown_fragment));
}

#[test]
fn all_drops_are_the_sum_of_their_reasons() {
    assert_eq!(numbered(10).dropped(), (16..=22).sum::<u64>());
}
