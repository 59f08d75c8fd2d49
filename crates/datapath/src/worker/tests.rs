use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slipring_port::{Queue, QueueCounters, QueueRings, WaitFds};

use super::*;
use crate::queues::WorkerQueue;
use crate::slots::{bytes, slots_of, whole_frames};
use crate::virtual_time::{SharedTraffic, VirtualPort, VirtualTime, VirtualTraffic, lock};

const MS: Nanos = 1_000_000;

/// Forwards the frames of all other queues to the first queue. Holds each frame for `hold`.
#[derive(Default)]
struct HoldingProcessor {
    hold: Nanos,
    burst: u32,
    held: std::collections::VecDeque<(Nanos, Vec<u8>)>,
    is_closed: bool,
    /// The turns that took frames: the queue, and the time.
    bursts: Vec<(usize, Nanos)>,
    published: u32,
}

impl HoldingProcessor {
    fn send_due(&mut self, queues: &mut WorkerQueues, now: Nanos) -> u32 {
        let mut sent = 0;
        while self.held.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, frame)) = self.held.front()
        {
            if !queues[0].copy_frame(frame) {
                queues[0].await_room();
                break;
            }
            self.held.pop_front();
            sent += 1;
        }
        sent
    }
}

impl FrameProcessor for HoldingProcessor {
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, clock: &impl Clock) -> u32 {
        let now = clock.now();
        let (outputs, inputs) = queues.split_at_mut(1);
        let (output, rx) = (&mut outputs[0], inputs[input - 1].rx());
        let (end, mut at) = (whole_frames(rx, self.burst).min(self.burst), 0);
        while at < end {
            let slots = slots_of(rx, at, end);
            if self.hold > 0 {
                let frame = rx.frame(at).unwrap().bytes.to_vec();
                self.held.push_back((now + self.hold, frame));
            } else if !output.forward_frame(rx, at, slots, true) {
                output.await_room();
                inputs[input - 1].block();
                break;
            }
            at += slots;
        }
        inputs[input - 1].rx().advance(at);
        self.bursts.extend((at > 0).then_some((input, now)));
        at
    }

    fn run_tasks(&mut self, _: &mut WorkerQueues, _: &impl Clock) -> bool {
        !self.is_closed
    }

    fn before_inputs(&mut self, queues: &mut WorkerQueues, clock: &impl Clock) -> u32 {
        self.send_due(queues, clock.now())
    }

    fn next_due(&self) -> Option<Nanos> {
        self.held.front().map(|(due, _)| *due)
    }

    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool {
        queues.are_all_exhausted() && self.held.is_empty()
    }

    fn drain(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> Result<bool, RunError> {
        self.send_due(queues, Nanos::MAX);
        Ok(self.held.is_empty())
    }

    fn publish(&mut self) {
        self.published += 1;
    }
}

/// A worker in virtual time, with two ports from which frames come and one to which they go.
struct Run {
    time: VirtualTime,
    worker: Worker<HoldingProcessor>,
    output: SharedTraffic,
    inputs: [SharedTraffic; 2],
}

impl Run {
    fn new(stop_at: Nanos, processor: HoldingProcessor) -> Self {
        let time = VirtualTime::until(stop_at);
        let [to, from, other] =
            time.ports::<3>(64).map(|VirtualPort { queue, traffic }| (queue, traffic));
        let queues =
            [WorkerQueue::output(to.0), WorkerQueue::input(from.0), WorkerQueue::input(other.0)];
        let worker = Worker::new(processor, WorkerQueues::new(queues));
        Self { time, worker, output: to.1, inputs: [from.1, other.1] }
    }

    fn arrive(&mut self, input: usize, at: Nanos, byte: u8) {
        lock(&self.inputs[input]).arrivals.push_back((at, vec![byte; 60]));
    }

    fn end(&mut self) {
        self.inputs.iter().for_each(|input| lock(input).ends = true);
    }

    fn run(&mut self) -> Vec<(Nanos, u8)> {
        self.worker.run(&mut self.time).unwrap();
        lock(&self.output).sent.iter().map(|(at, frame)| (*at, frame[0])).collect()
    }
}

fn forwarding() -> HoldingProcessor {
    HoldingProcessor { burst: 64, ..HoldingProcessor::default() }
}

