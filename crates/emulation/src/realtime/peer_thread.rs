//! Each thread's connection to the other thread of a [pipeline](super::pipeline). Frames from this
//! thread's port go to the other thread, and frames from the other thread leave by this thread's
//! port.
//!
//! ```text
//!   inlet --> store --send--> | outgoing > | --adopt--> store --> network --> outlet
//!                  <-reclaim- | < returned |
//!        this thread                              the other thread
//! ```
//!
//! Frames are passed in the chunks in which they were stored. A chunk is sent when it is full, that
//! is, when a frame goes to the next chunk. It is sent earlier if a turn takes no frames from the
//! port, or if no more frames wait at the port and the other thread has taken all previous chunks.
//! So a busy thread gets few partial chunks, and an idle thread gets frames without delay. Under
//! full load all chunks are full, so the other thread need not copy the frames.
//!
//! # Invariants
//! 1. Each ring between the threads has capacity for all chunks, so it is never full.
//! 2. Without enough free chunks for a batch, a thread takes no frames from its port; they stay in
//!    the port's rings.

mod flag;
#[cfg(test)]
mod models;
mod termination;
mod wake_flag;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use slipring_link::{Burst, EntryId, PacketCounts};
use slipring_port::{Nanos, Queue};
use slipring_ring::Doorbell;

use super::frame_tap::FrameTap;
use super::inlet::{self, PortInlet, RxScratch};
use crate::store::{
    CHUNK_BYTES, ChunkTransfer, EmulationStore, LifetimeClass, MAX_FRAME_BYTES, share_chunk,
};
use termination::Termination;
use wake_flag::{WakeFlag, WakeReason};

/// Maximum number of frames that are taken over from the other thread at a time, except that a
/// single burst is never split. Between two such batches, due frames are sent.
const MAX_TRANSFER_FRAMES: u64 = 256;
/// Number of chunks for frames that the other thread has not taken, in addition to the chunks for
/// two batches.
const SPARE_CHUNKS: usize = 12;

/// This thread's end of the connection to the other thread.
pub(super) struct PeerThread {
    /// The entry for frames from the other thread.
    pub(super) entry: EntryId,
    tx: PeerTx,
    rx: PeerRx,
    /// Index of this thread in the pair: 0 or 1.
    index: usize,
    /// Wakes this thread.
    own_parker: Arc<Parker>,
    /// Wakes the other thread.
    peer_parker: Arc<Parker>,
    termination: Arc<Termination>,
    /// Whether both threads have finished and this thread has noticed.
    is_over: bool,
    /// Whether this thread has nothing to do until its peer has taken all frames from the ring.
    waits_for_peer: bool,
}

/// The means by which a thread sleeps: a flag that announces the sleep, and a doorbell that ends
/// it.
#[derive(Debug)]
struct Parker {
    wake_flag: WakeFlag,
    doorbell: Doorbell,
}

/// The direction to the other thread.
struct PeerTx {
    store: EmulationStore,
    /// Number of chunks that the largest batch fills.
    batch_chunks: usize,
    /// Frames in the chunk that is being filled, as bursts.
    open: Vec<Burst>,
    /// Empty lists that are reused for `open`.
    lists: Vec<Vec<Burst>>,
    outgoing: Producer<ChunkTransfer>,
    returned: Consumer<ChunkTransfer>,
    handed_over: PacketCounts,
    /// Whether the other thread has taken all frames, so that it waits for more.
    peer_is_starved: Arc<SharedHint>,
}

/// The direction from the other thread.
struct PeerRx {
    incoming: Consumer<ChunkTransfer>,
    returns: Producer<ChunkTransfer>,
    class: LifetimeClass,
    /// A chunk for which the store had no space yet; `None` if there is none.
    waiting: Option<ChunkTransfer>,
    /// Bursts of the chunk that was adopted last. Bursts from index `next` on are not taken yet.
    bursts: Vec<Burst>,
    next: usize,
    taken_over: PacketCounts,
    /// Whether this thread has taken all frames, so that it waits for more.
    is_starved: Arc<SharedHint>,
}

/// A hint to the other thread, without memory ordering. If the sender does not see the hint, it
/// sends a partial chunk only when its port brings no more frames; that is slower, but correct.
#[derive(Debug)]
struct SharedHint(AtomicBool);

