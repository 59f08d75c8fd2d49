//! The limits of the window of remembered frames, in time, frames and bytes.

/// The limits of a [`crate::Dedup`], which remembers the frames that are within all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupLimits {
    /// Maximum age in ns; `None` for no limit.
    pub window_ns: Option<u64>,
    /// Maximum number of frames; `None` for no limit.
    pub frames: Option<usize>,
    /// Maximum total length of the frames in bytes.
    pub bytes: usize,
}

impl DedupLimits {
    /// The default of [`Self::bytes`].
    pub const DEFAULT_BYTES: usize = 256 << 20;
}

impl Default for DedupLimits {
    /// The defaults of netmap's `dedup`: 50 us, 10 frames.
    fn default() -> Self {
        Self { window_ns: Some(50_000), frames: Some(10), bytes: Self::DEFAULT_BYTES }
    }
}

/// Why limits are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DedupLimitError {
    /// The maximum number of frames is 0, so the window would never remember a frame.
    #[error("a window of no frames remembers nothing")]
    NoFrames,
    /// Neither the age nor the number of frames is limited, so only memory would limit the window.
    #[error("neither time nor number of frames bounds the window")]
    Unbounded,
    /// The memory, given in bytes, is too small for the longest possible frame.
    #[error("{0} bytes hold no frame of the longest kind (at least 128 KiB)")]
    Memory(usize),
}

impl DedupLimits {
    pub(crate) fn check(&self) -> Result<(), DedupLimitError> {
        if self.frames == Some(0) {
            return Err(DedupLimitError::NoFrames);
        }
        if self.frames.is_none() && self.window_ns.is_none() {
            return Err(DedupLimitError::Unbounded);
        }
        if self.bytes < 128 << 10 { Err(DedupLimitError::Memory(self.bytes)) } else { Ok(()) }
    }
}
