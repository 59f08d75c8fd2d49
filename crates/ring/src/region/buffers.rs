//! Allocation of buffers.

use super::{Region, RegionError};
use crate::index::BufIdx;
use crate::layout::RESERVED_BUFS;
use crate::owned::OwnedBuf;

impl Region {
    /// Allocates `count` buffers: all or none.
    ///
    /// # Errors
    /// [`RegionError::OutOfBuffers`] if fewer than `count` buffers are free.
    pub fn alloc_bufs(&self, count: u32) -> Result<Vec<BufIdx>, RegionError> {
        let total = self.header.bufs;
        let none = RegionError::OutOfBuffers { wanted: count, free: 0, total };
        let mut free = self.free().ok_or(none)?;
        let short = RegionError::OutOfBuffers { wanted: count, free: free.bufs(), total };
        let taken = free.alloc(count).ok_or(short)?;
        Ok(taken.into_iter().map(BufIdx).collect())
    }

    /// Frees buffers. Indices that are reserved, out of range or already free are ignored, because
    /// the list may come from memory that a client wrote. In a private region all indices are
    /// ignored: a wrong index could free a buffer that is in use. See [`Self::release_owned`].
    pub fn release_bufs(&self, bufs: impl IntoIterator<Item = BufIdx>) {
        if !self.is_private {
            self.put_back(bufs);
        }
    }

    /// Allocates a buffer and returns its ownership.
    ///
    /// # Errors
    /// [`RegionError::OutOfBuffers`] if no buffer is free.
    pub fn alloc_owned(&self) -> Result<OwnedBuf, RegionError> {
        let bufs = self.alloc_bufs(1)?;
        let total = self.header.bufs;
        let none = RegionError::OutOfBuffers { wanted: 1, free: 0, total };
        bufs.first().map(|&buf| self.own(buf)).ok_or(none)
    }

    /// Frees an owned buffer. If the buffer belongs to another region, returns false, and the
    /// buffer is lost.
    pub fn release_owned(&self, buf: OwnedBuf) -> bool {
        let is_ours = buf.is_of(self);
        if is_ours {
            self.put_back([buf.index()]);
        }
        is_ours
    }

    /// Returns the ownership of a buffer; the caller guarantees that the buffer has no other owner.
    pub(crate) fn own(&self, buf: BufIdx) -> OwnedBuf {
        OwnedBuf::new(self, buf)
    }

    /// Like [`Self::release_bufs`], but works in a private region too. The caller must own the
    /// buffers.
    pub(crate) fn put_back(&self, bufs: impl IntoIterator<Item = BufIdx>) {
        let Some(mut free) = self.free() else { return };
        bufs.into_iter().filter(|&buf| self.is_usable(buf)).for_each(|buf| free.release(buf.0));
    }

    /// Returns whether a buffer with this index exists and may carry a frame.
    #[must_use]
    #[inline(always)]
    pub fn is_usable(&self, BufIdx(idx): BufIdx) -> bool {
        (RESERVED_BUFS..self.header.bufs).contains(&idx)
    }
}
