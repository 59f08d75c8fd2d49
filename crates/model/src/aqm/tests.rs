//! Tests of closed loops: each algorithm controls a FIFO in front of a link, in virtual time.

use std::collections::VecDeque;
use std::vec::Vec;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// A FIFO, controlled by an algorithm, in front of a link.
struct Line {
    aqm: FifoAqm,
    random: Stream,
    ns_per_byte: u64,
    queue: VecDeque<(u64, u32)>,
    bytes: u64,
    free_ns: u64,
    /// Departure time and sojourn time of each packet that left, both in ns.
    out: Vec<(u64, u64)>,
    drops_ns: Vec<u64>,
    marks: usize,
    capable: bool,
}

impl Line {
    /// Creates a line with an empty FIFO and a link of 10 Mbit/s.
    fn new(aqm: FifoAqm) -> Self {
        Self {
            aqm,
            random: Stream::new(29, "line"),
            ns_per_byte: 800,
            queue: VecDeque::new(),
            bytes: 0,
            free_ns: 0,
            out: Vec::new(),
            drops_ns: Vec::new(),
            marks: 0,
            capable: false,
        }
    }

    fn view(&self) -> AqmQueueView {
        let delay_ns = self.bytes * self.ns_per_byte;
        AqmQueueView { bytes: self.bytes, packets: self.queue.len() as u64, delay_ns }
    }

    /// Offers packets of `len` bytes, one every `gap_ns`, until `end_ns`.
    fn offer(&mut self, start_ns: u64, end_ns: u64, gap_ns: u64, len: u32) {
        let mut now_ns = start_ns;
        while now_ns < end_ns {
            self.serve(now_ns);
            self.arrive(now_ns, len);
            now_ns += gap_ns;
        }
    }

    fn arrive(&mut self, now_ns: u64, len: u32) {
        let packet = AqmArrival { now_ns, len, queue: self.view() };
        let capable = self.capable;
        let verdict = self.aqm.admit(&packet, || capable, &mut self.random);
        if self.count(verdict, now_ns) {
            self.queue.push_back((now_ns, len));
            self.bytes += u64::from(len);
        }
    }

    fn serve(&mut self, now_ns: u64) {
        while let Some(&(arrival_ns, len)) = self.queue.front() {
            let at_ns = self.free_ns.max(arrival_ns);
            if at_ns > now_ns {
                return;
            }
            self.queue.pop_front();
            self.bytes -= u64::from(len);
            let (sojourn_ns, queue) = (at_ns - arrival_ns, self.view());
            let packet = AqmDeparture { now_ns: at_ns, len, sojourn_ns, queue };
            let capable = self.capable;
            let verdict = self.aqm.dequeue(&packet, || capable);
            if self.count(verdict, at_ns) {
                self.out.push((at_ns, sojourn_ns));
                self.free_ns = at_ns + u64::from(len) * self.ns_per_byte;
            }
        }
    }

    fn count(&mut self, verdict: AqmVerdict, at_ns: u64) -> bool {
        self.marks += usize::from(verdict == AqmVerdict::Mark);
        if verdict == AqmVerdict::Drop {
            self.drops_ns.push(at_ns);
        }
        verdict != AqmVerdict::Drop
    }

    /// Returns the mean sojourn time in ns, and the share of packets that were dropped, both from
    /// `since_ns` on.
    fn settled(&self, since_ns: u64) -> (f64, f64) {
        let late: Vec<u64> =
            self.out.iter().filter(|(at_ns, _)| *at_ns >= since_ns).map(|(_, ns)| *ns).collect();
        let drops = self.drops_ns.iter().filter(|&&at_ns| at_ns >= since_ns).count();
        let mean_ns = late.iter().sum::<u64>() as f64 / late.len() as f64;
        (mean_ns, drops as f64 / (drops + late.len()) as f64)
    }
}

fn pie(delay_from: DelaySource) -> FifoAqm {
    FifoAqm::Pie(Pie::new(&PieSpec { delay_from, ..PieSpec::default() }).unwrap())
}

