//! The ends of a pipe of any kind, and the loops that write and read frames.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slipring_ring::{
    BUF_SIZE, Geometry, HugePages, PipeEnd, PipePair, Region, RingHalves, RxRing, SyncFault, Tx,
    TxRing,
};

use super::frame;
use super::measure::{
    BenchError, BenchReading, BenchTally, FEEDER_CPU, PROGRAM_CPU, on_cpu, pin, tally, thread_cpu,
};
use super::row::BenchRound;

pub(super) const SLOTS_PER_RING: u32 = 1024;

/// The name of [`two_threads`] as a contender.
pub(super) const TWO_THREADS_NAME: &str = "own pipe, 2 threads";

/// How the reading end reads a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// The frame is not copied to another region. In a private region it is read in place.
    Swap,
    /// The frame is copied to another region and read there, as between ports that do not share a
    /// region.
    Copy,
}

/// Creates a pipe in its own region, which is private or shared.
pub(super) fn pipe(is_shared: bool) -> Result<PipePair, BenchError> {
    let geometry =
        Geometry { ring_bytes: 1 << 20, bufs: 2 * SLOTS_PER_RING + 2, buf_size: BUF_SIZE };
    let create = if is_shared { Region::create_shared } else { Region::create };
    Ok(PipePair::create(&create(geometry, HugePages::Try)?, 0, SLOTS_PER_RING)?)
}

/// An end of a pipe of any kind. The pipe may belong to this process, have been passed to another
/// process, or belong to a daemon.
pub(super) trait BenchPipeEnd {
    fn tx(&mut self) -> &mut TxRing;
    fn rx(&mut self) -> &mut RxRing;
    fn tx_sync(&mut self) -> Result<(), BenchError>;
    fn rx_sync(&mut self) -> Result<(), BenchError>;
}

impl BenchPipeEnd for PipeEnd {
    fn tx(&mut self) -> &mut TxRing {
        &mut self.tx
    }

    fn rx(&mut self) -> &mut RxRing {
        &mut self.rx
    }

    #[inline(always)]
    fn tx_sync(&mut self) -> Result<(), BenchError> {
        Self::tx_sync(self)?;
        Ok(())
    }

    #[inline(always)]
    fn rx_sync(&mut self) -> Result<(), BenchError> {
        Self::rx_sync(self)?;
        Ok(())
    }
}

/// The writing end, with the number of the next frame.
pub(super) struct PipeWriter<E = PipeEnd> {
    end: E,
    next: u64,
}

impl<E: BenchPipeEnd> PipeWriter<E> {
    pub(super) fn new(end: E) -> Self {
        Self { end, next: 0 }
    }

    /// Writes and sends at most a batch of frames. Returns their number.
    #[inline(always)]
    fn step<const N: usize>(&mut self, batch: u32) -> Result<u32, BenchError> {
        // The sequence number is in a local variable. If it were stored to memory between two
        // frames, the loop would be slower.
        let mut sequence = self.next;
        let tx = self.end.tx();
        let filled = if tx.region().is_private() {
            tx.fill(batch, |buf| {
                let len = frame::write::<N>(buf, sequence);
                sequence += 1;
                len
            })
        } else {
            let mut scratch = [0; N];
            tx.fill_by_value(batch, |buf| {
                let len = frame::write_by_value::<N>(buf, sequence, &mut scratch);
                sequence += 1;
                len
            })
        };
        self.next = sequence;
        self.end.tx_sync()?;
        Ok(filled)
    }

    /// Writes until `stop` is set. Returns the CPU time that this took, in nanoseconds.
    #[inline(never)]
    pub(super) fn run<const N: usize>(
        &mut self,
        batch: u32,
        stop: &AtomicBool,
    ) -> Result<u64, BenchError> {
        let cpu = thread_cpu();
        while !stop.load(Ordering::Relaxed) {
            if self.step::<N>(batch)? == 0 {
                spin_loop();
            }
        }
        Ok(thread_cpu() - cpu)
    }
}

/// The reading end, with the number of the next expected frame.
pub(super) struct PipeReader<E = PipeEnd> {
    end: E,
    next: u64,
    /// The ring to which frames are copied; `None` for [`ReadMode::Swap`].
    copies: Option<RingHalves<Tx>>,
}

impl<E: BenchPipeEnd> PipeReader<E> {
    pub(super) fn new(end: E, mode: ReadMode) -> Result<Self, BenchError> {
        let geometry =
            Geometry { ring_bytes: 1 << 20, bufs: SLOTS_PER_RING + 2, buf_size: BUF_SIZE };
        let copies =
            || RingHalves::create(&Region::create(geometry, HugePages::Try)?, 0, SLOTS_PER_RING);
        let copies = (mode == ReadMode::Copy).then(copies).transpose()?;
        Ok(Self { end, next: 0, copies })
    }

