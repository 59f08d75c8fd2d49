//! The latency in one direction over veth links. Frames contain the time at which they were sent.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slipring_port::{Interest, Nanos, Port, RunError, WaitStrategy, Waiter, now};

use super::lab::{BenchLab, INPUT_IFNAME, InNetns, SOURCE_IFNAME};
use super::measure::{BenchError, BenchReading, FEEDER_CPU, PROGRAM_CPU, pin, thread_cpu};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use super::veth::{InterfacePath, open};

/// Time between two frames in ns: 10,000 frames per second.
const SEND_INTERVAL_NS: Nanos = 100_000;
const FRAME_BYTES: usize = 60;
/// Position of the timestamp, which follows the Ethernet header.
const STAMP_BYTES: std::ops::Range<usize> = 14..22;
/// Minimum number of frames from which a median is computed.
const MIN_SAMPLES: usize = 100;
const P99_NAME: &str = "p99";
const CPU_NAME: &str = "receiver cpu";

/// The row for one wait strategy.
pub(crate) fn row(patience: WaitStrategy) -> BenchRow {
    let (id, word, bound) = match patience {
        WaitStrategy::Spin => ("latency-spin", "spinning", 1_500.0),
        _ => ("latency-sleep", "sleeping", 40_000.0),
    };
    let title = format!("one-way latency, veth xdp, 10 kpps, {word}");
    BenchRow::new(id, title, RowUnit::Nanos)
        .with(ContenderRole::Ours, "slipring", move || round(patience))
        .goal(GoalMetric::Value, bound)
}

fn round(patience: WaitStrategy) -> Result<BenchRound, BenchError> {
    let mut ports: InNetns<Vec<Port>> = BenchLab::new()?
        .hold(|| Ok(open(InterfacePath::Native, &[SOURCE_IFNAME, INPUT_IFNAME])?))?;
    Ok(Box::new(move |time| {
        let (ports, lab) = ports.parts();
        let [sender, receiver] = &mut ports[..] else {
            return Err(BenchError::Failed("a wrong number of ports".into()));
        };
        lab.within(|| beside_sender(sender, || receive(receiver, patience, time)))
    }))
}

fn beside_sender(
    sender: &mut Port,
    receive: impl FnOnce() -> Result<BenchReading, BenchError>,
) -> Result<BenchReading, BenchError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(sender, &stop));
        let received = receive();
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        received
    })
}

fn send(port: &mut Port, stop: &AtomicBool) -> Result<(), RunError> {
    pin(FEEDER_CPU);
    let queue = &mut port.queues[0];
    let mut next = now();
    while !stop.load(Ordering::Relaxed) {
        // The sender spins. If it slept, other programs would use its caches, and this would show
        // in the result.
        while now() < next {
            spin_loop();
        }
        next += SEND_INTERVAL_NS;
        queue.rings().tx.fill(1, |buf| {
            buf[..FRAME_BYTES].fill(0);
            buf[..6].fill(0xff);
            buf[STAMP_BYTES].copy_from_slice(&now().to_ne_bytes());
            FRAME_BYTES
        });
        queue.tx_sync()?;
    }
    Ok(())
}

fn receive(
    port: &mut Port,
    patience: WaitStrategy,
    time: Duration,
) -> Result<BenchReading, BenchError> {
    pin(PROGRAM_CPU);
    let mut ages: Vec<Nanos> = Vec::with_capacity(1 << 20);
    let mut waiter = Waiter::for_ports([&*port], patience)?;
    let (start, cpu) = (now(), thread_cpu());
    let until = start + time.as_nanos() as Nanos;
    while now() < until && ages.len() < ages.capacity() {
        waiter.wait_ports(&mut [&mut *port], Interest::RX, Some(Duration::from_millis(50)))?;
        let arrival = now();
        for frame in port.queues[0].rings().rx.batch(64).frames() {
            if let Some(stamp) = frame.bytes.get(STAMP_BYTES).and_then(|bytes| bytes.first_chunk())
            {
                ages.push(arrival.saturating_sub(Nanos::from_ne_bytes(*stamp)));
            }
        }
    }
    let busy = (thread_cpu() - cpu) as f64 / (now() - start) as f64;
    summary(ages, busy)
}

fn summary(mut ages: Vec<Nanos>, busy: f64) -> Result<BenchReading, BenchError> {
    if ages.len() < MIN_SAMPLES {
        return Err(BenchError::Failed(format!("only {} frames arrived", ages.len())));
    }
    ages.sort_unstable();
    let at = |share: f64| ages[(ages.len() as f64 * share) as usize] as f64;
    let extra = vec![(P99_NAME, at(0.99)), (CPU_NAME, busy)];
    Ok(BenchReading { value: at(0.5), per_cpu_second: None, extra })
}
