//! One direction of a pipe whose two ends belong to other processes.
//!
//! ```text
//!   program A writes           HostedTx::sync   -- sent -->   HostedRx::sync         program B reads
//!   A's tx ring in the region   (host's thread)  <- freed --   (host's thread)   B's rx ring in the region
//! ```
//!
//! At first a host does the syncs of both, and the words through which the halves meet are its own,
//! so that nobody can forge them. [`share`] moves them into the region: from then on a program may
//! sync its half in its own process, by [`HostedTx::attach`] or [`HostedRx::attach`], beside the
//! host, which may sync either half, too, for programs that cannot. Whoever syncs a half holds it
//! by a word, and leaves in others all that the next one has to know.
//!
//! The protocol is that of [`crate::protocol`]; see `pipe.rs` for a pipe whose ends nobody shares.

mod signs;
mod turns;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::cell::Cell;
use crate::index::{SlotIdx, prev};
use crate::kern::{KernRing, Pair};
use crate::mem::{Dir, Owned, RingMem};
use crate::pipe::return_changed;
use crate::protocol::{Peer, Receiver, Sender, Word};
use crate::region::{Region, RegionError};
use crate::words::{HOST, Side, WordsAt};

pub use signs::Signs;
pub use turns::{Moved, NotSynced};
use turns::{hold, let_go, moved};

/// One direction.
#[derive(Debug)]
struct Direction {
    tx: RingMem,
    rx: RingMem,
    /// `sent` and `freed`, each with its cache lines to itself, until they are shared; the host's.
    own: Option<Cell<2>>,
    shared: OnceLock<WordsAt>,
}

impl Direction {
    #[inline(always)]
    fn at(&self, dir: Dir) -> &AtomicU64 {
        match (self.shared.get(), &self.own) {
            (Some(words), _) => &words.get().side(dir).at,
            (None, Some(own)) => own.word(dir as u64, 0),
            (None, None) => unreachable!("a direction has words of either kind"),
        }
    }

    /// The words of one half, if other processes may sync it, too.
    #[inline(always)]
    fn shared_side(&self, dir: Dir) -> Option<&Side> {
        self.shared.get().map(|words| words.get().side(dir))
    }
}

impl Drop for Direction {
    /// Hands the slots under way back: the receiver may have exchanged their buffers, and what
    /// the tx slots name is given back to the region next.
    fn drop(&mut self) {
        let n = self.tx.num_slots();
        let (freed, sent) = (self.at(Dir::Rx).acquire(), self.at(Dir::Tx).acquire());
        // Words that others can write may be anything.
        if self.own.is_some() && freed < n && sent < n {
            return_changed(&self.rx, &self.tx, freed, sent);
        }
    }
}

#[derive(Debug, Clone)]
struct Shared(Arc<Direction>);

impl Peer for Shared {
    type W = AtomicU64;

    #[inline(always)]
    fn num_slots(&self) -> u32 {
        self.0.tx.num_slots()
    }

    #[inline(always)]
    fn sent(&self) -> &Self::W {
        self.0.at(Dir::Tx)
    }

    #[inline(always)]
    fn freed(&self) -> &Self::W {
        self.0.at(Dir::Rx)
    }

    #[inline(always)]
    fn hand_over(&self, from: SlotIdx, to: SlotIdx) {
        for span in crate::index::spans(from, to, self.0.tx.num_slots()) {
            for (rx, tx) in self.0.rx.slots(span).iter().zip(self.0.tx.slots(span)) {
                rx.copy_from(tx);
            }
        }
    }

    #[inline(always)]
    fn hand_back(&self, from: SlotIdx, to: SlotIdx) {
        return_changed(&self.0.rx, &self.0.tx, from, to);
    }
}

