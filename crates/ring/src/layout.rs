//! The layout of a region's memfd, and the check whether a file from another process has this
//! layout.

use std::os::fd::OwnedFd;

use crate::region::{Geometry, RegionError, is_buf_size, memory};

/// Bytes in a chunk before a frame's first byte: the headroom that AF_XDP always reserves.
pub(crate) const HEADROOM_BYTES: u64 = 256;
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Size of a huge page.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Number of reserved buffers: buffers 0 and 1 are never allocated, as netmap's clients expect.
pub(crate) const RESERVED_BUFS: u32 = 2;
/// Maximum length of the ring area in bytes. It is far beyond any use, and so small that sums of
/// sizes do not overflow.
const MAX_RING_BYTES: u64 = 1 << 38;
const MAGIC: u64 = u64::from_le_bytes(*b"slipring");
const VERSION: u64 = 1;

/// The header at the start of a region. It tells a process that attaches to the region where the
/// parts of the region are.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionHeader {
    magic: u64,
    version: u64,
    pub(crate) ring_start: u64,
    pub(crate) buf_start: u64,
    pub(crate) total: u64,
    pub(crate) bufs: u32,
    pub(crate) buf_size: u32,
}

impl RegionHeader {
    /// Reads the header of a file that may not be a region.
    pub(crate) fn read(fd: &OwnedFd) -> Result<Self, RegionError> {
        let mut bytes = [0; size_of::<Self>()];
        let got = rustix::io::pread(fd, &mut bytes, 0).map_err(|e| memory("read", 0, e))?;
        if got < bytes.len() {
            return Err(RegionError::NotARegion("the file ends within its first bytes"));
        }
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_ne_bytes(words[i]);
        Ok(Self {
            magic: word(0),
            version: word(1),
            ring_start: word(2),
            buf_start: word(3),
            total: word(4),
            bufs: word(5) as u32,
            buf_size: (word(5) >> 32) as u32,
        })
    }

    /// Computes the layout of a region of this geometry.
    pub(crate) fn compute(geometry: Geometry) -> Result<Self, RegionError> {
        let Geometry { ring_bytes, bufs, buf_size } = geometry;
        if !is_buf_size(buf_size) {
            return Err(RegionError::BufSize(buf_size));
        }
        if bufs < RESERVED_BUFS || ring_bytes > MAX_RING_BYTES {
            return Err(RegionError::Geometry { bufs, ring_bytes });
        }
        Ok(Self::lay_out(geometry))
    }

    /// Like [`Self::compute`], but buffers may have any size: for a region that no other process
    /// maps.
    pub(crate) fn lay_out(geometry: Geometry) -> Self {
        let Geometry { ring_bytes, bufs, buf_size } = geometry;
        let buf_start = (PAGE_BYTES + ring_bytes).next_multiple_of(PAGE_BYTES);
        let end = buf_start + u64::from(bufs) * u64::from(buf_size) + HEADROOM_BYTES;
        let total = end.next_multiple_of(PAGE_BYTES);
        Self {
            magic: MAGIC,
            version: VERSION,
            ring_start: PAGE_BYTES,
            buf_start,
            total,
            bufs,
            buf_size,
        }
    }

    /// Computes the layout of a region of this geometry in `len` bytes; if not all buffers fit,
    /// with fewer.
    pub(crate) fn compute_within(geometry: Geometry, len: u64) -> Result<Self, RegionError> {
        let least = Self::compute(Geometry { bufs: RESERVED_BUFS, ..geometry })?;
        let room = len.saturating_sub(least.buf_start + HEADROOM_BYTES);
        let fit = u32::try_from(room / u64::from(geometry.buf_size)).unwrap_or(u32::MAX);
        let planned = Self::compute(Geometry { bufs: geometry.bufs.min(fit), ..geometry })?;
        // If `len` is not a whole number of pages, `total` may exceed it.
        if planned.bufs > RESERVED_BUFS && planned.total <= len {
            return Ok(planned);
        }
        Err(RegionError::Geometry { bufs: geometry.bufs, ring_bytes: geometry.ring_bytes })
    }

    /// Returns the layout of memory that another party laid out, in which this process allocates
    /// nothing.
    pub(crate) fn foreign(buf_start: u64, total: u64, bufs: u32, buf_size: u32) -> Self {
        Self { magic: MAGIC, version: VERSION, ring_start: 0, buf_start, total, bufs, buf_size }
    }

