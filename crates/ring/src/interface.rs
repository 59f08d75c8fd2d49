//! A `netmap_if` in shared memory: the record that tells a program where the rings of its binding
//! are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slipring_abi::{NETMAP_IF_RING_OFS, NetmapIf, PlainData};

use crate::index::BufIdx;
use crate::region::{Region, RegionError};

/// Offset of the 64-bit word whose low half is `ni_bufs_head`.
const BUFS_HEAD_OFFSET: u64 = std::mem::offset_of!(NetmapIf, ni_bufs_head) as u64;

/// A `netmap_if` record; dropping the value frees its bytes in the region.
#[derive(Debug)]
pub struct InterfaceRecord {
    region: Arc<Region>,
    offset: u64,
    len: u64,
}

impl InterfaceRecord {
    /// Creates a record with `head`, followed by the offsets of the rings. The caller passes
    /// offsets in the region (0: the ring does not exist); they are stored relative to the record,
    /// as netmap requires.
    ///
    /// # Errors
    /// [`RegionError::OutOfRingSpace`] if the ring area has no space for the record.
    pub fn create(
        region: &Arc<Region>,
        head: &NetmapIf,
        rings: impl ExactSizeIterator<Item = u64>,
    ) -> Result<Self, RegionError> {
        let len = (NETMAP_IF_RING_OFS + 8 * rings.len()) as u64;
        let offset = region.alloc_ring_bytes(len)?;
        let record = Self { region: region.clone(), offset, len };
        let mut bytes = [0; NETMAP_IF_RING_OFS];
        head.write_to(&mut bytes);
        let (words, _) = bytes.as_chunks::<8>();
        for (i, word) in words.iter().enumerate() {
            record.set(8 * i as u64, u64::from_ne_bytes(*word));
        }
        for (i, ring) in rings.enumerate() {
            let relative = if ring == 0 { 0 } else { ring.wrapping_sub(offset) };
            record.set((NETMAP_IF_RING_OFS + 8 * i) as u64, relative);
        }
        Ok(record)
    }

    /// Resumes the record for `rings` rings that a previous process created at `offset`.
    ///
    /// # Errors
    /// [`RegionError::OutOfRingSpace`] if the record cannot be at `offset`.
    pub fn resume(region: &Arc<Region>, offset: u64, rings: usize) -> Result<Self, RegionError> {
        let len = (NETMAP_IF_RING_OFS + 8 * rings) as u64;
        region.reserve_ring_bytes(offset, len)?;
        Ok(Self { region: region.clone(), offset, len })
    }

    /// Number of ring offsets for which the record has space.
    #[must_use]
    pub fn rings(&self) -> usize {
        (self.len as usize - NETMAP_IF_RING_OFS) / 8
    }

    /// The record's offset in the region.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The first buffer of the list of extra buffers. The program can write this word; the value is
    /// not checked.
    #[must_use]
    pub fn extra_bufs(&self) -> BufIdx {
        BufIdx(self.region.ring_word(self.offset + BUFS_HEAD_OFFSET).load(Ordering::Acquire) as u32)
    }

    /// Sets the first buffer of the list of extra buffers.
    pub fn set_extra_bufs(&self, BufIdx(head): BufIdx) {
        let word = self.region.ring_word(self.offset + BUFS_HEAD_OFFSET);
        let others = word.load(Ordering::Relaxed) & !u64::from(u32::MAX);
        word.store(others | u64::from(head), Ordering::Release);
    }

    fn set(&self, at: u64, word: u64) {
        self.region.ring_word(self.offset + at).store(word, Ordering::Relaxed);
    }
}

impl Drop for InterfaceRecord {
    fn drop(&mut self) {
        self.region.release_ring_bytes(self.offset, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Geometry, HugePages};

    #[test]
    fn a_record_reads_back_as_netmap_has_it() {
        let geometry = Geometry { ring_bytes: 64 << 10, bufs: 4, buf_size: 2048 };
        let region = Region::create_shared(geometry, HugePages::Never).unwrap();
        let head =
            NetmapIf { ni_tx_rings: 1, ni_rx_rings: 7, ni_host_tx_rings: 3, ..NetmapIf::default() };
        let record = InterfaceRecord::create(&region, &head, [0, 0x8000, 0].into_iter()).unwrap();
        record.set_extra_bufs(BufIdx(0xff00));
        record.set_extra_bufs(BufIdx(99));
        let mut bytes = [0; 80];
        rustix::io::pread(region.fd(), &mut bytes, record.offset()).unwrap();
        let read = NetmapIf::read_from(&bytes).unwrap();
        assert_eq!(read, NetmapIf { ni_bufs_head: 99, ..head });
        assert_eq!(record.extra_bufs(), BufIdx(99));
        let ofs = <[i64; 3]>::read_from(&bytes[56..]).unwrap();
        assert_eq!(ofs, [0, 0x8000 - record.offset() as i64, 0]);
    }
}
