//! The memory usage of a user.

use super::UserMemory;
use crate::types::lock::lock;

/// Memory usage of one user, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// The upper limit in bytes: the size of the user's file.
    pub limit: u64,
    /// Bytes allocated in the file for memories, whether or not programs have touched them.
    pub placed: u64,
    /// Bytes of the file that occupy memory or swap of the machine.
    pub touched: u64,
}

impl UserMemory {
    /// Returns the current usage.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        /// Bytes per unit of `st_blocks`, which is the same on all file systems.
        const BLOCK_BYTES: u64 = 512;
        // A file whose status cannot be read counts as 0.
        let blocks = rustix::fs::fstat(&self.file).map_or(0, |stat| stat.st_blocks as u64);
        let space = lock(&self.space);
        let placed = space.allocated.values().sum();
        MemoryUse { limit: space.end, placed, touched: blocks * BLOCK_BYTES }
    }
}