/// Lays out one direction of `num_slots` slots; the tx slots have the buffers. The words lie in
/// a region of the host's own.
///
/// # Errors
/// [`RegionError`] when a region has not enough left.
pub fn hosted_direction(
    region: &Arc<Region>,
    words: &Arc<Region>,
    ringid: u16,
    num_slots: u32,
) -> Result<(HostedTx, HostedRx), RegionError> {
    let own = Some(Cell::new(words)?);
    let bufs = region.take_bufs(num_slots)?;
    let tx = RingMem::create(region, Dir::Tx, ringid, num_slots, &bufs)
        .inspect_err(|_| region.give_bufs(bufs.iter().copied()))?;
    let rx = RingMem::create(region, Dir::Rx, ringid, num_slots, &[])?;
    let direction = Direction { tx, rx, own, shared: OnceLock::new() };
    let shared = Shared(Arc::new(direction));
    let fresh = "two words that nobody has written";
    Ok((
        HostedTx {
            kern: Pair::<crate::Tx>::over(shared.0.tx.clone()).kern,
            sender: Sender::new(shared.clone()).expect(fresh),
            direction: shared.clone(),
            who: HOST,
        },
        HostedRx {
            kern: Pair::<crate::Rx>::over(shared.0.rx.clone()).kern,
            receiver: Receiver::new(shared.clone()).expect(fresh),
            direction: shared,
            who: HOST,
        },
    ))
}

/// Where a direction lies, for who goes on with it or syncs it in another process: offsets of both
/// rings in their region, of the words in theirs (the host's own, or the same), and how many slots
/// there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The words.
    pub words: u64,
    /// The sender's ring.
    pub tx: u64,
    /// The receiver's ring.
    pub rx: u64,
    /// Slots of either.
    pub num_slots: u32,
}

impl Place {
    /// Goes on with a direction of a process that is no more, at any instruction of its syncs.
    ///
    /// A sync writes the word by which the other end learns of it after all that it tells of, and
    /// what it does before that it may do once more. So the words say how far both ends are, and
    /// the receiver's tail how much of it its program knows.
    ///
    /// # Errors
    /// [`RegionError`] where no such direction can lie.
    pub fn resume(
        &self,
        region: &Arc<Region>,
        words: &Arc<Region>,
    ) -> Result<(HostedTx, HostedRx), RegionError> {
        let own = Some(Cell::resume(words, self.words)?);
        let tx = RingMem::resume(region, self.tx, self.num_slots, Owned::BytesAndBufs)?;
        let rx = RingMem::resume(region, self.rx, self.num_slots, Owned::Bytes)?;
        let shared = Shared(Arc::new(Direction { tx, rx, own, shared: OnceLock::new() }));
        let wrong = |_| RegionError::NotARegion("a pipe's words are no state that it reaches");
        let sender = Sender::new(shared.clone()).map_err(wrong)?;
        // Written by the program: it counts as far as it can be true.
        let told = shared.0.rx.tail().load(Ordering::Acquire);
        let receiver = Receiver::resume(shared.clone(), told).map_err(wrong)?;
        let tail = prev(shared.freed().acquire(), self.num_slots);
        let tx = KernRing::resumed(shared.0.tx.clone(), sender.sent(), tail);
        let rx = KernRing::resumed(shared.0.rx.clone(), receiver.freed(), receiver.sent());
        Ok((
            HostedTx { kern: tx, sender, direction: shared.clone(), who: HOST },
            HostedRx { kern: rx, receiver, direction: shared, who: HOST },
        ))
    }
}

