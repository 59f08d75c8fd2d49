use std::collections::BTreeMap;
use std::vec::Vec;

use super::*;
use crate::aqm::Ecn;

const MS: u64 = 1_000_000;

/// Returns a packet of a flow whose hash selects queue `n` of 1024.
fn entry(n: u32, handle: u32, len: u32, arrival_ns: u64) -> QueuedPacket<u32> {
    QueuedPacket { handle, len, arrival_ns, flow: n << 22, ecn: Ecn::NotEct }
}

fn fq_codel(spec: FairSpec) -> FqCoDel<u32> {
    FqCoDel::new(&spec, &CoDelSpec::default()).unwrap()
}

fn push<A: Aqm + Clone>(fair: &mut FairQueue<u32, A>, entry: QueuedPacket<u32>) {
    let mut random = Stream::new(1, "fair");
    fair.enqueue(entry.arrival_ns, entry, &mut random, &mut |lost, _| panic!("lost {lost:?}"));
}

/// Dequeues `count` packets at time zero. At this time, no delay has been above the target for
/// long enough to cause a drop.
fn pop(fair: &mut FqCoDel<u32>, count: usize) -> Vec<QueuedPacket<u32>> {
    let mut out = Vec::new();
    for _ in 0..count {
        let departure = fair.dequeue(0, &mut |lost, _| panic!("lost {lost:?}"));
        out.extend(departure.map(|departure| departure.entry));
    }
    out
}

#[test]
fn flows_share_bytes_evenly_whatever_their_packets() {
    let mut fair = fq_codel(FairSpec::default());
    let lens = [1500, 700, 60];
    for n in 0..3000 {
        for (flow, len) in lens.into_iter().enumerate() {
            push(&mut fair, entry(flow as u32, n, len, 0));
        }
    }
    let mut sent = BTreeMap::new();
    for departed in 0..2000 {
        let out = pop(&mut fair, 1)[0];
        *sent.entry(out.flow).or_insert(0i64) += i64::from(out.len);
        if departed > 100 {
            let (min, max) = (sent.values().min().unwrap(), sent.values().max().unwrap());
            // The bytes that two flows have sent may differ by one quantum plus the amount by which
            // the last packet of a turn may exceed the quantum.
            assert!(max - min <= 1514 + 1500, "{sent:?}");
        }
    }
}

#[test]
fn sparse_flow_goes_before_a_standing_queue() {
    let mut fair = fq_codel(FairSpec::default());
    (0..200).for_each(|n| push(&mut fair, entry(1, n, 1500, 0)));
    pop(&mut fair, 10);
    push(&mut fair, entry(2, 999, 100, 0));
    assert_eq!(pop(&mut fair, 1)[0].handle, 999);
}

#[test]
fn flow_that_sends_one_packet_at_a_time_is_not_new_for_ever() {
    let mut fair = fq_codel(FairSpec::default());
    (0..4000).for_each(|n| push(&mut fair, entry(n % 2, n, 1500, 0)));
    pop(&mut fair, 5);
    let (mut pushed, mut served, mut just_served) = (0, 0, false);
    for n in 0..1000 {
        // The next packet arrives only after a call of `dequeue` has found the flow's queue empty.
        if served == pushed && !just_served {
            push(&mut fair, entry(2, n, 1500, 0));
            pushed += 1;
        }
        just_served = pop(&mut fair, 1)[0].flow == 2 << 22;
        served += u32::from(just_served);
    }
    assert!((300..=340).contains(&served), "{served}");
}

#[test]
fn order_within_a_flow_is_kept() {
    let mut fair = fq_codel(FairSpec::default());
    (0..300).for_each(|n| push(&mut fair, entry(n % 7, n, 100 + n, 0)));
    let mut last = BTreeMap::new();
    for out in pop(&mut fair, 300) {
        assert!(last.insert(out.flow, out.handle).is_none_or(|before| before < out.handle));
    }
    assert_eq!((fair.packets(), fair.bytes()), (0, 0));
}

#[test]
fn full_queue_drops_half_of_the_fattest_flow_from_its_head() {
    let mut fair = fq_codel(FairSpec { limit_packets: 100, ..FairSpec::default() });
    (0..80).for_each(|n| push(&mut fair, entry(1, n, 1000, 0)));
    (80..100).for_each(|n| push(&mut fair, entry(2, n, 1000, 0)));
    let (mut lost, mut random) = (Vec::new(), Stream::new(1, "fair"));
    fair.enqueue(0, entry(3, 100, 60, 0), &mut random, &mut |entry, cause| {
        assert_eq!(cause, AqmDropCause::Limit);
        lost.push(entry.handle);
    });
    assert_eq!(lost, (0..40).collect::<Vec<u32>>());
    assert_eq!(fair.packets(), 61);
}

#[test]
fn at_most_a_batch_is_dropped_at_once() {
    let mut fair = fq_codel(FairSpec { limit_bytes: 1_000_000, ..FairSpec::default() });
    (0..1000).for_each(|n| push(&mut fair, entry(1, n, 1000, 0)));
    let (mut lost, mut random) = (0, Stream::new(1, "fair"));
    fair.enqueue(0, entry(3, 1000, 60, 0), &mut random, &mut |_, _| lost += 1);
    assert_eq!(lost, 64);
}

