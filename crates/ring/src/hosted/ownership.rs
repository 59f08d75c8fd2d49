//! Ownership of a half during a sync, and the result of a sync.

use crate::doorbell;
use crate::kern::Reinit;
use crate::protocol::SharedWord;
use crate::sync_words::{HOST_OWNER, HalfWords};

/// How many slots a sync moved, and which sleepers on the other side the caller must wake. If
/// several parties sync at the same time, only one of them is told to wake a given sleeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncReport {
    /// Number of slots sent, or of slots returned to the sender.
    pub slots: u32,
    /// Whether the caller must wake the program that syncs the other half itself.
    pub wake_guest: bool,
    /// Whether the caller must kick the host, which then wakes the programs for which it syncs the
    /// other half, and after [`HostedTx::sync_or_leave`](super::HostedTx::sync_or_leave) also the
    /// program that syncs the other half itself. Always false if the caller is the host, which
    /// wakes its programs in any case.
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
    /// The program's own indices are impossible.
    #[error(transparent)]
    Reinit(#[from] Reinit),
    /// Another thread or process is syncing the half at this moment.
    #[error("another thread or process is syncing this ring")]
    Busy,
    /// Only the host may sync the half for now.
    #[error("this ring is synced by its host")]
    HostOnly,
    /// The shared words have impossible values.
    #[error("the words that the ends of the pipe share are spoiled")]
    Corrupt,
}

/// Acquires a half for a sync by the party `client_id`. Returns an error if another party is
/// syncing the half, or if only the host may sync it and the party is not the host.
#[inline(always)]
pub(crate) fn acquire<W: SharedWord>(
    owner: &W,
    by_host: &W,
    client_id: u32,
) -> Result<(), HostedSyncError> {
    // The host's threads exclude each other by a lock. So if the word already has the host's
    // number, a thread of the host panicked during a sync, and the host may continue.
    if !(owner.claim(client_id) || client_id == HOST_OWNER && owner.acquire() == HOST_OWNER) {
        return Err(HostedSyncError::Busy);
    }
    // Checked after the claim, which makes visible what the host wrote before the end of its last
    // sync.
    if client_id != HOST_OWNER && by_host.acquire() != 0 {
        release(owner);
        return Err(HostedSyncError::HostOnly);
    }
    Ok(())
}

#[inline(always)]
pub(crate) fn release(owner: &impl SharedWord) {
    // Release: pairs with the next owner's claim.
    owner.release(0);
}

/// Returns which sleepers of the other half the party `client_id` must wake. Called after that
/// party has published its sync.
#[inline(always)]
pub(super) fn sync_report(slots: u32, other: &HalfWords, client_id: u32) -> SyncReport {
    if slots == 0 {
        return SyncReport::default();
    }
    // The host needs no report about programs for which it syncs: it knows them.
    if client_id == HOST_OWNER {
        return SyncReport {
            slots,
            wake_guest: doorbell::must_ring(&other.guest_sleeps),
            wake_host: false,
        };
    }
    let [guest, host] = doorbell::must_ring_all([&other.guest_sleeps, &other.host_sleeps]);
    SyncReport { slots, wake_guest: guest, wake_host: host }
}

/// Like [`sync_report`], but for a program that wakes all sleepers by kicking the host.
#[inline(always)]
pub(super) fn report_for_kick(slots: u32, other: &HalfWords) -> SyncReport {
    let wake_host = slots > 0 && doorbell::must_kick(&other.guest_sleeps, &other.host_sleeps);
    SyncReport { slots, wake_guest: false, wake_host }
}
