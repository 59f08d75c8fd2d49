//! A chain of descriptors (virtio 1.2, 2.7.5), and the guest memory that its segments name.
//!
//! Each descriptor is read only once. A walk along the chain ends at its end, at an invalid
//! descriptor, or after [`MAX_CHAIN_SEGMENTS`] descriptors. In the last two cases, the chain is not
//! [whole](DescriptorChain::is_whole).

use virtio_bindings::bindings::virtio_ring::{
    VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE,
};
use vm_memory::{
    Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, VolatileMemory, VolatileSlice,
};

/// Maximum number of descriptors that are followed in a chain. A Linux guest uses at most 19.
const MAX_CHAIN_SEGMENTS: u32 = 64;
/// Size of a descriptor in bytes.
const DESCRIPTOR_LEN: usize = 16;

/// A segment of the guest's memory, which is checked at each access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestSegment {
    pub(crate) at: u64,
    pub(crate) len: usize,
    /// Whether the device writes to the segment. If not, it reads from it.
    pub(crate) is_writable: bool,
}

/// A chain of descriptors. It iterates over its segments.
pub(crate) struct DescriptorChain<'v> {
    /// Index of the chain's first descriptor, as the guest offered it.
    pub(crate) head: u16,
    memory: &'v GuestMemoryMmap,
    table: VolatileSlice<'v>,
    is_indirect: bool,
    next: Option<u16>,
    remaining: u32,
    is_whole: bool,
}

impl<'v> DescriptorChain<'v> {
    #[inline]
    pub(crate) fn new(memory: &'v GuestMemoryMmap, table: VolatileSlice<'v>, head: u16) -> Self {
        let (next, remaining) = (Some(head), MAX_CHAIN_SEGMENTS);
        Self { head, memory, table, is_indirect: false, next, remaining, is_whole: false }
    }

    /// Returns whether the end of the chain was reached.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Continues in the indirect table of a descriptor. A chain may have at most one such table;
    /// `None` if the table is not valid.
    fn enter_indirect(&mut self, at: u64, len: usize) -> Option<()> {
        if self.is_indirect || len == 0 || !len.is_multiple_of(DESCRIPTOR_LEN) {
            return None;
        }
        self.table = self.memory.get_slice(GuestAddress(at), len).ok()?;
        (self.is_indirect, self.next) = (true, Some(0));
        Some(())
    }
}

impl Iterator for DescriptorChain<'_> {
    type Item = GuestSegment;

    #[inline]
    fn next(&mut self) -> Option<GuestSegment> {
        loop {
            let at = DESCRIPTOR_LEN * usize::from(self.next.take()?);
            self.remaining = self.remaining.checked_sub(1)?;
            // Beyond the end of the table, the read fails, and the walk ends.
            let word = |at| Some(u64::from_le(self.table.get_ref::<u64>(at).ok()?.load()));
            let (address, rest) = (word(at)?, word(at + 8)?);
            let (len, flags, next) =
                (rest as u32 as usize, (rest >> 32) as u16, (rest >> 48) as u16);
            let has = |flag| u32::from(flags) & flag != 0;
            if has(VRING_DESC_F_INDIRECT) {
                self.enter_indirect(address, len)?;
                continue;
            }
            match has(VRING_DESC_F_NEXT) {
                true => self.next = Some(next),
                false => self.is_whole = true,
            }
            return Some(GuestSegment { at: address, len, is_writable: has(VRING_DESC_F_WRITE) });
        }
    }
}

/// Copies from the guest's memory; `None` if the memory at this address is not mapped.
#[inline]
pub(crate) fn read(memory: &GuestMemoryMmap, at: u64, into: &mut [u8]) -> Option<()> {
    let at = GuestAddress(at);
    match memory.get_slice(at, into.len()) {
        Ok(bytes) => bytes.read_slice(into, 0).ok(),
        // The segment may continue in the next region.
        Err(_) => memory.read_slice(into, at).ok(),
    }
}

/// Copies to the guest's memory; `None` if the memory at this address is not mapped.
#[inline]
pub(crate) fn write(memory: &GuestMemoryMmap, at: u64, from: &[u8]) -> Option<()> {
    let at = GuestAddress(at);
    match memory.get_slice(at, from.len()) {
        Ok(bytes) => bytes.write_slice(from, 0).ok(),
        // The segment may continue in the next region.
        Err(_) => memory.write_slice(from, at).ok(),
    }
}
