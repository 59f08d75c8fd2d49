//! The index protocol of a pipe, generic over its storage, so that `loom` checks the code that
//! runs.
//!
//! ```text
//!   sender                                             receiver
//!   writes slots, then `sent` (Release)  ----------->  reads `sent` (Acquire), then slots
//!   reads `freed` (Acquire), then slots  <-----------  writes slots back, then `freed` (Release)
//! ```
//!
//! The slots `freed..sent` belong to the receiver, all other slots to the sender. One slot always
//! stays with the sender, so that full and empty rings differ. Each word has one writer.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::index::{SlotIdx, distance, prev};

/// A shared word. Only one party at a time writes it, except that any party may call
/// [`Self::take`] or [`Self::claim`].
pub trait SharedWord {
    /// Loads the word with acquire ordering: after the load, everything is visible that the writer
    /// wrote before it stored the loaded value.
    fn acquire(&self) -> u32;
    /// Stores the word with release ordering, after all earlier writes.
    fn release(&self, value: u32);
    /// Atomically sets the word to 0 and returns the old value. Parties other than the word's
    /// writer may do this too.
    fn take(&self) -> u32;
    /// Atomically replaces 0 by `client_id`; returns whether the word was 0. Has acquire ordering,
    /// and so pairs with the release by which the previous owner stored 0.
    fn claim(&self, client_id: u32) -> bool;
    /// Full fence: orders all earlier accesses before all later ones, as seen by every thread.
    fn full_fence();
}

