//! One-way latency over veth links: frames carry the time at which they were sent.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slipring_port::{Interest, Nanos, Patience, Port, RunError, Waiter, now};

use super::lab::{Held, INPUT, Lab, SOURCE};
use super::measure::{FEEDER_CPU, PROGRAM_CPU, Reading, Why, pin, thread_cpu};
use super::row::{Bout, Of, Role, Row, Unit};
use super::veth::{Path, open};

/// 10,000 frames per second.
const INTERVAL: Nanos = 100_000;
const LEN: usize = 60;
/// Where the time stands: behind the Ethernet header.
const STAMP: std::ops::Range<usize> = 14..22;
/// At least this many frames make a median.
const ENOUGH: usize = 100;
const P99: &str = "p99";
const CPU: &str = "receiver cpu";

/// The row for one way of waiting.
pub(crate) fn row(patience: Patience) -> Row {
    let (id, word, bound) = match patience {
        Patience::Spin => ("latency-spin", "spinning", 1_500.0),
        _ => ("latency-sleep", "sleeping", 40_000.0),
    };
    let title = format!("one-way latency, veth xdp, 10 kpps, {word}");
    Row::new(id, title, Unit::Nanos)
        .with(Role::Ours, "slipring", move || bout(patience))
        .goal(Of::Value, bound)
}

fn bout(patience: Patience) -> Result<Bout, Why> {
    let mut ports: Held<Vec<Port>> =
        Lab::new()?.hold(|| Ok(open(Path::Native, &[SOURCE, INPUT])?))?;
    Ok(Box::new(move |time| {
        let (ports, lab) = ports.parts();
        let [sender, receiver] = &mut ports[..] else {
            return Err(Why::Failed("a wrong number of ports".into()));
        };
        lab.within(|| beside_sender(sender, || receive(receiver, patience, time)))
    }))
}

fn beside_sender(
    sender: &mut Port,
    receive: impl FnOnce() -> Result<Reading, Why>,
) -> Result<Reading, Why> {
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
        // Sleeping would leave the sender's caches to others, and measure that.
        while now() < next {
            spin_loop();
        }
        next += INTERVAL;
        queue.rings().tx.fill(1, |buf| {
            buf[..LEN].fill(0);
            buf[..6].fill(0xff);
            buf[STAMP].copy_from_slice(&now().to_ne_bytes());
            LEN
        });
        queue.tx_sync()?;
    }
    Ok(())
}

fn receive(port: &mut Port, patience: Patience, time: Duration) -> Result<Reading, Why> {
    pin(PROGRAM_CPU);
    let mut ages: Vec<Nanos> = Vec::with_capacity(1 << 20);
    let mut waiter = Waiter::for_ports([&*port], patience)?;
    let (start, cpu) = (now(), thread_cpu());
    let until = start + time.as_nanos() as Nanos;
    while now() < until && ages.len() < ages.capacity() {
        waiter.wait_ports(&mut [&mut *port], Interest::RX, Some(Duration::from_millis(50)))?;
        let arrival = now();
        for frame in port.queues[0].rings().rx.batch(64) {
            if let Some(stamp) = frame.bytes.get(STAMP).and_then(|bytes| bytes.first_chunk()) {
                ages.push(arrival.saturating_sub(Nanos::from_ne_bytes(*stamp)));
            }
        }
    }
    let busy = (thread_cpu() - cpu) as f64 / (now() - start) as f64;
    summary(ages, busy)
}

fn summary(mut ages: Vec<Nanos>, busy: f64) -> Result<Reading, Why> {
    if ages.len() < ENOUGH {
        return Err(Why::Failed(format!("only {} frames arrived", ages.len())));
    }
    ages.sort_unstable();
    let at = |share: f64| ages[(ages.len() as f64 * share) as usize] as f64;
    let extra = vec![(P99, at(0.99)), (CPU, busy)];
    Ok(Reading { value: at(0.5), per_cpu_second: None, extra })
}
