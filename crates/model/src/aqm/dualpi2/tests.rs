use std::vec::Vec;

use super::*;
use crate::aqm::Ecn;

const MS: u64 = 1_000_000;

fn entry(ecn: Ecn, arrival_ns: u64) -> QueuedPacket<u32> {
    QueuedPacket { handle: 0, len: 1000, arrival_ns, flow: 0, ecn }
}

fn none(lost: QueuedPacket<u32>, cause: AqmDropCause) {
    panic!("lost {lost:?} to {cause:?}");
}

/// Returns queues whose base probability stays at `base_p`.
fn standing(spec: DualPi2Spec, base_p: f64) -> DualPi2<u32> {
    let mut dual = DualPi2::new(&DualPi2Spec { alpha: 0.0, beta: 0.0, ..spec }).unwrap();
    dual.controller.base_p = base_p;
    dual
}

/// Passes `count` packets through the queues one at a time; returns the shares that were marked and
/// dropped.
fn shares(dual: &mut DualPi2<u32>, ecn: Ecn, count: u32) -> (f64, f64) {
    let (mut marks, mut drops) = (0, 0);
    for _ in 0..count {
        dual.enqueue(0, entry(ecn, 0), &mut none);
        let out = dual.dequeue(0, &mut |_, cause| {
            assert_eq!(cause, AqmDropCause::Aqm);
            drops += 1;
        });
        marks += u32::from(out.is_some_and(|out| out.mark));
    }
    (f64::from(marks) / f64::from(count), f64::from(drops) / f64::from(count))
}

#[test]
fn classic_probability_is_the_square_of_the_coupled_one_over_k() {
    for k in [1.0, 2.0, 3.0] {
        for base_p in [0.02, 0.1, 0.2, 0.3] {
            let mut dual = standing(DualPi2Spec { k, ..DualPi2Spec::default() }, base_p);
            let (coupled_p, none_lost) = shares(&mut dual, Ecn::Ect1, 100_000);
            let (no_marks, classic_p) = shares(&mut dual, Ecn::NotEct, 100_000);
            assert_eq!((none_lost, no_marks), (0.0, 0.0));
            assert!((coupled_p - k * base_p).abs() < 2e-5, "{coupled_p}");
            assert!((classic_p - (coupled_p / k).powi(2)).abs() < 5e-5, "{classic_p}");
        }
    }
}

#[test]
fn classic_packets_with_ecn_are_marked_instead_of_dropped() {
    let mut dual = standing(DualPi2Spec::default(), 0.4);
    let (marks, drops) = shares(&mut dual, Ecn::Ect0, 10_000);
    assert!((marks - 0.16).abs() < 1e-3 && drops == 0.0, "{marks} {drops}");
}

#[test]
fn overload_drops_from_both_queues_alike_whatever_their_ecn() {
    // With p' = 0.6, p'^2 is 0.36. This is above `max_classic_p` (0.25), at which the coupled
    // marking probability is 1.
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let (marks, drops) = shares(&mut standing(DualPi2Spec::default(), 0.6), ecn, 10_000);
        assert!((drops - 0.36).abs() < 1e-3, "{ecn:?}: {drops}");
        let rest = if ecn == Ecn::Ect1 { 0.64 } else { 0.0 };
        assert!((marks - rest).abs() < 2e-3, "{ecn:?}: {marks}");
    }
}

#[test]
fn marks_are_spread_evenly() {
    let mut dual = standing(DualPi2Spec::default(), 0.05);
    let marked = (0..1000).map(|_| shares(&mut dual, Ecn::Ect1, 1).0 > 0.0);
    let at: Vec<usize> = marked.enumerate().filter(|(_, mark)| *mark).map(|(n, _)| n).collect();
    assert!(at.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))));
}

/// Returns the share of L4S packets that are marked if each waits for `sojourn_ns` and has other
/// packets queued after it.
fn native_marks(spec: DualPi2Spec, sojourn_ns: u64) -> f64 {
    let mut dual = standing(spec, 0.0);
    (0..1001).for_each(|_| dual.enqueue(0, entry(Ecn::Ect1, 0), &mut none));
    let marked = (0..1000).filter(|_| dual.dequeue(sojourn_ns, &mut none).unwrap().mark);
    marked.count() as f64 / 1000.0
}

#[test]
fn l4s_queue_marks_by_a_ramp_or_a_step() {
    let ramp = DualPi2Spec::default();
    for (sojourn_us, share) in [(0, 0.0), (800, 0.0), (900, 0.25), (1100, 0.75), (1200, 1.0)] {
        let marks = native_marks(ramp, sojourn_us * 1000);
        assert!((marks - share).abs() <= 1e-3, "{sojourn_us}: {marks}");
    }
    let step = DualPi2Spec { ramp_start_ns: MS, ramp_ns: 0, ..ramp };
    assert_eq!((native_marks(step, MS), native_marks(step, MS + 1)), (0.0, 1.0));
}

