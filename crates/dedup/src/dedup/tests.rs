use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn dedup(window_ns: Option<u64>, frames: Option<usize>) -> Dedup {
    Dedup::new(DedupLimits { window_ns, frames, bytes: DedupLimits::DEFAULT_BYTES }, [3, 4])
        .unwrap()
}

#[test]
fn a_copy_within_the_window_is_a_duplicate_and_one_after_it_is_fresh() {
    let mut dedup = dedup(Some(100), None);
    assert_eq!(dedup.offer(0, b"a"), DedupVerdict::Fresh);
    assert_eq!(dedup.offer(100, b"a"), DedupVerdict::Duplicate);
    assert_eq!(dedup.offer(101, b"a"), DedupVerdict::Fresh);
}

#[test]
fn duplicates_do_not_prolong_the_window() {
    let mut dedup = dedup(Some(100), None);
    let verdicts: Vec<_> = (0..6).map(|i| dedup.offer(i * 60, b"a")).collect();
    use DedupVerdict::{Duplicate as D, Fresh as F};
    assert_eq!(verdicts, [F, D, F, D, F, D]);
}

#[test]
fn only_the_last_so_many_frames_are_remembered() {
    let mut dedup = dedup(None, Some(2));
    for frame in [b"a", b"b", b"c"] {
        assert_eq!(dedup.offer(0, frame), DedupVerdict::Fresh);
    }
    assert_eq!(dedup.offer(0, b"b"), DedupVerdict::Duplicate);
    assert_eq!(dedup.offer(0, b"a"), DedupVerdict::Fresh);
    assert_eq!(dedup.len(), 2);
}

#[test]
fn frames_that_differ_in_one_byte_or_in_length_are_different() {
    let mut dedup = dedup(None, Some(100));
    let frames = [vec![0; 60], vec![0; 61], vec![], {
        let mut f = vec![0; 60];
        f[59] = 1;
        f
    }];
    assert!(frames.iter().all(|frame| dedup.offer(0, frame) == DedupVerdict::Fresh));
    assert!(frames.iter().all(|frame| dedup.offer(0, frame) == DedupVerdict::Duplicate));
}

#[test]
fn equal_hashes_of_different_frames_are_told_apart() {
    let mut dedup = dedup(None, Some(100));
    assert_eq!(dedup.offer(0, b"a"), DedupVerdict::Fresh);
    // `b` is offered with the hash of `a`: only the bytes decide whether frames are equal.
    let hash = dedup.hash(b"a");
    assert!(dedup.is_known(hash, b"a"));
    assert!(!dedup.is_known(hash, b"b"));
}

#[test]
fn what_does_not_fit_the_memory_leaves_early_and_is_counted() {
    let limits = DedupLimits { window_ns: Some(1 << 40), frames: None, bytes: 128 << 10 };
    let mut dedup = Dedup::new(limits, [1, 2]).unwrap();
    for i in 0..200u8 {
        assert_eq!(dedup.offer(0, &[i; 1000]), DedupVerdict::Fresh);
    }
    assert_eq!(dedup.len(), 131);
    assert_eq!(dedup.counters().forgotten_early, 69);
    assert_eq!(dedup.offer(0, &[199; 1000]), DedupVerdict::Duplicate);
    assert_eq!(dedup.offer(0, &[0; 1000]), DedupVerdict::Fresh);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let make = |window_ns, frames, bytes| {
        Dedup::new(DedupLimits { window_ns, frames, bytes }, [0; 2]).map(|_| ()).unwrap_err()
    };
    assert_eq!(make(Some(1), Some(0), 1 << 20), DedupLimitError::NoFrames);
    assert_eq!(make(None, None, 1 << 20), DedupLimitError::Unbounded);
    assert_eq!(make(Some(1), None, 1000), DedupLimitError::Memory(1000));
}

