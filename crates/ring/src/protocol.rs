//! The index protocol of a pipe, generic over its storage, so that `loom` checks the code that
//! runs.
//!
//! ```text
//!   sender                                             receiver
//!   writes slots, then `sent` (Release)  ----------->  reads `sent` (Acquire), then slots
//!   reads `freed` (Acquire), then slots  <-----------  writes slots back, then `freed` (Release)
//! ```
//!
//! A slot belongs to the receiver from `freed` up to `sent`, to the sender otherwise; one slot
//! always stays with the sender, so that full and empty differ. Each word has one writer.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::index::{SlotIdx, distance, prev};

/// A shared word with one writer.
pub trait SharedWord {
    /// Loads it (acquire): makes the writer's earlier writes visible.
    fn acquire(&self) -> u32;
    /// Stores it (release), after all earlier writes.
    fn release(&self, value: u32);
    /// Sets it to 0 and returns the old value. The only write by a party other than its writer.
    fn take(&self) -> u32;
    /// Atomically replaces 0 by `who`; returns whether it succeeded. Acquire: pairs with the
    /// release by which the previous owner stored 0.
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

/// A 64-bit word of which the lower half is used, for storage that has only 64-bit words.
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
    /// The words' type.
    type W: SharedWord;
    /// Slots in each ring.
    fn num_slots(&self) -> u32;
    /// First slot not yet sent. Written by the sender.
    fn sent(&self) -> &Self::W;
    /// First slot not yet returned. Written by the receiver.
    fn freed(&self) -> &Self::W;
    /// Copies slots `from..to` of the tx ring to the rx ring.
    fn publish_slots(&self, from: SlotIdx, to: SlotIdx);
    /// Copies slots `from..to` of the rx ring back to the tx ring.
    fn return_slots(&self, from: SlotIdx, to: SlotIdx);
}

/// The other party broke a rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFault {
    /// A shared index points outside the ring.
    #[error("peer wrote index {index} into a ring of {num_slots} slots")]
    OutOfRange {
        /// The index.
        index: u32,
        /// Slots of the ring.
        num_slots: u32,
    },
    /// A shared index moved past slots that the peer does not own.
    #[error("peer moved its index from {from} to {to}, beyond the {owned} slots it owned")]
    NotItsSlots {
        /// The old index.
        from: u32,
        /// The new index.
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
    /// Takes the sender's role in the state that the words have.
    ///
    /// # Errors
    /// [`PeerFault`] when the protocol can never reach the words' state.
    pub fn new(shared: S) -> Result<Self, PeerFault> {
        let mut new = Self { shared, sent: 0, freed: 0 };
        new.resync()?;
        Ok(new)
    }

    /// Reloads the state after another party was the sender for a while.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn resync(&mut self) -> Result<(), PeerFault> {
        let [sent, freed] = indices(&self.shared)?;
        (self.sent, self.freed) = (sent, freed);
        Ok(())
    }

    /// The sender's own word.
    #[inline(always)]
    pub(crate) fn position(&self) -> SlotIdx {
        self.sent
    }

    /// Sends slots up to `head`, which the caller has checked, and takes back those that the
    /// receiver has returned. Returns the tx ring's tail.
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

    /// Slots that the receiver holds.
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
    /// Takes the receiver's role in the state that the words have.
    ///
    /// # Errors
    /// [`PeerFault`] when the protocol can never reach the words' state.
    pub fn new(shared: S) -> Result<Self, PeerFault> {
        let mut new = Self { shared, freed: 0, sent: 0 };
        new.resync()?;
        Ok(new)
    }

    /// Reloads the state after another party was the receiver for a while.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn resync(&mut self) -> Result<(), PeerFault> {
        let [_, freed] = indices(&self.shared)?;
        // Whatever was sent since counts as new.
        (self.freed, self.sent) = (freed, freed);
        Ok(())
    }

    /// The receiver's own word.
    #[inline(always)]
    pub(crate) fn position(&self) -> SlotIdx {
        self.freed
    }

    /// As [`Self::new`], but the program has already taken over the slots up to `told`. A value
    /// beyond what was sent is ignored.
    ///
    /// # Errors
    /// As [`Self::new`].
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

    /// Returns slots up to `head`, which the caller has checked, to the sender and takes over those
    /// that it has sent. Returns the rx ring's tail.
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