#[test]
fn lone_packet_is_not_marked_however_long_it_took_to_its_turn() {
    let mut dual = standing(DualPi2Spec::default(), 0.0);
    dual.enqueue(0, entry(Ecn::Ect1, 0), &mut none);
    assert!(!dual.dequeue(50 * MS, &mut none).unwrap().mark);
}

#[test]
fn congestion_experienced_goes_with_l4s() {
    let mut dual = standing(DualPi2Spec::default(), 0.0);
    dual.enqueue(0, entry(Ecn::Ect0, 0), &mut none);
    dual.enqueue(1, entry(Ecn::Ce, 1), &mut none);
    assert_eq!(dual.dequeue(1, &mut none).unwrap().entry.ecn, Ecn::Ce);
}

/// Returns the share of classic bytes in the output while neither queue is ever empty.
fn classic_share(schedule: DualPi2Schedule) -> f64 {
    let mut dual = standing(DualPi2Spec { schedule, ..DualPi2Spec::default() }, 0.0);
    for _ in 0..3000 {
        dual.enqueue(0, QueuedPacket { len: 300, ..entry(Ecn::NotEct, 0) }, &mut none);
        dual.enqueue(0, QueuedPacket { len: 1400, ..entry(Ecn::Ect1, 0) }, &mut none);
    }
    let mut bytes = [0u32; 2];
    for _ in 0..2000 {
        let out = dual.dequeue(0, &mut none).unwrap().entry;
        bytes[usize::from(out.ecn == Ecn::NotEct)] += out.len;
    }
    f64::from(bytes[1]) / f64::from(bytes[0] + bytes[1])
}

#[test]
fn weights_are_shares_of_bytes() {
    for classic_percent in [0, 5, 10, 25] {
        let share = classic_share(DualPi2Schedule::Weighted { classic_percent });
        assert!((share - f64::from(classic_percent) / 100.0).abs() < 2e-3, "{share}");
    }
}

#[test]
fn time_shift_gives_l4s_a_head_start_and_no_more() {
    let schedule = DualPi2Schedule::TimeShifted { shift_ns: 50 * MS };
    let mut dual = standing(DualPi2Spec { schedule, ..DualPi2Spec::default() }, 0.0);
    let mut sent = |classic_ns, l4s_ns| {
        dual.enqueue(classic_ns, entry(Ecn::NotEct, classic_ns), &mut none);
        dual.enqueue(l4s_ns, entry(Ecn::Ect1, l4s_ns), &mut none);
        [(); 2].map(|()| dual.dequeue(l4s_ns, &mut none).unwrap().entry.ecn)
    };
    assert_eq!(sent(0, 50 * MS), [Ecn::Ect1, Ecn::NotEct]);
    assert_eq!(sent(100 * MS, 150 * MS + 1), [Ecn::NotEct, Ecn::Ect1]);
}

#[test]
fn arrival_beyond_a_limit_is_lost() {
    let spec = DualPi2Spec { limit_bytes: 2500, ..DualPi2Spec::default() };
    let mut dual = standing(spec, 0.0);
    let mut lost = Vec::new();
    for _ in 0..4 {
        dual.enqueue(0, entry(Ecn::Ect1, 0), &mut |_, cause| lost.push(cause));
    }
    assert_eq!((dual.packets(), dual.bytes()), (2, 2000));
    assert_eq!(lost, [AqmDropCause::Limit; 2]);
}

#[test]
fn controller_follows_the_published_law() {
    let mut dual = DualPi2::new(&DualPi2Spec::default()).unwrap();
    dual.enqueue(0, entry(Ecn::NotEct, 0), &mut none);
    dual.enqueue(0, entry(Ecn::NotEct, 0), &mut none);
    // Every 16 ms, p' += 0.16 (d - 0.015) + 3.2 (d - d_before), where d is the age of the oldest
    // packet in s.
    let mut expected = 0.0;
    for n in 1..=5u64 {
        expected += 0.16 * (0.016 * n as f64 - 0.015) + 3.2 * 0.016;
        dual.catch_up(n * 16 * MS);
        assert!((dual.base_probability() - expected).abs() < 1e-12);
    }
}

