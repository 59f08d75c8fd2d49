//! Measures the cost per packet of each queue management algorithm and token bucket, in ns.
//!
//! `cargo run --release -p slipring-model --example aqm_cost`

use std::hint::black_box;
use std::time::Instant;

use slipring_model::aqm::{
    Aqm, AqmArrival, AqmDeparture, AqmQueueView, CoDel, CoDelSpec, DelaySource, DualPi2,
    DualPi2Spec, Ecn, FairSpec, FifoAqm, FqCoDel, FqPie, MultiQueue, Pie, PieSpec, QueuedPacket,
    Red, RedSpec,
};
use slipring_model::bucket::{ColourMode, MeterKind, TokenBucket, TwoRateSpec, TwoRateThreeColour};
use slipring_model::{ParameterError, Stream};

/// Packets per run. They are few, so that even on a busy machine some runs are not interrupted.
const PACKETS: u64 = 20_000;
const RUNS: usize = 201;
/// Time between two packets in ns: the time that 1000 bytes take at 10 Gbit/s.
const GAP_NS: u64 = 800;

fn main() -> Result<(), ParameterError> {
    println!("{:<44} {:>8} {:>8}", "ns per packet", "best", "median");
    fifos()?;
    queues()?;
    buckets()
}

/// Runs `packet` for each packet number; prints the best and the median run.
fn measure(name: &str, mut packet: impl FnMut(u64)) {
    let mut runs: [f64; RUNS] = core::array::from_fn(|run| {
        let first = run as u64 * PACKETS;
        let start = Instant::now();
        (first..first + PACKETS).for_each(&mut packet);
        start.elapsed().as_nanos() as f64 / PACKETS as f64
    });
    runs.sort_by(f64::total_cmp);
    println!("{name:<44} {:>8.2} {:>8.2}", runs[0], runs[RUNS / 2]);
}

fn fifos() -> Result<(), ParameterError> {
    let codel = FifoAqm::CoDel(CoDel::new(&CoDelSpec::default())?);
    dequeues("CoDel dequeue, below target", codel.clone(), 1_000_000);
    dequeues("CoDel dequeue, dropping", codel, 20_000_000);
    let red = FifoAqm::Red(Red::new(&RedSpec::default())?);
    admits("RED admit, below min", red.clone(), 2);
    admits("RED admit, between min and max", red, 10);
    for from in [DelaySource::View, DelaySource::Timestamps, DelaySource::DepartureRate] {
        let pie = FifoAqm::Pie(Pie::new(&PieSpec { delay_from: from, ..PieSpec::default() })?);
        both(&format!("PIE admit + dequeue, {from:?}"), pie);
    }
    Ok(())
}

fn leaving(n: u64, sojourn_ns: u64) -> AqmDeparture {
    let queue = AqmQueueView { bytes: 100_000, packets: 100, delay_ns: sojourn_ns };
    AqmDeparture { now_ns: n * GAP_NS, len: 1000, sojourn_ns: black_box(sojourn_ns), queue }
}

fn arriving(n: u64, packets: u64) -> AqmArrival {
    let queue = AqmQueueView { bytes: packets * 1000, packets, delay_ns: 20_000_000 };
    AqmArrival { now_ns: n * GAP_NS, len: 1000, queue }
}

fn dequeues(name: &str, mut aqm: FifoAqm, sojourn_ns: u64) {
    measure(name, |n| {
        black_box(aqm.dequeue(&leaving(n, sojourn_ns), || false));
    });
}

fn admits(name: &str, mut aqm: FifoAqm, packets: u64) {
    let mut random = Stream::new(1, "cost");
    measure(name, |n| {
        black_box(aqm.admit(&arriving(n, packets), || false, &mut random));
    });
}

fn both(name: &str, mut aqm: FifoAqm) {
    let mut random = Stream::new(1, "cost");
    measure(name, |n| {
        black_box(aqm.admit(&arriving(n, 100), || false, &mut random));
        black_box(aqm.dequeue(&leaving(n, 20_000_000), || false));
    });
}

fn queues() -> Result<(), ParameterError> {
    let fair = FairSpec::default();
    for flows in [1, 64, 1024] {
        let queue = MultiQueue::FqCoDel(FqCoDel::new(&fair, &CoDelSpec::default())?);
        passes(&format!("FQ-CoDel in + out, flows: {flows}"), queue, flows);
    }
    for flows in [1024, 65_536] {
        flood(flows)?;
    }
    let queue = MultiQueue::FqPie(FqPie::new(&fair, &PieSpec::default())?);
    passes("FQ-PIE in + out, flows: 64", queue, 64);
    let queue = MultiQueue::DualPi2(DualPi2::new(&DualPi2Spec::default())?);
    passes("DualPI2 in + out", queue, 64);
    Ok(())
}

/// Measures enqueueing one packet and dequeueing one, while up to 1000 packets are in the queue.
fn passes(name: &str, mut queue: MultiQueue<u32>, flows: u32) {
    let mut random = Stream::new(1, "cost");
    let entry = |n: u64| QueuedPacket {
        handle: n as u32,
        len: 1000,
        arrival_ns: n * GAP_NS,
        flow: (n as u32 % flows).wrapping_mul(0x9E37_79B9),
        ecn: if n.is_multiple_of(2) { Ecn::Ect1 } else { Ecn::NotEct },
    };
    (0..1000).for_each(|n| queue.enqueue(0, entry(n), &mut random, &mut |_, _| {}));
    measure(name, |n| {
        let now_ns = n * GAP_NS;
        queue.enqueue(now_ns, entry(n), &mut random, &mut |_, _| {});
        black_box(queue.dequeue(now_ns, &mut |_, _| {}));
    });
}

/// Enqueues packets of random flows and dequeues none, so that the queue is full in most runs.
fn flood(flows: u32) -> Result<(), ParameterError> {
    let fair = FairSpec { flows, ..FairSpec::default() };
    let mut queue = FqCoDel::new(&fair, &CoDelSpec::default())?;
    let (mut random, mut pick) = (Stream::new(1, "cost"), Stream::new(1, "flows"));
    measure(&format!("FQ-CoDel in, flooded, queues: {flows}"), |n| {
        let (handle, flow) = (n as u32, pick.next_u64() as u32);
        let entry =
            QueuedPacket { handle, len: 100, arrival_ns: n * GAP_NS, flow, ecn: Ecn::NotEct };
        queue.enqueue(n * GAP_NS, entry, &mut random, &mut |_, _| {});
    });
    Ok(())
}

fn buckets() -> Result<(), ParameterError> {
    let mut bucket = TokenBucket::new(8_000_000_000, 100_000, 0)?;
    measure("token bucket", |n| {
        black_box(bucket.take(n * GAP_NS, 1000));
    });
    let spec = TwoRateSpec {
        kind: MeterKind::Rfc2698,
        mode: ColourMode::Blind,
        committed_bps: 5_000_000_000,
        committed_bytes: 100_000,
        other_bps: 8_000_000_000,
        other_bytes: 100_000,
    };
    let mut meter = TwoRateThreeColour::new(&spec, 0)?;
    measure("two-rate three-colour meter", |n| {
        black_box(meter.colour(n * GAP_NS, 1000, slipring_model::bucket::Colour::Green));
    });
    Ok(())
}
