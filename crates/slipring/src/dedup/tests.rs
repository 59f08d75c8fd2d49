use std::sync::Arc;

use slipring_core::Host;
use slipring_dedup::{Dedup, DedupLimits};
use slipring_port::{OpenOptions, Port};

use super::engine::{self, DedupOptions, DedupProcessor};
use super::report::SharedDedupStats;
use slipring_datapath::captured_run::run_captured;
use slipring_datapath::environment::MachineClock;
use slipring_datapath::virtual_time::{VirtualTime, lock};
use slipring_datapath::worker::Worker;

/// A worker that forwards between two pipes of several rings, and the ends of the pipes at which
/// the test sends and receives.
struct Fixture {
    source: Port,
    sink: Port,
    worker: Worker<DedupProcessor>,
}

impl Fixture {
    fn new(name: &str, limits: DedupLimits, dedup_options: DedupOptions) -> Self {
        let names = ["{0", "}0", "{1", "}1"]
            .map(|end| slipring_core::parse(&format!("{name}{end}@conf:rings=2")).unwrap());
        let options = OpenOptions { slots: 64, ..OpenOptions::default() };
        let ports = Host::new().open_all(&names, &options).unwrap();
        let [source, input, output, sink] = <[Port; 4]>::try_from(ports).unwrap();
        let dedup = Dedup::new(limits, [1, 2]).unwrap();
        let dedup = if dedup_options.hold { dedup.holding() } else { dedup };
        let stats = Arc::new(SharedDedupStats::default());
        let worker = engine::worker(input.queues, output.queues, dedup, dedup_options, stats);
        Self { source, sink, worker }
    }

    fn send(&mut self, queue: usize, frames: &[&[u8]]) {
        let queue = &mut self.source.queues[queue];
        queue.tx_sync().unwrap();
        frames.iter().for_each(|frame| assert!(queue.rings().tx.push(frame)));
        queue.tx_sync().unwrap();
    }

    fn step(&mut self) {
        while self.worker.turn(&MachineClock).unwrap() > 0 {}
    }

    /// Returns the frames that arrived, by queue.
    fn received(&mut self) -> [Vec<Vec<u8>>; 2] {
        [0, 1].map(|queue| {
            let (queue, mut frames) = (&mut self.sink.queues[queue], Vec::new());
            queue.rx_sync().unwrap();
            let rx = queue.rings().rx;
            while rx.packet(&mut Vec::new(), |frame| frames.push(frame.to_vec())).is_some() {}
            queue.rx_sync().unwrap();
            frames
        })
    }
}

const WINDOW: DedupLimits =
    DedupLimits { window_ns: None, frames: Some(100), bytes: DedupLimits::DEFAULT_BYTES };
const PASS: DedupOptions = DedupOptions { burst: 1024, may_swap: true, hold: false };

#[test]
fn copies_are_dropped_whatever_queue_they_come_by_and_order_is_kept() {
    for may_swap in [true, false] {
        let mut fixture = Fixture::new("queues", WINDOW, DedupOptions { may_swap, ..PASS });
        let long = vec![7; 5000];
        fixture.send(0, &[b"a", &long, b"a", b"b"]);
        fixture.send(1, &[b"c", b"b", &long, b"d"]);
        fixture.step();
        let [first, second] = fixture.received();
        assert_eq!(first, [b"a".to_vec(), long.clone(), b"b".to_vec()]);
        assert_eq!(second, [b"c", b"d"]);
    }
}

#[test]
fn buffers_that_were_exchanged_do_not_change_what_is_remembered() {
    let mut fixture = Fixture::new("swap", WINDOW, PASS);
    for round in 0..50u8 {
        let frames: Vec<_> =
            (0..20).map(|i| vec![round.wrapping_mul(7) ^ i; 60 + i as usize]).collect();
        let frames: Vec<_> = frames.iter().map(Vec::as_slice).collect();
        fixture.send(0, &frames);
        fixture.send(1, &frames);
        fixture.step();
        let [first, second] = fixture.received();
        // Each frame arrives once; those of the last rounds are still in the window.
        let all: Vec<_> = first.iter().chain(&second).collect();
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), all.len(), "round {round}");
    }
}