/// Moves the words of a direction to where other processes find them, if they are not there yet.
/// They stay there until the direction goes. They say of both halves that somebody sleeps for whom
/// the host syncs ([`Announced::for_earlier_sleepers`](crate::Announced::for_earlier_sleepers)).
///
/// # Errors
/// [`RegionError::OutOfRingSpace`].
///
/// # Panics
/// If the halves are not of one direction.
pub fn share(tx: &mut HostedTx, rx: &mut HostedRx) -> Result<Place, RegionError> {
    let direction = &tx.direction.0;
    assert!(Arc::ptr_eq(direction, &rx.direction.0), "two halves of one direction");
    let words = match direction.shared.get() {
        Some(words) => words,
        None => {
            let words = WordsAt::create(direction.tx.region())?;
            for dir in [Dir::Tx, Dir::Rx] {
                words.get().side(dir).at.release(direction.at(dir).acquire());
            }
            words.get().tx.tail.release(tx.kern.hwtail());
            words.get().rx.tail.release(rx.kern.hwtail());
            // Programs for which the host syncs may sleep since there was no word to say so by.
            words.get().tx.host_sleeps.release(1);
            words.get().rx.host_sleeps.release(1);
            // Both halves are borrowed mutably, so nobody else is here.
            direction.shared.get_or_init(|| words)
        }
    };
    Ok(Place {
        words: words.offset(),
        tx: direction.tx.offset(),
        rx: direction.rx.offset(),
        num_slots: direction.tx.num_slots(),
    })
}

/// A direction that another process shared, found in a mapping of its memory.
fn attach(region: &Arc<Region>, place: Place) -> Result<Shared, RegionError> {
    let nonsense = || RegionError::NotARegion("no pipe lies there");
    let ring = |at| RingMem::foreign(region, at, place.num_slots).ok_or_else(nonsense);
    let words = WordsAt::attach(region, place.words).ok_or_else(nonsense)?;
    let (tx, rx) = (ring(place.tx)?, ring(place.rx)?);
    let direction = Direction { tx, rx, own: None, shared: OnceLock::from(words) };
    Ok(Shared(Arc::new(direction)))
}

macro_rules! half {
    ($(#[$doc:meta])* $Half:ident, $party:ident: $Party:ident, $mine:expr, $other:expr, $seen:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $Half {
            kern: KernRing,
            $party: $Party<Shared>,
            direction: Shared,
            who: u32,
        }

        impl $Half {
            /// The half of a direction that another process shared, for the program that it gave
            /// the number `who` to.
            ///
            /// # Errors
            /// [`RegionError::NotARegion`] if none can lie there.
            pub fn attach(
                region: &Arc<Region>,
                place: Place,
                who: u32,
            ) -> Result<Self, RegionError> {
                let shared = attach(region, place)?;
                let mem = if $mine == Dir::Tx { &shared.0.tx } else { &shared.0.rx };
                let kern = KernRing::resumed(mem.clone(), 0, 0);
                let spoiled = |_| RegionError::NotARegion("the pipe's words are spoiled");
                let $party = $Party::new(shared.clone()).map_err(spoiled)?;
                let mut half = Self { kern, $party, direction: shared, who };
                half.catch_up().map_err(|_| RegionError::NotARegion("no pipe lies there"))?;
                Ok(half)
            }

            /// Moves slots as far as possible.
            ///
            /// # Errors
            /// [`NotSynced`]; nothing was moved.
            #[inline]
            pub fn sync(&mut self) -> Result<Moved, NotSynced> {
                self.sync_shown(|_, _, _| {})
            }

            /// As [`Self::sync`], but shows the frames' slots (first, and one behind the last) to
            /// `see` before the other party gets them: the receiver, or the receiving program.
            ///
            /// # Errors
            /// As [`Self::sync`].
            #[inline]
            pub fn sync_shown(
                &mut self,
                see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
            ) -> Result<Moved, NotSynced> {
                self.sync_by(|half| half.sync_held(see))
            }

            /// Holds the half for one sync, where others may sync it, too.
            #[inline(always)]
            fn sync_by(
                &mut self,
                sync: impl FnOnce(&mut Self) -> Result<u32, NotSynced>,
            ) -> Result<Moved, NotSynced> {
                let Some(side) = self.direction.0.shared_side($mine) else {
                    return Ok(sync(self)?.into());
                };
                hold(side, self.who)?;
                let slots = self.catch_up().and_then(|()| sync(self));
                let side = |dir| self.direction.0.shared_side(dir).expect("it stays shared");
                let_go(side($mine));
                Ok(moved(slots?, side($other), self.who))
            }

            /// Shows what the host has moved since, for a program that had it sync.
            ///
            /// # Errors
            /// [`NotSynced::Spoiled`].
            pub fn synced_by_host(
                &mut self,
                see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
            ) -> Result<(), NotSynced> {
                let before = self.kern.$seen();
                self.catch_up()?;
                see(&self.kern, before, self.kern.$seen());
                Ok(())
            }

            /// Goes on where whoever synced last has left off.
            #[inline(always)]
            fn catch_up(&mut self) -> Result<(), NotSynced> {
                let Some(side) = self.direction.0.shared_side($mine) else { return Ok(()) };
                let (at, tail) = (side.at.acquire(), side.tail.acquire());
                if (at, tail) == (self.$party.at(), self.kern.hwtail()) {
                    return Ok(());
                }
                self.$party.rejoin().map_err(|_| NotSynced::Spoiled)?;
                let resumed = self.kern.rejoin(at, tail);
                if resumed { Ok(()) } else { Err(NotSynced::Spoiled) }
            }

            /// Publishes a tail. The word comes first: who finds it newer than the ring is right.
            #[inline(always)]
            fn publish(&mut self, tail: SlotIdx) {
                if let Some(side) = self.direction.0.shared_side($mine) {
                    side.tail.release(tail);
                }
                self.kern.set_tail(tail);
            }

            /// The driver's view of the ring.
            #[must_use]
            pub fn kern(&self) -> &KernRing {
                &self.kern
            }

            /// What is said about this half beside its syncs, once its direction is shared.
            ///
            /// # Panics
            /// Of what it returns: if it is not.
            #[must_use]
            pub fn signs(&self) -> Signs {
                Signs { direction: self.direction.clone(), dir: $mine }
            }
        }
    };
}

