//! How syncers of a half take turns, and what a sync comes to.

use crate::bell;
use crate::kern::Reinit;
use crate::protocol::Word;
use crate::words::{HOST, Side};

/// How many slots a sync moved, and who sleeps for them on the other side: of those, each is told
/// of to one syncer only, who has to wake them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Slots sent, or given back.
    pub slots: u32,
    /// The program that syncs the other half itself.
    pub guest: bool,
    /// Programs for which the host syncs it. A host is not told: it wakes them in any case.
    pub host: bool,
}

impl From<u32> for Moved {
    fn from(slots: u32) -> Self {
        Self { slots, guest: false, host: false }
    }
}

/// Why a half was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSynced {
    /// The program's own indices.
    #[error(transparent)]
    Reinit(#[from] Reinit),
    /// Somebody else is at it.
    #[error("another thread or process is syncing this ring")]
    Busy,
    /// For the time being only the host may sync it.
    #[error("this ring is synced by its host")]
    ByHost,
    /// The shared words make no sense.
    #[error("the words that the ends of the pipe share are spoiled")]
    Spoiled,
}

/// Takes a half for a sync of `who`.
#[inline(always)]
pub(super) fn hold(side: &Side, who: u32) -> Result<(), NotSynced> {
    // The host's own threads keep each other out; one that panicked has left the word.
    if !(side.owner.claim(who) || who == HOST && side.owner.acquire() == HOST) {
        return Err(NotSynced::Busy);
    }
    if who != HOST && side.by_host.acquire() != 0 {
        let_go(side);
        return Err(NotSynced::ByHost);
    }
    Ok(())
}

#[inline(always)]
pub(super) fn let_go(side: &Side) {
    // Release: pairs with the claim of the next.
    side.owner.release(0);
}

/// Whom `who` has to wake now that it has published for the other half.
#[inline(always)]
pub(super) fn moved(slots: u32, other: &Side, who: u32) -> Moved {
    if slots == 0 {
        return Moved::default();
    }
    // A host knows by itself for whom it syncs.
    if who == HOST {
        return Moved { slots, guest: bell::must_ring(&other.guest_sleeps), host: false };
    }
    let [guest, host] = bell::must_ring_all([&other.guest_sleeps, &other.host_sleeps]);
    Moved { slots, guest, host }
}
