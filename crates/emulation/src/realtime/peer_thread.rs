//! The other thread of a [pipeline](super::pipeline), as each of the two sees it: frames go there
//! from the port of this one, and come from there to leave by it.
//!
//! ```text
//!   inlet --> store --give--> | parcels  > | --adopt--> store --> network --> outlet
//!                   <-get back| < parcels  |
//!        this thread                              the other thread
//! ```
//!
//! Frames travel in the chunks that they were stored in. A chunk goes over when it is full, and
//! before that when the other thread has taken all earlier ones and no more frames wait at the port: so they
//! are few where that is busy, none waits where it is not, and under full load all are full, which
//! the other thread need not copy.
//!
//! # Invariants
//! 1. A chunk is away from its store or not; the rings have a place for each, so none is ever full.
//! 2. What cannot be stored stays in the port's rings: a thread without chunks takes nothing.

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
    CHUNK_BYTES, ChunkTransfer, EmulationStore, MAX_FRAME_BYTES, StoreLane, share_chunk,
};
use termination::Termination;
use wake_flag::{WakeFlag, WakeReason};

/// Frames that come over at a time, or one train: what is due is looked at in between.
const MAX_TRANSFER_FRAMES: u64 = 256;
/// Chunks for what the other thread has not taken, beside those for one batch.
const SPARE_CHUNKS: usize = 12;

/// See the module.
pub(super) struct PeerThread {
    /// Where what comes over enters the network.
    pub(super) entry: EntryId,
    tx: PeerTx,
    rx: PeerRx,
    /// Which of the two threads this is.
    index: usize,
    /// Wakes this thread.
    own_parker: Arc<Parker>,
    /// Wakes the other one.
    peer_parker: Arc<Parker>,
    termination: Arc<Termination>,
    /// It is all over, and this thread knows.
    is_over: bool,
    /// Nothing but what the other thread has not taken keeps this one from being calm.
    waits_for_peer: bool,
}

/// Where a thread sleeps.
#[derive(Debug)]
struct Parker {
    wake_flag: WakeFlag,
    doorbell: Doorbell,
}

/// The way there.
struct PeerTx {
    store: EmulationStore,
    /// Chunks that the largest batch fills.
    batch_chunks: usize,
    /// Frames in the chunk that is being filled.
    open: Vec<Burst>,
    /// Lists to be used again.
    lists: Vec<Vec<Burst>>,
    outgoing: Producer<ChunkTransfer>,
    returned: Consumer<ChunkTransfer>,
    handed_over: PacketCounts,
    /// The other thread has nothing more to take.
    peer_is_starved: Arc<SharedHint>,
}

/// The way from there.
struct PeerRx {
    incoming: Consumer<ChunkTransfer>,
    returns: Producer<ChunkTransfer>,
    lane: StoreLane,
    /// What there was no room for.
    waiting: Option<ChunkTransfer>,
    /// Frames of the last chunk, those from `next` on not yet taken in.
    bursts: Vec<Burst>,
    next: usize,
    taken_over: PacketCounts,
    /// This thread has nothing more to take.
    is_starved: Arc<SharedHint>,
}

/// What one thread would like the other to know. Nothing rests on it: it is in no order with
/// anything else, and who misses it sends what it has once its port brings nothing more.
#[derive(Debug)]
struct SharedHint(AtomicBool);

impl PeerThread {
    /// Each of two threads, as the other sees it; what the largest batch of their ports takes, in
    /// bytes.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn pair(batch_bytes: [usize; 2]) -> std::io::Result<[Self; 2]> {
        let beds = [Arc::new(Parker::new()?), Arc::new(Parker::new()?)];
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
                own_parker: beds[me].clone(),
                peer_parker: beds[1 - me].clone(),
                termination: end.clone(),
                is_over: false,
                waits_for_peer: false,
            }
        }))
    }

    /// Takes what has come to the port of this thread and passes it on; how many frames.
    #[inline]
    pub(super) fn forward(
        &mut self,
        inlet: &mut PortInlet,
        queues: &mut [Box<dyn Queue>],
        hands: &mut RxScratch,
        now: Nanos,
    ) -> usize {
        let sending = &mut self.tx;
        sending.reclaim();
        let batch = match sending.lacks_chunks() {
            true => &[],
            false => inlet.take(queues, hands, (&mut sending.store, &mut ()), now),
        };
        let more = queues.iter_mut().any(|queue| queue.rings().rx.avail() > 0);
        if sending.pack(batch, more) {
            self.peer_parker.wake(WakeReason::Frames);
        }
        batch.iter().map(|train| train.packets as usize).sum()
    }

    /// Takes over some of what has come to the other thread.
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
            batch.iter().for_each(|train| inlet::notify_arrivals(self.entry, train, store, tap));
        }
        batch
    }

    /// Whether nothing can be taken from the port.
    pub(super) fn lacks_chunks(&self) -> bool {
        self.tx.lacks_chunks()
    }

    /// Frames given to the other thread so far, and taken from it.
    pub(super) fn account(&self) -> (PacketCounts, PacketCounts) {
        (self.tx.handed_over, self.rx.taken_over)
    }

    /// Memory held for what is to go over, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.tx.store.memory_bytes()
    }

    /// Whether this thread is to go. It tells of its port whether that has `ended` and has
    /// `frames` that were not taken, and of its network whether it `is_empty`.
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

    /// This thread had something to do; whether it was to go, and has only to become empty.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.termination.report_busy(self.index);
        self.termination.is_over()
    }

    /// Announces that this thread is about to sleep; not if there is something to do.
    pub(super) fn may_sleep(&self) -> bool {
        let starved = self.tx.lacks_chunks();
        self.own_parker.wake_flag.may_sleep(starved, || {
            self.rx.has_input()
                || (starved && !self.tx.returned.is_empty())
                || (self.waits_for_peer && self.tx.is_empty())
                || (!self.is_over && self.termination.is_over())
        })
    }

    /// The sleep is over; the bell may have been rung.
    pub(super) fn end_sleep(&self, rung: bool) {
        self.own_parker.wake_flag.revoke();
        if rung {
            self.own_parker.doorbell.clear();
        }
    }
}

