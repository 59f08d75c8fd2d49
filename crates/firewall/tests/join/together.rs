//! A batch behaves like its frames one by one; several dataplanes behave like one.

use super::*;
use slipring_firewall::dataplane::DataplaneCounters;

const RULES: &str = "pipe 1 config delay 5ms\nadd 50 check-state\nadd 100 pipe 1 udp from any to any 1\n\
     add 200 deny udp from any to any 2\nadd 300 reject udp from any to any 3\n\
     add 400 allow udp from any to any 4 keep-state\nadd 500 count log udp from any to any 5\n\
     add 600 allow ip from any to any";

fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<_> =
        (0..200).map(|n| from_host(n as u8 % 7, n % 6, 60 + usize::from(n) % 30)).collect();
    frames[77].truncate(9);
    frames
}

#[test]
fn frames_offered_together_go_where_each_would_go() {
    for rules in [RULES.to_owned(), format!("{RULES}\nadd 10 reass ip from any to any in")] {
        let (mut one, mut many) = (Bed::new(&rules), Bed::new(&rules));
        let mut batch = frames();
        let ways: Vec<_> = frames().into_iter().map(|frame| one.offer(frame, 0)).collect();
        let mut together = Vec::new();
        many.join.offer_all(&mut batch[..], 200, (0, 0), &mut many.sink, &mut together);
        assert_eq!(together, ways);
        assert_eq!(many.pass(SECOND), one.pass(SECOND));
        assert_eq!(many.sink.sent.len(), one.sink.sent.len());
        assert_eq!(many.sink.lines, one.sink.lines);
        assert_eq!(many.join.counters(), one.join.counters());
    }
}

/// Three dataplanes among which hosts are distributed; handoffs are delivered at once.
struct Beds(Vec<Bed>);

impl Beds {
    fn new(rules: &str) -> Self {
        Self((0..3).map(|place| Bed::at(place, rules)).collect())
    }

    fn offer(&mut self, mut frame: Vec<u8>, host: usize) -> Option<PortIndex> {
        let Bed { join, sink, now, .. } = &mut self.0[host % 3];
        let way = join.offer(&mut frame, 0, *now, sink);
        self.deliver();
        way
    }

    fn deliver(&mut self) {
        loop {
            let parcels: Vec<_> = self
                .0
                .iter_mut()
                .enumerate()
                .flat_map(|(at, bed)| bed.join.take_handoffs().into_iter().map(move |p| (at, p)))
                .collect();
            if parcels.is_empty() {
                return;
            }
            for (from, parcel) in parcels {
                let to = if from == 0 { usize::from(parcel.owner()) } else { 0 };
                let Bed { join, sink, now, .. } = &mut self.0[to];
                join.accept_handoffs(vec![parcel], *now, sink);
            }
        }
    }

    /// Advances the clock. Returns the times at which frames left, and their dataplanes.
    fn pass(&mut self, time: DataplaneNanos) -> Vec<(DataplaneNanos, usize)> {
        let mut left = Vec::new();
        let until = self.0[0].now + time;
        while let Some(due) = self.0[0].join.next_ns().filter(|&due| due <= until) {
            self.0.iter_mut().for_each(|bed| bed.now = bed.now.max(due));
            let before: Vec<_> = self.0.iter().map(|bed| bed.sink.sent.len()).collect();
            let Bed { join, sink, now, .. } = &mut self.0[0];
            join.run(*now, sink);
            self.deliver();
            for (at, (bed, before)) in self.0.iter().zip(before).enumerate() {
                left.extend((before..bed.sink.sent.len()).map(|_| (due, at)));
            }
        }
        left
    }

    fn tally(&self) -> DataplaneCounters {
        let sum = |sum: DataplaneCounters, bed: &Bed| sum.plus(&bed.join.counters());
        self.0[1..].iter().fold(self.0[0].join.counters(), sum)
    }
}

#[test]
fn a_pipe_is_as_fast_as_it_is_however_many_threads_use_it() {
    let mut beds =
        Beds::new("pipe 1 config bw 10Mbit/s queue 100\nadd 100 pipe 1 ip from any to any");
    for host in 0..9 {
        assert_eq!(beds.offer(from_host(host, 9, 1250), usize::from(host)), None);
    }
    let left = beds.pass(SECOND);
    let expected: Vec<_> = (0..9).map(|n| (MS * (n as u64 + 1), n % 3)).collect();
    assert_eq!(left, expected, "one after the other, each from where its flow is known");
    let tally = beds.tally();
    assert!(tally.is_balanced(), "{tally:?}");
    assert_eq!((tally.sent, tally.handed_off, tally.foreign), (9, 12, 12));
}

#[test]
fn frames_that_go_on_behind_a_pipe_meet_the_states_of_their_own_thread() {
    let mut beds = Beds::new(
        "pipe 1 config delay 5ms\ndisable one_pass\nadd 100 pipe 1 ip from any to any\n\
         add 200 allow udp from any to any keep-state",
    );
    for host in 0..6 {
        beds.offer(from_host(host, 9, 60), usize::from(host));
    }
    assert_eq!(beds.pass(SECOND).len(), 6);
    let states: Vec<_> = beds.0.iter().map(|bed| bed.join.firewall().states().len()).collect();
    assert_eq!(states, [2, 2, 2]);
}

#[test]
fn what_a_pipe_drops_of_other_threads_is_counted_once() {
    let mut beds = Beds::new("pipe 1 config bw 1Kbit/s queue 2\nadd 100 pipe 1 ip from any to any");
    for host in 0..9 {
        beds.offer(from_host(host, 9, 1250), usize::from(host));
    }
    let tally = beds.tally();
    assert!(tally.is_balanced(), "{tally:?}");
    let lost = tally.losses().find(|(cause, _)| cause == "pipe_full").unwrap().1;
    assert!(lost > 0 && lost + tally.waiting == 9, "{tally:?}");
    assert!(beds.0[0].join.take_foreign_losses() > 0);
}

#[test]
fn frames_for_a_thread_that_is_behind_are_lost_and_told() {
    let mut beds = Beds::new("pipe 1 config\nadd 100 pipe 1 ip from any to any");
    beds.0[1].join.set_congested(true);
    beds.offer(from_host(1, 9, 60), 1);
    assert_eq!(beds.tally().of(DataplaneLoss::ShaperCongested), 1);
    assert!(beds.tally().is_balanced());
}

#[test]
fn a_neighbour_that_one_thread_has_heard_of_is_known_to_all() {
    let mut beds = Beds::new("add 100 fwd 10.0.0.9 ip from any to any");
    let mut arp = vec![0; 60];
    arp[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 8, 6]);
    arp[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    arp[22..32].copy_from_slice(&[2, 0, 0, 0, 0, 9, 10, 0, 0, 9]);
    beds.offer(arp, 1);
    assert_eq!(beds.offer(from_host(2, 9, 60), 2), None);
    let news = beds.0[1].join.take_learned_neighbors();
    beds.0[2].join.merge_neighbors(news);
    assert_eq!(
        beds.offer(from_host(2, 9, 60), 2),
        Some(0),
        "it is behind the port that ARP came by"
    );
}