#[test]
fn a_frame_is_forwarded_when_it_arrives_and_the_run_ends_with_its_inputs() {
    let mut run = Run::new(Nanos::MAX, forwarding());
    run.arrive(0, 5 * MS, 1);
    run.arrive(1, 3000 * MS, 2);
    run.end();
    assert_eq!(run.run(), [(5 * MS, 1), (3000 * MS, 2)]);
    // The longest sleep is half a second. So there are six sleeps before the second frame comes,
    // and one sleep for each frame.
    assert!(run.time.waits() <= 8, "{} waits", run.time.waits());
}

#[test]
fn a_frame_that_is_held_leaves_when_it_is_due_and_never_earlier() {
    let mut run = Run::new(Nanos::MAX, HoldingProcessor { hold: 7 * MS, ..forwarding() });
    run.arrive(0, 5 * MS, 1);
    run.end();
    let sent = run.run();
    assert_eq!(sent.len(), 1);
    assert!((12 * MS..12 * MS + 1000).contains(&sent[0].0), "{sent:?}");
}

#[test]
fn a_full_output_holds_frames_back_loses_none_and_is_not_polled_meanwhile() {
    let mut run = Run::new(Nanos::MAX, forwarding());
    lock(&run.output).stalled_until = 400 * MS;
    (0..100).for_each(|byte| run.arrive(0, MS, byte));
    run.end();
    let sent = run.run();
    assert_eq!(sent.iter().map(|(_, byte)| *byte).collect::<Vec<_>>(), Vec::from_iter(0..100));
    assert_eq!(sent[0].0, 400 * MS);
    assert!(run.time.waits() < 10, "{} waits", run.time.waits());
}

#[test]
fn inputs_that_share_a_full_output_take_turns() {
    let mut run = Run::new(Nanos::MAX, forwarding());
    for n in 0..50 {
        lock(&run.output).stalled_until = 0;
        (0..40).for_each(|_| run.arrive(0, n, 0));
        (0..40).for_each(|_| run.arrive(1, n, 1));
    }
    run.end();
    let sent = run.run();
    assert_eq!(sent.len(), 4000);
    for half in sent.chunks(2000) {
        let first = half.iter().filter(|(_, byte)| *byte == 0).count();
        assert!((800..=1200).contains(&first), "{first} of 2000 are of the first input");
    }
}

#[test]
fn nothing_is_taken_before_frames_are_admitted() {
    let mut run = Run::new(600 * MS, HoldingProcessor { is_closed: true, ..forwarding() });
    run.arrive(0, MS, 1);
    assert_eq!(run.run(), []);
    assert!(run.time.waits() < 4, "frames end no wait: {}", run.time.waits());
}

#[test]
fn what_is_held_at_the_end_is_sent_and_the_last_counters_are_published() {
    let mut run = Run::new(10 * MS, HoldingProcessor { hold: 1000 * MS, ..forwarding() });
    run.arrive(0, MS, 1);
    let sent = run.run();
    assert_eq!(sent.iter().map(|(_, byte)| *byte).collect::<Vec<_>>(), [1]);
    assert!(sent[0].0 >= 10 * MS);
    let turns = run.worker.processor.published;
    run.worker.processor.publish_final();
    assert!(turns > 0 && run.worker.processor.published == turns + 1);
}

#[test]
fn an_output_that_never_takes_frames_delays_the_end_for_a_bounded_time() {
    let mut run = Run::new(10 * MS, forwarding());
    lock(&run.output).stalled_until = Nanos::MAX;
    run.arrive(0, MS, 1);
    assert_eq!(run.run(), []);
    let ended = run.time.now();
    assert!((10 * MS + DRAIN_TIMEOUT_NS..=11 * MS + DRAIN_TIMEOUT_NS).contains(&ended), "{ended}");
}

/// The example of a processor in docs/design/commands.md.
struct DropShort {
    least: usize,
    dropped: u64,
}

impl FrameProcessor for DropShort {
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, _: &impl Clock) -> u32 {
        let Ok([output, source]) = queues.get_disjoint_mut([0, input]) else { return 0 };
        source.take_frames(256, |rx, at, slots| {
            if bytes(rx, at, slots, &mut Vec::new()).len() < self.least {
                self.dropped += 1;
                return true;
            }
            let is_sent = output.forward_frame(rx, at, slots, true);
            if !is_sent {
                output.await_room();
            }
            is_sent
        })
    }

    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool {
        queues.are_all_exhausted()
    }
}

