//! A buffer with exactly one owner.

use crate::index::BufIdx;
use crate::region::Region;

/// Ownership of one buffer of one region. It moves with the buffer and is never copied.
///
/// A ring accepts an `OwnedBuf` only in exchange for another
/// ([`AppRing::replace`](crate::AppRing::replace),
/// [`KernRing::replace`](crate::KernRing::replace)), so no buffer can be in two slots. Give a
/// buffer back by [`Region::release_owned`]: if the value is only dropped, the buffer stays
/// unusable until its region is dropped.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a buffer that is dropped is lost to its region"]
pub struct OwnedBuf {
    buf: BufIdx,
    /// The number of the region that contains the buffer.
    region: u64,
}

impl OwnedBuf {
    pub(crate) fn new(region: &Region, buf: BufIdx) -> Self {
        Self { buf, region: region.id() }
    }

    /// The buffer's index in its region.
    #[must_use]
    pub fn index(&self) -> BufIdx {
        self.buf
    }

    /// Returns whether the buffer belongs to this region.
    #[must_use]
    pub fn is_of(&self, region: &Region) -> bool {
        self.region == region.id()
    }
}