half! {
    /// The hold on the sender's ring.
    HostedTx, sender: Sender, Dir::Tx, Dir::Rx, hwcur
}

half! {
    /// The hold on the receiver's ring.
    HostedRx, receiver: Receiver, Dir::Rx, Dir::Tx, hwtail
}

impl HostedTx {
    /// Where the direction lies, with the words that are the host's own: for [`Place::resume`].
    ///
    /// # Panics
    /// In a program that the direction was shared with.
    #[must_use]
    pub fn place(&self) -> Place {
        let Direction { tx, rx, own, .. } = &*self.direction.0;
        let words = own.as_ref().expect("the host's").at();
        Place { tx: tx.offset(), rx: rx.offset(), words, num_slots: tx.num_slots() }
    }

    /// Sends the whole packets that the program queued and takes back the slots that the
    /// receiver is done with.
    #[inline(always)]
    fn sync_held(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, NotSynced> {
        let head = self.kern.released()?;
        let head = self.kern.whole_packets(head);
        let sent = self.kern.pending(head);
        see(&self.kern, self.kern.hwcur(), head);
        let tail = self.sender.sync(head).map_err(|_| NotSynced::Spoiled)?;
        self.kern.done_to(head);
        self.publish(tail);
        Ok(sent)
    }
}

impl HostedRx {
    /// As [`Self::sync`], but shows the slots that the program has released to `see` before the
    /// sender gets them back.
    ///
    /// # Errors
    /// As [`Self::sync`].
    #[inline]
    pub fn sync_released(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<Moved, NotSynced> {
        self.sync_by(|half| half.sync_both(see, |_, _, _| {}))
    }

    #[inline(always)]
    fn sync_held(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, NotSynced> {
        self.sync_both(|_, _, _| {}, see)
    }

    /// Gives the slots that the program is done with back to the sender and takes over new
    /// frames.
    #[inline(always)]
    fn sync_both(
        &mut self,
        released: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, NotSynced> {
        let head = self.kern.released()?;
        let freed = self.kern.pending(head);
        released(&self.kern, self.kern.hwcur(), head);
        let tail = self.receiver.sync(head).map_err(|_| NotSynced::Spoiled)?;
        see(&self.kern, self.kern.hwtail(), tail);
        self.kern.done_to(head);
        self.publish(tail);
        Ok(freed)
    }
}

#[cfg(test)]
mod tests;