#[test]
fn pie_holds_its_target_under_twenty_percent_overload() {
    for from in [DelaySource::DepartureRate, DelaySource::Timestamps, DelaySource::View] {
        let mut line = Line::new(pie(from));
        // 1000 bytes every 667 us are 12 Mbit/s, for a link of 10 Mbit/s.
        line.offer(0, 60 * SECOND, 666_667, 1000);
        let (mean_ns, share) = line.settled(20 * SECOND);
        assert!((mean_ns - 15e6).abs() < 2e6, "{from:?}: {mean_ns}");
        assert!((share - 1.0 / 6.0).abs() < 0.005, "{from:?}: {share}");
    }
}

#[test]
fn pie_lets_a_burst_pass_that_ends_within_its_allowance() {
    let mut line = Line::new(pie(DelaySource::View));
    line.offer(0, 140 * MS, 400_000, 1000);
    line.offer(140 * MS, 2 * SECOND, 100 * MS, 1000);
    assert_eq!(line.drops_ns, []);
    let mut longer = Line::new(pie(DelaySource::View));
    longer.offer(0, 600 * MS, 400_000, 1000);
    assert!(longer.drops_ns[0] >= 150 * MS, "{}", longer.drops_ns[0]);
}

#[test]
fn codel_drops_ever_faster_while_the_queue_stands() {
    let mut line = Line::new(FifoAqm::CoDel(CoDel::new(&CoDelSpec::default()).unwrap()));
    line.offer(0, 3 * SECOND, 760_000, 1000);
    let gaps: Vec<u64> = line.drops_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 100);
    for (n, gap_ns) in gaps.iter().take(100).enumerate() {
        let law_ns = 100e6 / ((n + 1) as f64).sqrt();
        // CoDel decides only when a packet leaves, and packets leave 0.8 ms apart.
        assert!((*gap_ns as f64 - law_ns).abs() <= 0.8e6, "{n}: {gap_ns}");
    }
}

#[test]
fn codel_leaves_a_link_below_its_rate_alone() {
    let mut line = Line::new(FifoAqm::CoDel(CoDel::new(&CoDelSpec::default()).unwrap()));
    line.offer(0, 20 * SECOND, 801_000, 1000);
    assert_eq!(line.drops_ns, []);
}

#[test]
fn red_settles_where_its_probability_meets_the_overload() {
    let spec = RedSpec { min: 20.0, max: 60.0, max_p: 0.2, ..RedSpec::default() };
    let mut line = Line::new(FifoAqm::Red(Red::new(&spec).unwrap()));
    // The link can carry 95 % of the load, so every 20th packet must be dropped. The distances
    // between drops are uniformly distributed from 1 to 1/p, so their mean is (1/p + 1) / 2. For a
    // mean of 20, p is 1/39.
    line.offer(0, 100 * SECOND, 760_000, 1000);
    let (mean_ns, share) = line.settled(30 * SECOND);
    assert!((share - 0.05).abs() < 0.002, "{share}");
    let queue = 20.0 + 40.0 * (1.0 / 39.0) / 0.2;
    assert!((mean_ns - queue * 0.8e6).abs() < 2e6, "{mean_ns} {queue}");
}

#[test]
fn marking_loses_nothing() {
    let spec = CoDelSpec { ecn: true, ..CoDelSpec::default() };
    let mut line = Line::new(FifoAqm::CoDel(CoDel::new(&spec).unwrap()));
    line.capable = true;
    line.offer(0, 3 * SECOND, 760_000, 1000);
    assert!(line.drops_ns.is_empty() && line.marks > 100, "{}", line.marks);
}

#[test]
fn no_algorithm_keeps_everything() {
    let mut line = Line::new(FifoAqm::None);
    line.offer(0, SECOND, 1000, 1500);
    assert!(line.drops_ns.is_empty() && line.marks == 0);
}

#[test]
fn ecn_field_is_the_two_low_bits_of_the_tos() {
    let fields = [0xfc, 0xfd, 0xfe, 0xff].map(Ecn::from_tos);
    assert_eq!(fields, [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]);
    assert_eq!(fields.map(Ecn::is_capable), [false, true, true, true]);
    assert_eq!(fields.map(Ecn::is_l4s), [false, true, false, true]);
}