    /// Checks that a file of `file_size` bytes with this header is a region.
    pub(crate) fn check(&self, file_size: u64) -> Result<(), RegionError> {
        let geometry = Geometry {
            ring_bytes: self.buf_start.saturating_sub(PAGE_BYTES),
            bufs: self.bufs,
            buf_size: self.buf_size,
        };
        if self.magic != MAGIC || self.version != VERSION {
            return Err(RegionError::NotARegion("its first bytes are not ours"));
        }
        let planned = Self::compute(geometry)
            .map_err(|_| RegionError::NotARegion("its layout is impossible"))?;
        let same = planned.buf_start == self.buf_start && planned.ring_start == self.ring_start;
        // The size may be rounded up to whole huge pages, so the file must have one of two sizes.
        let totals = [planned.total, planned.total.next_multiple_of(HUGE_PAGE_BYTES)];
        if !same || !totals.contains(&self.total) || self.total != file_size {
            return Err(RegionError::NotARegion("its layout does not fit the file"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_promises_more_than_the_file_holds_is_refused() {
        let header =
            RegionHeader::compute(Geometry { ring_bytes: 4096, bufs: 1000, buf_size: 2048 })
                .unwrap();
        assert!(header.check(header.total).is_ok());
        assert!(header.check(header.total - 4096).is_err());
        assert!(RegionHeader { buf_start: u64::MAX, ..header }.check(header.total).is_err());
    }

    #[test]
    fn a_header_that_leaves_a_part_of_the_file_unused_is_refused() {
        let header =
            RegionHeader::compute(Geometry { ring_bytes: 8192, bufs: 1000, buf_size: 2048 })
                .unwrap();
        let less = RegionHeader { buf_start: header.buf_start - PAGE_BYTES, ..header };
        assert!(less.check(header.total).is_err());
        let huge = RegionHeader { total: header.total.next_multiple_of(HUGE_PAGE_BYTES), ..header };
        assert!(huge.check(huge.total).is_ok());
    }

    #[test]
    fn a_header_of_another_version_or_place_is_refused() {
        let header =
            RegionHeader::compute(Geometry { ring_bytes: 8192, bufs: 10, buf_size: 2048 }).unwrap();
        for other in [
            RegionHeader { magic: 0, ..header },
            RegionHeader { version: 2, ..header },
            RegionHeader { ring_start: 0, ..header },
            RegionHeader { total: header.total + PAGE_BYTES, ..header },
        ] {
            assert!(other.check(other.total).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_region_reaches_beyond_the_data_of_its_last_buffer() {
        for (ring_bytes, bufs, buf_size) in [(0, 2, 2048), (1, 3, 4096), (1 << 20, 1000, 2048)] {
            let header = RegionHeader::compute(Geometry { ring_bytes, bufs, buf_size }).unwrap();
            let data_end = u64::from(bufs) * u64::from(buf_size) + HEADROOM_BYTES;
            assert!(header.buf_start >= PAGE_BYTES + ring_bytes);
            assert!(header.total >= header.buf_start + data_end);
        }
    }

    #[test]
    fn a_layout_in_given_memory_takes_the_buffers_that_fit_and_one_at_least() {
        let plan = |ring_bytes, bufs, pages| {
            RegionHeader::compute_within(
                Geometry { ring_bytes, bufs, buf_size: 2048 },
                pages * PAGE_BYTES,
            )
        };
        assert_eq!(plan(PAGE_BYTES, 1000, 2000).unwrap().bufs, 1000);
        let tight = plan(PAGE_BYTES, 1000, 102).unwrap();
        assert_eq!((tight.bufs, tight.total), (199, 102 * PAGE_BYTES));
        assert_eq!(plan(PAGE_BYTES, 1000, 5).unwrap().bufs, 5);
        assert!(plan(PAGE_BYTES, 1000, 4).is_ok() && plan(PAGE_BYTES, 1000, 3).is_err());
        assert!(plan(PAGE_BYTES, 2, 100).is_err() && plan(100 * PAGE_BYTES, 1000, 50).is_err());
        assert!(plan(PAGE_BYTES, 1000, 0).is_err());
    }

    #[test]
    fn a_geometry_out_of_range_is_refused() {
        let plan = |ring_bytes, bufs, buf_size| {
            RegionHeader::compute(Geometry { ring_bytes, bufs, buf_size })
                .map_err(|e| e.to_string())
        };
        for wrong in [0, 1500, 1984, 2049, 4160, 65_536] {
            let message = format!("buffer size {wrong} is no multiple of 64 from 2048 to 4096");
            assert_eq!(plan(0, 2, wrong).unwrap_err(), message);
        }
        assert!([2048, 2112, 4032, 4096].iter().all(|&size| plan(0, 2, size).is_ok()));
        assert!(plan(u64::MAX, 2, 2048).is_err() && plan(0, 1, 2048).is_err());
        assert!(plan(MAX_RING_BYTES, u32::MAX, 4096).is_ok());
    }
}
