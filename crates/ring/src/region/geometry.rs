//! The size of a region, and the size of its pages.

/// Whether a region asks for 2 MiB pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Take ordinary pages.
    Never,
    /// Take huge pages if the kernel has enough, ordinary ones otherwise.
    #[default]
    Try,
    /// Fail when there are none.
    Require,
}

/// The size of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes for rings, slots and pipe words, page-rounded.
    pub ring_bytes: u64,
    /// Buffers, the two reserved ones included.
    pub bufs: u32,
    /// Bytes per buffer and distance between buffers: see [`is_buf_size`].
    pub buf_size: u32,
}

/// Bytes per buffer where no device reads them itself: an odd number of cache lines. Short frames
/// only touch the first lines of a buffer. At a distance of a power of two these lines would all
/// fall into the same few cache sets and evict each other.
pub const BUF_SIZE: u32 = 33 * 64;

/// Bytes per buffer that devices can read without a copy: never across a page.
pub const BUF_SIZE_FOR_DEVICES: u32 = 2048;

/// Whether buffers can have this size: a chunk size of AF_XDP, in whole cache lines.
#[must_use]
pub const fn is_buf_size(bytes: u32) -> bool {
    bytes.is_multiple_of(64) && BUF_SIZE_FOR_DEVICES <= bytes && bytes <= 4096
}

impl Default for Geometry {
    /// Space for a dozen default ports: 1 MiB of rings and 16,384 buffers.
    fn default() -> Self {
        Self { ring_bytes: 1 << 20, bufs: 16_384, buf_size: BUF_SIZE }
    }
}
