//! Addresses of buffers, as the kernel uses them: bytes from the start of the buffer area.
//!
//! ```text
//!   chunk k           chunk k+1
//!   |  256  |  chunk - 256      |  256  |
//!           ^ data of buffer k  ^       ^ data of buffer k+1
//!           first part          tail part of a slot longer than chunk - 256
//! ```
//!
//! If chunks are aligned, the kernel accepts no descriptor that crosses a chunk's end. So a long
//! slot is sent as two descriptors.

use slipring_ring::{BufIdx, Region};

/// Bytes of a chunk before the data: the headroom that AF_XDP gives to programs.
pub(super) const HEADROOM: u32 = 256;

/// Address arithmetic of one region.
#[derive(Debug, Clone, Copy)]
pub(super) struct UmemLayout {
    size: u32,
    /// Binary logarithm of the buffer size, if the size is a power of two.
    shift: Option<u32>,
    num_bufs: u32,
}

/// Bits of an address. With unaligned chunks the upper bits hold the offset of the frame from the
/// posted address.
const ADDRESS_BITS: u32 = 48;

/// Returns whether the size of the region's chunks is a power of two. With another size, a chunk
/// may cross a page boundary. Then zero-copy is not tried, because the device may not see the two
/// pages as one range.
pub(super) fn is_aligned(region: &Region) -> bool {
    region.buf_size().is_power_of_two()
}

/// Bytes of a chunk that one descriptor can cover.
pub(super) fn part(chunk_size: u32) -> u32 {
    chunk_size.saturating_sub(HEADROOM)
}

impl UmemLayout {
    pub(super) fn new(region: &Region) -> Self {
        let size = region.buf_size();
        let shift = is_aligned(region).then_some(size.trailing_zeros());
        Self { size, shift, num_bufs: region.num_bufs() }
    }

    /// Returns the number of bytes of a chunk that one descriptor can cover.
    #[inline(always)]
    pub(super) fn part(self) -> u32 {
        part(self.size)
    }

    /// Returns the address of a buffer's chunk, in bytes from the start of the buffer area: an
    /// entry of the fill ring.
    #[inline(always)]
    pub(super) fn chunk(self, buf: BufIdx) -> u64 {
        u64::from(buf.0) * u64::from(self.size)
    }

    /// Returns the address of a buffer's data, in bytes from the start of the buffer area.
    #[inline(always)]
    pub(super) fn data(self, buf: BufIdx) -> u64 {
        self.chunk(buf) + u64::from(HEADROOM)
    }

    /// Returns the address of a buffer's tail part, in bytes from the start of the buffer area;
    /// `None` for the last buffer.
    pub(super) fn tail(self, buf: BufIdx) -> Option<u64> {
        (buf.0 + 1 < self.num_bufs).then(|| self.chunk(BufIdx(buf.0 + 1)))
    }

    /// Returns the chunk of an address, and the offset in it.
    #[inline(always)]
    pub(super) fn locate(self, address: u64) -> (BufIdx, u32) {
        let address = (address & ((1 << ADDRESS_BITS) - 1)) + (address >> ADDRESS_BITS);
        let chunk = match self.shift {
            Some(shift) => address >> shift,
            None => address / u64::from(self.size),
        };
        let offset = address - chunk * u64::from(self.size);
        (BufIdx(chunk as u32), offset as u32)
    }

    /// Returns the buffer that a completed address belongs to, in its first part or its tail part.
    #[inline(always)]
    pub(super) fn owner(self, address: u64) -> BufIdx {
        let (BufIdx(chunk), offset) = self.locate(address);
        BufIdx(chunk.wrapping_sub(u32::from(offset < HEADROOM)))
    }
}
