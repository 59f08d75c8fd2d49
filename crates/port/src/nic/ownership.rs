//! How the host (this process) and a program that borrowed a queue take turns to sync it.
//!
//! ```text
//!   word    0       1         2         3         4         5       6         7
//!         | owner | by_host | hwcur - | tail -  | packets | bytes | refused | holder |
//!                             fill,tx   rx,completion
//!   These are the words of tx. Those of rx begin 128 bytes later.
//! ```
//!
//! The position in a ring needs no word. Each slot that goes to the kernel is an entry of the fill
//! or TX ring, and each slot that returns is an entry of the RX or completion ring. So the kernel's
//! own indices are valid at any time, even if a program was killed in the middle of a sync. Words 2
//! and 3 only say which slot corresponds to index 0. The buffers need no words either: the driver's
//! slots name those that the kernel has.
//!
//! This module has the host's side; `xdp/delegated.rs` has the program's.

#[cfg(test)]
mod models;
mod words;

use std::sync::Arc;

use slipring_ring::{BufIdx, KernRing, PersistentWords, Region, Slot, SlotIdx};

pub(crate) use words::{
    ClientClaim, OwnershipCell, OwnershipStorage, OwnershipWord, SyncDirection, claim_for_client,
    release_by_client,
};
use words::{HOST_OWNER, claim_for_host, release_by_host, set_by_host};

/// The counts of a borrowing program since the last query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientCounts {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Number of packets that were dropped: refused by the device, or too long to be received.
    pub(crate) refused: u64,
}

/// The shared words, and the values that were last read from them.
#[derive(Debug)]
pub(crate) struct SyncOwnership {
    words: PersistentWords<2>,
    last_counts: [ClientCounts; 2],
    /// Whether a program may claim a direction. If not, the word `Owner` has no meaning: a former
    /// borrower may still write to it.
    lent: bool,
    /// Whether only this process may sync.
    host_only: bool,
    /// Whether the interface is down or no longer exists; then only this process may sync.
    down: bool,
}

/// An error: memory that a program can write has impossible values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CorruptWords;

impl SyncOwnership {
    /// Creates the words. At first, only this process may sync. `None` if the region has no space
    /// for them.
    pub(crate) fn new(region: &Arc<Region>) -> Option<Self> {
        let cell = PersistentWords::new(region).ok()?;
        let last_counts = Default::default();
        let mut turns =
            Self { words: cell, last_counts, lent: false, host_only: true, down: false };
        turns.set_host_only(true);
        Some(turns)
    }

    pub(crate) fn offset(&self) -> u64 {
        self.words.offset()
    }

    /// Lends the queue to the program with this number.
    pub(crate) fn begin_loan(&mut self, client_id: u32) {
        self.lent = true;
        self.set_holder(client_id);
    }

    /// Tells programs that the queue is no longer lent. The borrower may still be in the middle of
    /// a sync, so [`Self::end_loan`] must follow.
    pub(crate) fn revoke_holder(&self) {
        self.set_holder(0);
    }

    /// Ends the loan. From now on this process acquires the directions whatever the words say.
    pub(crate) fn end_loan(&mut self) {
        self.lent = false;
    }

    /// Returns whether the queue is lent to a program.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Sets the number of the program to which the queue is lent; 0 if it is not lent. A program
    /// may have closed its port without a call of its library. Then the library detects by this
    /// word that the queue is no longer lent to the program.
    fn set_holder(&self, client_id: u32) {
        for direction in [SyncDirection::Tx, SyncDirection::Rx] {
            self.words.cell(direction, OwnershipWord::Holder).release(client_id.into());
        }
    }

    /// Sets whether only this process may sync. After it was set to false, a program may sync a
    /// direction once this process has released it.
    pub(crate) fn set_host_only(&mut self, keep: bool) {
        self.host_only = keep;
        if keep {
            self.set_by_host(SyncDirection::Tx, true);
            self.set_by_host(SyncDirection::Rx, true);
        }
    }

    /// While `down` is true, programs must leave each sync to the host. Once `down` is false again,
    /// programs may sync each direction after this process has released it.
    pub(crate) fn set_down(&mut self, down: bool) {
        self.down = down;
        if down {
            self.set_by_host(SyncDirection::Tx, true);
            self.set_by_host(SyncDirection::Rx, true);
        }
    }

