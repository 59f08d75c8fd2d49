//! Compares schedulers with simple models. The models follow the same definitions, but use exact
//! numbers, and searches instead of heaps and bit masks.

use std::collections::{BTreeMap, VecDeque};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::{FlowScheduler, QueueShare};
use super::weight;
use crate::spec::SchedKind;

/// WF2Q+ as its paper defines it. Times are in units of 1/840 of the time that a byte takes at
/// weight 1. This is exact as long as the sum of the weights is at most 8.
#[derive(Default)]
struct PlainWf2q {
    queues: [PlainWf2qQueue; 4],
    now: u128,
    latest: u128,
}

#[derive(Clone, Copy, Default)]
struct PlainWf2qQueue {
    weight: u128,
    start: u128,
    finish: u128,
    has_packets: bool,
}

const UNITS_PER_BYTE: u128 = 840;

impl PlainWf2q {
    fn weights(&self) -> u128 {
        self.queues.iter().filter(|queue| queue.has_packets).map(|queue| queue.weight).sum()
    }

    fn arrive(&mut self, index: usize, len: u32) {
        if self.weights() == 0 {
            self.now = self.latest;
        }
        let queue = &mut self.queues[index];
        queue.start = queue.finish.max(self.now);
        queue.finish = queue.start + u128::from(len) * UNITS_PER_BYTE / queue.weight;
        queue.has_packets = true;
    }

    /// Returns whether this queue may send next: it must be eligible, and no eligible queue may
    /// finish earlier.
    fn may_send(&mut self, index: usize) -> bool {
        let waiting: Vec<_> = self.queues.iter().filter(|queue| queue.has_packets).collect();
        let first = waiting.iter().map(|queue| queue.start).min().unwrap();
        let now = self.now.max(first);
        let finishes = waiting.iter().filter(|queue| queue.start <= now).map(|queue| queue.finish);
        let (chosen, least) = (self.queues[index], finishes.min().unwrap());
        self.now = now;
        chosen.has_packets && chosen.start <= now && chosen.finish == least
    }

    fn sent(&mut self, index: usize, len: u32, next: Option<u32>) {
        let len = u128::from(len) * UNITS_PER_BYTE;
        self.now += len / self.weights();
        let queue = &mut self.queues[index];
        queue.start += len / queue.weight;
        self.latest = self.latest.max(queue.start);
        queue.has_packets = next.is_some();
        let next = u128::from(next.unwrap_or(0)) * UNITS_PER_BYTE;
        queue.finish = queue.start + next / queue.weight;
    }
}

/// QFQ as its paper defines it. Queues are in groups of slots. The eligible group with the earliest
/// finish sends. An empty queue that gets a packet starts as in `dn_sched_qfq.c`. As in that file,
/// a slot is a stack: the queue that was added last sends first.
#[derive(Default)]
struct PlainQfq {
    queues: Vec<PlainQfqQueue>,
    /// The queues, by the number of their group and the start of their slot.
    groups: BTreeMap<u32, BTreeMap<u128, Vec<usize>>>,
    now: u128,
}

#[derive(Clone, Copy, Default)]
struct PlainQfqQueue {
    weight: u128,
    lmax: u32,
    start: u128,
    finish: u128,
    has_packets: bool,
}

impl PlainQfqQueue {
    /// The virtual time that `len` bytes take. A byte at weight 1 takes 2^28.
    fn span(&self, len: u32) -> u128 {
        (u128::from(len) << 28) / self.weight
    }

    /// The number of the queue's group. Its slot length is the smallest power of two that is not
    /// less than the virtual time of `lmax` bytes.
    fn group(&self) -> u32 {
        (0..).find(|&group| 1 << group >= self.span(self.lmax)).unwrap()
    }
}

fn slot_of(time: u128, group: u32) -> u128 {
    time - time % (1 << group)
}

impl PlainQfq {
    fn weights(&self) -> u128 {
        self.queues.iter().map(|queue| queue.weight).sum()
    }

