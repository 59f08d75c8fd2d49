//! How long and how many frames are remembered.

/// What a [`crate::Dedup`] remembers: frames that are within all of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupLimits {
    /// For so many nanoseconds; `None` for ever.
    pub window_ns: Option<u64>,
    /// The last so many; `None` for any number.
    pub frames: Option<usize>,
    /// As many as fit so many bytes.
    pub bytes: usize,
}

impl DedupLimits {
    /// Bytes where nothing else is asked for.
    pub const DEFAULT_BYTES: usize = 256 << 20;
}

impl Default for DedupLimits {
    /// The classic program's: 50 us, 10 frames.
    fn default() -> Self {
        Self { window_ns: Some(50_000), frames: Some(10), bytes: Self::DEFAULT_BYTES }
    }
}

/// Why limits make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DedupLimitError {
    /// No frame would ever be remembered.
    #[error("a window of no frames remembers nothing")]
    NoFrames,
    /// Memory alone would say what a duplicate is.
    #[error("neither time nor number of frames bounds the window")]
    Unbounded,
    /// The longest frame has to fit.
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