impl SharedWord for AtomicU32 {
    #[inline(always)]
    fn acquire(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn release(&self, value: u32) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn take(&self) -> u32 {
        self.swap(0, Ordering::AcqRel)
    }

    #[inline(always)]
    fn claim(&self, client_id: u32) -> bool {
        self.compare_exchange(0, client_id, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// For storage that has only 64-bit words: uses the lower half of the word.
impl SharedWord for AtomicU64 {
    #[inline(always)]
    fn acquire(&self) -> u32 {
        self.load(Ordering::Acquire) as u32
    }

    #[inline(always)]
    fn release(&self, value: u32) {
        self.store(value.into(), Ordering::Release);
    }

    #[inline(always)]
    fn take(&self) -> u32 {
        self.swap(0, Ordering::AcqRel) as u32
    }

    #[inline(always)]
    fn claim(&self, client_id: u32) -> bool {
        self.compare_exchange(0, client_id.into(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// The storage of one direction of a pipe: two rings of equal length and two words.
pub trait DirectionStorage {
    /// The type of the words `sent` and `freed`.
    type W: SharedWord;
    /// Number of slots in each ring.
    fn num_slots(&self) -> u32;
    /// First slot not yet sent. Written by the sender.
    fn sent(&self) -> &Self::W;
    /// First slot not yet returned. Written by the receiver.
    fn freed(&self) -> &Self::W;
    /// Copies slots `from..to` of the tx ring to the rx ring.
    fn publish_slots(&self, from: SlotIdx, to: SlotIdx);
    /// Copies slots `from..to` of the rx ring back to the tx ring. May leave out slots whose
    /// buffers the receiver has not exchanged.
    fn return_slots(&self, from: SlotIdx, to: SlotIdx);
}

/// The other party broke a rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFault {
    /// A shared index points outside the ring.
    #[error("peer wrote index {index} into a ring of {num_slots} slots")]
    OutOfRange {
        /// The index that the peer wrote.
        index: u32,
        /// Number of slots of the ring, which the index must be below.
        num_slots: u32,
    },
    /// A shared index moved past slots that the peer does not own.
    #[error("peer moved its index from {from} to {to}, beyond the {owned} slots it owned")]
    NotItsSlots {
        /// The index before the change.
        from: u32,
        /// The index after the change.
        to: u32,
        /// How many slots the peer owned.
        owned: u32,
    },
}

/// Checks that a peer's index advanced from `last` by no more than `owned` slots.
#[inline(always)]
fn advanced(last: u32, now: u32, owned: u32, num_slots: u32) -> Result<u32, PeerFault> {
    if now >= num_slots {
        return Err(PeerFault::OutOfRange { index: now, num_slots });
    }
    if distance(last, now, num_slots) > owned {
        return Err(PeerFault::NotItsSlots { from: last, to: now, owned });
    }
    Ok(now)
}

/// Reads both words and checks that each is a slot index.
fn indices<S: DirectionStorage>(shared: &S) -> Result<[SlotIdx; 2], PeerFault> {
    let (sent, freed) = (shared.sent().acquire(), shared.freed().acquire());
    let n = shared.num_slots();
    Ok([advanced(0, sent, n, n)?, advanced(0, freed, n, n)?])
}

/// The sending party's state; all of it can be restored from the shared words.
#[derive(Debug)]
pub struct PipeSender<S> {
    shared: S,
    sent: u32,
    freed: u32,
}

impl<S: DirectionStorage> PipeSender<S> {
    /// Creates the sending party's state from the current values of the words.
    ///
    /// # Errors
    /// [`PeerFault`] if the protocol can never produce these values.
    pub fn new(shared: S) -> Result<Self, PeerFault> {
        let mut new = Self { shared, sent: 0, freed: 0 };
        new.resync()?;
        Ok(new)
    }

    /// Reloads the state after another party has acted as the sender.
    ///
    /// # Errors
    /// Same as [`Self::new`].
    pub(crate) fn resync(&mut self) -> Result<(), PeerFault> {
        let [sent, freed] = indices(&self.shared)?;
        (self.sent, self.freed) = (sent, freed);
        Ok(())
    }

    /// The sender's current value of its word `sent`.
    #[inline(always)]
    pub(crate) fn position(&self) -> SlotIdx {
        self.sent
    }

    /// Sends the slots up to `head`, which the caller has checked, and takes back the slots that
    /// the receiver has returned. Returns the tx ring's tail.
    ///
    /// # Errors
    /// [`PeerFault`] if the receiver's word is impossible; then nothing is sent or taken back.
    #[inline]
    pub fn sync(&mut self, head: SlotIdx) -> Result<SlotIdx, PeerFault> {
        let n = self.shared.num_slots();
        // Acquire: pairs with the release of `freed` in `PipeReceiver::sync`.
        let freed = self.shared.freed().acquire();
        let owned = distance(self.freed, self.sent, n);
        self.freed = advanced(self.freed, freed, owned, n)?;
        if head != self.sent {
            self.shared.publish_slots(self.sent, head);
            self.sent = head;
            // Release: pairs with the acquire of `sent` in `PipeReceiver::sync`.
            self.shared.sent().release(head);
        }
        Ok(prev(self.freed, n))
    }

    /// Number of slots that belonged to the receiver at the sender's last sync.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        distance(self.freed, self.sent, self.shared.num_slots())
    }

    /// First slot not yet sent.
    #[must_use]
    pub fn sent(&self) -> SlotIdx {
        self.sent
    }

    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }
}

/// The receiving party's state; see [`PipeSender`].
#[derive(Debug)]
pub struct PipeReceiver<S> {
    shared: S,
    freed: u32,
    sent: u32,
}

impl<S: DirectionStorage> PipeReceiver<S> {
    /// Creates the receiving party's state from the current values of the words.
    ///
    /// # Errors
    /// [`PeerFault`] if the protocol can never produce these values.
    pub fn new(shared: S) -> Result<Self, PeerFault> {
        let mut new = Self { shared, freed: 0, sent: 0 };
        new.resync()?;
        Ok(new)
    }

    /// Reloads the state after another party has acted as the receiver.
    ///
    /// # Errors
    /// Same as [`Self::new`].
    pub(crate) fn resync(&mut self) -> Result<(), PeerFault> {
        let [_, freed] = indices(&self.shared)?;
        // All slots from `freed` on count as not yet taken over.
        (self.freed, self.sent) = (freed, freed);
        Ok(())
    }

    /// The receiver's current value of its word `freed`.
    #[inline(always)]
    pub(crate) fn position(&self) -> SlotIdx {
        self.freed
    }

    /// Like [`Self::new`], but the program has already taken over the slots up to `position`.
    /// `position` is ignored if it is beyond the slots that were sent.
    ///
    /// # Errors
    /// Same as [`Self::new`].
    pub fn resume(shared: S, position: SlotIdx) -> Result<Self, PeerFault> {
        let mut receiver = Self::new(shared)?;
        let (sent, n) = (receiver.shared.sent().acquire(), receiver.shared.num_slots());
        if position < n
            && distance(receiver.freed, position, n) <= distance(receiver.freed, sent, n)
        {
            receiver.sent = position;
        }
        Ok(receiver)
    }

    /// Returns the slots up to `head`, which the caller has checked, to the sender, and takes over
    /// the slots that the sender has sent. Returns the rx ring's tail.
    ///
    /// # Errors
    /// [`PeerFault`] if the sender's word is impossible; then nothing is returned or taken over.
    #[inline]
    pub fn sync(&mut self, head: SlotIdx) -> Result<SlotIdx, PeerFault> {
        let n = self.shared.num_slots();
        // Acquire: pairs with the release of `sent` in `PipeSender::sync`.
        let sent = self.shared.sent().acquire();
        let owned = n - 1 - distance(self.freed, self.sent, n);
        self.sent = advanced(self.sent, sent, owned, n)?;
        if head != self.freed {
            self.shared.return_slots(self.freed, head);
            self.freed = head;
            // Release: pairs with the acquire of `freed` in `PipeSender::sync`.
            self.shared.freed().release(head);
        }
        Ok(self.sent)
    }

    /// First slot not yet returned.
    #[must_use]
    pub fn freed(&self) -> SlotIdx {
        self.freed
    }

    /// First slot not yet taken over.
    #[must_use]
    pub fn sent(&self) -> SlotIdx {
        self.sent
    }

    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }
}