#[test]
fn a_full_output_holds_frames_back_and_loses_none() {
    let mut fixture = Fixture::new("full", WINDOW, PASS);
    let frames: Vec<_> = (0..63u8).map(|i| vec![i; 60]).collect();
    let more: Vec<_> = (100..150u8).map(|i| vec![i; 60]).collect();
    fixture.send(0, &frames.iter().map(Vec::as_slice).collect::<Vec<_>>());
    fixture.step();
    fixture.send(0, &more.iter().map(Vec::as_slice).collect::<Vec<_>>());
    fixture.step();
    assert_eq!(fixture.received()[0], frames);
    fixture.step();
    assert_eq!(fixture.received()[0], more);
}

#[test]
fn held_frames_come_when_they_leave_the_window_by_the_queue_they_came_for() {
    let limits = DedupLimits { frames: Some(2), ..WINDOW };
    let mut fixture = Fixture::new("hold", limits, DedupOptions { hold: true, ..PASS });
    fixture.send(0, &[b"a"]);
    fixture.send(1, &[b"b", b"a"]);
    fixture.step();
    assert_eq!(fixture.received(), [vec![], Vec::<Vec<u8>>::new()]);
    fixture.send(1, &[b"c", b"d"]);
    fixture.step();
    assert_eq!(fixture.received(), [vec![b"a".to_vec()], vec![b"b".to_vec()]]);
}

/// Runs hold mode in virtual time, with a window of 5 ms, from one port to another. The output port
/// has no space before `stalled_until`. Returns the time and the number of each sent frame, and how
/// often the worker waited.
fn hold_in_virtual_time(arrivals: &[(u64, u8)], stalled_until: u64) -> (Vec<(u64, u8)>, u64) {
    let limits =
        DedupLimits { window_ns: Some(5_000_000), frames: None, bytes: DedupLimits::DEFAULT_BYTES };
    let mut time = VirtualTime::until(u64::MAX);
    let [from, to] = time.ports(64);
    for &(at, byte) in arrivals {
        lock(&from.traffic).arrivals.push_back((at, vec![byte; 60]));
    }
    lock(&from.traffic).ends = true;
    lock(&to.traffic).stalled_until = stalled_until;
    let dedup = Dedup::new(limits, [1, 2]).unwrap().holding();
    let options = DedupOptions { hold: true, ..PASS };
    let (stats, queues) = (Arc::default(), (vec![from.queue], vec![to.queue]));
    engine::worker(queues.0, queues.1, dedup, options, stats).run(&mut time).unwrap();
    let sent = lock(&to.traffic).sent.iter().map(|(at, frame)| (*at, frame[0])).collect();
    (sent, time.waits())
}

#[test]
fn held_frames_come_when_their_time_is_over() {
    let (sent, _) = hold_in_virtual_time(&[(1_000_000, 1), (2_000_000, 1), (3_000_000, 2)], 0);
    assert_eq!(sent.iter().map(|(_, byte)| *byte).collect::<Vec<_>>(), [1, 2]);
    // The second copy of a frame does not extend the time for which the first copy stays in the
    // window.
    for ((at, _), due) in sent.iter().zip([6_000_000, 8_000_000]) {
        assert!((due..due + 1000).contains(at), "{sent:?}");
    }
}

#[test]
fn held_frames_that_find_no_room_wait_for_it_without_polling() {
    let arrivals: Vec<_> = (0..100).map(|byte| (1_000_000, byte)).collect();
    let (sent, waits) = hold_in_virtual_time(&arrivals, 400_000_000);
    assert_eq!(sent.iter().map(|(_, byte)| *byte).collect::<Vec<_>>(), Vec::from_iter(0..100));
    assert_eq!(sent[0].0, 400_000_000);
    // The worker wakes 30 us before the oldest frame is due, and polls until then. A poll takes
    // 100 ns of virtual time and counts as a wait, so about 300 of the waits are polls.
    assert!(waits < 1000, "{waits} waits");
}

#[test]
fn a_port_is_not_joined_to_itself() {
    for args in ["-i null: -i null:", "tap:a tap:a", "-i pcap:a.pcap pcap:a.pcap"] {
        let run = run_captured(crate::VERBS, "dedup", args, std::path::Path::new(""));
        assert_eq!(run.status, 2, "{args}: {}", run.stderr);
        assert!(run.stderr.contains("is given twice"), "{args}: {}", run.stderr);
    }
}
