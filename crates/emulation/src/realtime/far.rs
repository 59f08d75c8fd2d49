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

mod alarm;
mod end;
mod flag;
#[cfg(test)]
mod models;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use slipring_link::{EntryId, Tally, Train};
use slipring_port::{Nanos, Queue};
use slipring_ring::Doorbell;

use super::inlet::{self, Hands, Inlet};
use super::tap::Tap;
use crate::store::{CHUNK, Lane, MAX_FRAME, Parcel, Store, together};
use alarm::{Alarm, News};
use end::End;

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
    /// Which of the two threads this is.
    me: usize,
    /// Wakes this thread.
    own: Arc<Bed>,
    /// Wakes the other one.
    other: Arc<Bed>,
    end: Arc<End>,
    /// It is all over, and this thread knows.
    is_over: bool,
    /// Nothing but what the other thread has not taken keeps this one from being calm.
    lingers: bool,
}

/// Where a thread sleeps.
#[derive(Debug)]
struct Bed {
    alarm: Alarm,
    bell: Doorbell,
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
    /// The other thread has nothing more to take.
    hungry: Arc<Hint>,
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
    /// This thread has nothing more to take.
    hungry: Arc<Hint>,
}

/// What one thread would like the other to know. Nothing rests on it: it is in no order with
/// anything else, and who misses it sends what it has once its port brings nothing more.
#[derive(Debug)]
struct Hint(AtomicBool);

impl Far {
    /// Each of two threads, as the other sees it; what the largest batch of their ports takes, in
    /// bytes.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn pair(batch_bytes: [usize; 2]) -> std::io::Result<[Self; 2]> {
        let beds = [Arc::new(Bed::new()?), Arc::new(Bed::new()?)];
        let end = Arc::new(End::default());
        let [(up, from_left), (down, from_right)] = [0, 1].map(|i| way(batch_bytes[i], i));
        let mut ends = [(up, from_right), (down, from_left)].into_iter();
        Ok([0, 1].map(|me: usize| {
            let (sending, receiving) = ends.next().expect("there are two");
            Self {
                entry: EntryId(1 - me as u16),
                sending,
                receiving,
                me,
                own: beds[me].clone(),
                other: beds[1 - me].clone(),
                end: end.clone(),
                is_over: false,
                lingers: false,
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
        let more = queues.iter_mut().any(|queue| queue.rings().rx.avail() > 0);
        if sending.pack(batch, more) {
            self.other.wake(News::Frames);
        }
        batch.iter().map(|train| train.packets as usize).sum()
    }

    /// Takes over some of what has come to the other thread.
    #[inline]
    pub(super) fn receive<T: Tap>(&mut self, (store, tap): (&mut Store, &mut T)) -> &[Train] {
        let receiving = &mut self.receiving;
        if receiving.next == receiving.trains.len() && receiving.unpack(store) {
            self.other.wake(News::Chunks);
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
    pub(super) fn is_done(&mut self, ended: bool, frames: bool, is_empty: bool) -> bool {
        let is_empty = is_empty && self.receiving.is_empty();
        self.is_over |= self.end.is_over();
        if !self.is_over {
            let (idle, sent) = (is_empty && !frames, self.sending.is_empty());
            self.lingers = idle && !sent;
            let settled = self.end.settle(self.me, ended, idle && sent);
            self.is_over = settled.is_over;
            if settled.wakes {
                self.other.wake(News::Frames);
            }
        }
        self.is_over && is_empty
    }

    /// This thread had something to do; whether it was to go, and has only to become empty.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.end.stir(self.me);
        self.end.is_over()
    }

    /// Announces that this thread is about to sleep; not if there is something to do.
    pub(super) fn may_sleep(&self) -> bool {
        let starved = self.sending.is_starved();
        self.own.alarm.may_sleep(starved, || {
            self.receiving.has_news()
                || (starved && !self.sending.back.is_empty())
                || (self.lingers && self.sending.is_empty())
                || (!self.is_over && self.end.is_over())
        })
    }

    /// The sleep is over; the bell may have been rung.
    pub(super) fn woke(&self, rung: bool) {
        self.own.alarm.revoke();
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
    let hungry = Arc::new(Hint(AtomicBool::new(true)));
    let sending = Sending {
        store: Store::new((chunks * CHUNK) as u64),
        batch_chunks,
        open: Vec::new(),
        lists: Vec::new(),
        there,
        back,
        given: Tally::default(),
        hungry: hungry.clone(),
    };
    let receiving = Receiving {
        from,
        back: home,
        lane: Lane::number(index),
        waiting: None,
        trains: Vec::new(),
        next: 0,
        taken: Tally::default(),
        hungry,
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
        self.open.is_empty() && self.there.slots() == self.there.buffer().capacity()
    }

    fn get_back(&mut self) {
        while let Ok(parcel) = self.back.pop() {
            self.lists.push(self.store.get_back(parcel));
        }
    }

    /// Files frames by the chunks that they are in, and sends those that are to go; whether there
    /// were any.
    #[inline]
    fn pack(&mut self, batch: &[Train], more: bool) -> bool {
        let mut sent = false;
        for &train in batch {
            self.given += train.tally();
            if self.open.first().is_some_and(|first| !together(first, &train)) {
                sent |= self.send();
            }
            self.open.push(train);
        }
        let now = batch.is_empty() || (!more && self.hungry.is_set());
        sent | (now && self.send())
    }

    /// Sends the chunk that is being filled, unless nothing is in it.
    fn send(&mut self) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let trains = std::mem::replace(&mut self.open, self.lists.pop().unwrap_or_default());
        let parcel = self.store.give(trains);
        // Before it is there: who takes it will say again that there is nothing more.
        self.hungry.set(false);
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
        self.hungry.set(self.is_empty());
        &self.trains[from..self.next]
    }

    fn has_news(&self) -> bool {
        self.next < self.trains.len() || (self.waiting.is_none() && !self.from.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.next == self.trains.len() && self.waiting.is_none() && self.from.is_empty()
    }
}

impl Hint {
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

impl Bed {
    fn new() -> std::io::Result<Self> {
        Ok(Self { alarm: Alarm::default(), bell: Doorbell::new()? })
    }

    #[inline]
    fn wake(&self, news: News) {
        if self.alarm.must_ring(news) {
            self.bell.ring();
        }
    }
}