#[test]
fn late_updates_equal_those_on_time() {
    let mut on_time = DualPi2::new(&DualPi2Spec::default()).unwrap();
    on_time.enqueue(0, entry(Ecn::NotEct, 0), &mut none);
    let mut late = on_time.clone();
    for end_ms in [1u64, 15, 16, 170, 333, 700, 5_000, 3_600_000] {
        (0..end_ms.min(20_000)).for_each(|ms| on_time.catch_up(ms * MS));
        on_time.catch_up(end_ms * MS);
        late.catch_up(end_ms * MS);
        assert_eq!(late.base_probability(), on_time.base_probability());
        let next = |dual: &DualPi2<u32>| dual.controller.next_update_ns;
        assert_eq!(next(&late), next(&on_time));
    }
    assert_eq!(late.base_probability(), 1.0);
}

/// Offers packets to a link of 10 Mbit/s for 40 s: for each (ECN field, `gap_ns`), one packet
/// every `gap_ns`. Returns figures of the last 20 s: the mean wait of classic and of L4S packets
/// in ms, and the mean classic and coupled probabilities.
fn closed_loop(offers: &[(Ecn, u64)]) -> ([f64; 2], [f64; 2]) {
    let mut dual = DualPi2::new(&DualPi2Spec::default()).unwrap();
    let mut due_ns: Vec<u64> = offers.iter().map(|&(_, gap_ns)| gap_ns).collect();
    let (mut waits, mut p) = ([(0.0, 0.0); 2], [0.0; 2]);
    for slot in 0..50_000u64 {
        let now_ns = slot * 800_000;
        for (due_ns, &(ecn, gap_ns)) in due_ns.iter_mut().zip(offers) {
            while *due_ns <= now_ns {
                dual.enqueue(*due_ns, entry(ecn, *due_ns), &mut |_, _| {});
                *due_ns += gap_ns;
            }
        }
        let Some(out) = dual.dequeue(now_ns, &mut |_, _| {}) else { continue };
        if slot >= 25_000 {
            let (sum, count) = &mut waits[usize::from(out.entry.ecn == Ecn::Ect1)];
            *sum += (now_ns - out.entry.arrival_ns) as f64 / 1e6;
            *count += 1.0;
            p[0] += dual.classic_probability() / 25_000.0;
            p[1] += dual.coupled_probability() / 25_000.0;
        }
    }
    (waits.map(|(sum, count)| sum / count), p)
}

#[test]
fn classic_queue_is_held_at_its_target_while_l4s_does_not_wait() {
    // 11 Mbit/s of classic packets and 1 Mbit/s of L4S packets are offered to 10 Mbit/s. So a
    // sixth of all packets must be dropped, and all dropped packets are classic packets.
    let ([classic_ms, l4s_ms], [classic_p, coupled_p]) =
        closed_loop(&[(Ecn::NotEct, 727_273), (Ecn::Ect1, 8_000_000)]);
    assert!((classic_ms - 15.0).abs() < 2.0, "{classic_ms}");
    assert!(l4s_ms < 1.0, "{l4s_ms}");
    assert!((classic_p - 2.0 / 11.0).abs() < 0.01, "{classic_p}");
    assert!((coupled_p - 2.0 * classic_p.sqrt()).abs() < 0.01, "{coupled_p}");
}

#[test]
fn l4s_that_ignores_its_marks_is_dropped_at_overload() {
    let (waits, [classic_p, _]) = closed_loop(&[(Ecn::Ect1, 400_000)]);
    assert!((waits[1] - 15.0).abs() < 3.0, "{waits:?}");
    assert!((classic_p - 0.5).abs() < 0.02, "{classic_p}");
}

#[test]
fn parameters_out_of_range_are_named() {
    let bad = |spec: DualPi2Spec| DualPi2::<u32>::new(&spec).unwrap_err().parameter;
    let good = DualPi2Spec::default();
    assert_eq!(bad(DualPi2Spec { target_ns: 0, ..good }), "target_ns");
    assert_eq!(bad(DualPi2Spec { update_ns: 0, ..good }), "update_ns");
    assert_eq!(bad(DualPi2Spec { alpha: f64::NAN, ..good }), "alpha");
    assert_eq!(bad(DualPi2Spec { beta: -1.0, ..good }), "beta");
    assert_eq!(bad(DualPi2Spec { k: 0.5, ..good }), "k");
    assert_eq!(bad(DualPi2Spec { max_classic_p: 0.0, ..good }), "max_classic_p");
    assert_eq!(bad(DualPi2Spec { ramp_ns: u64::MAX, ..good }), "ramp_ns");
    assert_eq!(bad(DualPi2Spec { limit_packets: 0, ..good }), "limit_packets");
    let schedule = DualPi2Schedule::Weighted { classic_percent: 101 };
    assert_eq!(bad(DualPi2Spec { schedule, ..good }), "classic_percent");
    let schedule = DualPi2Schedule::TimeShifted { shift_ns: u64::MAX };
    assert_eq!(bad(DualPi2Spec { schedule, ..good }), "shift_ns");
}