    /// Receives and checks at most a batch of frames. Returns their number.
    #[inline(always)]
    fn step<const N: usize>(&mut self, batch: u32) -> Result<u64, BenchError> {
        self.end.rx_sync()?;
        let (count, right) = match &mut self.copies {
            None => read::<N>(&mut self.end, batch, self.next),
            Some(copies) => read_copies::<N>(&mut self.end, copies, batch, self.next)?,
        };
        self.next += count;
        if !right {
            let upto = self.next;
            return Err(BenchError::Failed(format!(
                "a frame before {upto} is lost, doubled or damaged"
            )));
        }
        Ok(count)
    }

    /// Reads for `time`.
    #[inline(never)]
    pub(super) fn run<const N: usize>(
        &mut self,
        batch: u32,
        time: Duration,
    ) -> Result<BenchTally, BenchError> {
        tally(time, || {
            let count = self.step::<N>(batch)?;
            if count == 0 {
                spin_loop();
            }
            Ok(count)
        })
    }
}

/// Reads frames, in place if the region is private. Returns how many were read, and whether all
/// were correct.
#[inline(always)]
fn read<const N: usize>(end: &mut impl BenchPipeEnd, batch: u32, first: u64) -> (u64, bool) {
    let (mut sequence, mut right) = (first, true);
    let rx = end.rx();
    if rx.region().is_private() {
        for frame in rx.batch(batch).frames() {
            right &= frame::is_right::<N>(frame.bytes, sequence);
            sequence += 1;
        }
    } else if frame::is_by_value(N) {
        rx.drain_by_value(batch, |bytes, _| {
            right &= frame::is_right_by_value::<N>(bytes, sequence, &mut [0; N]);
            sequence += 1;
        });
    } else {
        rx.drain(batch, |bytes, _| {
            right &= frame::is_right::<N>(bytes, sequence);
            sequence += 1;
        });
    }
    (sequence - first, right)
}

/// Like [`read`], but frames are first copied through a ring in another region. The driver's half
/// of that ring reads them.
#[inline(always)]
fn read_copies<const N: usize>(
    end: &mut impl BenchPipeEnd,
    copies: &mut RingHalves<Tx>,
    batch: u32,
    first: u64,
) -> Result<(u64, bool), BenchError> {
    slipring_ring::copy(end.rx(), &mut copies.app, batch);
    let kern = &mut copies.kern;
    let head = kern.released().map_err(SyncFault::from)?;
    let (mut at, mut sequence, mut right) = (kern.hwcur(), first, true);
    let mut scratch = [0; N];
    while at != head {
        right &= frame::is_right_by_value::<N>(kern.bytes(at), sequence, &mut scratch);
        sequence += 1;
        at = kern.next(at);
    }
    kern.complete_to(head);
    kern.set_tail(kern.prev(head));
    Ok((sequence - first, right))
}

/// Measures writing and reading in turn, in one thread.
pub(super) fn one_thread<const N: usize>(
    mode: ReadMode,
    batch: u32,
) -> Result<BenchRound, BenchError> {
    let PipePair { a, b } = pipe(false)?;
    let (mut writer, mut reader) = (PipeWriter::new(a), PipeReader::new(b, mode)?);
    Ok(Box::new(move |time| {
        let counted = on_cpu(PROGRAM_CPU, || {
            tally(time, || {
                writer.step::<N>(batch)?;
                reader.step::<N>(batch)
            })
        });
        Ok(counted?.into())
    }))
}

/// Measures two threads. Each run has a new pipe. The position of its pages in the caches is random
/// and changes the rate by a tenth, so the median over the runs is also over these positions.
pub(super) fn two_threads<const N: usize>(
    mode: ReadMode,
    batch: u32,
) -> Result<BenchRound, BenchError> {
    Ok(Box::new(move |time| {
        let PipePair { a, b } = pipe(false)?;
        let (mut writer, mut reader) = (PipeWriter::new(a), PipeReader::new(b, mode)?);
        beside_writer::<N>(&mut writer, batch, || {
            on_cpu(PROGRAM_CPU, || reader.run::<N>(batch, time))
        })
    }))
}

/// Runs `read` while another thread writes. Returns the tally of `read`, with the CPU time of both.
pub(super) fn beside_writer<const N: usize>(
    writer: &mut PipeWriter<impl BenchPipeEnd + Send>,
    batch: u32,
    read: impl FnOnce() -> Result<BenchTally, BenchError>,
) -> Result<BenchReading, BenchError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            pin(FEEDER_CPU);
            writer.run::<N>(batch, &stop)
        });
        let read = read();
        stop.store(true, Ordering::Relaxed);
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (tally, cpu) = (read?, written?);
        Ok(BenchTally { cpu: tally.cpu + cpu, ..tally }.into())
    })
}
