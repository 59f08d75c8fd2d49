//! netmap's memory parameters, and the pools of interface records and rings that they describe.

use slipring_ring::{BUF_SIZE, Geometry};

/// Sizes of memory and rings. Names and defaults are netmap's, except the default of `buf_size`,
/// the name of `ring_slots` (netmap: `generic_ringsize`), and `domain_bytes`, which netmap lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryParams {
    /// Number of interfaces in the global memory.
    pub if_num: u32,
    /// Bytes per interface in the global memory.
    pub if_size: u32,
    /// Number of rings in the global memory.
    pub ring_num: u32,
    /// Bytes per ring in the global memory.
    pub ring_size: u32,
    /// Number of buffers in the global memory.
    pub buf_num: u32,
    /// Bytes per buffer; [`slipring_ring::is_buf_size`] checks whether a size is allowed.
    pub buf_size: u32,
    /// Number of slots of a ring if the program that binds it requests no number.
    pub ring_slots: u32,
    /// Whether only rings with the flag `NR_TIMESTAMP` get the time of each rx sync; if false, all
    /// rings do.
    pub no_timestamp: bool,
    /// Bytes of address space for all memory of one user. Only touched pages occupy memory.
    pub domain_bytes: u64,
}

impl Default for MemoryParams {
    fn default() -> Self {
        Self {
            if_num: 100,
            if_size: 1024,
            ring_num: 200,
            ring_size: 36_864,
            buf_num: 163_840,
            buf_size: BUF_SIZE,
            ring_slots: 1024,
            no_timestamp: false,
            domain_bytes: 64 << 30,
        }
    }
}

/// The maximum number of slots that a request can get for a ring that this crate creates.
pub(crate) const MAX_SLOTS: u32 = 4096;
/// The maximum number of rings per direction of a pipe.
pub(crate) const MAX_RINGS: u16 = 256;

impl MemoryParams {
    /// Returns the numbers and sizes of the interface records and rings of the global memory.
    pub(crate) fn objects(&self) -> ObjectPools {
        let Self { if_num, if_size, ring_num, ring_size, .. } = *self;
        ObjectPools { if_num, if_size, ring_num, ring_size }
    }

    /// Returns the layout of the global memory: ring area and buffers.
    pub(crate) fn global(&self) -> Geometry {
        let ring_bytes = self.objects().bytes();
        Geometry { ring_bytes, bufs: self.buf_num, buf_size: self.buf_size }
    }

    /// Returns the number of slots to create for a request; 0 selects the default.
    pub(crate) fn slots(&self, wish: u32) -> u32 {
        if wish == 0 { self.ring_slots } else { wish.clamp(2, MAX_SLOTS) }
    }
}

/// Returns the number of rings to create for a request; 0 selects the default.
pub(crate) fn rings(wish: u16) -> u16 {
    wish.clamp(1, MAX_RINGS)
}

/// Numbers and sizes of the objects in netmap's pools, except buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObjectPools {
    pub(crate) if_num: u32,
    pub(crate) if_size: u32,
    pub(crate) ring_num: u32,
    pub(crate) ring_size: u32,
}

impl ObjectPools {
    /// Returns the total size of both pools in bytes: of interface objects and of rings.
    pub(crate) fn bytes(&self) -> u64 {
        let product = |num: u32, size: u32| u64::from(num) * u64::from(size);
        product(self.if_num, self.if_size) + product(self.ring_num, self.ring_size)
    }
}