impl AsFd for PeerThread {
    /// What is readable when this thread is woken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own_parker.doorbell.as_fd()
    }
}

/// One way, for batches of so many bytes from port `index`.
fn channel(batch_bytes: usize, index: usize) -> (PeerTx, PeerRx) {
    // At the end of a chunk less than the longest frame is left over.
    let batch_chunks = batch_bytes.div_ceil(CHUNK_BYTES - MAX_FRAME_BYTES - 8) + 1;
    let chunks = 2 * batch_chunks + SPARE_CHUNKS;
    let (there, from) = RingBuffer::new(chunks);
    let (home, back) = RingBuffer::new(chunks);
    let hungry = Arc::new(SharedHint(AtomicBool::new(true)));
    let sending = PeerTx {
        store: EmulationStore::new((chunks * CHUNK_BYTES) as u64),
        batch_chunks,
        open: Vec::new(),
        lists: Vec::new(),
        outgoing: there,
        returned: back,
        handed_over: PacketCounts::default(),
        peer_is_starved: hungry.clone(),
    };
    let receiving = PeerRx {
        incoming: from,
        returns: home,
        lane: StoreLane::number(index),
        waiting: None,
        bursts: Vec::new(),
        next: 0,
        taken_over: PacketCounts::default(),
        is_starved: hungry,
    };
    (sending, receiving)
}

impl PeerTx {
    #[inline]
    fn lacks_chunks(&self) -> bool {
        self.store.chunks_left() < self.batch_chunks
    }

    /// Whether the other thread has taken everything.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.outgoing.slots() == self.outgoing.buffer().capacity()
    }

    fn reclaim(&mut self) {
        while let Ok(parcel) = self.returned.pop() {
            self.lists.push(self.store.take_back(parcel));
        }
    }

    /// Files frames by the chunks that they are in, and sends those that are to go; whether there
    /// were any.
    #[inline]
    fn pack(&mut self, batch: &[Burst], more: bool) -> bool {
        let mut sent = false;
        for &train in batch {
            self.handed_over += train.counts();
            if self.open.first().is_some_and(|first| !share_chunk(first, &train)) {
                sent |= self.send();
            }
            self.open.push(train);
        }
        let now = batch.is_empty() || (!more && self.peer_is_starved.is_set());
        sent | (now && self.send())
    }

    /// Sends the chunk that is being filled, unless nothing is in it.
    fn send(&mut self) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let trains = std::mem::replace(&mut self.open, self.lists.pop().unwrap_or_default());
        let parcel = self.store.give_chunk(trains);
        // Before it is there: who takes it will say again that there is nothing more.
        self.peer_is_starved.set(false);
        self.outgoing.push(parcel).expect("the ring has a place for every chunk");
        true
    }
}

impl PeerRx {
    /// Takes over a chunk, if there is one and room for it.
    fn unpack(&mut self, store: &mut EmulationStore) -> bool {
        let Some(mut parcel) = self.waiting.take().or_else(|| self.incoming.pop().ok()) else {
            return false;
        };
        if !store.adopt(self.lane, &mut parcel) {
            self.waiting = Some(parcel);
            return false;
        }
        std::mem::swap(&mut self.bursts, &mut parcel.bursts);
        self.next = 0;
        self.returns.push(parcel).expect("the ring has a place for every chunk");
        true
    }

    /// The next frames.
    #[inline]
    fn next_bursts(&mut self) -> &[Burst] {
        let (from, mut tally) = (self.next, PacketCounts::default());
        for train in &self.bursts[from..] {
            tally += train.counts();
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

    /// Written only where that changes it: the cache line of a word that is written goes to and fro.
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