    /// Returns the finish and the number of the eligible group with the earliest finish, among the
    /// groups from `first` on.
    fn ready(&self, first: u32) -> Option<(u128, u32)> {
        let starts = self
            .groups
            .range(first..)
            .map(|(&group, slots)| (group, *slots.keys().next().unwrap()));
        starts
            .filter(|one| one.1 <= self.now)
            .map(|(group, start)| (start + (2 << group), group))
            .min()
    }

    fn next(&self) -> Option<usize> {
        let (_, group) = self.ready(0)?;
        self.groups[&group].values().next()?.last().copied()
    }

    fn arrive(&mut self, index: usize, len: u32) {
        let (group, finish) = (self.queues[index].group(), self.queues[index].finish);
        let start = self.fresh_start(group, finish);
        let queue = &mut self.queues[index];
        queue.has_packets = true;
        (queue.start, queue.finish) = (start, start + queue.span(len));
        if !self.groups.contains_key(&group) && self.ready(0).is_none() {
            self.now = self.now.max(slot_of(start, group));
        }
        self.insert(index, group);
    }

    /// Returns the start of an empty queue that gets a packet, as in `qfq_update_start`. It is the
    /// finish of the queue's last packet, unless this finish is in the past or too far ahead.
    fn fresh_start(&self, group: u32, finish: u128) -> u128 {
        let (slot, limit) = (slot_of(finish, group), slot_of(self.now, group) + (1 << group));
        if finish > self.now && slot <= limit {
            return finish;
        }
        match self.ready(group) {
            Some((next, _)) if slot > next => next.min(limit).max(self.now),
            _ => self.now,
        }
    }

    fn insert(&mut self, index: usize, group: u32) {
        let slots = self.groups.entry(group).or_default();
        let queue = &mut self.queues[index];
        let slot = slot_of(queue.start, group);
        let last = slots.keys().next().map_or(slot, |first| first + (62 << group));
        let early = slot.saturating_sub(last);
        (queue.start, queue.finish) = (queue.start - early, queue.finish - early);
        slots.entry(slot - early).or_default().push(index);
    }

    fn sent(&mut self, index: usize, len: u32, next: Option<u32>) {
        let (_, group) = self.ready(0).unwrap();
        self.now += (u128::from(len) << 28) / self.weights();
        let queue = &mut self.queues[index];
        queue.finish = queue.start + queue.span(len);
        queue.has_packets = next.is_some();
        let slots = self.groups.get_mut(&group).unwrap();
        let (&first, stack) = slots.iter_mut().next().unwrap();
        assert_eq!(stack.pop(), Some(index));
        if let Some(next) = next {
            (queue.start, queue.finish) = (queue.finish, queue.finish + queue.span(next));
            self.insert(index, group);
        }
        let slots = self.groups.get_mut(&group).unwrap();
        if slots.get(&first).is_some_and(Vec::is_empty) {
            slots.remove(&first);
        }
        self.groups.retain(|_, slots| !slots.is_empty());
        if self.ready(0).is_none() {
            let starts = self.groups.values().filter_map(|slots| slots.keys().next());
            self.now = starts.min().copied().unwrap_or(self.now);
        }
    }
}

/// A sequence of steps. A step is a packet that arrives, given by queue and length, or `None` for a
/// packet that leaves.
fn traffic(
    queues: usize,
    lens: core::ops::Range<u32>,
) -> impl Strategy<Value = Vec<Option<(usize, u32)>>> {
    let arrival = (0..queues, lens).prop_map(Some);
    prop::collection::vec(prop_oneof![6 => arrival, 5 => Just(None)], 1..400)
}

