//! The words of a lent queue, generic over their storage, so that `loom` checks the code that runs.
//! The host is the process that lends the queue.
//!
//! ```text
//!   host                                         program
//!   ByHost := 1, then claims Owner               claims Owner, then reads ByHost
//!   anchors, ByHost := 0 or 1                    reads anchors and the kernel's indices, syncs
//!   Owner := 0 (Release)          <---------->   Owner := 0 (Release)
//! ```
//!
//! A claim of the word `Owner` sees all writes of the previous owner. The program reads `ByHost`
//! after its claim, so once the host has synced with that word set, no program syncs.

use std::sync::atomic::{AtomicU64, Ordering};

use slipring_ring::{AttachedWords, PersistentWords};

/// Value of `OwnershipWord::Owner` while the host syncs the direction. If no process syncs it,
/// the value is 0.
pub(crate) const HOST_OWNER: u64 = 1;

/// The direction of a sync. Each direction has its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncDirection {
    Tx = 0,
    Rx = 1,
}

/// The words of one direction. A variant's value is the index of its word in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnershipWord {
    Owner = 0,
    ByHost = 1,
    In = 2,
    Out = 3,
    Packets = 4,
    Bytes = 5,
    Refused = 6,
    Holder = 7,
}

/// A shared word. Production code and the models implement it.
pub(crate) trait OwnershipCell {
    /// Loads the word with Acquire.
    fn acquire(&self) -> u64;
    /// Stores the word with Release.
    fn release(&self, value: u64);
    /// Loads the word without ordering.
    fn load_relaxed(&self) -> u64;
    /// Stores the word without ordering.
    fn store_relaxed(&self, value: u64);
    /// Atomically replaces 0 by `owner`; if the word is not 0, fails with the current owner. Has
    /// acquire ordering.
    fn claim(&self, owner: u64) -> Result<(), u64>;
}

impl OwnershipCell for AtomicU64 {
    #[inline(always)]
    fn acquire(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn release(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn load_relaxed(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn store_relaxed(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn claim(&self, owner: u64) -> Result<(), u64> {
        self.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
}

/// Storage of the words of both directions.
pub(crate) trait OwnershipStorage {
    /// The type of the words: production code or a model.
    type Cell: OwnershipCell;
    /// Returns a word of one direction.
    fn cell(&self, direction: SyncDirection, word: OwnershipWord) -> &Self::Cell;
}

impl OwnershipStorage for PersistentWords<2> {
    type Cell = AtomicU64;

    #[inline(always)]
    fn cell(&self, direction: SyncDirection, word: OwnershipWord) -> &AtomicU64 {
        PersistentWords::word(self, direction as u64, word as u64)
    }
}

impl OwnershipStorage for AttachedWords<2> {
    type Cell = AtomicU64;

    #[inline(always)]
    fn cell(&self, direction: SyncDirection, word: OwnershipWord) -> &AtomicU64 {
        self.word(direction as u64, word as u64)
    }
}

/// Claims a direction for the host. Returns false while a program is syncing it.
#[inline(always)]
pub(crate) fn claim_for_host(words: &impl OwnershipStorage, direction: SyncDirection) -> bool {
    match words.cell(direction, OwnershipWord::Owner).claim(HOST_OWNER) {
        // If the word already has the host's number, a thread of the host panicked during a sync.
        // The queue's lock keeps other threads out.
        Ok(()) | Err(HOST_OWNER) => true,
        Err(_) => false,
    }
}

/// Sets whether only the host may sync a direction.
#[inline(always)]
pub(crate) fn set_by_host(words: &impl OwnershipStorage, direction: SyncDirection, only: bool) {
    // Release: pairs with the acquire in `claim_for_client`, so that the program sees earlier
    // writes.
    words.cell(direction, OwnershipWord::ByHost).release(only.into());
}

/// Releases a direction for the host. `anchors` say which slots correspond to index 0 of the
/// kernel's rings. `only` is true if only the host may sync the direction from now on.
#[inline(always)]
pub(crate) fn release_by_host(
    words: &impl OwnershipStorage,
    direction: SyncDirection,
    anchors: [u32; 2],
    only: bool,
) {
    for (word, anchor) in [OwnershipWord::In, OwnershipWord::Out].into_iter().zip(anchors) {
        words.cell(direction, word).store_relaxed(anchor.into());
    }
    set_by_host(words, direction, only);
    // Release: pairs with the acquire of the next claim.
    words.cell(direction, OwnershipWord::Owner).release(0);
}

/// Result of a program's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientClaim {
    /// The direction belongs to the program until it calls [`release_by_client`].
    Claimed,
    /// The program must ask the host for the sync: only the host may sync the direction, the queue
    /// is no longer lent to this program, or another party has claimed the direction. The sync of
    /// that other party is not enough: it may have read `head` before the program's last change,
    /// and the host may claim a direction without a sync.
    ByHost,
}

/// Claims a direction for the program with number `client_id`.
#[inline(always)]
pub(crate) fn claim_for_client(
    words: &impl OwnershipStorage,
    direction: SyncDirection,
    client_id: u32,
) -> ClientClaim {
    let client_id = u64::from(client_id);
    if words.cell(direction, OwnershipWord::Holder).acquire() != client_id {
        return ClientClaim::ByHost;
    }
    if words.cell(direction, OwnershipWord::Owner).claim(client_id).is_err() {
        return ClientClaim::ByHost;
    }
    // Checked after the claim, because the host may have set the word in its last sync.
    if words.cell(direction, OwnershipWord::ByHost).acquire() != 0 {
        release_by_client(words, direction);
        return ClientClaim::ByHost;
    }
    ClientClaim::Claimed
}

/// Releases a direction for the program that has claimed it.
#[inline(always)]
pub(crate) fn release_by_client(words: &impl OwnershipStorage, direction: SyncDirection) {
    // Release: pairs with the acquire of the next claim.
    words.cell(direction, OwnershipWord::Owner).release(0);
}
