//! What a user's memory comes to.

use super::UserMemory;
use crate::types::lock::lock;

/// Bytes of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// The most that can be touched: the size of the file.
    pub limit: u64,
    /// Those of memories that ports use, touched or not.
    pub placed: u64,
    /// Those that take memory of the machine, wherever in the file they lie.
    pub touched: u64,
}

impl UserMemory {
    /// What its memory comes to now.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        /// Bytes of a block, whatever the file system's are.
        const BLOCK_BYTES: u64 = 512;
        // What cannot be asked for is told as 0.
        let blocks = rustix::fs::fstat(&self.file).map_or(0, |stat| stat.st_blocks as u64);
        let space = lock(&self.space);
        let placed = space.allocated.values().sum();
        MemoryUse { limit: space.end, placed, touched: blocks * BLOCK_BYTES }
    }
}
