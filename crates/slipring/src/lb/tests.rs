use slipring_core::Host;
use slipring_port::{OpenOptions, Port};

use super::engine::LbProcessor;
use super::groups::OutputGroup;
use super::settings::LbSettings;
use super::setup;
use slipring_datapath::environment::MachineClock;
use slipring_datapath::worker::Worker;

const SETTINGS: LbSettings = LbSettings {
    batch: 2048,
    backlog: 0,
    threads: 1,
    key: 7,
    shows_key: true,
    is_consistent: false,
    looks_inside: false,
};

/// The workers of a balancer between pipes, and the ends of the pipes at which the test sends and
/// receives. `sinks` has the outputs of the first group, then those of the next.
struct Fixture {
    source: Port,
    sinks: Vec<Port>,
    workers: Vec<Worker<LbProcessor>>,
}

impl Fixture {
    fn new(name: &str, groups: &[usize], settings: LbSettings) -> Self {
        let host = Host::new();
        let conf = format!("@conf:rings={}", settings.threads);
        let parse =
            |end: &str, i: usize| slipring_core::parse(&format!("{name}{end}{i}{conf}")).unwrap();
        let outputs: usize = groups.iter().sum();
        let names: Vec<_> = (0..=outputs).flat_map(|i| [parse("{", i), parse("}", i)]).collect();
        let options = OpenOptions { slots: 64, ..OpenOptions::default() };
        let mut ports = host.open_all(&names, &options).unwrap().into_iter();
        let (source, input) = (ports.next().unwrap(), ports.next().unwrap());
        let (mut near, mut sinks) = (vec![input], Vec::new());
        while let (Some(output), Some(sink)) = (ports.next(), ports.next()) {
            near.push(output);
            sinks.push(sink);
        }
        let mut ends = names[2..].iter().step_by(2).cloned();
        let groups: Vec<OutputGroup> = groups
            .iter()
            .map(|&n| OutputGroup { ports: ends.by_ref().take(n).collect() })
            .collect();
        let workers = setup::make_workers(near, &groups, settings).unwrap();
        Self { source, sinks, workers }
    }

    fn send(&mut self, queue: usize, frames: &[Vec<u8>]) {
        let queue = &mut self.source.queues[queue];
        for chunk in frames.chunks(30) {
            queue.tx_sync().unwrap();
            chunk.iter().for_each(|frame| assert!(queue.rings().tx.push(frame)));
            queue.tx_sync().unwrap();
            let workers = &mut self.workers;
            workers.iter_mut().for_each(|worker| while worker.turn(&MachineClock).unwrap() > 0 {});
        }
    }

    fn step(&mut self) {
        let workers = &mut self.workers;
        workers.iter_mut().for_each(|worker| while worker.turn(&MachineClock).unwrap() > 0 {});
    }

    fn received(&mut self, output: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for queue in &mut self.sinks[output].queues {
            queue.rx_sync().unwrap();
            let rx = queue.rings().rx;
            while rx.packet(&mut Vec::new(), |frame| frames.push(frame.to_vec())).is_some() {}
            queue.rx_sync().unwrap();
        }
        frames
    }

    fn count(
        &self,
        counter: fn(&super::engine::SharedOutputStats) -> &std::sync::atomic::AtomicU64,
    ) -> u64 {
        let outputs = self.workers.iter().flat_map(|worker| &worker.processor.stats.outputs);
        outputs.map(|stats| counter(stats).load(std::sync::atomic::Ordering::Relaxed)).sum()
    }
}

/// Returns a frame between two MAC addresses. It is not an IP packet; `number` is its payload.
fn frame(from: u8, to: u8, number: u8, len: usize) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat();
    frame.extend([0x88, 0xb5, number]);
    frame.resize(len, number);
    frame
}

#[test]
fn a_flow_and_its_way_back_go_to_one_output_in_order() {
    let mut fixture = Fixture::new("flows", &[3], SETTINGS);
    let sent: Vec<_> = (0..60)
        .map(|i| if i % 2 == 0 { frame(1, i / 6, i, 60) } else { frame(i / 6, 1, i, 60) })
        .collect();
    fixture.send(0, &sent);
    let mut all = 0;
    for output in 0..3 {
        let got = fixture.received(output);
        all += got.len();
        for flow in 0..10u8 {
            let mine = |frame: &&Vec<u8>| frame[14] / 6 == flow;
            let (got, sent): (Vec<_>, Vec<_>) =
                (got.iter().filter(mine).collect(), sent.iter().filter(mine).collect());
            assert!(got.is_empty() || got == sent, "flow {flow} at output {output}");
        }
    }
    assert_eq!(all, 60);
}