impl PeerThread {
    /// Creates the two ends of the connection. `batch_bytes` is the store memory that the largest
    /// batch of each port needs.
    ///
    /// # Errors
    /// The system's error, if this process has no descriptors left.
    pub(super) fn pair(batch_bytes: [usize; 2]) -> std::io::Result<[Self; 2]> {
        let parkers = [Arc::new(Parker::new()?), Arc::new(Parker::new()?)];
        let end = Arc::new(Termination::default());
        let [(up, from_left), (down, from_right)] = [0, 1].map(|i| channel(batch_bytes[i], i));
        let mut ends = [(up, from_right), (down, from_left)].into_iter();
        Ok([0, 1].map(|me: usize| {
            let (sending, receiving) = ends.next().expect("there are two");
            Self {
                entry: EntryId(1 - me as u16),
                tx: sending,
                rx: receiving,
                index: me,
                own_parker: parkers[me].clone(),
                peer_parker: parkers[1 - me].clone(),
                termination: end.clone(),
                is_over: false,
                waits_for_peer: false,
            }
        }))
    }

    /// Takes frames from this thread's port and passes them to the other thread. Returns the number
    /// of frames.
    #[inline]
    pub(super) fn forward(
        &mut self,
        inlet: &mut PortInlet,
        queues: &mut [Box<dyn Queue>],
        rx_scratch: &mut RxScratch,
        now: Nanos,
    ) -> usize {
        let sending = &mut self.tx;
        sending.reclaim();
        let batch = match sending.lacks_chunks() {
            true => &[],
            false => inlet.take(queues, rx_scratch, (&mut sending.store, &mut ()), now),
        };
        let more = queues.iter_mut().any(|queue| queue.rings().rx.avail() > 0);
        if sending.pack(batch, more) {
            self.peer_parker.wake(WakeReason::Frames);
        }
        batch.iter().map(|burst| burst.packets as usize).sum()
    }

    /// Takes over some frames from the other thread, and returns them.
    #[inline]
    pub(super) fn receive<T: FrameTap>(
        &mut self,
        (store, tap): (&mut EmulationStore, &mut T),
    ) -> &[Burst] {
        let receiving = &mut self.rx;
        if receiving.next == receiving.bursts.len() && receiving.unpack(store) {
            self.peer_parker.wake(WakeReason::Chunks);
        }
        let batch = receiving.next_bursts();
        if T::IS_ENABLED {
            batch.iter().for_each(|burst| inlet::notify_arrivals(self.entry, burst, store, tap));
        }
        batch
    }

    /// Returns whether too few chunks are free to take frames from the port.
    pub(super) fn lacks_chunks(&self) -> bool {
        self.tx.lacks_chunks()
    }

    /// Returns the frames handed to the other thread so far, and those taken over from it.
    pub(super) fn account(&self) -> (PacketCounts, PacketCounts) {
        (self.tx.handed_over, self.rx.taken_over)
    }

    /// Returns the bytes of memory allocated for frames from this thread's port, until the other
    /// thread takes them over.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.tx.store.memory_bytes()
    }

    /// Returns whether this thread must end. The arguments say whether its port has `ended`,
    /// whether its port has `frames` that were not taken, and whether its network `is_empty`.
    pub(super) fn is_done(&mut self, ended: bool, frames: bool, is_empty: bool) -> bool {
        let is_empty = is_empty && self.rx.is_empty();
        self.is_over |= self.termination.is_over();
        if !self.is_over {
            let (idle, sent) = (is_empty && !frames, self.tx.is_empty());
            self.waits_for_peer = idle && !sent;
            let settled = self.termination.report_idle(self.index, ended, idle && sent);
            self.is_over = settled.is_over;
            if settled.must_wake_peer {
                self.peer_parker.wake(WakeReason::Frames);
            }
        }
        self.is_over && is_empty
    }

    /// Reports that this thread has handled frames. Returns whether the emulation is over, so that
    /// only the remaining frames still have to leave.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.termination.report_busy(self.index);
        self.termination.is_over()
    }

    /// Announces that this thread is about to sleep. Returns false if there is something to do,
    /// such as frames to handle; then it must not sleep.
    pub(super) fn may_sleep(&self) -> bool {
        let starved = self.tx.lacks_chunks();
        self.own_parker.wake_flag.may_sleep(starved, || {
            self.rx.has_input()
                || (starved && !self.tx.returned.is_empty())
                || (self.waits_for_peer && self.tx.is_empty())
                || (!self.is_over && self.termination.is_over())
        })
    }

    /// Ends the sleep. `rung` is whether the doorbell may have been rung, and so must be cleared.
    pub(super) fn end_sleep(&self, rung: bool) {
        self.own_parker.wake_flag.revoke();
        if rung {
            self.own_parker.doorbell.clear();
        }
    }
}

impl AsFd for PeerThread {
    /// Returns the descriptor that is readable when this thread is woken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own_parker.doorbell.as_fd()
    }
}

