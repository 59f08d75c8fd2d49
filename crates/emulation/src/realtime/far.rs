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
//! before that when the other thread has taken all earlier ones: so they are few where that is
//! busy, and none waits where it is not.
//!
//! # Invariants
//! 1. A chunk is away from its store or not; the rings have a place for each, so none is ever full.
//! 2. What cannot be stored stays in the port's rings: a thread without chunks takes nothing.
//! 3. Who sleeps has said so, and looked once more after that.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use slipring_link::{EntryId, Tally, Train};
use slipring_port::{Nanos, Queue};
use slipring_ring::Doorbell;

use super::inlet::{self, Hands, Inlet};
use super::tap::Tap;
use crate::store::{CHUNK, Lane, MAX_FRAME, Parcel, Store, together};

/// Frames that come over at a time, or one train: what is due is looked at in between.
const AT_ONCE: u64 = 256;
/// Chunks for what the other thread has not taken, beside those for one batch.
const AHEAD: usize = 12;

/// See the module.
pub(super) struct Far {
    /// Where what comes over enters the network.
    pub(super) entry: EntryId,
    sending: Sending,
    receiving: Receiving,
    /// Wakes this thread.
    own: Arc<Alarm>,
    /// Wakes the other one.
    other: Arc<Alarm>,
    end: End,
}

/// When both threads are done, which neither can tell alone.
#[derive(Debug)]
struct End {
    /// A port of either has brought its last frame.
    ended: Arc<AtomicBool>,
    /// This thread has nothing to do, nor anything under way to the other.
    own_calm: Arc<AtomicBool>,
    /// The same of the other one.
    other_calm: Arc<AtomicBool>,
    /// Both had nothing to do after a port had ended: each goes once it is empty.
    over: Arc<AtomicBool>,
}

/// The way there.
struct Sending {
    store: Store,
    /// Chunks that the largest batch fills.
    batch_chunks: usize,
    /// Frames in the chunk that is being filled.
    open: Vec<Train>,
    /// Lists to be used again.
    lists: Vec<Vec<Train>>,
    there: Producer<Parcel>,
    back: Consumer<Parcel>,
    given: Tally,
}

/// The way from there.
struct Receiving {
    from: Consumer<Parcel>,
    back: Producer<Parcel>,
    lane: Lane,
    /// What there was no room for.
    waiting: Option<Parcel>,
    /// Frames of the last chunk, those from `next` on not yet taken in.
    trains: Vec<Train>,
    next: usize,
    taken: Tally,
}

/// Wakes a thread, if it sleeps.
#[derive(Debug)]
struct Alarm {
    bell: Doorbell,
    /// It sleeps, and frames wake it.
    asleep: AtomicBool,
    /// It sleeps for want of chunks.
    starved: AtomicBool,
}

