//! Errors of regions.

use std::io;

/// Why a region could not be created or attached to, or could not allocate memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// Buffers cannot have this size: see [`is_buf_size`](super::is_buf_size).
    #[error("buffer size {0} is no multiple of 64 from 2048 to 4096")]
    BufSize(u32),
    /// A region cannot have these numbers of buffers and ring bytes.
    #[error("a region of {bufs} buffers and {ring_bytes} bytes of rings is out of range")]
    Geometry {
        /// Number of requested buffers.
        bufs: u32,
        /// Number of requested ring bytes.
        ring_bytes: u64,
    },
    /// The kernel refused the memory, or another step of creating a region or attaching to it.
    #[error("cannot {step} {bytes} bytes of shared memory")]
    Memory {
        /// The step that failed.
        step: &'static str,
        /// Number of requested bytes.
        bytes: u64,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The kernel does not have enough huge pages, and the caller required them
    /// ([`HugePages::Require`](super::HugePages)).
    #[error("cannot have {bytes} bytes in huge pages")]
    HugePages {
        /// Number of requested bytes.
        bytes: u64,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The memory is not a region, or is a region of another version. Or there cannot be a ring or
    /// record at the offset at which the caller expects it.
    #[error("not a slipring region: {0}")]
    NotARegion(&'static str),
    /// Fewer buffers are free than were requested.
    #[error("the region has {free} free buffers of {total}, {wanted} are needed")]
    OutOfBuffers {
        /// Number of requested buffers.
        wanted: u32,
        /// Number of free buffers.
        free: u32,
        /// Total number of buffers.
        total: u32,
    },
    /// A ring cannot have this number of slots.
    #[error("a ring of {0} slots is out of range (1 to {max})", max = crate::mem::MAX_SLOTS)]
    Slots(u32),
    /// The ring area has no free range that is long enough.
    #[error("the region has no {wanted} contiguous bytes left for rings")]
    OutOfRingSpace {
        /// Number of requested bytes.
        wanted: u64,
    },
}

impl RegionError {
    pub(super) fn of_huge(self) -> Self {
        match self {
            Self::Memory { bytes, source, .. } => Self::HugePages { bytes, source },
            other => other,
        }
    }
}
