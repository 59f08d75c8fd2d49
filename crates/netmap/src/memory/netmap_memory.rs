//! A memory from which ports allocate rings and buffers: netmap's allocator.

use std::sync::Arc;

use slipring_abi::NmreqPoolsInfo;
use slipring_ring::{Region, ring_bytes};

use crate::memory::external::{ExternalPages, PAGE_BYTES};
use crate::types::params::ObjectPools;

/// `nr_mem_id` of the global memory.
pub(crate) const GLOBAL_MEM_ID: u16 = 1;

/// A memory that ports take rings and buffers from: netmap's allocator.
#[derive(Debug)]
pub struct NetmapMemory {
    pub(crate) id: u16,
    pub(crate) region: Arc<Region>,
    pub(crate) objects: ObjectPools,
    /// The program's pages, if the memory is external.
    pub(crate) external: Option<ExternalPages>,
}

impl NetmapMemory {
    /// Returns the memory's `nr_mem_id`.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Returns whether this is not the user's global memory.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.id != GLOBAL_MEM_ID
    }

    /// Returns whether a program provided the memory (option EXTMEM). `mmap` of the device does not
    /// show such a memory.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.external.is_some()
    }

    /// Describes the layout as netmap's three pools. Interfaces and rings share one area here, so
    /// their pools have the same start.
    pub(crate) fn pools(&self) -> NmreqPoolsInfo {
        let (region, objects) = (&self.region, &self.objects);
        let area = region.file_offset() + region.ring_start();
        NmreqPoolsInfo {
            nr_memsize: self.map_len(),
            nr_mem_id: self.id,
            nr_if_pool_offset: area,
            nr_if_pool_objtotal: objects.if_num,
            nr_if_pool_objsize: objects.if_size,
            nr_ring_pool_offset: area,
            nr_ring_pool_objtotal: objects.ring_num,
            nr_ring_pool_objsize: objects.ring_size,
            nr_buf_pool_offset: region.file_offset() + region.data_start(),
            nr_buf_pool_objtotal: region.num_bufs(),
            nr_buf_pool_objsize: region.buf_size(),
            ..NmreqPoolsInfo::default()
        }
    }

    /// Returns the region that contains the memory.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Returns the numbers and sizes of the memory's interface records and rings.
    pub(crate) fn objects(&self) -> &ObjectPools {
        &self.objects
    }

    /// Returns `nr_memsize`: the bytes to map, from the file's start to the end of this memory. For
    /// an external memory, returns the size of that memory instead.
    #[must_use]
    pub fn map_len(&self) -> u64 {
        let end = self.region.file_offset() + self.region.size();
        if self.is_external() { end.next_multiple_of(PAGE_BYTES) } else { end }
    }
}

/// The memory that a port needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryNeeds {
    /// Bytes for rings and interfaces.
    pub ring_bytes: u64,
    /// Number of buffers.
    pub bufs: u32,
}

impl MemoryNeeds {
    /// Computes the needs of `count` rings of `slots` slots; each slot has a buffer if `with_bufs`.
    #[must_use]
    pub fn rings(count: u32, slots: u32, with_bufs: bool) -> Self {
        let one = ring_bytes(slots).next_multiple_of(128);
        let bufs = if with_bufs { count.saturating_mul(slots) } else { 0 };
        Self { ring_bytes: u64::from(count) * one, bufs }
    }

    /// Returns whether the region has free memory for this, in one piece for the rings.
    pub(crate) fn fits(&self, region: &Region) -> bool {
        region.free_bufs() >= self.bufs && region.max_free_ring_bytes() >= self.ring_bytes
    }
}

impl std::ops::Add for MemoryNeeds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            ring_bytes: self.ring_bytes + other.ring_bytes,
            bufs: self.bufs.saturating_add(other.bufs),
        }
    }
}
