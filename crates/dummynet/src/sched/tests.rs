//! Tests that a scheduler gives each queue the share that it would get from an ideal link, which
//! can send single bits. Progress is measured in bytes sent, not in time.

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use slipring_model::Stream;

use super::*;

mod models;

const WEIGHTED: [SchedKind; 3] = [SchedKind::Wf2q, SchedKind::Rr, SchedKind::Qfq];

/// A scheduler and the queues from which it sends.
struct Bench {
    turns: FlowScheduler,
    queues: Vec<VecDeque<u32>>,
}

impl Bench {
    fn new(kind: &SchedKind, shares: &[ShareSpec]) -> Self {
        let mut turns = FlowScheduler::new(kind).unwrap();
        for (index, share) in (0..).zip(shares) {
            turns.set(index, QueueShare::new(kind, share));
        }
        Self { turns, queues: vec![VecDeque::new(); shares.len()] }
    }

    fn push(&mut self, index: u32, len: u32) {
        let queue = &mut self.queues[index as usize];
        queue.push_back(len);
        if queue.len() == 1 {
            self.turns.arrive(index, len);
        }
    }

    /// Removes the next packet; returns the index of its queue, and its length.
    fn pop(&mut self) -> Option<(u32, u32)> {
        let index = self.turns.next()?;
        assert_eq!(self.turns.next(), Some(index), "asking changes nothing");
        let queue = &mut self.queues[index as usize];
        let len = queue.pop_front().expect("who is named has a packet");
        self.turns.sent(index, len, queue.front().copied());
        Some((index, len))
    }

    fn backlog(&mut self, packets: usize, len: impl Fn(u32) -> u32) {
        for index in 0..self.queues.len() as u32 {
            (0..packets).for_each(|_| self.push(index, len(index)));
        }
    }
}

fn weight(weight: u32) -> ShareSpec {
    ShareSpec { weight: Some(weight), ..ShareSpec::default() }
}

fn weights(all: &[u32]) -> Vec<ShareSpec> {
    all.iter().copied().map(weight).collect()
}

#[test]
fn shares_of_backlogged_queues_are_within_two_percent_of_their_weights() {
    for kind in WEIGHTED {
        let all = [1, 2, 7, 30, 60];
        let mut bench = Bench::new(&kind, &weights(&all));
        // The larger the weight of a queue, the shorter its packets. So a scheduler that shares
        // packets instead of bytes fails this test.
        let len = |index| [1500, 1000, 700, 300, 64][index as usize];
        bench.backlog(60_000, len);
        let mut sent = [0u64; 5];
        let mut total = 0;
        while total < 4_000_000 {
            let (index, len) = bench.pop().unwrap();
            sent[index as usize] += u64::from(len);
            total += u64::from(len);
        }
        for (sent, weight) in sent.iter().zip(all) {
            let share = *sent as f64 / total as f64 * 100.0 / f64::from(weight);
            // In a round of RR, the five queues send up to 1500 × 100 bytes in this test, so 4
            // million bytes are about 27 rounds.
            let bound = if kind == SchedKind::Rr { 0.05 } else { 0.02 };
            assert!((share - 1.0).abs() < bound, "{}: {weight} got {share}", kind.name());
        }
    }
}

/// One queue with weight 50 and fifty queues with weight 1 send packets of equal length. Returns
/// the positions of the first queue's packets among the first 100 packets that are sent.
fn turns_of_the_heavy(kind: SchedKind) -> Vec<usize> {
    let mut all = vec![50];
    all.extend([1; 50]);
    let mut bench = Bench::new(&kind, &weights(&all));
    bench.backlog(60, |_| 1000);
    let order: Vec<u32> = (0..100).map(|_| bench.pop().unwrap().0).collect();
    (0..100).filter(|&at| order[at] == 0).collect()
}

#[test]
fn wf2q_interleaves_as_its_authors_show() {
    // The heavy queue sends every other packet. With plain WFQ, the heavy queue would send its
    // first fifty packets in a row.
    let turns = turns_of_the_heavy(SchedKind::Wf2q);
    let exact: Vec<usize> = (0..50).map(|n| 2 * n).collect();
    assert_eq!(turns, exact);
}

#[test]
fn qfq_interleaves_within_a_slot() {
    // A slot of the heavy queue can hold two packets of its maximum length. Together these are as
    // long as three of the packets sent here.
    let turns = turns_of_the_heavy(SchedKind::Qfq);
    assert!((45..=55).contains(&turns.len()), "{turns:?}");
    let runs = turns.chunk_by(|a, b| a + 1 == *b).map(<[_]>::len);
    assert!(runs.max() <= Some(3), "{turns:?}");
}

