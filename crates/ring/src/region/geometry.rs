//! The size of a region, and the size of its pages.

/// Whether a region uses 2 MiB pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Use ordinary pages.
    Never,
    /// Use huge pages if the kernel has enough, otherwise ordinary pages.
    #[default]
    Try,
    /// Use huge pages, and fail if the kernel does not have enough.
    Require,
}

/// The size of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes for rings, slots and pipe words, rounded up to whole pages.
    pub ring_bytes: u64,
    /// Number of buffers, including the two reserved buffers 0 and 1.
    pub bufs: u32,
    /// Bytes per buffer and distance between buffers: see [`is_buf_size`].
    pub buf_size: u32,
}

/// Bytes per buffer if no device accesses the buffers itself. It is an odd number of cache lines,
/// because short frames touch only the first lines of a buffer. If the distance between buffers
/// were a power of two, these lines would all fall into the same few cache sets and evict each
/// other.
pub const BUF_SIZE: u32 = 33 * 64;

/// Bytes per buffer that devices can access without a copy: no chunk crosses a page boundary.
pub const BUF_SIZE_FOR_DEVICES: u32 = 2048;

/// Returns whether buffers can have this size: AF_XDP accepts it as chunk size, and it is a whole
/// number of cache lines.
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
