//! The driver's memory as the device accesses it.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use vm_memory::{Bytes as _, FileOffset, MmapRegion, VolatileMemory as _, VolatileSlice};

/// The device's permissions for a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaPermissions {
    /// Whether the device may read.
    pub read: bool,
    /// Whether the device may write.
    pub write: bool,
}

/// Why memory was not mapped or unmapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DmaError {
    /// The range is empty, or its end is beyond the address space.
    #[error("the range is empty or ends beyond the last address")]
    BadRange,
    /// A part of the range is mapped already.
    #[error("a part of the range is mapped already")]
    Overlap,
    /// There are too many mappings.
    #[error("more than {} mappings", DmaMap::MAX_MAPPINGS)]
    TooMany,
    /// No mapping has exactly this range.
    #[error("no mapping has this range")]
    NotMapped,
    /// The file cannot be mapped.
    #[error("the memory's file cannot be mapped: {0}")]
    Map(String),
}

#[derive(Debug)]
struct DmaMapping {
    start: u64,
    len: u64,
    permissions: DmaPermissions,
    memory: MmapRegion,
}

/// The memory that a driver has mapped for the device.
#[derive(Debug, Default)]
pub struct DmaMap {
    /// All mappings, sorted by address.
    mappings: Vec<DmaMapping>,
    /// Index of the mapping that the last access used. It is tried first, because the next access
    /// usually uses the same mapping.
    last: Cell<usize>,
}

impl DmaMap {
    const MAX_MAPPINGS: usize = 65_536;

    /// Maps `len` bytes of a file from `offset` at `start` of the device's address space.
    ///
    /// # Errors
    /// The range is not valid, or the file cannot be mapped.
    pub fn map(
        &mut self,
        start: u64,
        len: u64,
        file: OwnedFd,
        offset: u64,
        permissions: DmaPermissions,
    ) -> Result<(), DmaError> {
        let end = start.checked_add(len).filter(|_| len > 0).ok_or(DmaError::BadRange)?;
        let size = usize::try_from(len).map_err(|_| DmaError::BadRange)?;
        if self.mappings.len() >= Self::MAX_MAPPINGS {
            return Err(DmaError::TooMany);
        }
        let at = self.mappings.partition_point(|mapping| mapping.start < start);
        let before = at.checked_sub(1).and_then(|i| self.mappings.get(i));
        let after = self.mappings.get(at);
        if before.is_some_and(|mapping| mapping.start + mapping.len > start)
            || after.is_some_and(|mapping| mapping.start < end)
        {
            return Err(DmaError::Overlap);
        }
        let file = FileOffset::new(File::from(file), offset);
        let memory = MmapRegion::from_file(file, size).map_err(|e| DmaError::Map(e.to_string()))?;
        self.mappings.insert(at, DmaMapping { start, len, permissions, memory });
        Ok(())
    }

    /// Unmaps the mapping of exactly this range.
    ///
    /// # Errors
    /// There is no such mapping.
    pub fn unmap(&mut self, start: u64, len: u64) -> Result<(), DmaError> {
        let at = self.mappings.iter().position(|m| m.start == start && m.len == len);
        self.mappings.remove(at.ok_or(DmaError::NotMapped)?);
        self.last.set(0);
        Ok(())
    }

    /// Unmaps everything.
    pub fn clear(&mut self) {
        self.mappings.clear();
    }

    /// Returns the number of mappings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Returns whether nothing is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// Reads memory. Returns false if a byte of it is not mapped for reading.
    #[must_use]
    pub fn read(&self, address: u64, out: &mut [u8]) -> bool {
        self.slice(address, out.len() as u64, |permissions| permissions.read)
            .is_some_and(|slice| slice.copy_to(out) == out.len())
    }

