//! Memory that a device reads and writes by itself.
//!
//! ```text
//!   memory file of a user, sparse and large: |......|region of this port|......|
//!                                                    buffers --map--> device
//!   memory that no client maps:              |descriptor rings| ------> device
//! ```
//! # Invariants
//! 1. Of a client's memory, the device can access only the buffers of the port's own region.
//!    Mapping the whole file would lock all of it in memory.
//! 2. No client can write to the rings of descriptors, because the device writes to the addresses
//!    in them. The exception is a client that an AF_XDP queue is lent to: the kernel checks the
//!    addresses in that queue's rings.
//! 3. Mapped memory stays mapped until the device is stopped; the mapping is dropped after that.

use std::io;

use slipring_ring::{BufIdx, Region};

/// How a device addresses memory: bytes in its own address space.
pub type DeviceAddress = u64;

/// A device's access to memory.
pub trait DmaMemory {
    /// The rings of descriptors that the device and its driver share.
    type DescriptorRings;

    /// Gives the device access to the buffers of `region`, the port's region.
    ///
    /// # Errors
    /// The system's error: a limit of locked memory, no IOMMU, or an area that the device cannot
    /// address.
    fn map_buffers(&mut self, region: &Region) -> io::Result<()>;

    /// Revokes all access of the device. The device must have been stopped before.
    ///
    /// # Errors
    /// The system's error, if memory cannot be unmapped.
    fn unmap(self) -> io::Result<()>;

    /// Returns the address by which the device accesses a buffer: with AF_XDP, the address of byte
    /// 0 of the buffer's chunk, otherwise of byte 0 of its data. `None` if the buffer is not
    /// mapped.
    fn address_of(&self, buf: BufIdx) -> Option<DeviceAddress>;

    /// Allocates descriptor rings for queues of `slots` slots, in memory that no client maps unless
    /// the queue is lent to it.
    ///
    /// # Errors
    /// The system's error, if there is no memory.
    fn make_rings(&mut self, slots: u32) -> io::Result<Self::DescriptorRings>;
}

/// The buffer area of a region, as bytes of this process, to be mapped for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferArea {
    /// Address of the first buffer's chunk in this process.
    pub start: u64,
    /// Number of bytes of all buffers together.
    pub len: u64,
    /// Number of bytes of a buffer's chunk.
    pub buf_size: u32,
    /// Number of buffers.
    pub bufs: u32,
}

impl BufferArea {
    /// Returns the buffer area of a region, wherever the region begins in its file.
    #[must_use]
    pub fn of(region: &Region) -> Self {
        Self {
            start: region.base().as_ptr().addr() as u64 + region.buf_start(),
            len: region.buf_area_len(),
            buf_size: region.buf_size(),
            bufs: region.num_bufs(),
        }
    }

    /// Returns the number of bytes from the first chunk to that of `buf`; `None` if the area has no
    /// such buffer.
    #[must_use]
    pub fn offset_of(&self, BufIdx(buf): BufIdx) -> Option<u64> {
        (buf < self.bufs).then(|| u64::from(buf) * u64::from(self.buf_size))
    }
}

#[cfg(test)]
pub(crate) mod fake {
    //! A fake device that lists the memory that it may access.

    use super::*;

    /// The address at which the fake device sees the first buffer.
    pub(crate) const BASE: DeviceAddress = 0x10_0000;

    /// Memory of a fake device.
    #[derive(Debug, Default)]
    pub(crate) struct FakeDma {
        pub(crate) mapped: Option<BufferArea>,
    }

    impl DmaMemory for FakeDma {
        type DescriptorRings = Vec<[u64; 2]>;

        fn map_buffers(&mut self, region: &Region) -> io::Result<()> {
            if self.mapped.is_some() {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.mapped = Some(BufferArea::of(region));
            Ok(())
        }

        fn unmap(self) -> io::Result<()> {
            self.mapped.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn address_of(&self, buf: BufIdx) -> Option<DeviceAddress> {
            Some(BASE + self.mapped?.offset_of(buf)?)
        }

        fn make_rings(&mut self, slots: u32) -> io::Result<Self::DescriptorRings> {
            Ok(vec![[0; 2]; slots as usize])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{BASE, FakeDma};
    use super::*;
    use slipring_ring::{Geometry, HugePages};

    #[test]
    fn a_device_reaches_the_buffers_of_its_port_and_nothing_else() {
        let geometry = Geometry { ring_bytes: 1 << 16, bufs: 32, buf_size: 2048 };
        let region = Region::create(geometry, HugePages::Never).unwrap();
        let mut dma = FakeDma::default();
        assert_eq!(dma.address_of(BufIdx(2)), None, "before it is mapped");
        dma.map_buffers(&region).unwrap();
        let area = dma.mapped.unwrap();
        let base = region.base().as_ptr().addr() as u64;
        assert_eq!(area.start, base + region.buf_start(), "neither header nor rings");
        assert_eq!((area.len, area.bufs), (region.buf_area_len(), region.num_bufs()));
        assert_eq!(dma.address_of(BufIdx(2)), Some(BASE + 2 * 2048));
        assert_eq!(dma.address_of(BufIdx(region.num_bufs())), None, "behind the last one");
        assert!(dma.map_buffers(&region).is_err(), "once is enough");
        dma.unmap().unwrap();
    }
}
