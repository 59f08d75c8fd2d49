use std::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::aqm::AqmQueueView;

const MS: u64 = 1_000_000;

fn codel() -> CoDel {
    CoDel::new(&CoDelSpec::default()).unwrap()
}

/// Returns a packet that has waited for `sojourn_ns` and leaves 100 kB in the queue.
fn late(now_ns: u64, sojourn_ns: u64) -> AqmDeparture {
    let queue = AqmQueueView { bytes: 100_000, packets: 66, delay_ns: 0 };
    AqmDeparture { now_ns, len: 1500, sojourn_ns, queue }
}

fn judge(codel: &mut CoDel, now_ns: u64) -> AqmVerdict {
    codel.dequeue(&late(now_ns, 50 * MS), || true)
}

#[test]
fn drops_follow_the_inverse_square_root_law_to_the_nanosecond() {
    let mut codel = codel();
    assert_eq!(judge(&mut codel, 0), AqmVerdict::Keep);
    let mut due_ns = 100 * MS;
    // Expected gaps between drops after the first one: 100 ms / sqrt(n) in whole ns, for n = 1 to
    // 6.
    for gap_ns in [100_000_000, 70_710_678, 57_735_026, 50_000_000, 44_721_359, 40_824_829] {
        assert_eq!(judge(&mut codel, due_ns - 1), AqmVerdict::Keep);
        assert_eq!(judge(&mut codel, due_ns), AqmVerdict::Drop);
        assert_eq!(judge(&mut codel, due_ns), AqmVerdict::Keep);
        due_ns += gap_ns;
    }
    assert_eq!(codel.drop_count(), Some(6));
}

#[test]
fn one_packet_below_target_ends_dropping_and_starts_a_new_interval() {
    let mut codel = codel();
    judge(&mut codel, 0);
    assert_eq!(judge(&mut codel, 100 * MS), AqmVerdict::Drop);
    assert_eq!(codel.dequeue(&late(150 * MS, 5 * MS - 1), || true), AqmVerdict::Keep);
    assert_eq!(codel.drop_count(), None);
    assert_eq!(judge(&mut codel, 200 * MS), AqmVerdict::Keep);
    assert_eq!(judge(&mut codel, 300 * MS - 1), AqmVerdict::Keep);
    assert_eq!(judge(&mut codel, 300 * MS), AqmVerdict::Drop);
}

/// Drops packets until `drop_count` is `count`, then lets the delay fall below the target. Returns
/// the time at which the delay falls.
fn reach_count_and_recover(codel: &mut CoDel, count: u32) -> u64 {
    let mut now_ns = 0;
    while codel.drop_count() != Some(count) {
        judge(codel, now_ns);
        now_ns += MS / 10;
    }
    codel.dequeue(&late(now_ns, 0), || true);
    now_ns
}

#[test]
fn relapse_soon_after_recovery_resumes_the_count() {
    let mut codel = codel();
    let now_ns = reach_count_and_recover(&mut codel, 10);
    judge(&mut codel, now_ns);
    judge(&mut codel, now_ns + 100 * MS);
    // The previous drop state began with a count of 1 and then made 9 further drops. The new drop
    // state continues with this number.
    assert_eq!(codel.drop_count(), Some(9));
}

#[test]
fn relapse_long_after_recovery_starts_over() {
    let mut codel = codel();
    let now_ns = reach_count_and_recover(&mut codel, 10);
    judge(&mut codel, now_ns + 1600 * MS);
    judge(&mut codel, now_ns + 1700 * MS);
    assert_eq!(codel.drop_count(), Some(1));
}

#[test]
fn queue_of_one_mtu_is_left_alone_however_late() {
    let mut codel = codel();
    let queue = AqmQueueView { bytes: 1514, packets: 1, delay_ns: 0 };
    for now_ms in 0..1000 {
        let packet = AqmDeparture { queue, ..late(now_ms * MS, 900 * MS) };
        assert_eq!(codel.dequeue(&packet, || true), AqmVerdict::Keep);
    }
}