    fn set_by_host(&self, direction: SyncDirection, special: bool) {
        set_by_host(&self.words, direction, self.host_only || self.down || special);
    }

    /// Acquires a direction. Returns false while the borrower is syncing it.
    pub(crate) fn try_acquire(&self, direction: SyncDirection) -> bool {
        !self.lent || claim_for_host(&self.words, direction)
    }

    /// Releases a direction to the next owner. `anchors` say which slots correspond to index 0 of
    /// the kernel's rings. `special` is true if the direction has slots that programs cannot
    /// handle.
    pub(crate) fn release(&self, direction: SyncDirection, anchors: [u32; 2], special: bool) {
        release_by_host(&self.words, direction, anchors, self.host_only || self.down || special);
    }

    /// Returns whether the borrower is syncing neither direction.
    pub(crate) fn is_free(&self) -> bool {
        let free = |direction| self.words.cell(direction, OwnershipWord::Owner).acquire() == 0;
        !self.lent || free(SyncDirection::Tx) && free(SyncDirection::Rx)
    }

    /// Returns whether a program has claimed the direction.
    pub(crate) fn is_claimed(&self, direction: SyncDirection) -> bool {
        !matches!(self.words.cell(direction, OwnershipWord::Owner).acquire(), 0 | HOST_OWNER)
    }

    /// Takes a direction from a program that ended in the middle of a sync.
    pub(crate) fn force_acquire(&self, direction: SyncDirection) {
        self.words.cell(direction, OwnershipWord::Owner).release(HOST_OWNER);
    }

    /// Returns what programs have counted in this direction since the last call.
    pub(crate) fn take_counts(&mut self, direction: SyncDirection) -> ClientCounts {
        let read = |name| self.words.cell(direction, name).load_relaxed();
        let now = ClientCounts {
            packets: read(OwnershipWord::Packets),
            bytes: read(OwnershipWord::Bytes),
            refused: read(OwnershipWord::Refused),
        };
        let last = std::mem::replace(&mut self.last_counts[direction as usize], now);
        ClientCounts {
            packets: now.packets.wrapping_sub(last.packets),
            bytes: now.bytes.wrapping_sub(last.bytes),
            refused: now.refused.wrapping_sub(last.refused),
        }
    }
}

/// Returns the slot that corresponds to index 0 of a kernel's ring, if index `at` corresponds to
/// `slot`.
pub(crate) fn ring_anchor(slot: SlotIdx, at: u32, num_slots: u32) -> u32 {
    slot.wrapping_sub(at) & (num_slots - 1)
}

/// Returns the slot that is `moved` entries after `slot`.
pub(crate) fn advance_slot(slot: SlotIdx, moved: u32, num_slots: u32) -> SlotIdx {
    slot.wrapping_add(moved) & (num_slots - 1)
}