#[test]
fn rr_sends_a_quantum_a_turn_and_keeps_what_is_left() {
    let share = |weight, lmax| ShareSpec { weight: Some(weight), lmax: Some(lmax), priority: None };
    let mut bench = Bench::new(&SchedKind::Rr, &[share(1, 1000), share(2, 1000)]);
    bench.backlog(20, |_| 600);
    let order: Vec<u32> = (0..15).map(|_| bench.pop().unwrap().0).collect();
    // Queue 0 gets 1000 bytes per turn. It sends one packet and keeps 400 bytes, then sends two and
    // keeps 200. Queue 1 gets 2000 bytes. It sends three and keeps 200, then sends three and keeps
    // 400, then sends four.
    assert_eq!(order, [0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn rr_serves_packets_longer_than_a_quantum() {
    let share = ShareSpec { weight: Some(1), lmax: Some(64), priority: None };
    let mut bench = Bench::new(&SchedKind::Rr, &[share, share]);
    bench.backlog(2, |_| 9000);
    let order: Vec<u32> = core::iter::from_fn(|| bench.pop()).map(|(index, _)| index).collect();
    assert_eq!(order, [0, 1, 0, 1]);
}

#[test]
fn prio_sends_nothing_of_a_later_priority_while_an_earlier_one_waits() {
    let pri = |pri| ShareSpec { priority: Some(pri), weight: Some(9), lmax: None };
    let mut bench = Bench::new(&SchedKind::Prio, &[pri(5), pri(0), pri(63), weight(5)]);
    bench.backlog(3, |_| 100);
    let mut order: Vec<u32> = (0..5).map(|_| bench.pop().unwrap().0).collect();
    bench.push(1, 100);
    order.extend(core::iter::from_fn(|| bench.pop()).map(|(index, _)| index));
    // Queues with equal priority take turns. The priority of a queue without `pri` is its weight.
    assert_eq!(order, [1, 1, 1, 0, 3, 1, 0, 3, 0, 3, 2, 2, 2]);
}

#[test]
fn weights_out_of_range_are_clamped_as_dummynet_does() {
    let share = |kind, weight| {
        let spec = ShareSpec { weight: Some(weight), lmax: Some(5000), priority: Some(99) };
        QueueShare::new(&kind, &spec)
    };
    assert_eq!(share(SchedKind::Wf2q, 500).weight, 100);
    assert_eq!(share(SchedKind::Wf2q, 0).weight, 1);
    assert_eq!(share(SchedKind::Qfq, 1 << 20).weight, 65536);
    assert_eq!(share(SchedKind::Rr, 1).lmax, 2048);
    assert_eq!(share(SchedKind::Prio, 1).priority, 63);
}

/// Sends from queues that always have packets. Returns two numbers for each queue: the largest
/// number of bytes by which it was behind its ideal share (negative), and the largest by which it
/// was ahead.
fn lag(kind: &SchedKind, all: &[u32], lens: &[u32], seed: u64) -> Vec<(f64, f64)> {
    let mut stream = Stream::new(seed, "test/lag");
    let mut bench = Bench::new(kind, &weights(all));
    let total_weight: f64 = all.iter().map(|&weight| f64::from(weight)).sum();
    let draw =
        |stream: &mut Stream, index: u32| 1 + stream.below(lens[index as usize].into()) as u32;
    for index in 0..all.len() as u32 {
        (0..3).for_each(|_| bench.push(index, draw(&mut stream, index)));
    }
    let mut sent = vec![0.0; all.len()];
    let mut worst = vec![(0.0f64, 0.0f64); all.len()];
    let mut total = 0.0;
    for _ in 0..2000 {
        let (index, len) = bench.pop().unwrap();
        bench.push(index, draw(&mut stream, index));
        sent[index as usize] += f64::from(len);
        total += f64::from(len);
        for ((sent, worst), &weight) in sent.iter().zip(&mut worst).zip(all) {
            let ahead = sent - total * f64::from(weight) / total_weight;
            *worst = (worst.0.min(ahead), worst.1.max(ahead));
        }
    }
    worst
}

proptest! {
    /// Bennett and Zhang, theorem 4: a queue is behind its ideal share by at most its own longest
    /// packet, plus its share of the difference between the longest packet of all queues and its
    /// own longest packet. WF2Q+ is worst-case fair: a queue is ahead by at most the others' share
    /// of its own longest packet.
    #[test]
    fn wf2q_is_within_a_packet_of_the_fluid_share(
        queues in prop::collection::vec((1u32..=100, 64u32..=1500), 2..12), seed: u64,
    ) {
        let (all, lens): (Vec<_>, Vec<_>) = queues.into_iter().unzip();
        let longest = f64::from(*lens.iter().max().unwrap());
        let total: f64 = all.iter().map(|&weight| f64::from(weight)).sum();
        let worst = lag(&SchedKind::Wf2q, &all, &lens, seed);
        for (((behind, ahead), &len), &weight) in worst.iter().zip(&lens).zip(&all) {
            let (len, share) = (f64::from(len), f64::from(weight) / total);
            let bound = len + (longest - len) * share;
            prop_assert!(-behind <= bound + 1.0, "{behind} behind, bound {bound}");
            prop_assert!(*ahead <= (1.0 - share) * len + 1.0, "{ahead} ahead");
        }
    }

    /// Checconi, Rizzo and Valente, section IV (B-WFI): a queue may be behind by less than two
    /// packets plus its share of three slots of virtual time. A slot is shorter than twice
    /// lmax / weight, so a queue's share of a slot is less than twice lmax.
    #[test]
    fn qfq_is_within_its_bounds(
        queues in prop::collection::vec((1u32..=1000, 64u32..=1500), 2..12), seed: u64,
    ) {
        let (all, lens): (Vec<_>, Vec<_>) = queues.into_iter().unzip();
        let total: f64 = all.iter().map(|&weight| f64::from(weight)).sum();
        // Queues are grouped by lmax / weight; lmax is 1500 in this test.
        for ((behind, ahead), &weight) in lag(&SchedKind::Qfq, &all, &lens, seed).iter().zip(&all) {
            let slot = 2.0 * 1500.0;
            let share = f64::from(weight) / total;
            let bound = 3.0 * slot + 2.0 * (1.0 - share) * 1500.0;
            prop_assert!(-behind <= bound, "{behind} behind, bound {bound}");
            prop_assert!(*ahead <= bound, "{ahead} ahead, bound {bound}");
        }
    }

    /// Shreedhar and Varghese, theorem 4.2: two queues that have equal weights and always have
    /// packets differ by at most a quantum and two packets.
    #[test]
    fn rr_is_within_a_quantum_of_the_fluid_share(
        lens in prop::collection::vec(64u32..=1500, 2..12), seed: u64,
    ) {
        let all = vec![1; lens.len()];
        let worst = lag(&SchedKind::Rr, &all, &lens, seed);
        let bound = 1500.0 + 2.0 * 1500.0;
        prop_assert!(worst.iter().all(|(behind, ahead)| -behind <= bound && *ahead <= bound));
    }

    /// Whatever packets arrive, leave or are dropped, and whatever weights change, every packet
    /// that is not dropped is sent once, and the scheduler is never idle while a packet waits.
    #[test]
    fn schedulers_neither_lose_nor_invent_packets(
        steps in prop::collection::vec((0u8..10, 0u32..6, 1u32..3000), 1..400), kind in 0usize..4,
    ) {
        let kind = [SchedKind::Wf2q, SchedKind::Rr, SchedKind::Qfq, SchedKind::Prio][kind];
        let mut bench = Bench::new(&kind, &weights(&[1, 1, 5, 20, 60, 100]));
        for (step, index, len) in steps {
            match step {
                0..=3 => bench.push(index, len),
                4 => bench.turns.set(index, QueueShare::new(&kind, &weight(1 + len % 100))),
                5 => {
                    bench.turns.remove(index);
                    bench.queues[index as usize].clear();
                    bench.turns.set(index, QueueShare::new(&kind, &weight(1 + len % 100)));
                }
                6 => if let Some(index) = bench.turns.next() {
                    // Drops all packets in the queue, as AQM may do.
                    bench.queues[index as usize].clear();
                    bench.turns.sent(index, 0, None);
                }
                _ => {
                    let waits = bench.queues.iter().any(|queue| !queue.is_empty());
                    prop_assert_eq!(bench.pop().is_some(), waits);
                }
            }
        }
        let waiting: usize = bench.queues.iter().map(VecDeque::len).sum();
        prop_assert_eq!(core::iter::from_fn(|| bench.pop()).count(), waiting);
    }
}

#[test]
fn a_queue_that_slept_is_owed_nothing_and_owes_nothing() {
    for kind in WEIGHTED {
        let mut bench = Bench::new(&kind, &weights(&[1, 1]));
        (0..1000).for_each(|_| bench.push(0, 1000));
        (0..500).for_each(|_| _ = bench.pop());
        // Queue 1 gets its first packet late. From then on, both send equally many packets.
        (0..200).for_each(|_| bench.push(1, 1000));
        let first: usize = (0..100).filter(|_| bench.pop().unwrap().0 == 1).count();
        assert!((48..=52).contains(&first), "{}: {first}", kind.name());
        // They still do so after both were empty.
        while bench.pop().is_some() {}
        bench.backlog(100, |_| 1000);
        let first: usize = (0..100).filter(|_| bench.pop().unwrap().0 == 1).count();
        assert!((48..=52).contains(&first), "{}: {first}", kind.name());
    }
}

#[test]
fn virtual_time_never_overflows() {
    for kind in WEIGHTED {
        let mut bench = Bench::new(&kind, &weights(&[1, 1]));
        bench.backlog(3, |_| 1_000_000);
        let mut sent = [0u64; 2];
        for _ in 0..60_000_000u64 / 1000 {
            let (index, len) = bench.pop().unwrap();
            bench.push(index, len);
            sent[index as usize] += 1;
        }
        assert!(sent[0].abs_diff(sent[1]) <= 3, "{}: {sent:?}", kind.name());
    }
}

#[test]
fn lengths_beyond_all_links_do_no_harm() {
    for kind in WEIGHTED {
        let mut bench = Bench::new(&kind, &weights(&[1, 100]));
        bench.backlog(50, |_| u32::MAX);
        assert_eq!(core::iter::from_fn(|| bench.pop()).count(), 100, "{}", kind.name());
    }
}