#[test]
fn marks_replace_drops_for_capable_packets_only() {
    let spec = CoDelSpec { ecn: true, ..CoDelSpec::default() };
    let verdicts = [true, false].map(|capable| {
        let mut codel = CoDel::new(&spec).unwrap();
        codel.dequeue(&late(0, 50 * MS), || capable);
        codel.dequeue(&late(100 * MS, 50 * MS), || capable)
    });
    assert_eq!(verdicts, [AqmVerdict::Mark, AqmVerdict::Drop]);
}

#[test]
fn ce_threshold_marks_at_once_what_waited_longer() {
    let spec = CoDelSpec { ce_threshold_ns: Some(MS), ..CoDelSpec::default() };
    let mut codel = CoDel::new(&spec).unwrap();
    assert_eq!(codel.dequeue(&late(0, MS), || true), AqmVerdict::Keep);
    assert_eq!(codel.dequeue(&late(0, MS + 1), || true), AqmVerdict::Mark);
    assert_eq!(codel.dequeue(&late(0, MS + 1), || false), AqmVerdict::Keep);
    assert_eq!(codel.dequeue(&late(0, 20 * MS), || true), AqmVerdict::Mark);
}

#[test]
fn frames_are_not_looked_at_without_need() {
    let mut codel = CoDel::new(&CoDelSpec { ecn: true, ..CoDelSpec::default() }).unwrap();
    for now_ms in [0, 10, 99] {
        codel.dequeue(&late(now_ms * MS, 50 * MS), || panic!("nothing depends on it"));
    }
}

#[test]
fn parameters_out_of_range_are_named() {
    let bad = |spec: CoDelSpec| CoDel::new(&spec).unwrap_err().parameter;
    let good = CoDelSpec::default();
    assert_eq!(bad(CoDelSpec { interval_ns: 0, ..good }), "interval_ns");
    assert_eq!(bad(CoDelSpec { interval_ns: u64::MAX, ..good }), "interval_ns");
    assert_eq!(bad(CoDelSpec { target_ns: 0, ..good }), "target_ns");
    let error = CoDel::new(&CoDelSpec { target_ns: 200 * MS, ..good }).unwrap_err();
    let text = std::string::ToString::to_string(&error);
    assert_eq!(text, "target_ns must be from 1 ns to the interval, and is 200000000");
}

#[test]
fn retuning_keeps_the_drop_state() {
    let mut codel = codel();
    judge(&mut codel, 0);
    judge(&mut codel, 100 * MS);
    codel.retune(&CoDelSpec { interval_ns: 50 * MS, ..CoDelSpec::default() }).unwrap();
    assert_eq!(codel.drop_count(), Some(1));
    assert!(codel.retune(&CoDelSpec { target_ns: 0, ..CoDelSpec::default() }).is_err());
    assert_eq!(codel.spec().interval_ns, 50 * MS);
}

/// The reference: the algorithm as in RFC 8289, section 5. There, one call takes packets off the
/// algorithm's own queue until it finds a packet to send.
#[derive(Default)]
struct Rfc {
    queue: VecDeque<(u64, u32, bool)>,
    first_above: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// What happened to a packet: its arrival time in ns, and whether it was sent unmarked, sent
/// marked, or dropped.
type Fate = (u64, AqmVerdict);

impl Rfc {
    fn bytes(&self) -> u64 {
        self.queue.iter().map(|&(_, len, _)| u64::from(len)).sum()
    }

    fn take(&mut self, now: u64, spec: &CoDelSpec) -> (Option<(u64, u32, bool)>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above = 0;
            return (None, false);
        };
        if now - packet.0 < spec.target_ns || self.bytes() <= u64::from(spec.mtu) {
            self.first_above = 0;
        } else if self.first_above == 0 {
            self.first_above = now + spec.interval_ns;
        } else if now >= self.first_above {
            return (Some(packet), true);
        }
        (Some(packet), false)
    }

