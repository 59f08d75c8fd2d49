//! The floor of a link emulator: the minimum of the work that each frame costs. Every frame is
//! copied from a slot to a queue, with a header of 32 bytes, and from the queue to a slot. The
//! queue holds at least as many frames as are in flight, and 64 frames are copied at a time. There
//! are no timers. Only the measurement reads a clock and counts packets.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use slipring_port::now;

use super::ports::NUM_SLOTS;
use crate::measure::{BenchError, BenchTally, FEEDER_CPU, PROGRAM_CPU, on_cpu, pin, thread_cpu};

/// Number of records that are moved at a time.
const RECORDS_PER_BATCH: usize = 64;
const BUF_SIZE: usize = slipring_ring::BUF_SIZE as usize;

#[derive(Clone, Copy)]
#[repr(C)]
struct FloorRecord<const N: usize> {
    header: [u64; 4],
    frame: [u8; N],
}

impl<const N: usize> Default for FloorRecord<N> {
    fn default() -> Self {
        Self { header: [0; 4], frame: [0; N] }
    }
}

/// The slots of one side of the floor, and which of them is next.
struct FloorSlots {
    bytes: Vec<u8>,
    next: usize,
}

impl FloorSlots {
    fn new() -> Self {
        Self { bytes: vec![1; NUM_SLOTS as usize * BUF_SIZE], next: 0 }
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self) -> &mut [u8; N] {
        let start = self.next * BUF_SIZE;
        self.next = (self.next + 1) % NUM_SLOTS as usize;
        self.bytes[start..].first_chunk_mut().expect("a slot is longer than a frame")
    }
}

/// Copies a batch into the queue. Returns the number of frames; 0 if the queue has no space for a
/// batch.
#[inline(always)]
fn put<const N: usize>(line: &mut Producer<FloorRecord<N>>, slots: &mut FloorSlots) -> usize {
    let Ok(mut room) = line.write_chunk(RECORDS_PER_BATCH) else { return 0 };
    let (first, second) = room.as_mut_slices();
    for record in first.iter_mut().chain(second) {
        record.header = [slots.next as u64, N as u64, 0, 0];
        record.frame = *slots.next::<N>();
    }
    room.commit_all();
    RECORDS_PER_BATCH
}

/// Copies a batch out of the queue, if the queue has at least `lag` records and a batch. Returns
/// the number of frames.
#[inline(always)]
fn take<const N: usize>(
    line: &mut Consumer<FloorRecord<N>>,
    slots: &mut FloorSlots,
    lag: usize,
) -> usize {
    if line.slots() < lag.max(RECORDS_PER_BATCH) {
        return 0;
    }
    let Ok(records) = line.read_chunk(RECORDS_PER_BATCH) else { return 0 };
    let (first, second) = records.as_slices();
    for record in first.iter().chain(second) {
        black_box(record.header[1]);
        *slots.next::<N>() = record.frame;
    }
    records.commit_all();
    RECORDS_PER_BATCH
}

/// Measures the floor with one thread and `lag` frames in flight.
pub(super) fn one_thread<const N: usize>(
    lag: usize,
    time: Duration,
) -> Result<BenchTally, BenchError> {
    let (mut producer, mut consumer) =
        RingBuffer::<FloorRecord<N>>::new(lag + 2 * RECORDS_PER_BATCH);
    let (mut from, mut to) = (FloorSlots::new(), FloorSlots::new());
    let tally = on_cpu(PROGRAM_CPU, || {
        while consumer.slots() < lag {
            put(&mut producer, &mut from);
        }
        measure(time, || {
            put(&mut producer, &mut from);
            take(&mut consumer, &mut to, lag)
        })
    });
    if tally.packets == 0 {
        return Err(BenchError::Failed("nothing was copied".into()));
    }
    Ok(tally)
}

/// Measures the floor with two threads and `lag` frames in flight. One thread copies in. The
/// measured thread copies out.
pub(super) fn two_threads<const N: usize>(
    lag: usize,
    time: Duration,
) -> Result<BenchTally, BenchError> {
    let (mut producer, mut consumer) =
        RingBuffer::<FloorRecord<N>>::new(lag + 64 * RECORDS_PER_BATCH);
    let (mut from, mut to) = (FloorSlots::new(), FloorSlots::new());
    let stop = AtomicBool::new(false);
    let tally = scope(|scope| {
        scope.spawn(|| {
            pin(FEEDER_CPU);
            while !stop.load(Ordering::Relaxed) {
                put(&mut producer, &mut from);
            }
        });
        let tally = on_cpu(PROGRAM_CPU, || {
            while consumer.slots() < lag {
                spin_loop();
            }
            measure(time, || take(&mut consumer, &mut to, lag))
        });
        stop.store(true, Ordering::Relaxed);
        tally
    });
    Ok(tally)
}

fn measure(time: Duration, mut work: impl FnMut() -> usize) -> BenchTally {
    let (start, cpu) = (now(), thread_cpu());
    let until = start + time.as_nanos() as u64;
    let mut packets = 0;
    loop {
        for _ in 0..16 {
            packets += work() as u64;
        }
        let time = now();
        if time >= until {
            return BenchTally { packets, wall: time - start, cpu: thread_cpu() - cpu };
        }
    }
}
