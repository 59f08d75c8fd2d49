//! The words through which the two halves of a hosted direction meet, in a region or beside it.
//!
//! ```text
//!   byte   0    8      12      16             20            24        28      128 ...
//!        | at | tail | owner | guest_sleeps | host_sleeps | by_host | holder |   the same once more
//!          sender's                                                              receiver's
//! ```
//!
//! `include/net/netmap_sync.h` has the same layout for programs in C.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::mem::RingDir;
use crate::region::{Region, RegionError};

/// `owner`, when it is the host that syncs.
pub(crate) const HOST_OWNER: u32 = 1;

/// The words of one half; lines that the other half only reads, but for those that say who sleeps.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct HalfWords {
    /// First slot that is not yet sent, or not yet given back.
    pub(crate) at: AtomicU64,
    /// The ring's tail as it was published last, where its program cannot spoil it by mistake.
    pub(crate) tail: AtomicU32,
    /// Who is syncing; 0 for nobody.
    pub(crate) owner: AtomicU32,
    /// Set by the program that syncs this half itself when it sleeps.
    pub(crate) guest_sleeps: AtomicU32,
    /// Set by the host when somebody sleeps for whom it syncs.
    pub(crate) host_sleeps: AtomicU32,
    /// Whether only the host may sync.
    pub(crate) by_host: AtomicU32,
    /// Whom it is lent to. A program that closed its port without a word to its library finds here
    /// that the half is its no more.
    pub(crate) holder: AtomicU32,
}

impl HalfWords {
    /// Takes the half out of the hands of `who`, if it has it.
    pub(crate) fn release_owner(&self, who: u32) {
        let _ = self.owner.compare_exchange(who, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Both halves.
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

/// Words in a region.
#[derive(Debug)]
pub(crate) struct MappedSyncWords {
    words: NonNull<SyncWords>,
    region: Arc<Region>,
    offset: u64,
    /// Whether their place goes back to the region with this value.
    made_here: bool,
}

// SAFETY: `words` leads into `region`, which this value keeps alive, and is made of atomics.
unsafe impl Send for MappedSyncWords {}
// SAFETY: as for Send.
unsafe impl Sync for MappedSyncWords {}

const LEN: u64 = size_of::<SyncWords>() as u64;

impl MappedSyncWords {
    /// New ones, all 0.
    pub(crate) fn create(region: &Arc<Region>) -> Result<Self, RegionError> {
        Ok(Self::at(region, region.alloc_ring_bytes(LEN)?, true))
    }

    /// Those that another process made; `None` if none can lie there.
    pub(crate) fn attach(region: &Arc<Region>, offset: u64) -> Option<Self> {
        region.in_ring_area(offset, LEN).then(|| Self::at(region, offset, false))
    }

    /// `offset` must have `LEN` bytes of the ring area, aligned as the arena does.
    fn at(region: &Arc<Region>, offset: u64, made_here: bool) -> Self {
        // SAFETY:
        // - In bounds: promised by both callers, which took or checked the range.
        let words = unsafe { region.base().add(offset as usize) }.cast();
        Self { words, region: region.clone(), offset, made_here }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &SyncWords {
        // SAFETY:
        // - Alive, in bounds and aligned: `at` says so, and `region` is kept.
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