impl Far {
    /// Each of two threads, as the other sees it; what the largest batch of their ports takes, in
    /// bytes.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn pair(batch_bytes: [usize; 2]) -> std::io::Result<[Self; 2]> {
        let alarms = [Arc::new(Alarm::new()?), Arc::new(Alarm::new()?)];
        let flag = || Arc::new(AtomicBool::new(false));
        let (ended, calm, over) = (flag(), [flag(), flag()], flag());
        let [(up, from_left), (down, from_right)] = [0, 1].map(|i| way(batch_bytes[i], i));
        let mut ends = [(up, from_right), (down, from_left)].into_iter();
        Ok([0, 1].map(|i: usize| {
            let (sending, receiving) = ends.next().expect("there are two");
            Self {
                entry: EntryId(1 - i as u16),
                sending,
                receiving,
                own: alarms[i].clone(),
                other: alarms[1 - i].clone(),
                end: End {
                    ended: ended.clone(),
                    own_calm: calm[i].clone(),
                    other_calm: calm[1 - i].clone(),
                    over: over.clone(),
                },
            }
        }))
    }

    /// Takes what has come to the port of this thread and passes it on; how many frames.
    #[inline]
    pub(super) fn pass(
        &mut self,
        inlet: &mut Inlet,
        queues: &mut [Box<dyn Queue>],
        hands: &mut Hands,
        now: Nanos,
    ) -> usize {
        let sending = &mut self.sending;
        sending.get_back();
        let batch = match sending.is_starved() {
            true => &[],
            false => inlet.take(queues, hands, (&mut sending.store, &mut ()), now),
        };
        if sending.pack(batch) {
            self.other.wake_for_frames();
        }
        batch.iter().map(|train| train.packets as usize).sum()
    }

    /// Takes over some of what has come to the other thread.
    #[inline]
    pub(super) fn receive<T: Tap>(&mut self, (store, tap): (&mut Store, &mut T)) -> &[Train] {
        let receiving = &mut self.receiving;
        if receiving.next == receiving.trains.len() && receiving.unpack(store) {
            self.other.wake_for_chunks();
        }
        let batch = receiving.some();
        if T::ON {
            batch.iter().for_each(|train| inlet::show(self.entry, train, store, tap));
        }
        batch
    }

    /// Whether nothing can be taken from the port.
    pub(super) fn is_starved(&self) -> bool {
        self.sending.is_starved()
    }

    /// Frames given to the other thread so far, and taken from it.
    pub(super) fn account(&self) -> (Tally, Tally) {
        (self.sending.given, self.receiving.taken)
    }

    /// Memory held for what is to go over, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.sending.store.held_bytes()
    }

    /// Whether this thread is to go. It tells of its port whether that has `ended` and has
    /// `frames` that were not taken, and of its network whether it `is_empty`.
    pub(super) fn is_done(&self, ended: bool, frames: bool, is_empty: bool) -> bool {
        let end = &self.end;
        let is_empty = is_empty && self.receiving.is_empty();
        if end.over.load(Ordering::Relaxed) {
            return is_empty;
        }
        if ended {
            end.ended.store(true, Ordering::SeqCst);
        }
        end.own_calm.store(is_empty && !frames && self.sending.is_empty(), Ordering::SeqCst);
        // SeqCst, as each stores its own and loads the other's: the last one sees both.
        let over = [&end.ended, &end.own_calm, &end.other_calm];
        let over = over.iter().all(|flag| flag.load(Ordering::SeqCst));
        if over {
            end.over.store(true, Ordering::Relaxed);
            self.other.wake_for_frames();
        }
        over
    }

    /// This thread had something to do; whether it was to go, and has only to become empty.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        if self.end.own_calm.load(Ordering::Relaxed) {
            self.end.own_calm.store(false, Ordering::SeqCst);
        }
        self.end.over.load(Ordering::Relaxed)
    }

    /// Announces that this thread is about to sleep; not if there is something to do.
    pub(super) fn may_sleep(&self) -> bool {
        let starved = self.sending.is_starved();
        self.own.announce(starved);
        let news = self.receiving.has_news() || (starved && !self.sending.back.is_empty());
        if news {
            self.own.revoke();
        }
        !news
    }

    /// The sleep is over; the bell may have been rung.
    pub(super) fn woke(&self, rung: bool) {
        self.own.revoke();
        if rung {
            self.own.bell.silence();
        }
    }
}

impl AsFd for Far {
    /// What is readable when this thread is woken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.bell.as_fd()
    }
}

/// One way, for batches of so many bytes from port `index`.
fn way(batch_bytes: usize, index: usize) -> (Sending, Receiving) {
    // At the end of a chunk less than the longest frame is left over.
    let batch_chunks = batch_bytes.div_ceil(CHUNK - MAX_FRAME - 8) + 1;
    let chunks = 2 * batch_chunks + AHEAD;
    let (there, from) = RingBuffer::new(chunks);
    let (home, back) = RingBuffer::new(chunks);
    let sending = Sending {
        store: Store::new((chunks * CHUNK) as u64),
        batch_chunks,
        open: Vec::new(),
        lists: Vec::new(),
        there,
        back,
        given: Tally::default(),
    };
    let receiving = Receiving {
        from,
        back: home,
        lane: Lane::number(index),
        waiting: None,
        trains: Vec::new(),
        next: 0,
        taken: Tally::default(),
    };
    (sending, receiving)
}

