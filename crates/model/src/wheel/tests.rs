use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::Stream;

/// The reference: a heap ordered by (time, push order).
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Heap {
    fn push(&mut self, release_ns: u64, handle: u32) {
        self.heap.push(Reverse((release_ns, handle)));
    }

    fn pop_due(&mut self, now_ns: u64) -> Option<u32> {
        self.next_release_ns().filter(|&next| next <= now_ns)?;
        self.heap.pop().map(|Reverse((_, handle))| handle)
    }

    fn next_release_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((next, _))| *next)
    }
}

fn drain(wheel: &mut Wheel<u32>, now_ns: u64) -> Vec<u32> {
    core::iter::from_fn(|| wheel.pop_due(now_ns)).collect()
}

#[test]
fn handles_of_one_slot_leave_in_exact_order() {
    let mut wheel = Wheel::new();
    for (release_ns, handle) in [(5_003, 3), (5_001, 1), (5_002, 2), (5_000, 0)] {
        wheel.push(release_ns, handle);
    }
    assert_eq!(drain(&mut wheel, 5_001), [0, 1]);
    assert_eq!(wheel.next_release_ns(), Some(5_002));
    assert_eq!(drain(&mut wheel, 5_003), [2, 3]);
}

#[test]
fn equal_times_keep_the_order_of_pushing_over_all_levels() {
    let release_ns = (1 << 50) + 77;
    let mut wheel = Wheel::new();
    wheel.push(release_ns, 0);
    // At each step, time is closer to the release time, so the next handle goes to a lower level.
    for (handle, exponent) in [(1, 40), (2, 30), (3, 20), (4, 15), (5, 9), (6, 3)] {
        assert_eq!(wheel.pop_due(release_ns - (1 << exponent)), None);
        wheel.push(release_ns, handle);
    }
    assert_eq!(drain(&mut wheel, release_ns), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_crowd_in_one_slot_leaves_in_exact_order() {
    let counts = [2, 3, 8, 9, 16, 17, 32, 33, 47, 48, 5_000];
    for (count, times) in counts.into_iter().flat_map(|count| [(count, 1 << SLOT_BITS), (count, 5)])
    {
        let mut stream = Stream::new(count, "test/crowd");
        let (mut wheel, mut heap) = (Wheel::new(), Heap::default());
        for handle in 0..count as u32 {
            let release_ns = (77 << SLOT_BITS) + stream.below(times);
            wheel.push(release_ns, handle);
            heap.push(release_ns, handle);
        }
        while let Some(expected) = heap.pop_due(u64::MAX) {
            assert_eq!(wheel.pop_due(u64::MAX), Some(expected));
        }
        assert!(wheel.is_empty());
    }
}

#[test]
fn the_ends_of_time_are_reached() {
    let mut wheel = Wheel::new();
    wheel.push(u64::MAX, 2);
    wheel.push(0, 0);
    wheel.push(u64::MAX - 1, 1);
    assert_eq!(drain(&mut wheel, 0), [0]);
    assert_eq!(drain(&mut wheel, u64::MAX - 2), []);
    assert_eq!(wheel.next_release_ns(), Some(u64::MAX - 1));
    assert_eq!(drain(&mut wheel, u64::MAX), [1, 2]);
    assert!(wheel.is_empty());
}

#[test]
fn a_handle_that_is_late_already_leaves_at_once() {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.pop_due(1_000_000), None);
    wheel.push(10, 1);
    wheel.push(5, 0);
    assert_eq!(wheel.next_release_ns(), Some(5));
    assert_eq!(drain(&mut wheel, 1_000_000), [0, 1]);
}

#[test]
fn places_are_used_again() {
    let mut wheel = Wheel::new();
    for round in 0..3000 {
        for handle in 0..10 {
            wheel.push(round * 5_000 + 2_000 + u64::from(handle), handle);
        }
        assert_eq!(drain(&mut wheel, round * 5_000 + 4_000).len(), 10);
    }
    let lists: usize = wheel.levels.iter().flatten().map(|level| level.lists.len()).sum();
    assert!(lists <= 4, "{lists}");
}

#[test]
fn a_long_run_with_random_delays_equals_a_heap() {
    let mut stream = Stream::new(3, "test/wheel");
    let (mut wheel, mut heap) = (Wheel::new(), Heap::default());
    let mut now_ns = 1_700_000_000_000_000_000;
    for handle in 0..200_000 {
        now_ns += stream.below(2_000);
        let delay_ns = stream.next_u64() >> (35 + stream.below(28));
        wheel.push(now_ns + delay_ns, handle);
        heap.push(now_ns + delay_ns, handle);
        while let Some(expected) = heap.pop_due(now_ns) {
            assert_eq!(wheel.pop_due(now_ns), Some(expected));
        }
        assert_eq!(wheel.pop_due(now_ns), None);
        assert_eq!(wheel.next_release_ns(), heap.next_release_ns());
    }
    assert_eq!(wheel.len(), heap.heap.len());
}

/// Generates times that are near, far, or next to the boundaries of slots and levels.
fn time() -> impl Strategy<Value = u64> {
    let border = (0u32..64, -3i64..4)
        .prop_map(|(exponent, off)| (1u64 << exponent).wrapping_add_signed(off));
    prop_oneof![0u64..5_000, 0u64..5_000_000, border, any::<u64>()]
}

proptest! {
    #[test]
    fn wheel_behaves_as_a_heap(
        steps in prop::collection::vec((0u8..4, time()), 0..200)
    ) {
        let (mut wheel, mut heap) = (Wheel::new(), Heap::default());
        let mut now_ns = 0u64;
        for (handle, (step, time_ns)) in (0u32..).zip(steps) {
            match step {
                0 | 1 => {
                    let release_ns = now_ns.saturating_add(time_ns);
                    wheel.push(release_ns, handle);
                    heap.push(release_ns, handle);
                }
                2 => {
                    wheel.push(time_ns, handle);
                    heap.push(time_ns, handle);
                }
                _ => {
                    now_ns = now_ns.saturating_add(time_ns >> 8);
                    while let Some(expected) = heap.pop_due(now_ns) {
                        prop_assert_eq!(wheel.pop_due(now_ns), Some(expected));
                    }
                    prop_assert_eq!(wheel.pop_due(now_ns), None);
                }
            }
            prop_assert_eq!(wheel.len(), heap.heap.len());
            prop_assert_eq!(wheel.next_release_ns(), heap.next_release_ns());
        }
    }
}
