//! How syncers of a half take turns, and what a sync comes to.

use crate::doorbell;
use crate::kern::Reinit;
use crate::protocol::SharedWord;
use crate::sync_words::{HOST_OWNER, HalfWords};

/// How many slots a sync moved, and who sleeps for them on the other side: of those, each is told
/// of to one syncer only, who has to wake them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncReport {
    /// Slots sent, or given back.
    pub slots: u32,
    /// The program that syncs the other half itself.
    pub wake_guest: bool,
    /// Programs for which the host syncs it. A host is not told: it wakes them in any case.
    pub wake_host: bool,
}

impl From<u32> for SyncReport {
    fn from(slots: u32) -> Self {
        Self { slots, wake_guest: false, wake_host: false }
    }
}

/// Why a half was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostedSyncError {
    /// The program's own indices.
    #[error(transparent)]
    Reinit(#[from] Reinit),
    /// Somebody else is at it.
    #[error("another thread or process is syncing this ring")]
    Busy,
    /// For the time being only the host may sync it.
    #[error("this ring is synced by its host")]
    HostOnly,
    /// The shared words make no sense.
    #[error("the words that the ends of the pipe share are spoiled")]
    Corrupt,
}

/// Takes a half for a sync of `who`.
#[inline(always)]
pub(super) fn acquire(side: &HalfWords, who: u32) -> Result<(), HostedSyncError> {
    // The host's own threads keep each other out; one that panicked has left the word.
    if !(side.owner.claim(who) || who == HOST_OWNER && side.owner.acquire() == HOST_OWNER) {
        return Err(HostedSyncError::Busy);
    }
    if who != HOST_OWNER && side.by_host.acquire() != 0 {
        release(side);
        return Err(HostedSyncError::HostOnly);
    }
    Ok(())
}

#[inline(always)]
pub(super) fn release(side: &HalfWords) {
    // Release: pairs with the claim of the next.
    side.owner.release(0);
}

/// Whom `who` has to wake now that it has published for the other half.
#[inline(always)]
pub(super) fn sync_report(slots: u32, other: &HalfWords, who: u32) -> SyncReport {
    if slots == 0 {
        return SyncReport::default();
    }
    // A host knows by itself for whom it syncs.
    if who == HOST_OWNER {
        return SyncReport {
            slots,
            wake_guest: doorbell::must_ring(&other.guest_sleeps),
            wake_host: false,
        };
    }
    let [guest, host] = doorbell::must_ring_all([&other.guest_sleeps, &other.host_sleeps]);
    SyncReport { slots, wake_guest: guest, wake_host: host }
}
