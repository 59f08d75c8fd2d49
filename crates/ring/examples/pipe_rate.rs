//! Measures how many frames per second pass through a pipe between two cores.
//!
//! One thread writes all 64 bytes of every frame, the other reads them all and checks that none
//! is lost, doubled or out of order. Safe and raw (`raw.rs`) runs alternate, so that both see
//! the same machine.
//!
//! ```text
//! cargo run --release -p slipring-ring --example pipe_rate [RUNS]
//! ```

use std::error::Error;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use slipring_ring::raw::RawRing;
use slipring_ring::{Geometry, HugePages, PipeEnd, PipePair, Region, SyncFault};

const SLOTS: u32 = 1024;
const WORDS: usize = 8;
/// Number of frames that take about half a second.
const FRAMES: u64 = 30_000_000;

type Frame = [u64; WORDS];

fn main() -> Result<(), Box<dyn Error>> {
    let runs = std::env::args().nth(1).map_or(Ok(5), |runs| runs.parse())?;
    println!("64-byte frames, {SLOTS} slots, 2 KiB buffers, CPU 0 to CPU 1, {runs} runs");
    println!(
        "{:>5} {:>12} {:>12} {:>12} {:>12} {:>8}",
        "batch", "safe median", "safe best", "raw median", "raw best", "ratio"
    );
    for batch in [32, 256] {
        let (mut safe, mut raw) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            safe.push(run(batch, fill_safe, drain_safe)?);
            raw.push(run(batch, fill_raw, drain_raw)?);
        }
        let ([safe, safe_best], [raw, raw_best]) = (summary(safe), summary(raw));
        println!(
            "{batch:>5} {safe:>7.1} Mpps {safe_best:>7.1} Mpps {raw:>7.1} Mpps {raw_best:>7.1} Mpps {:>8.3}",
            safe / raw
        );
    }
    Ok(())
}

/// Returns the median and the maximum of the rates.
fn summary(mut rates: Vec<f64>) -> [f64; 2] {
    rates.sort_by(f64::total_cmp);
    [rates[rates.len() / 2], rates[rates.len() - 1]]
}

/// Passes `FRAMES` frames; returns the rate in millions of frames per second.
fn run(
    batch: u32,
    fill: impl Fn(&mut PipeEnd, u32, &mut u64) -> u32 + Sync,
    drain: impl Fn(&mut PipeEnd, u32, &mut u64) -> u32 + Sync,
) -> Result<f64, Box<dyn Error>> {
    let geometry = Geometry { ring_bytes: 1 << 20, bufs: 2 * SLOTS + 2, buf_size: 2048 };
    let region = Region::create(geometry, HugePages::Try)?;
    let PipePair { mut a, mut b } = PipePair::create(&region, 0, SLOTS)?;
    let start = Barrier::new(2);
    let seconds = thread::scope(|scope| -> Result<f64, Box<dyn Error>> {
        let producer = scope.spawn(|| -> Result<(), SyncFault> {
            pin(0);
            start.wait();
            let mut next = 0;
            while next < FRAMES {
                let max = u64::from(batch).min(FRAMES - next) as u32;
                if fill(&mut a, max, &mut next) == 0 {
                    std::hint::spin_loop();
                }
                a.tx_sync()?;
            }
            Ok(())
        });
        let consumer = scope.spawn(|| -> Result<f64, SyncFault> {
            pin(1);
            start.wait();
            let began = Instant::now();
            let mut next = 0;
            while next < FRAMES {
                b.rx_sync()?;
                if drain(&mut b, batch, &mut next) == 0 {
                    std::hint::spin_loop();
                }
            }
            Ok(began.elapsed().as_secs_f64())
        });
        producer.join().expect("the producer does not panic")?;
        Ok(consumer.join().expect("the frames arrive in order, each once")?)
    })?;
    Ok(FRAMES as f64 / seconds / 1e6)
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // An error is ignored: on a machine with one CPU, both threads run on that CPU.
    let _ = sched_setaffinity(None, &set);
}

fn content(sequence: u64) -> Frame {
    std::array::from_fn(|i| sequence + i as u64)
}

fn to_bytes(frame: Frame) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(frame) {
        *to = word.to_ne_bytes();
    }
    bytes
}

fn check(frame: Frame, sequence: u64) {
    let sum: u64 = frame.iter().fold(0, |sum, word| sum.wrapping_add(*word));
    assert!(sum == 8 * sequence + 28, "a frame is lost, doubled or damaged");
}

// The sequence number is kept in a local variable: a store to it between two frames would slow the
// filling loop down (see `fill_slots` in `app/tx.rs`).

fn fill_safe(end: &mut PipeEnd, batch: u32, next: &mut u64) -> u32 {
    let mut sequence = *next;
    let filled = end.tx.fill(batch, |buf| {
        let bytes = buf.first_chunk_mut::<64>().expect("buffers have 2048 bytes");
        *bytes = to_bytes(content(sequence));
        sequence += 1;
        size_of::<Frame>()
    });
    *next = sequence;
    filled
}

fn drain_safe(end: &mut PipeEnd, batch: u32, next: &mut u64) -> u32 {
    let mut sequence = *next;
    for frame in end.rx.batch(batch).frames() {
        let bytes = frame.bytes.first_chunk::<64>().expect("frames of 64 bytes were sent");
        let (words, _) = bytes.as_chunks::<8>();
        check(std::array::from_fn(|i| u64::from_ne_bytes(words[i])), sequence);
        sequence += 1;
    }
    (sequence - std::mem::replace(next, sequence)) as u32
}

fn fill_raw(end: &mut PipeEnd, batch: u32, next: &mut u64) -> u32 {
    let mut sequence = *next;
    let write = |buf: *mut u8| {
        // SAFETY: a buffer has 2048 bytes, aligned to 256.
        unsafe { buf.cast::<Frame>().write(content(sequence)) };
        sequence += 1;
        size_of::<Frame>() as u16
    };
    // SAFETY: `end` is borrowed, and only raw rings are used in this run.
    let filled = unsafe { RawRing::of(&end.tx).fill(batch, write) };
    *next = sequence;
    filled
}

fn drain_raw(end: &mut PipeEnd, batch: u32, next: &mut u64) -> u32 {
    let mut sequence = *next;
    let read = |buf: *const u8, len: u16| {
        assert!(usize::from(len) == size_of::<Frame>());
        // SAFETY: a buffer has 2048 bytes, aligned to 256.
        check(unsafe { buf.cast::<Frame>().read() }, sequence);
        sequence += 1;
    };
    // SAFETY: `end` is borrowed, and only raw rings are used in this run.
    let drained = unsafe { RawRing::of(&end.rx).drain(batch, read) };
    *next = sequence;
    drained
}