    fn law(&self, from: u64, spec: &CoDelSpec) -> u64 {
        let exact = spec.interval_ns as f64 / f64::from(self.count).sqrt();
        // The quotient may be a whole number that a rounding error has made slightly smaller.
        // Adding 1e-9 prevents its truncation to the number below.
        from + (exact + 1e-9).floor() as u64
    }

    fn dequeue(&mut self, now: u64, spec: &CoDelSpec, fates: &mut Vec<Fate>) {
        let (mut packet, mut ok) = self.take(now, spec);
        let mut marked = false;
        if self.dropping {
            self.dropping = ok;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if spec.ecn && packet.unwrap().2 {
                    marked = true;
                    self.drop_next = self.law(self.drop_next, spec);
                    break;
                }
                fates.push((packet.unwrap().0, AqmVerdict::Drop));
                (packet, ok) = self.take(now, spec);
                if ok {
                    self.drop_next = self.law(self.drop_next, spec);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            if spec.ecn && packet.unwrap().2 {
                marked = true;
            } else {
                fates.push((packet.unwrap().0, AqmVerdict::Drop));
                (packet, _) = self.take(now, spec);
            }
            self.dropping = true;
            let delta = self.count.wrapping_sub(self.last_count);
            let since = now.wrapping_sub(self.drop_next) as i64;
            let recent = since < 16 * spec.interval_ns as i64;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.law(now, spec);
            self.last_count = self.count;
        }
        if let Some((arrival, ..)) = packet {
            fates.push((arrival, if marked { AqmVerdict::Mark } else { AqmVerdict::Keep }));
        }
    }
}

/// Runs the tested state machine over a queue until it sends a packet or the queue is empty.
fn dequeue(
    codel: &mut CoDel,
    queue: &mut VecDeque<(u64, u32, bool)>,
    now_ns: u64,
    fates: &mut Vec<Fate>,
) {
    while let Some((arrival_ns, len, capable)) = queue.pop_front() {
        let bytes = queue.iter().map(|&(_, len, _)| u64::from(len)).sum();
        let queue = AqmQueueView { bytes, packets: queue.len() as u64, delay_ns: 0 };
        let packet = AqmDeparture { now_ns, len, sojourn_ns: now_ns - arrival_ns, queue };
        let verdict = codel.dequeue(&packet, || capable);
        fates.push((arrival_ns, verdict));
        if verdict != AqmVerdict::Drop {
            return;
        }
    }
}

proptest! {
    #[test]
    fn per_packet_machine_takes_the_decisions_of_the_rfc_loop(
        ecn: bool,
        target_ns in 1_000u64..8_000,
        interval_ns in 10_000u64..60_000,
        steps in prop::collection::vec((1u64..4_000, 0usize..5, 40u32..1500, 0u32..4), 1..400),
    ) {
        let spec = CoDelSpec { target_ns, interval_ns, ecn, ..CoDelSpec::default() };
        let (mut rfc, mut codel) = (Rfc::default(), CoDel::new(&spec).unwrap());
        let (mut queue, mut now_ns) = (VecDeque::new(), 1);
        let (mut expected, mut fates) = (Vec::new(), Vec::new());
        for (step_ns, arrivals, len, capable) in steps {
            now_ns += step_ns;
            for _ in 0..arrivals {
                rfc.queue.push_back((now_ns, len, capable > 0));
                queue.push_back((now_ns, len, capable > 0));
            }
            now_ns += step_ns / 2;
            rfc.dequeue(now_ns, &spec, &mut expected);
            dequeue(&mut codel, &mut queue, now_ns, &mut fates);
            prop_assert_eq!(&expected, &fates);
        }
    }

    #[test]
    fn law_is_the_exact_root_rounded_down(interval_ns in 1u64..=3_600_000_000_000, count: u32) {
        let count = count.max(1);
        let gap = u128::from(interval_over_sqrt(interval_ns, count));
        let square = u128::from(interval_ns).pow(2);
        prop_assert!(gap.pow(2) * u128::from(count) <= square);
        prop_assert!((gap + 1).pow(2) * u128::from(count) > square);
    }
}