/// Creates one direction, for batches of `batch_bytes` from port `index`.
fn channel(batch_bytes: usize, index: usize) -> (PeerTx, PeerRx) {
    // At the end of each chunk, at most as many bytes stay unused as the longest frame and its
    // header take. So a batch fills at most this many chunks.
    let batch_chunks = batch_bytes.div_ceil(CHUNK_BYTES - MAX_FRAME_BYTES - 8) + 1;
    let chunks = 2 * batch_chunks + SPARE_CHUNKS;
    let (there, from) = RingBuffer::new(chunks);
    let (home, back) = RingBuffer::new(chunks);
    let starved = Arc::new(SharedHint(AtomicBool::new(true)));
    let sending = PeerTx {
        store: EmulationStore::new((chunks * CHUNK_BYTES) as u64),
        batch_chunks,
        open: Vec::new(),
        lists: Vec::new(),
        outgoing: there,
        returned: back,
        handed_over: PacketCounts::default(),
        peer_is_starved: starved.clone(),
    };
    let receiving = PeerRx {
        incoming: from,
        returns: home,
        class: LifetimeClass::number(index),
        waiting: None,
        bursts: Vec::new(),
        next: 0,
        taken_over: PacketCounts::default(),
        is_starved: starved,
    };
    (sending, receiving)
}

impl PeerTx {
    #[inline]
    fn lacks_chunks(&self) -> bool {
        self.store.chunks_left() < self.batch_chunks
    }

    /// Returns whether the other thread has taken all frames.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.outgoing.slots() == self.outgoing.buffer().capacity()
    }

    fn reclaim(&mut self) {
        while let Ok(transfer) = self.returned.pop() {
            self.lists.push(self.store.take_back(transfer));
        }
    }

    /// Groups frames by chunk and sends the chunks that are ready. Returns whether any were sent.
    #[inline]
    fn pack(&mut self, batch: &[Burst], more: bool) -> bool {
        let mut sent = false;
        for &burst in batch {
            self.handed_over += burst.counts();
            if self.open.first().is_some_and(|first| !share_chunk(first, &burst)) {
                sent |= self.send();
            }
            self.open.push(burst);
        }
        let now = batch.is_empty() || (!more && self.peer_is_starved.is_set());
        sent | (now && self.send())
    }

    /// Sends the chunk that is being filled, unless it is empty. Returns whether it was sent.
    fn send(&mut self) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let bursts = std::mem::replace(&mut self.open, self.lists.pop().unwrap_or_default());
        let transfer = self.store.give_chunk(bursts);
        // Cleared before the chunk is pushed, because the receiver sets it again when it has no
        // more frames.
        self.peer_is_starved.set(false);
        self.outgoing.push(transfer).expect("the ring has a place for every chunk");
        true
    }
}

impl PeerRx {
    /// Takes over a chunk. Returns false if there is none or the store has no space for it.
    fn unpack(&mut self, store: &mut EmulationStore) -> bool {
        let Some(mut transfer) = self.waiting.take().or_else(|| self.incoming.pop().ok()) else {
            return false;
        };
        if !store.adopt(self.class, &mut transfer) {
            self.waiting = Some(transfer);
            return false;
        }
        std::mem::swap(&mut self.bursts, &mut transfer.bursts);
        self.next = 0;
        self.returns.push(transfer).expect("the ring has a place for every chunk");
        true
    }

    /// Returns the next bursts of the adopted chunk, up to about [`MAX_TRANSFER_FRAMES`] frames.
    #[inline]
    fn next_bursts(&mut self) -> &[Burst] {
        let (from, mut tally) = (self.next, PacketCounts::default());
        for burst in &self.bursts[from..] {
            tally += burst.counts();
            self.next += 1;
            if tally.packets >= MAX_TRANSFER_FRAMES {
                break;
            }
        }
        self.taken_over += tally;
        self.is_starved.set(self.is_empty());
        &self.bursts[from..self.next]
    }

    fn has_input(&self) -> bool {
        self.next < self.bursts.len() || (self.waiting.is_none() && !self.incoming.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.next == self.bursts.len() && self.waiting.is_none() && self.incoming.is_empty()
    }
}

impl SharedHint {
    #[inline]
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes only if the value changes, because each write moves the cache line between the CPUs.
    #[inline]
    fn set(&self, value: bool) {
        if self.is_set() != value {
            self.0.store(value, Ordering::Relaxed);
        }
    }
}

impl Parker {
    fn new() -> std::io::Result<Self> {
        Ok(Self { wake_flag: WakeFlag::default(), doorbell: Doorbell::new()? })
    }

    #[inline]
    fn wake(&self, news: WakeReason) {
        if self.wake_flag.take_wake(news) {
            self.doorbell.ring();
        }
    }
}
