use std::collections::HashMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::{Generator, GeneratorShare, TrafficPattern};

fn stamp(stream: u16, number: u64) -> Stamp {
    Stamp { stream, number, sent_ns: None }
}

fn tally(numbers: &[u64]) -> TrafficCounters {
    let mut tracker = Tracker::new(StampCheck::Mark);
    for &number in numbers {
        tracker.observe_stamp(stamp(0, number), 0);
    }
    tracker.report().total
}

/// A reference that remembers all frames. It is obviously correct, but its memory has no limit.
#[derive(Default)]
struct Naive {
    seen: HashMap<u64, u64>,
    greatest: Option<u64>,
    tally: TrafficCounters,
}

impl Naive {
    fn note(&mut self, number: u64) {
        self.tally.frames += 1;
        self.tally.received += 1;
        let behind = self.greatest.map_or(0, |greatest| greatest.saturating_sub(number));
        if behind >= Tracker::WINDOW {
            self.tally.late += 1;
            return;
        }
        if self.seen.insert(number, 1).is_some() {
            self.tally.duplicates += 1;
            return;
        }
        self.tally.new += 1;
        if behind > 0 {
            self.tally.reordered += 1;
            self.tally.max_displacement = self.tally.max_displacement.max(behind);
        }
        self.greatest = self.greatest.max(Some(number));
    }

    fn tally(&self) -> TrafficCounters {
        let lowest = self.seen.keys().min();
        let expected = self.greatest.zip(lowest).map_or(0, |(high, low)| high - low + 1);
        TrafficCounters { expected, lost: expected - self.seen.len() as u64, ..self.tally }
    }
}

#[test]
fn gap_is_lost_until_it_is_filled() {
    assert_eq!(tally(&[0, 1, 4]).lost, 2);
    let filled = tally(&[0, 1, 4, 2, 3]);
    assert_eq!((filled.lost, filled.reordered, filled.max_displacement), (0, 2, 2));
}

#[test]
fn number_seen_again_is_a_duplicate_and_no_reordering() {
    let tally = tally(&[5, 6, 5, 6, 6]);
    assert_eq!((tally.duplicates, tally.reordered, tally.lost), (3, 0, 0));
}

#[test]
fn frame_overtaken_at_the_start_is_expected_after_all() {
    let tally = tally(&[1, 0, 2]);
    assert_eq!((tally.expected, tally.lost, tally.reordered), (3, 0, 1));
}

#[test]
fn number_beyond_the_window_is_late_and_stays_lost() {
    let within = tally(&[0, 1, Tracker::WINDOW + 1, 2]);
    assert_eq!((within.late, within.reordered), (0, 1));
    let beyond = tally(&[0, 1, Tracker::WINDOW + 2, 2]);
    assert_eq!((beyond.late, beyond.reordered), (1, 0));
    assert_eq!(beyond.lost, Tracker::WINDOW);
}

#[test]
fn numbers_wrap_at_48_bits_without_loss() {
    let top = 1 << 48;
    let tally = tally(&[top - 2, 0, top - 1, 1]);
    assert_eq!((tally.lost, tally.reordered, tally.late), (0, 1, 0));
}

#[test]
fn stranger_who_jumps_for_ever_overflows_nothing() {
    let mut tracker = Tracker::new(StampCheck::Mark);
    let jump = (1 << 47) - 1;
    for n in 0..1000u64 {
        tracker.observe_stamp(stamp(0, n.wrapping_mul(jump)), 0);
        tracker.observe_stamp(stamp(1, u64::MAX - n), 0);
    }
    let total = tracker.report().total;
    assert_eq!(total.received, 2000);
    assert!(total.late > 0);
}

#[test]
fn streams_are_counted_apart_and_summed_up() {
    let mut tracker = Tracker::new(StampCheck::Mark);
    for (stream, number) in [(9, 0), (3, 7), (9, 2), (3, 8)] {
        tracker.observe_stamp(stamp(stream, number), 0);
    }
    let streams = tracker.report().streams;
    assert_eq!((streams[0].stream, streams[1].stream), (3, 9));
    assert_eq!((streams[0].first, streams[0].next), (7, 9));
    assert_eq!((streams[0].counters.lost, streams[1].counters.lost), (0, 1));
    assert_eq!(streams[0].lost_of(10), 8);
    assert_eq!((tracker.report().total.received, tracker.report().total.lost), (4, 1));
}

#[test]
fn streams_beyond_the_limit_cost_no_memory() {
    let mut tracker = Tracker::new(StampCheck::Mark);
    for stream in 0..300 {
        tracker.observe_stamp(stamp(stream, 0), 0);
    }
    assert_eq!(tracker.report().streams.len(), Tracker::MAX_STREAMS);
    assert_eq!((tracker.report().total.untracked, tracker.report().total.received), (44, 256));
}

