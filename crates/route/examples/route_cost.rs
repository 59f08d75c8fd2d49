//! Prints the nanoseconds per frame (with CRC, 64 bytes for IPv4 and 66 for IPv6), for all stages
//! of the engine, and how many copies of 1500 bytes per second memcpy makes on the same machine.

#[path = "../benches/router/mod.rs"]
mod router;

use std::hint::black_box;
use std::time::Instant;

use router::{MAC, Router};
use slipring_fib::FibPortIndex;
use slipring_route::{RouteBatch, RouteFrame, RouteVerdict};
use slipring_wire::checksum;

const BATCHES: usize = 20_000;
const DESTINATIONS: usize = 1 << 20;

fn main() {
    println!("memcpy of 1500 bytes: {:.1} M/s", memcpy_rate() / 1e6);
    for (name, mut router) in [
        ("IPv4, 1 route", Router::v4(1, DESTINATIONS)),
        ("IPv4, 1 M routes", Router::v4(1_000_000, DESTINATIONS)),
        ("IPv6, 1 route", Router::v6(1, DESTINATIONS)),
        ("IPv6, 210 k routes", Router::v6(210_000, DESTINATIONS)),
    ] {
        let (fastest, median) = measure(&mut router);
        println!("{name}: {fastest:.1} ns at best, {median:.1} ns in the median");
    }
}

/// Returns two times per packet in ns: the first percentile of the batches, and their median.
fn measure(router: &mut Router) -> (f64, f64) {
    let mut bytes = router.frames(0);
    let mut batch = RouteBatch::new();
    let mut times: Vec<f64> = Vec::new();
    for round in 0..BATCHES {
        for (at, frame) in bytes.iter_mut().enumerate() {
            refresh(frame, router.destinations[(round * 64 + at) % router.destinations.len()]);
        }
        let mut frames: [RouteFrame<'_>; 64] =
            std::array::from_fn(|_| RouteFrame::new(&mut [], FibPortIndex(0)));
        for (frame, bytes) in frames.iter_mut().zip(&mut bytes) {
            frame.bytes = bytes;
        }
        let start = Instant::now();
        router.engine.process(&mut batch, black_box(&mut frames), 0);
        times.push(start.elapsed().as_nanos() as f64 / 64.0);
        assert!(matches!(batch.verdict(63), Some(RouteVerdict::Forward(_))));
    }
    assert_eq!(router.engine.counters().forwarded, 64 * BATCHES as u64);
    times.sort_unstable_by(f64::total_cmp);
    (times[BATCHES / 100], times[BATCHES / 2])
}

/// Converts a forwarded frame back to an arriving one, with another destination.
fn refresh(frame: &mut [u8], destination: u128) {
    frame[..6].copy_from_slice(&MAC.0);
    if frame[12] == 0x86 {
        frame[21] = 64;
        frame[38..54].copy_from_slice(&destination.to_be_bytes());
    } else {
        frame[22] = 64;
        frame[24..26].fill(0);
        frame[30..34].copy_from_slice(&((destination >> 96) as u32).to_be_bytes());
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Returns the number of copies of 1500 bytes per second between two areas of 1024 buffers, as
/// `slipring bench` measures it.
fn memcpy_rate() -> f64 {
    const BUFFERS: usize = 1024;
    const ROUNDS: usize = 500;
    let (from, mut to) = (vec![7u8; BUFFERS << 11], vec![0u8; BUFFERS << 11]);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for (from, to) in from.chunks_exact(2048).zip(to.chunks_exact_mut(2048)) {
            if let (Some(from), Some(to)) = (from.first_chunk::<1500>(), to.first_chunk_mut()) {
                *to = *black_box(from);
            }
        }
        black_box(&mut to);
    }
    (BUFFERS * ROUNDS) as f64 / start.elapsed().as_secs_f64()
}
