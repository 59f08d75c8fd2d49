use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::aqm::{CoDelSpec, DualPi2Spec, Ecn, FairSpec, PieSpec};

/// Returns one queue of each discipline. Limits and targets are so small that packets are lost for
/// every cause.
fn disciplines() -> [MultiQueue<u32>; 3] {
    let limits =
        FairSpec { flows: 8, limit_packets: 40, limit_bytes: 30_000, ..FairSpec::default() };
    let codel =
        CoDelSpec { target_ns: 5_000, interval_ns: 50_000, ecn: true, ..CoDelSpec::default() };
    let pie = PieSpec {
        target_ns: 5_000,
        update_ns: 5_000,
        alpha: 1000.0,
        beta: 1000.0,
        max_burst_ns: 0,
        mean_len: 1,
        ecn: true,
        max_ecn_p: 1.0,
        delay_from: crate::aqm::DelaySource::Timestamps,
        ..PieSpec::default()
    };
    let dual = DualPi2Spec {
        target_ns: 5_000,
        update_ns: 5_000,
        alpha: 1000.0,
        beta: 1000.0,
        limit_packets: 40,
        limit_bytes: 30_000,
        ..DualPi2Spec::default()
    };
    [
        MultiQueue::FqCoDel(FqCoDel::new(&limits, &codel).unwrap()),
        MultiQueue::FqPie(FqPie::new(&limits, &pie).unwrap()),
        MultiQueue::DualPi2(DualPi2::new(&dual).unwrap()),
    ]
}

/// Counts what happened to the packets. Also checks, by handle, that each packet leaves only once.
#[derive(Default)]
struct Account {
    entered: u32,
    bytes_in: u64,
    gone: BTreeSet<u32>,
    bytes_gone: u64,
    limit: u32,
    aqm: u32,
    marks: u32,
}

impl Account {
    fn gone(&mut self, entry: &QueuedPacket<u32>) {
        assert!(self.gone.insert(entry.handle), "{} left twice", entry.handle);
        self.bytes_gone += u64::from(entry.len);
    }

    fn lost(&mut self, entry: &QueuedPacket<u32>, cause: AqmDropCause) {
        self.gone(entry);
        match cause {
            AqmDropCause::Limit => self.limit += 1,
            AqmDropCause::Aqm => self.aqm += 1,
        }
    }

    fn check(&self, queue: &MultiQueue<u32>) {
        assert_eq!(u64::from(self.entered), self.gone.len() as u64 + queue.packets());
        assert_eq!(self.bytes_in, self.bytes_gone + queue.bytes());
        assert!(queue.packets() <= 40 && queue.bytes() <= 30_000);
    }
}

const FIELDS: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];

/// The time in ns that passes, the arriving packets as (flow, length, index of the ECN field in
/// `FIELDS`), and the number of packets to dequeue.
type Step = (u64, std::vec::Vec<(u32, u32, usize)>, usize);

fn step() -> impl Strategy<Value = Step> {
    let packet = (any::<u32>().prop_map(|flow| (flow % 3) << 29), 0u32..2000, 0usize..4);
    (0u64..9_000, prop::collection::vec(packet, 0..6), 0usize..4)
}

fn play(queue: &mut MultiQueue<u32>, steps: &[Step]) -> Account {
    let (mut account, mut random) = (Account::default(), Stream::new(1, "multi"));
    let mut now_ns = 0;
    for (step_ns, arrivals, departures) in steps {
        now_ns += step_ns;
        for &(flow, len, ecn) in arrivals {
            let (handle, ecn) = (account.entered, FIELDS[ecn]);
            let entry = QueuedPacket { handle, len, arrival_ns: now_ns, flow, ecn };
            account.entered += 1;
            account.bytes_in += u64::from(len);
            queue.enqueue(now_ns, entry, &mut random, &mut |lost, why| account.lost(&lost, why));
            account.check(queue);
        }
        for _ in 0..*departures {
            let out = queue.dequeue(now_ns, &mut |lost, why| account.lost(&lost, why));
            if let Some(DequeuedPacket { entry, mark }) = out {
                assert!(!mark || entry.ecn.is_capable());
                account.marks += u32::from(mark);
                account.gone(&entry);
            }
            account.check(queue);
        }
    }
    account
}

proptest! {
    #[test]
    fn every_entry_leaves_once_or_is_lost_once_or_is_still_there(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        for mut queue in disciplines() {
            let mut account = play(&mut queue, &steps);
            let drained = queue.drain();
            let arrivals = drained.iter().map(|departure| departure.entry.arrival_ns);
            prop_assert!(arrivals.is_sorted());
            drained.iter().for_each(|departure| account.gone(&departure.entry));
            account.check(&queue);
            prop_assert_eq!((queue.packets(), queue.bytes()), (0, 0));
        }
    }
}

#[test]
fn random_traffic_meets_every_kind_of_loss() {
    let arrivals =
        |count: u64| (0..count).map(move |k| (((k % 3) << 29) as u32, 900, k as usize % 4));
    // The first step is a burst beyond the limits; in each later step, 2 packets arrive on average
    // and 1 leaves.
    let burst: Step = (0, arrivals(60).collect(), 1);
    let rest = (0..3000u64).map(|n| (4_000, arrivals(n * 7 / 3 % 5).collect(), 1));
    let steps: std::vec::Vec<Step> = core::iter::once(burst).chain(rest).collect();
    for mut queue in disciplines() {
        let account = play(&mut queue, &steps);
        let counts = [account.limit, account.aqm, account.marks];
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }
}

#[test]
fn drained_queue_takes_packets_again() {
    for mut queue in disciplines() {
        let mut random = Stream::new(1, "multi");
        for handle in 0..10 {
            let entry = QueuedPacket { handle, len: 100, arrival_ns: 0, flow: 0, ecn: Ecn::NotEct };
            queue.enqueue(0, entry, &mut random, &mut |_, _| {});
            if handle == 4 {
                queue.drain();
            }
        }
        let out = core::iter::from_fn(|| queue.dequeue(0, &mut |_, _| {}));
        let handles: std::vec::Vec<u32> = out.map(|departure| departure.entry.handle).collect();
        assert_eq!(handles, [5, 6, 7, 8, 9]);
    }
}
