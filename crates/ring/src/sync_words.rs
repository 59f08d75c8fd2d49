//! The words that the two halves of a hosted direction share.
//!
//! ```text
//!   byte   0    8      12      16             20            24        28      128 ...
//!        | at | tail | owner | guest_sleeps | host_sleeps | by_host | holder |   same layout
//!          sender's                                                              receiver's
//! ```

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::mem::RingDir;
use crate::region::{Region, RegionError};

/// Value of `owner` while the host syncs.
pub(crate) const HOST_OWNER: u32 = 1;

/// The control words of one half. The parties of the other half only read these words, except that
/// they clear the sleep words.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct HalfWords {
    /// First slot that is not yet sent (sender) or not yet returned (receiver).
    pub(crate) at: AtomicU64,
    /// The last published tail. The ring also has a tail, but the program may overwrite that word
    /// by mistake.
    pub(crate) tail: AtomicU32,
    /// Number of the party that is syncing the half ([`HOST_OWNER`], or a client ID); 0 for none.
    pub(crate) owner: AtomicU32,
    /// Not 0 while a program that syncs this half itself sleeps. Set by that program.
    pub(crate) guest_sleeps: AtomicU32,
    /// Not 0 while a program for which the host syncs this half may sleep. Set by the host.
    pub(crate) host_sleeps: AtomicU32,
    /// Not 0 if only the host may sync the half.
    pub(crate) by_host: AtomicU32,
    /// Client ID of the program that may sync this half. A program may have closed its port without
    /// calling its library; the program sees here that the half is no longer lent to it.
    pub(crate) holder: AtomicU32,
}

impl HalfWords {
    /// Sets `owner` to 0 if it is `client_id`.
    pub(crate) fn release_owner(&self, client_id: u32) {
        let _ = self.owner.compare_exchange(client_id, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The words of both halves.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct SyncWords {
    pub(crate) tx: HalfWords,
    pub(crate) rx: HalfWords,
}

const _: () = assert!(offset_of!(SyncWords, rx) == 128 && size_of::<SyncWords>() == 256);
const _: () = assert!(offset_of!(HalfWords, by_host) == 24 && offset_of!(HalfWords, holder) == 28);

impl SyncWords {
    #[inline(always)]
    pub(crate) fn half(&self, dir: RingDir) -> &HalfWords {
        match dir {
            RingDir::Tx => &self.tx,
            RingDir::Rx => &self.rx,
        }
    }
}

/// [`SyncWords`] mapped in a region.
#[derive(Debug)]
pub(crate) struct MappedSyncWords {
    words: NonNull<SyncWords>,
    region: Arc<Region>,
    offset: u64,
    /// Whether this process allocated the bytes, so that dropping this value frees them.
    made_here: bool,
}

// SAFETY: `words` points into `region`, which this value keeps alive, and consists of atomics.
unsafe impl Send for MappedSyncWords {}
// SAFETY: as for Send.
unsafe impl Sync for MappedSyncWords {}

const LEN: u64 = size_of::<SyncWords>() as u64;

impl MappedSyncWords {
    /// Allocates new words, all 0.
    pub(crate) fn create(region: &Arc<Region>) -> Result<Self, RegionError> {
        Ok(Self::at(region, region.alloc_ring_bytes(LEN)?, true))
    }

    /// Attaches to words that another process created; `None` if no words can be at `offset`.
    pub(crate) fn attach(region: &Arc<Region>, offset: u64) -> Option<Self> {
        region.in_ring_area(offset, LEN).then(|| Self::at(region, offset, false))
    }

    /// Creates the value for words at `offset`. The `LEN` bytes at `offset` must be in the ring
    /// area and aligned as the arena aligns.
    fn at(region: &Arc<Region>, offset: u64, made_here: bool) -> Self {
        // SAFETY:
        // - In bounds: both callers allocated or checked the range.
        let words = unsafe { region.base().add(offset as usize) }.cast();
        Self { words, region: region.clone(), offset, made_here }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &SyncWords {
        // SAFETY:
        // - Alive, in bounds and aligned: `at` requires it, and `region` is kept alive.
        // - Shared: every field is an atomic.
        unsafe { self.words.as_ref() }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

impl Drop for MappedSyncWords {
    fn drop(&mut self) {
        if self.made_here {
            self.region.release_ring_bytes(self.offset, LEN);
        }
    }
}
