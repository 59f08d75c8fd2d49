//! Tests that a batch has the same result as its frames one by one, and that several dataplanes
//! have the same result as one.

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
        let (mut one, mut many) = (Fixture::new(&rules), Fixture::new(&rules));
        let mut batch = frames();
        let ways: Vec<_> = frames().into_iter().map(|frame| one.offer(frame, 0)).collect();
        let mut together = Vec::new();
        many.dataplane.offer_all(&mut batch[..], 200, (0, 0), &mut many.sink, &mut together);
        assert_eq!(together, ways);
        assert_eq!(many.pass(SECOND), one.pass(SECOND));
        assert_eq!(many.sink.sent.len(), one.sink.sent.len());
        assert_eq!(many.sink.lines, one.sink.lines);
        assert_eq!(many.dataplane.counters(), one.dataplane.counters());
    }
}

/// Three dataplanes that share the flows. A handoff between them is delivered immediately.
struct Fixtures(Vec<Fixture>);

impl Fixtures {
    fn new(rules: &str) -> Self {
        Self((0..3).map(|id| Fixture::at(id, rules)).collect())
    }

    fn offer(&mut self, mut frame: Vec<u8>, host: usize) -> Option<PortIndex> {
        let Fixture { dataplane, sink, now, .. } = &mut self.0[host % 3];
        let output = dataplane.offer(&mut frame, 0, *now, sink);
        self.deliver();
        output
    }

    fn deliver(&mut self) {
        loop {
            let handoffs: Vec<_> = self
                .0
                .iter_mut()
                .enumerate()
                .flat_map(|(at, fixture)| {
                    fixture.dataplane.take_handoffs().into_iter().map(move |p| (at, p))
                })
                .collect();
            if handoffs.is_empty() {
                return;
            }
            for (from, handoff) in handoffs {
                let to = if from == 0 { usize::from(handoff.owner()) } else { 0 };
                let Fixture { dataplane, sink, now, .. } = &mut self.0[to];
                dataplane.accept_handoffs(vec![handoff], *now, sink);
            }
        }
    }

    /// Advances the clock. Returns when each frame left, and from which dataplane.
    fn pass(&mut self, time: DataplaneNanos) -> Vec<(DataplaneNanos, usize)> {
        let mut left = Vec::new();
        let until = self.0[0].now + time;
        while let Some(due) = self.0[0].dataplane.next_ns().filter(|&due| due <= until) {
            self.0.iter_mut().for_each(|fixture| fixture.now = fixture.now.max(due));
            let before: Vec<_> = self.0.iter().map(|fixture| fixture.sink.sent.len()).collect();
            let Fixture { dataplane, sink, now, .. } = &mut self.0[0];
            dataplane.run(*now, sink);
            self.deliver();
            for (at, (fixture, before)) in self.0.iter().zip(before).enumerate() {
                left.extend((before..fixture.sink.sent.len()).map(|_| (due, at)));
            }
        }
        left
    }

    fn tally(&self) -> DataplaneCounters {
        let sum =
            |sum: DataplaneCounters, fixture: &Fixture| sum.plus(&fixture.dataplane.counters());
        self.0[1..].iter().fold(self.0[0].dataplane.counters(), sum)
    }
}

#[test]
fn a_pipe_is_as_fast_as_it_is_however_many_threads_use_it() {
    let mut fixtures =
        Fixtures::new("pipe 1 config bw 10Mbit/s queue 100\nadd 100 pipe 1 ip from any to any");
    for host in 0..9 {
        assert_eq!(fixtures.offer(from_host(host, 9, 1250), usize::from(host)), None);
    }
    let left = fixtures.pass(SECOND);
    let expected: Vec<_> = (0..9).map(|n| (MS * (n as u64 + 1), n % 3)).collect();
    assert_eq!(left, expected, "one after the other, each from where its flow is known");
    let tally = fixtures.tally();
    assert!(tally.is_balanced(), "{tally:?}");
    assert_eq!((tally.sent, tally.handed_off, tally.foreign), (9, 12, 12));
}

#[test]
fn frames_that_go_on_behind_a_pipe_meet_the_states_of_their_own_thread() {
    let mut fixtures = Fixtures::new(
        "pipe 1 config delay 5ms\ndisable one_pass\nadd 100 pipe 1 ip from any to any\n\
         add 200 allow udp from any to any keep-state",
    );
    for host in 0..6 {
        fixtures.offer(from_host(host, 9, 60), usize::from(host));
    }
    assert_eq!(fixtures.pass(SECOND).len(), 6);
    let states: Vec<_> =
        fixtures.0.iter().map(|fixture| fixture.dataplane.firewall().states().len()).collect();
    assert_eq!(states, [2, 2, 2]);
}

#[test]
fn what_a_pipe_drops_of_other_threads_is_counted_once() {
    let mut fixtures =
        Fixtures::new("pipe 1 config bw 1Kbit/s queue 2\nadd 100 pipe 1 ip from any to any");
    for host in 0..9 {
        fixtures.offer(from_host(host, 9, 1250), usize::from(host));
    }
    let tally = fixtures.tally();
    assert!(tally.is_balanced(), "{tally:?}");
    let lost = tally.losses().find(|(cause, _)| cause == "pipe_full").unwrap().1;
    assert!(lost > 0 && lost + tally.waiting == 9, "{tally:?}");
    assert!(fixtures.0[0].dataplane.take_foreign_losses() > 0);
}

#[test]
fn frames_for_a_thread_that_is_behind_are_lost_and_told() {
    let mut fixtures = Fixtures::new("pipe 1 config\nadd 100 pipe 1 ip from any to any");
    fixtures.0[1].dataplane.set_congested(true);
    fixtures.offer(from_host(1, 9, 60), 1);
    assert_eq!(fixtures.tally().of(DataplaneLoss::ShaperCongested), 1);
    assert!(fixtures.tally().is_balanced());
}

#[test]
fn a_neighbour_that_one_thread_has_heard_of_is_known_to_all() {
    let mut fixtures = Fixtures::new("add 100 fwd 10.0.0.9 ip from any to any");
    let mut arp = vec![0; 60];
    arp[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 8, 6]);
    arp[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    arp[22..32].copy_from_slice(&[2, 0, 0, 0, 0, 9, 10, 0, 0, 9]);
    fixtures.offer(arp, 1);
    assert_eq!(fixtures.offer(from_host(2, 9, 60), 2), None);
    let news = fixtures.0[1].dataplane.take_learned_neighbors();
    fixtures.0[2].dataplane.merge_neighbors(news);
    assert_eq!(
        fixtures.offer(from_host(2, 9, 60), 2),
        Some(0),
        "it is behind the port that ARP came by"
    );
}