#[test]
fn packets_without_bytes_are_limited_too() {
    let mut fair = fq_codel(FairSpec { limit_packets: 3, ..FairSpec::default() });
    let (mut lost, mut random) = (0, Stream::new(1, "fair"));
    for n in 0..10 {
        fair.enqueue(0, entry(n, n, 0, 0), &mut random, &mut |_, _| lost += 1);
    }
    assert_eq!((fair.packets(), lost), (3, 7));
}

#[test]
fn codel_acts_on_the_flow_that_stands_and_not_on_others() {
    let mut fair = fq_codel(FairSpec::default());
    let (mut lost, mut random) = (Vec::new(), Stream::new(1, "fair"));
    let mut next = 0;
    // The link sends 1000 bytes every 0.8 ms, which is 10 Mbit/s. Flow 1 offers 10.7 Mbit/s after a
    // burst, flow 2 offers 1 Mbit/s.
    for slot in 0..5000u64 {
        let now_ns = slot * 800_000;
        let bulk = 1 + u32::from(slot % 100 < 7) + u32::from(slot == 0) * 50;
        for _ in 0..bulk {
            next += 1;
            fair.enqueue(now_ns, entry(1, next, 1000, now_ns), &mut random, &mut |_, _| {});
        }
        if slot % 10 == 0 {
            fair.enqueue(now_ns, entry(2, 0, 1000, now_ns), &mut random, &mut |_, _| {});
        }
        let out = fair.dequeue(now_ns, &mut |entry, cause| lost.push((entry.flow, cause)));
        let out = out.unwrap().entry;
        if out.flow == 2 << 22 {
            assert!(now_ns - out.arrival_ns <= 2 * 800_000, "sparse packets do not wait");
        }
    }
    assert!(lost.len() > 50);
    assert!(lost.iter().all(|&lost| lost == (1 << 22, AqmDropCause::Aqm)));
}

#[test]
fn queues_cost_memory_only_once_they_are_used() {
    let mut fair = fq_codel(FairSpec { flows: 65_536, ..FairSpec::default() });
    assert_eq!(fair.flows.len(), 0);
    (0..100).for_each(|n| push(&mut fair, entry(n % 3, n, 100, 0)));
    assert_eq!(fair.flows.len(), 3);
}

#[test]
fn another_number_of_queues_keeps_all_packets_and_their_order() {
    let mut fair = fq_codel(FairSpec::default());
    (0..50).for_each(|n| push(&mut fair, entry(n % 5, n, 500, u64::from(n))));
    let one = FairSpec { flows: 1, ..FairSpec::default() };
    fair.retune(&one, &CoDelSpec::default()).unwrap();
    let handles: Vec<u32> = pop(&mut fair, 60).iter().map(|entry| entry.handle).collect();
    assert_eq!(handles, (0..50).collect::<Vec<u32>>());
}

#[test]
fn refused_parameters_change_nothing() {
    let mut fair = fq_codel(FairSpec::default());
    let bad = CoDelSpec { target_ns: 0, ..CoDelSpec::default() };
    let quantum = FairSpec { quantum: 300, ..FairSpec::default() };
    assert_eq!(fair.retune(&quantum, &bad).unwrap_err().parameter, "target_ns");
    let none = FairSpec { flows: 0, ..quantum };
    assert_eq!(fair.retune(&none, &CoDelSpec::default()).unwrap_err().parameter, "flows");
    assert_eq!(*fair.spec(), FairSpec::default());
    fair.retune(&quantum, &CoDelSpec::default()).unwrap();
    assert_eq!(fair.spec().quantum, 300);
}

#[test]
fn parameters_out_of_range_are_named() {
    let bad = |spec: FairSpec| spec.validate().unwrap_err().parameter;
    let good = FairSpec::default();
    assert_eq!(bad(FairSpec { flows: 65_537, ..good }), "flows");
    assert_eq!(bad(FairSpec { quantum: 0, ..good }), "quantum");
    assert_eq!(bad(FairSpec { drop_batch: 0, ..good }), "drop_batch");
    assert_eq!(bad(FairSpec { limit_packets: 0, ..good }), "limit_packets");
    assert_eq!(bad(FairSpec { limit_bytes: 0, ..good }), "limit_bytes");
}

#[test]
fn pie_drops_from_the_flow_that_stands_and_not_from_others() {
    let pie = PieSpec { delay_from: crate::aqm::DelaySource::Timestamps, ..PieSpec::default() };
    let mut fair = FqPie::new(&FairSpec::default(), &pie).unwrap();
    let (mut lost, mut random) = (Vec::new(), Stream::new(1, "fair"));
    for slot in 0..20_000u64 {
        let now_ns = slot * 800_000;
        for flow in [1, 1, 2].into_iter().skip(usize::from(slot % 5 != 0)) {
            let flow = if slot % 10 == 0 { flow } else { 1 };
            fair.enqueue(now_ns, entry(flow, 0, 1000, now_ns), &mut random, &mut |entry, _| {
                lost.push(entry.flow);
            });
        }
        fair.dequeue(now_ns, &mut |_, _| panic!("PIE drops at arrival only"));
    }
    assert!(lost.len() > 1000 && lost.iter().all(|&flow| flow == 1 << 22), "{}", lost.len());
    assert!(fair.bytes() < 20 * MS / 800, "{} bytes queued", fair.bytes());
}