#[test]
fn time_that_goes_back_counts_as_the_latest() {
    let mut dedup = dedup(Some(10), None);
    assert_eq!(dedup.offer(1000, b"a"), DedupVerdict::Fresh);
    assert_eq!(dedup.offer(5, b"a"), DedupVerdict::Duplicate);
    assert_eq!(dedup.offer(5, b"b"), DedupVerdict::Fresh);
    assert_eq!(dedup.offer(1010, b"b"), DedupVerdict::Duplicate);
}

#[test]
fn held_frames_come_out_in_order_when_they_leave_the_window() {
    let mut dedup = dedup(Some(100), Some(10)).holding();
    for (at, frame) in [(0, b"a"), (10, b"b"), (20, b"a"), (30, b"c")] {
        dedup.offer(at, frame);
    }
    assert_eq!(dedup.due(100), None);
    assert_eq!(dedup.due_ns(), Some(101));
    assert_eq!(dedup.due(101), Some(&b"a"[..]));
    dedup.release();
    assert_eq!(dedup.due(101), None);
    assert_eq!(dedup.due(1000), Some(&b"b"[..]));
    dedup.release();
    assert_eq!(dedup.oldest(), Some(&b"c"[..]));
    dedup.release();
    assert!(dedup.is_empty());
    assert_eq!(dedup.due_ns(), None);
}

#[test]
fn a_full_window_that_holds_asks_for_the_oldest_to_go() {
    let mut dedup = dedup(None, Some(2)).holding();
    assert_eq!(dedup.offer(0, b"a"), DedupVerdict::Fresh);
    assert_eq!(dedup.offer(0, b"b"), DedupVerdict::Fresh);
    assert_eq!(dedup.offer(0, b"c"), DedupVerdict::Full);
    assert_eq!(dedup.offer(0, b"b"), DedupVerdict::Duplicate);
    dedup.release();
    assert_eq!(dedup.offer(0, b"c"), DedupVerdict::Fresh);
    let tally = dedup.counters();
    assert_eq!((tally.frames, tally.fresh, tally.duplicates), (4, 3, 1));
}

#[test]
fn a_held_frame_that_waits_beyond_its_window_makes_no_duplicates() {
    let mut dedup = dedup(Some(10), None).holding();
    assert_eq!(dedup.offer(0, b"a"), DedupVerdict::Fresh);
    assert_eq!(dedup.offer(100, b"a"), DedupVerdict::Fresh);
    assert_eq!(dedup.len(), 2);
}

/// The definition of a duplicate, implemented literally.
struct Model {
    limits: DedupLimits,
    accepted: Vec<(u64, Vec<u8>)>,
}

impl Model {
    fn offer(&mut self, now_ns: u64, frame: &[u8]) -> DedupVerdict {
        let recent = self.limits.frames.unwrap_or(usize::MAX);
        let known = self.accepted.iter().rev().take(recent).any(|(at, other)| {
            self.limits.window_ns.is_none_or(|window| now_ns - at <= window) && other == frame
        });
        if known {
            return DedupVerdict::Duplicate;
        }
        self.accepted.push((now_ns, frame.to_vec()));
        DedupVerdict::Fresh
    }
}

proptest! {
    #[test]
    fn verdicts_are_those_of_the_definition(
        window in prop::option::of(0u64..200),
        frames in prop::option::of(1usize..12),
        steps in prop::collection::vec((0u64..60, 0u8..20, 0usize..70), 1..300),
    ) {
        prop_assume!(window.is_some() || frames.is_some());
        let limits = DedupLimits { window_ns: window, frames, bytes: DedupLimits::DEFAULT_BYTES };
        let mut dedup = Dedup::new(limits, [5, 6]).unwrap();
        let mut model = Model { limits, accepted: Vec::new() };
        let mut now = 0;
        for (pause, byte, len) in steps {
            now += pause;
            let frame = vec![byte; len];
            prop_assert_eq!(dedup.offer(now, &frame), model.offer(now, &frame));
        }
        let tally = dedup.counters();
        prop_assert_eq!(tally.frames, tally.fresh + tally.duplicates);
    }
}