    /// Writes memory. Returns false if a byte of it is not mapped for writing.
    #[must_use]
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let slice = self.slice(address, bytes.len() as u64, |permissions| permissions.write);
        slice.is_some_and(|slice| {
            slice.copy_from(bytes);
            true
        })
    }

    /// Reads a word of a descriptor. Acquire: pairs with the driver's release of the descriptor.
    /// Returns `None` if the word is not mapped for reading.
    #[must_use]
    pub fn load(&self, address: u64) -> Option<u32> {
        self.slice(address, 4, |permissions| permissions.read)?.load(0, Ordering::Acquire).ok()
    }

    /// Writes a word of a descriptor. Release: pairs with the driver's acquire, which then sees
    /// what was written to the buffer before. Returns false if the word is not mapped for writing.
    #[must_use]
    pub fn store(&self, address: u64, word: u32) -> bool {
        let slice = self.slice(address, 4, |permissions| permissions.write);
        slice.is_some_and(|slice| slice.store(word, 0, Ordering::Release).is_ok())
    }

    /// Reads a descriptor: its two words of options, the first like [`Self::load`], and the address
    /// of its buffer. Returns `None` if a byte of it is not mapped for reading.
    #[must_use]
    pub fn load_descriptor(&self, address: u64) -> Option<(u32, u32, u64)> {
        let slice = self.slice(address, 16, |permissions| permissions.read)?;
        let opts1 = slice.load(0, Ordering::Acquire).ok()?;
        // The first word is read before the others, which are valid once OWN is set.
        let opts2 = slice.load(4, Ordering::Relaxed).ok()?;
        Some((opts1, opts2, slice.load(8, Ordering::Relaxed).ok()?))
    }

    /// Writes the two words of options of a descriptor: the second word, and then the first like
    /// [`Self::store`]. Returns false if a byte of them is not mapped for writing.
    #[must_use]
    pub fn store_descriptor(&self, address: u64, opts1: u32, opts2: u32) -> bool {
        let slice = self.slice(address, 8, |permissions| permissions.write);
        slice.is_some_and(|slice| {
            slice.store(opts2, 4, Ordering::Relaxed).is_ok()
                && slice.store(opts1, 0, Ordering::Release).is_ok()
        })
    }

    fn slice(
        &self,
        address: u64,
        len: u64,
        allows: impl Fn(DmaPermissions) -> bool,
    ) -> Option<VolatileSlice<'_>> {
        let mapping = self.find(address)?;
        let offset = address - mapping.start;
        if !allows(mapping.permissions) || len > mapping.len - offset {
            return None;
        }
        mapping.memory.get_slice(offset as usize, len as usize).ok()
    }

    fn find(&self, address: u64) -> Option<&DmaMapping> {
        let has = |mapping: &&DmaMapping| {
            address.checked_sub(mapping.start).is_some_and(|offset| offset < mapping.len)
        };
        if let Some(mapping) = self.mappings.get(self.last.get()).filter(has) {
            return Some(mapping);
        }
        let at =
            self.mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)?;
        self.last.set(at);
        self.mappings.get(at).filter(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    const BOTH: DmaPermissions = DmaPermissions { read: true, write: true };

    fn memory(bytes: u64) -> OwnedFd {
        let fd = memfd_create("dma", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, bytes).unwrap();
        fd
    }

    #[test]
    fn memory_outside_of_the_mappings_is_neither_read_nor_written() {
        let mut dma = DmaMap::default();
        dma.map(0x1000, 0x1000, memory(0x1000), 0, BOTH).unwrap();
        let readable = DmaPermissions { read: true, write: false };
        dma.map(0x8000, 0x1000, memory(0x2000), 0x1000, readable).unwrap();
        assert!(dma.write(0x1ffc, &[1, 2, 3, 4]));
        assert!(!dma.write(0x1ffd, &[0; 4]), "one byte beyond");
        assert!(!dma.write(0x8000, &[0]), "read-only");
        let mut bytes = [0; 4];
        assert!(dma.read(0x1ffc, &mut bytes) && bytes == [1, 2, 3, 4]);
        assert!(!dma.read(0xfff, &mut bytes));
        assert!(!dma.read(u64::MAX - 1, &mut bytes));
        assert_eq!(dma.load(0x1ffc), Some(0x0403_0201));
        assert!(!dma.store(0x8000, 1));
    }

    #[test]
    fn a_range_is_mapped_once_and_unmapped_as_it_was_mapped() {
        let mut dma = DmaMap::default();
        dma.map(0x2000, 0x1000, memory(0x1000), 0, BOTH).unwrap();
        for (start, len) in [(0x2000, 0x1000), (0x1800, 0x1000), (0x2fff, 1), (0, 0x10_0000)] {
            assert!(matches!(dma.map(start, len, memory(0x1000), 0, BOTH), Err(DmaError::Overlap)));
        }
        let empty = dma.map(0x9000, 0, memory(0x1000), 0, BOTH);
        assert!(matches!(empty, Err(DmaError::BadRange)));
        let beyond = dma.map(u64::MAX, 0x1000, memory(0x1000), 0, BOTH);
        assert!(matches!(beyond, Err(DmaError::BadRange)));
        assert!(matches!(dma.unmap(0x2000, 0x800), Err(DmaError::NotMapped)));
        dma.unmap(0x2000, 0x1000).unwrap();
        assert!(dma.is_empty() && !dma.read(0x2000, &mut [0]));
    }
}