#[test]
fn every_group_gets_every_frame() {
    let mut fixture = Fixture::new("groups", &[2, 1, 2], SETTINGS);
    let sent: Vec<_> = (0..30).map(|i| frame(1, i, i, 60 + usize::from(i))).collect();
    fixture.send(0, &sent);
    let mut got: Vec<Vec<Vec<u8>>> = (0..5).map(|output| fixture.received(output)).collect();
    for group in [0..2, 2..3, 3..5] {
        let mut frames = got[group].concat();
        frames.sort();
        let mut sent = sent.clone();
        sent.sort();
        assert_eq!(frames, sent);
    }
    got.clear();
    assert_eq!(fixture.count(|stats| &stats.forwarded), 90);
}

#[test]
fn frames_above_the_buffer_size_stay_whole_in_every_group() {
    // A batch limit of one slot must not block a frame that takes several slots.
    let mut fixture = Fixture::new("jumbo", &[2, 2], LbSettings { batch: 1, ..SETTINGS });
    let sent: Vec<_> = (0..4).map(|i| frame(1, i, i, 9000)).collect();
    fixture.send(0, &sent);
    for group in [0..2, 2..4] {
        let mut frames: Vec<_> = group.flat_map(|output| fixture.received(output)).collect();
        frames.sort();
        assert_eq!(frames, sent);
    }
}

#[test]
fn a_full_output_loses_only_its_own_frames_and_counts_them() {
    let mut fixture = Fixture::new("full", &[2], SETTINGS);
    let flows: Vec<_> = (0..100).map(|i| frame(1, i, i, 60)).collect();
    let mut sent = 0;
    for _ in 0..4 {
        fixture.send(0, &flows);
        sent += 100;
        // The peer of output 0 reads its frames; the peer of output 1 does not.
        fixture.received(0);
    }
    let stuck = fixture.received(1).len() as u64;
    assert_eq!(stuck, 63);
    let (forwarded, dropped) = (fixture.count(|b| &b.forwarded), fixture.count(|b| &b.dropped));
    assert_eq!(forwarded + dropped, sent);
    assert!(dropped > 0);
}

#[test]
fn frames_wait_for_a_full_output_and_come_later_in_order() {
    let mut fixture = Fixture::new("wait", &[1], LbSettings { backlog: 50, ..SETTINGS });
    let sent: Vec<_> = (0..120).map(|i| frame(1, 2, i, 60)).collect();
    fixture.send(0, &sent);
    assert_eq!((fixture.count(|b| &b.waiting), fixture.count(|b| &b.dropped)), (50, 7));
    let mut got = fixture.received(0);
    fixture.step();
    got.extend(fixture.received(0));
    // The backlog was full, so the frames that had waited longest were dropped.
    let want = [&sent[..63], &sent[70..]].concat();
    assert_eq!(got, want);
}

#[test]
fn threads_share_every_output() {
    let mut fixture = Fixture::new("threads", &[2], LbSettings { threads: 2, ..SETTINGS });
    assert_eq!(fixture.workers.len(), 2);
    let sent: Vec<_> = (0..30).map(|i| frame(1, i, i, 60)).collect();
    fixture.send(0, &sent[..15]);
    fixture.send(1, &sent[15..]);
    let mut got: Vec<_> = (0..2).flat_map(|output| fixture.received(output)).collect();
    got.sort();
    let mut want = sent;
    want.sort();
    assert_eq!(got, want);
}

#[test]
fn consistent_outputs_keep_their_flows_when_one_leaves() {
    let consistent = LbSettings { is_consistent: true, ..SETTINGS };
    let flows: Vec<_> = (0..60).map(|i| frame(1, i, i, 60)).collect();
    let output_of = |groups: usize| {
        let mut fixture = Fixture::new("consistent", &[groups], consistent);
        fixture.send(0, &flows);
        (0..groups).map(|output| fixture.received(output)).collect::<Vec<_>>()
    };
    let (before, after) = (output_of(4), output_of(3));
    for (was, is) in before.iter().zip(&after) {
        assert!(was.iter().all(|frame| is.contains(frame)));
    }
}