/// Calls `enter` for each slot that has a usable buffer, among the driver's `count` slots from slot
/// `from` on. `enter` returns false if the slot's buffer was entered before. Two slots have the
/// same buffer if a process was killed while it exchanged their buffers. Then the second slot gets
/// the buffer that is in no slot: one of the buffers of `coming`, which the kernel has returned.
pub(crate) fn recover_buffers(
    ring: &mut KernRing,
    from: SlotIdx,
    count: u32,
    coming: impl Iterator<Item = BufIdx>,
    mut enter: impl FnMut(Slot) -> bool,
) {
    let mut twice = Vec::new();
    let mut at = from;
    for _ in 0..count {
        let slot = ring.slot(at);
        if ring.region().is_usable(slot.buf) && !enter(slot) {
            twice.push(at);
        }
        at = ring.next(at);
    }
    if twice.is_empty() {
        return;
    }
    let bufs = ring.region().num_bufs();
    for buf in coming.filter(|buf| buf.0 < bufs) {
        let Some(&at) = twice.last() else { return };
        let slot = Slot { buf, ..ring.slot(at) };
        if ring.region().is_usable(buf) && enter(slot) {
            ring.rename(at, slot);
            twice.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_ring::{Geometry, HugePages, RingHalves, Rx};
    use std::collections::BTreeSet;

    fn region() -> Arc<Region> {
        let geometry = Geometry { ring_bytes: 1 << 16, bufs: 32, buf_size: 2048 };
        Region::create_shared(geometry, HugePages::Never).unwrap()
    }

    #[test]
    fn who_finds_another_at_it_does_not_get_it() {
        let mut turns = SyncOwnership::new(&region()).unwrap();
        assert!(
            turns.try_acquire(SyncDirection::Tx) && turns.try_acquire(SyncDirection::Tx),
            "its own word lets it in"
        );
        turns.release(SyncDirection::Tx, [3, 4], false);
        turns.set_host_only(false);
        turns.begin_loan(7);
        turns.words.cell(SyncDirection::Tx, OwnershipWord::Owner).store_relaxed(7);
        assert!(!turns.try_acquire(SyncDirection::Tx) && turns.try_acquire(SyncDirection::Rx));
        assert!(turns.is_claimed(SyncDirection::Tx) && !turns.is_claimed(SyncDirection::Rx));
        turns.force_acquire(SyncDirection::Tx);
        assert!(turns.try_acquire(SyncDirection::Tx));
    }

    #[test]
    fn after_a_loan_the_owner_word_has_no_effect() {
        let mut turns = SyncOwnership::new(&region()).unwrap();
        turns.begin_loan(7);
        turns.revoke_holder();
        turns.end_loan();
        for direction in [SyncDirection::Tx, SyncDirection::Rx] {
            turns.words.cell(direction, OwnershipWord::Owner).store_relaxed(7);
            assert!(turns.try_acquire(direction));
        }
        assert!(turns.is_free());
    }

    #[test]
    fn only_the_host_syncs_while_it_keeps_to_that_or_has_something_special() {
        let mut turns = SyncOwnership::new(&region()).unwrap();
        let kept = |turns: &SyncOwnership| {
            turns.words.cell(SyncDirection::Tx, OwnershipWord::ByHost).load_relaxed() != 0
        };
        assert!(kept(&turns));
        turns.set_host_only(false);
        turns.release(SyncDirection::Tx, [0, 0], false);
        assert!(!kept(&turns));
        turns.release(SyncDirection::Tx, [0, 0], true);
        assert!(kept(&turns));
        turns.release(SyncDirection::Tx, [0, 0], false);
        assert!(!kept(&turns));
        turns.set_host_only(true);
        assert!(kept(&turns));
    }

    #[test]
    fn counts_are_told_once() {
        let mut turns = SyncOwnership::new(&region()).unwrap();
        turns.words.cell(SyncDirection::Rx, OwnershipWord::Packets).store_relaxed(5);
        assert_eq!(
            turns.take_counts(SyncDirection::Rx),
            ClientCounts { packets: 5, ..ClientCounts::default() }
        );
        assert_eq!(turns.take_counts(SyncDirection::Rx), ClientCounts::default());
    }

    #[test]
    fn a_slot_follows_its_index_round_both() {
        for (slot, at) in [(0, 0), (5, u32::MAX), (63, 1), (7, 1 << 31)] {
            let anchor = ring_anchor(slot, at, 64);
            assert_eq!(at.wrapping_add(anchor) & 63, slot);
            assert_eq!(at.wrapping_add(9).wrapping_add(anchor) & 63, advance_slot(slot, 9, 64));
        }
    }

    /// In the exchange `slot[k] = old; slot[at] = new`, the process was killed after the first
    /// step.
    #[test]
    fn a_buffer_that_was_being_exchanged_is_found_again() {
        let region = region();
        let mut ring = RingHalves::<Rx>::create(&region, 0, 8).unwrap().kern;
        let bufs: Vec<BufIdx> = (0..8).map(|i| ring.slot(i).buf).collect();
        let coming = bufs[3];
        assert!(ring.rename(3, Slot { buf: bufs[0], ..ring.slot(3) }));
        let mut entered = BTreeSet::new();
        recover_buffers(&mut ring, 0, 8, [bufs[1], coming].into_iter(), |slot| {
            entered.insert(slot.buf.0)
        });
        assert_eq!(entered, bufs.iter().map(|buf| buf.0).collect());
        let named: BTreeSet<_> = (0..8).map(|i| ring.slot(i).buf.0).collect();
        assert_eq!(named, entered);
    }
}