#[test]
fn the_example_of_the_documentation_drops_short_frames() {
    let mut time = VirtualTime::until(Nanos::MAX);
    let [to, from] = time.ports::<2>(64);
    let frames = (0..200).map(|n| (n * MS, vec![0; if n % 2 == 0 { 60 } else { 5000 }]));
    *lock(&from.traffic) =
        VirtualTraffic { arrivals: frames.collect(), ends: true, ..VirtualTraffic::default() };
    let queues = [WorkerQueue::output(to.queue), WorkerQueue::input(from.queue)];
    let shorts = DropShort { least: 100, dropped: 0 };
    let mut worker = Worker::new(shorts, WorkerQueues::new(queues));
    worker.run(&mut time).unwrap();
    let sent = &lock(&to.traffic).sent;
    assert_eq!((sent.len(), worker.processor.dropped), (100, 100));
    assert!(sent.iter().all(|(_, frame)| frame.len() == 5000));
}

/// A queue whose port is lost at a time that the test chooses.
struct LosableQueue {
    queue: Box<dyn Queue>,
    is_lost: Arc<AtomicBool>,
}

impl LosableQueue {
    fn check(&self) -> Result<(), RunError> {
        let lost = || RunError::system("port", "sync", std::io::ErrorKind::NotConnected.into());
        if self.is_lost.load(Ordering::Relaxed) { Err(lost()) } else { Ok(()) }
    }
}

impl Queue for LosableQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        self.queue.rings()
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.check()?;
        self.queue.tx_sync()
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.check()?;
        self.queue.rx_sync()
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        self.queue.wait_fds()
    }

    fn deadline(&self) -> Option<Nanos> {
        self.queue.deadline()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.queue.counters()
    }
}

/// For each received frame, sends a frame to every output. When it receives the first frame, the
/// port of the [`LosableQueue`] is lost.
struct LosingProcessor {
    is_lost: Arc<AtomicBool>,
    outputs: std::ops::Range<usize>,
    /// The methods that the loop has called at its end.
    ended: Vec<&'static str>,
}

impl FrameProcessor for LosingProcessor {
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, _: &impl Clock) -> u32 {
        self.is_lost.store(true, Ordering::Relaxed);
        queues[input].rx().advance(1);
        self.outputs.clone().for_each(|output| assert!(queues[output].copy_frame(&[1; 60])));
        1
    }

    fn is_finished(&mut self, _: &mut WorkerQueues) -> bool {
        false
    }

    fn abandon(&mut self, _: &mut WorkerQueues) {
        self.ended.push("abandon");
    }

    fn publish_final(&mut self) {
        self.ended.push("publish_final");
    }
}

/// Runs a worker with one frame until a port is lost: either the second input, or the first output.
/// With `is_lost`, the port is lost before the frame arrives. Returns how many frames have left by
/// the output that is not lost, and what was called at the end.
fn run_until_lost(is_lost: bool, loses_output: bool) -> (usize, Vec<&'static str>) {
    let mut time = VirtualTime::until(Nanos::MAX);
    let [to, from, other] = time.ports::<3>(64);
    lock(&from.traffic).arrivals.push_back((MS, vec![0; 60]));
    let is_lost = Arc::new(AtomicBool::new(is_lost));
    let lost = Box::new(LosableQueue { queue: other.queue, is_lost: is_lost.clone() });
    let [to_queue, from_queue] = [WorkerQueue::output(to.queue), WorkerQueue::input(from.queue)];
    let (queues, outputs) = match loses_output {
        true => ([WorkerQueue::output(lost), to_queue, from_queue], 0..2),
        false => ([to_queue, from_queue, WorkerQueue::input(lost)], 0..1),
    };
    let processor = LosingProcessor { is_lost, outputs, ended: Vec::new() };
    let mut worker = Worker::new(processor, WorkerQueues::new(queues));
    assert!(worker.run(&mut time).is_err());
    (lock(&to.traffic).sent.len(), worker.processor.ended)
}

#[test]
fn a_lost_port_ends_a_run_after_the_frames_of_the_others_are_sent_and_all_are_accounted_for() {
    let ended = vec!["abandon", "publish_final"];
    for loses_output in [true, false] {
        assert_eq!(run_until_lost(false, loses_output), (1, ended.clone()), "in a turn");
        assert_eq!(run_until_lost(true, loses_output), (0, ended.clone()), "in a wait");
    }
}