impl Sending {
    #[inline]
    fn is_starved(&self) -> bool {
        self.store.chunks_left() < self.batch_chunks
    }

    /// Whether the other thread has taken everything.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.is_taken()
    }

    /// Whether the other thread has taken all that was sent.
    #[inline]
    fn is_taken(&self) -> bool {
        self.there.slots() == self.there.buffer().capacity()
    }

    fn get_back(&mut self) {
        while let Ok(parcel) = self.back.pop() {
            self.lists.push(self.store.get_back(parcel));
        }
    }

    /// Files frames by the chunks that they are in, and sends those that are to go; whether there
    /// were any.
    #[inline]
    fn pack(&mut self, batch: &[Train]) -> bool {
        let mut sent = false;
        for &train in batch {
            self.given += train.tally();
            if self.open.first().is_some_and(|first| !together(first, &train)) {
                sent |= self.send();
            }
            self.open.push(train);
        }
        sent | ((self.is_taken() || batch.is_empty()) && self.send())
    }

    /// Sends the chunk that is being filled, unless nothing is in it.
    fn send(&mut self) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let trains = std::mem::replace(&mut self.open, self.lists.pop().unwrap_or_default());
        let parcel = self.store.give(trains);
        self.there.push(parcel).expect("the ring has a place for every chunk");
        true
    }
}

impl Receiving {
    /// Takes over a chunk, if there is one and room for it.
    fn unpack(&mut self, store: &mut Store) -> bool {
        let Some(mut parcel) = self.waiting.take().or_else(|| self.from.pop().ok()) else {
            return false;
        };
        if !store.adopt(self.lane, &mut parcel) {
            self.waiting = Some(parcel);
            return false;
        }
        std::mem::swap(&mut self.trains, &mut parcel.trains);
        self.next = 0;
        self.back.push(parcel).expect("the ring has a place for every chunk");
        true
    }

    /// The next frames.
    #[inline]
    fn some(&mut self) -> &[Train] {
        let (from, mut tally) = (self.next, Tally::default());
        for train in &self.trains[from..] {
            tally += train.tally();
            self.next += 1;
            if tally.packets >= AT_ONCE {
                break;
            }
        }
        self.taken += tally;
        &self.trains[from..self.next]
    }

    fn has_news(&self) -> bool {
        self.next < self.trains.len() || (self.waiting.is_none() && !self.from.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.next == self.trains.len() && self.waiting.is_none() && self.from.is_empty()
    }
}

impl Alarm {
    fn new() -> std::io::Result<Self> {
        let (asleep, starved) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { bell: Doorbell::new()?, asleep, starved })
    }

    fn announce(&self, starved: bool) {
        self.asleep.store(true, Ordering::Relaxed);
        self.starved.store(starved, Ordering::Relaxed);
        // Pairs with the one in `wake`: either the waker sees the announcement, or the sleeper
        // sees what was pushed before.
        fence(Ordering::SeqCst);
    }

    fn revoke(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        self.starved.store(false, Ordering::Relaxed);
    }

    fn wake_for_frames(&self) {
        self.wake(&self.asleep);
    }

    fn wake_for_chunks(&self) {
        self.wake(&self.starved);
    }

    #[inline]
    fn wake(&self, sleeping: &AtomicBool) {
        fence(Ordering::SeqCst);
        if sleeping.load(Ordering::Relaxed) && sleeping.swap(false, Ordering::Relaxed) {
            self.bell.ring();
        }
    }
}