#[test]
fn frames_of_others_are_foreign_and_damaged_ones_corrupt() {
    let mut generator =
        Generator::new(&TrafficPattern::default(), 0, GeneratorShare::ONLY).unwrap();
    let mut frame = [0; 60];
    let mut tracker = Tracker::new(StampCheck::Checksum);
    tracker.observe(&frame, 0);
    tracker.observe(&[], 0);
    generator.write(0, &mut frame).unwrap();
    frame[59] ^= 1;
    tracker.observe(&frame, 0);
    frame[59] ^= 1;
    tracker.observe(&frame[..50], 0);
    tracker.observe(&frame, 0);
    let tally = tracker.report().total;
    assert_eq!((tally.frames, tally.received), (5, 1));
    assert_eq!((tally.foreign, tally.corrupt), (2, 2));
}

#[test]
fn age_is_given_for_new_frames_only_and_never_negative() {
    let mut tracker = Tracker::new(StampCheck::Mark);
    let timed = |number, sent_ns| Stamp { sent_ns: Some(sent_ns), ..stamp(0, number) };
    assert_eq!(tracker.observe_stamp(timed(0, 100), 130), Some(30));
    assert_eq!(tracker.observe_stamp(timed(0, 100), 140), None);
    assert_eq!(tracker.observe_stamp(timed(1, 200), 199), None);
    assert_eq!(tracker.observe_stamp(stamp(0, 2), 300), None);
    assert_eq!(tracker.report().total.ahead_of_clock, 1);
}

/// Generates frame numbers with small steps up and down, and with jumps of up to 9000, which is
/// more than the window.
fn arrivals() -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![
        8 => -5i64..8,
        2 => -200i64..300,
        1 => -9000i64..9000,
    ];
    let start = 0u64..20_000;
    (start, prop::collection::vec(step, 0..400)).prop_map(|(start, steps)| {
        let walk = steps.into_iter().scan(start, |at, step| {
            *at = at.saturating_add_signed(step);
            Some(*at)
        });
        walk.collect()
    })
}

proptest! {
    #[test]
    fn tracker_agrees_with_one_that_remembers_everything(numbers in arrivals()) {
        let mut naive = Naive::default();
        let mut tracker = Tracker::new(StampCheck::Mark);
        for number in numbers {
            naive.note(number);
            tracker.observe_stamp(stamp(0, number), 0);
            prop_assert_eq!(tracker.report().total, naive.tally());
        }
    }

    #[test]
    fn counts_balance_whatever_arrives(
        stamps in prop::collection::vec((0u16..400, any::<u64>()), 0..600)
    ) {
        let mut tracker = Tracker::new(StampCheck::Mark);
        for (stream, number) in stamps {
            tracker.observe_stamp(stamp(stream, number & 0xffff_ffff_ffff), 0);
        }
        let t = tracker.report().total;
        prop_assert_eq!(t.frames, t.received + t.foreign + t.corrupt + t.untracked);
        prop_assert_eq!(t.received, t.new + t.duplicates + t.late);
        prop_assert_eq!(t.expected, t.received + t.lost - t.duplicates - t.late);
    }

    #[test]
    fn trackers_that_share_the_queues_find_the_same_loss_as_one(
        arrivals in prop::collection::vec((0u16..3, 0u64..2000, 0usize..4), 0..500)
    ) {
        let mut seen = HashMap::new();
        let mut whole = Tracker::new(StampCheck::Mark);
        let mut parts = std::vec![Tracker::new(StampCheck::Mark); 4];
        for (stream, number, queue) in arrivals {
            // A duplicate arrives on the same queue as its original.
            let queue = *seen.entry((stream, number)).or_insert(queue);
            whole.observe_stamp(stamp(stream, number), 0);
            parts[queue].observe_stamp(stamp(stream, number), 0);
        }
        let mut merged = TrackerReport::default();
        parts.iter().for_each(|part| merged.merge(&part.report()));
        let same_but_for_order = |report: TrackerReport| {
            let blur = |tally| TrafficCounters { reordered: 0, max_displacement: 0, ..tally };
            let streams = report.streams.into_iter();
            let streams = streams.map(|s| StreamCounters { counters: blur(s.counters), ..s });
            (blur(report.total), streams.collect::<Vec<_>>())
        };
        prop_assert_eq!(same_but_for_order(merged), same_but_for_order(whole.report()));
    }

    #[test]
    fn any_bytes_can_be_observed(frame in prop::collection::vec(any::<u8>(), 0..120)) {
        let mut tracker = Tracker::new(StampCheck::Checksum);
        tracker.observe(&frame, 0);
        prop_assert_eq!(tracker.report().total.frames, 1);
    }
}