fn check_wf2q(weights: [u32; 4], steps: Vec<Option<(usize, u32)>>, changes: &[(usize, u32)]) {
    let kind = SchedKind::Wf2q;
    let (mut turns, mut plain) = (FlowScheduler::new(&kind).unwrap(), PlainWf2q::default());
    let mut queues: [VecDeque<u32>; 4] = Default::default();
    let set = |turns: &mut FlowScheduler, plain: &mut PlainWf2q, index: usize, one: u32| {
        turns.set(index as u32, QueueShare::new(&kind, &weight(one)));
        plain.queues[index].weight = one.into();
    };
    weights.iter().enumerate().for_each(|(at, &one)| set(&mut turns, &mut plain, at, one));
    let change_every = steps.len() / (changes.len() + 1) + 1;
    for (number, step) in steps.into_iter().enumerate() {
        if let Some(&(index, one)) = changes.get(number / change_every)
            && number % change_every == change_every - 1
        {
            if number % 2 == 0 {
                turns.remove(index as u32);
                plain.queues[index] = PlainWf2qQueue::default();
                queues[index].clear();
            }
            set(&mut turns, &mut plain, index, one);
        }
        match step {
            Some((index, len)) => {
                queues[index].push_back(len);
                if queues[index].len() == 1 {
                    turns.arrive(index as u32, len);
                    plain.arrive(index, len);
                }
            }
            None => {
                let Some(index) = turns.next() else {
                    assert!(queues.iter().all(VecDeque::is_empty), "the link idles");
                    continue;
                };
                assert!(plain.may_send(index as usize), "step {number}: queue {index}");
                let queue = &mut queues[index as usize];
                let (len, next) = (queue.pop_front().unwrap(), queue.front().copied());
                turns.sent(index, len, next);
                plain.sent(index as usize, len, next);
            }
        }
    }
}

fn check_qfq(shares: &[u32], steps: Vec<Option<(usize, u32)>>) {
    let kind = SchedKind::Qfq;
    let (mut turns, mut plain) = (FlowScheduler::new(&kind).unwrap(), PlainQfq::default());
    let mut queues = vec![VecDeque::new(); shares.len()];
    for (index, &one) in shares.iter().enumerate() {
        turns.set(index as u32, QueueShare::new(&kind, &weight(one)));
        let queue = PlainQfqQueue { weight: one.into(), lmax: 1500, ..Default::default() };
        plain.queues.push(queue);
    }
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Some((index, len)) => {
                queues[index].push_back(len);
                if queues[index].len() == 1 {
                    turns.arrive(index as u32, len);
                    plain.arrive(index, len);
                }
            }
            None => {
                let index = turns.next();
                assert_eq!(index.map(|index| index as usize), plain.next(), "step {number}");
                let Some(index) = index else { continue };
                let queue = &mut queues[index as usize];
                let (len, next) = (queue.pop_front().unwrap(), queue.front().copied());
                turns.sent(index, len, next);
                plain.sent(index as usize, len, next);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn wf2q_sends_in_the_order_of_its_definition(
        weights in prop::array::uniform4(1u32..=2),
        steps in traffic(4, 1..1500),
        changes in prop::collection::vec((0usize..4, 1u32..=2), 0..6),
    ) {
        check_wf2q(weights, steps, &changes);
    }
}

proptest! {
    // Wrong orders are rare: with a virtual time that was slightly too fast, one of 1,400 cases
    // failed.
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn qfq_sends_in_the_order_of_its_definition(
        shares in prop::collection::vec(prop_oneof![1u32..=10, 1u32..=1000], 2..8),
        steps in traffic(8, 1..1500),
    ) {
        let last = shares.len();
        let steps = steps.into_iter().map(|one| one.map(|(index, len)| (index % last, len)));
        check_qfq(&shares, steps.collect());
    }
}

/// Sends so much that all virtual times are reduced several times.
#[test]
fn wf2q_keeps_its_order_when_virtual_times_are_moved_back() {
    let mut steps: Vec<_> = (0..12).map(|n| Some((n % 4, 840 * 1000))).collect();
    for n in 0..15_000usize {
        steps.push(None);
        steps.push(Some((n * n / 7 % 4, 840 * (1 + n as u32 * 31 % 1200))));
    }
    check_wf2q([1, 2, 1, 2], steps, &[]);
}
