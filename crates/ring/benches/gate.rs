//! Counts the instructions of the hot loops with valgrind. Other load on the machine does not
//! affect these counts. A count more than 5 % above the expected one fails the run; when a count
//! shrinks, lower the expected one here.
//!
//! Frames have 64 bytes; pipes pass 1024 of them, forwarding moves 256.
#![allow(missing_docs, reason = "the macros make public items")]

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};
use gungraun::{library_benchmark, library_benchmark_group, main};
use slipring_ring::raw::RawRing;
use slipring_ring::{Geometry, HugePages, PipePair, Region, copy, forward};
use std::hint::black_box;

/// Number of slots of each ring. A ring has space for three batches of the larger size, 256.
const SLOTS: u32 = 1024;
const FRAMES: u32 = 1024;

/// Makes a run fail if it executes over 5 % more instructions than `expected`.
fn limit(expected: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, expected + expected / 20)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// Creates two pipes in one region; returns them with the batch size.
fn pipes(batch: u32) -> (u32, PipePair, PipePair) {
    let geometry = Geometry { ring_bytes: 1 << 19, bufs: 4 * SLOTS + 2, buf_size: 2048 };
    let region = Region::create(geometry, HugePages::Never).expect("8 MiB of memory");
    let pipe = || PipePair::create(&region, 0, SLOTS).expect("the region holds two pipes");
    (batch, pipe(), pipe())
}

/// Like [`pipes`], but 256 frames wait at the receiving end of the first pipe.
fn full(batch: u32) -> (u32, PipePair, PipePair) {
    let (batch, mut from, to) = pipes(batch);
    from.a.tx.fill(256, |buf| write(buf, 1));
    from.a.tx_sync().expect("both ends are right");
    from.b.rx_sync().expect("both ends are right");
    (batch, from, to)
}

fn write(buf: &mut [u8], value: u64) -> usize {
    let frame = buf.first_chunk_mut::<64>().expect("buffers have 2048 bytes");
    *frame = [value as u8; 64];
    64
}

fn sum(bytes: &[u8]) -> u64 {
    let frame = bytes.first_chunk::<64>().expect("frames have 64 bytes");
    let (words, _) = frame.as_chunks::<8>();
    words.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

#[library_benchmark]
#[bench::by_32(args = (32), setup = pipes, config = limit(80_071))]
#[bench::by_256(args = (256), setup = pipes, config = limit(64_839))]
fn pipe((batch, mut pipe, other): (u32, PipePair, PipePair)) -> (u64, PipePair, PipePair) {
    let mut total = 0;
    for _ in 0..FRAMES / batch {
        assert_eq!(pipe.a.tx.fill(batch, |buf| write(buf, 7)), batch);
        pipe.a.tx_sync().expect("both ends are right");
        pipe.b.rx_sync().expect("both ends are right");
        for frame in pipe.b.rx.batch(batch).frames() {
            total += sum(frame.bytes);
        }
    }
    (black_box(total), pipe, other)
}

// The pipe benchmark with raw pointers, for comparison.
#[library_benchmark]
#[bench::by_32(args = (32), setup = pipes, config = limit(68_868))]
#[bench::by_256(args = (256), setup = pipes, config = limit(57_164))]
fn raw_pipe((batch, mut pipe, other): (u32, PipePair, PipePair)) -> (u64, PipePair, PipePair) {
    let (tx, rx) = (RawRing::of(&pipe.a.tx), RawRing::of(&pipe.b.rx));
    let mut total = 0;
    for _ in 0..FRAMES / batch {
        let write = |buf: *mut u8| {
            // SAFETY: a buffer has 2048 bytes.
            unsafe { buf.cast::<[u8; 64]>().write([7; 64]) };
            64
        };
        // SAFETY: the pipe is alive, and its safe rings are not used here.
        let filled = unsafe { tx.fill(batch, write) };
        assert_eq!(filled, batch);
        pipe.a.tx_sync().expect("both ends are right");
        pipe.b.rx_sync().expect("both ends are right");
        let read = |buf: *const u8, len: u16| {
            assert!(len >= 64);
            // SAFETY: a buffer has 2048 bytes.
            total += sum(unsafe { &*buf.cast::<[u8; 64]>() });
        };
        // SAFETY: the pipe is alive, and its safe rings are not used here.
        unsafe { rx.drain(batch, read) };
    }
    (black_box(total), pipe, other)
}

// Forwards from one pipe to the next, by exchange.
#[library_benchmark]
#[bench::by_32(args = (32), setup = full, config = limit(8_684))]
#[bench::by_256(args = (256), setup = full, config = limit(7_984))]
fn swap((batch, mut from, mut to): (u32, PipePair, PipePair)) -> (PipePair, PipePair) {
    while forward(&mut from.b.rx, &mut to.a.tx, batch) > 0 {}
    (from, to)
}

// The forwarding benchmark with raw pointers, for comparison.
#[library_benchmark]
#[bench::by_32(args = (32), setup = full, config = limit(6_365))]
#[bench::by_256(args = (256), setup = full, config = limit(6_176))]
fn raw_swap((batch, from, to): (u32, PipePair, PipePair)) -> (PipePair, PipePair) {
    let (rx, tx) = (RawRing::of(&from.b.rx), RawRing::of(&to.a.tx));
    // SAFETY: both pipes are alive and in one region, and their safe rings are not used here.
    while unsafe { rx.swap_to(tx, batch) } > 0 {}
    (from, to)
}

// Forwards from one pipe to the next, by copy. One machine counts 20,485 instructions; other
// machines may differ, because the C library's memmove differs.
#[library_benchmark]
#[bench::by_32(args = (32), setup = full, config = limit(23_500))]
fn copy_64((batch, mut from, mut to): (u32, PipePair, PipePair)) -> (PipePair, PipePair) {
    while copy(&mut from.b.rx, &mut to.a.tx, batch) > 0 {}
    (from, to)
}

library_benchmark_group!(name = loops, benchmarks = [pipe, raw_pipe, swap, raw_swap, copy_64]);
main!(library_benchmark_groups = loops);
