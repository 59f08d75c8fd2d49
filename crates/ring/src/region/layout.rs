//! Where what lies in a region, and how its first bytes tell another process.

use std::os::fd::OwnedFd;

use super::error::{RegionError, memory};

/// Bytes in a chunk before a frame's first byte: AF_XDP's own headroom.
pub(crate) const HEADROOM: u64 = 256;
const MAGIC: u64 = u64::from_le_bytes(*b"slipring");
const VERSION: u64 = 1;
pub(super) const PAGE: u64 = 4096;
pub(super) const HUGE_PAGE: u64 = 2 << 20;
/// Far beyond any use; keeps all sums of sizes far from overflow.
const MAX_RING_BYTES: u64 = 1 << 38;
/// Buffers 0 and 1 are never handed out, as netmap's clients expect.
pub(super) const RESERVED_BUFS: u32 = 2;

/// How much a region holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes for rings, slots and pipe words, page-rounded.
    pub ring_bytes: u64,
    /// Buffers, the two reserved ones included.
    pub bufs: u32,
    /// Bytes per buffer and distance between buffers: 2048 or 4096.
    pub buf_size: u32,
}

impl Default for Geometry {
    /// Room for a dozen default ports: 1 MiB of rings and 16,384 buffers of 2 KiB.
    fn default() -> Self {
        Self { ring_bytes: 1 << 20, bufs: 16_384, buf_size: 2048 }
    }
}

/// What the first bytes of the memfd say, so that another process can attach.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) magic: u64,
    pub(super) version: u64,
    pub(super) ring_start: u64,
    pub(super) buf_start: u64,
    pub(super) total: u64,
    pub(super) bufs: u32,
    pub(super) buf_size: u32,
}

impl Header {
    /// Reads it from a file that need not be a region.
    pub(super) fn read(fd: &OwnedFd) -> Result<Self, RegionError> {
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
}

/// Where everything lies in a region of this geometry.
pub(super) fn plan(geometry: Geometry) -> Result<Header, RegionError> {
    let Geometry { ring_bytes, bufs, buf_size } = geometry;
    if buf_size != 2048 && buf_size != 4096 {
        return Err(RegionError::BufSize(buf_size));
    }
    if bufs < RESERVED_BUFS || ring_bytes > MAX_RING_BYTES {
        return Err(RegionError::Geometry { bufs, ring_bytes });
    }
    let buf_start = (PAGE + ring_bytes).next_multiple_of(PAGE);
    let end = buf_start + u64::from(bufs) * u64::from(buf_size) + HEADROOM;
    let total = end.next_multiple_of(PAGE);
    Ok(Header {
        magic: MAGIC,
        version: VERSION,
        ring_start: PAGE,
        buf_start,
        total,
        bufs,
        buf_size,
    })
}

/// Judges a header that another process wrote.
pub(super) fn check(header: &Header, file_size: u64) -> Result<(), RegionError> {
    let geometry = Geometry {
        ring_bytes: header.buf_start.saturating_sub(PAGE),
        bufs: header.bufs,
        buf_size: header.buf_size,
    };
    if header.magic != MAGIC || header.version != VERSION {
        return Err(RegionError::NotARegion("its first bytes are not ours"));
    }
    let planned =
        plan(geometry).map_err(|_| RegionError::NotARegion("its layout is impossible"))?;
    let same = planned.buf_start == header.buf_start && planned.ring_start == header.ring_start;
    // With huge pages it is more than planned.
    if !same || planned.total > header.total || header.total != file_size {
        return Err(RegionError::NotARegion("its layout does not fit the file"));
    }
    Ok(())
}
