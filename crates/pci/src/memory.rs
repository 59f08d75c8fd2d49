//! Memory that a device reads and writes.
//!
//! ```text
//!   port's region:   | rings | buffers ........ |          map_buffers: buffers only
//!                              ^ device address + 2048 * index + 256
//!   this process:    | descriptors |  | descriptors |      alloc: no client maps them
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use slipring_port::nic::dma::{BufferArea, DeviceAddress, DmaMemory};
use slipring_ring::{BufIdx, Region};

use crate::sys::mapping::Mapping;

/// Size of a page, to which mappings are aligned.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Number of bytes that `make_rings` allocates per slot and direction: enough for two descriptors
/// of 16 bytes.
const BYTES_PER_SLOT: usize = 32;

/// A range of this process's memory. Only this crate makes such ranges.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MemoryRange<'m> {
    /// Address of the range in this process; page-aligned.
    pub start: u64,
    /// Length of the range in bytes; a multiple of the page size.
    pub len: u64,
    /// The file that is mapped in the range, and the offset of the range in the file. Another
    /// process needs the file to access the memory; the kernel does not.
    pub file: Option<(BorrowedFd<'m>, u64)>,
}

/// Gives a device access to memory.
pub trait DmaMapper: Send + Sync {
    /// Gives the device access to a range; returns the device's address of its first byte. The
    /// caller must keep the memory mapped until it has called [`Self::unmap`] or dropped the
    /// device.
    ///
    /// # Errors
    /// The system's error: `ENOMEM` if the limit of locked memory is exceeded, `InvalidInput` if
    /// the transport needs a file and the range has none.
    fn map(&self, range: &MemoryRange<'_>) -> io::Result<DeviceAddress>;

    /// Ends the access to a range, which must have been mapped as a whole.
    ///
    /// # Errors
    /// The system's error.
    fn unmap(&self, at: DeviceAddress, len: u64) -> io::Result<()>;

    /// Allocates zeroed memory that only this process and the device access.
    ///
    /// # Errors
    /// The system's error.
    fn alloc(&self, len: usize) -> io::Result<DescriptorMemory> {
        let len = len.next_multiple_of(PAGE_BYTES as usize);
        let (memory, file) = Mapping::of_new_file(len)?;
        let range = MemoryRange {
            start: memory.address(),
            len: len as u64,
            file: Some((file.as_ref(), 0)),
        };
        let address = self.map(&range)?;
        Ok(DescriptorMemory { memory: Arc::new(memory), address })
    }
}

/// Memory for descriptors, as words. The device writes to it at any time, so words are atomics: a
/// driver reads each once, into a local variable.
#[derive(Debug, Clone)]
pub struct DescriptorMemory {
    memory: Arc<Mapping>,
    address: DeviceAddress,
}

impl DescriptorMemory {
    /// Wraps a mapping that the device accesses at `address`.
    #[cfg(feature = "qtest")]
    pub(crate) fn new(memory: Mapping, address: DeviceAddress) -> Self {
        Self { memory: Arc::new(memory), address }
    }

    /// Returns the device's address of the first byte, which is page-aligned.
    #[must_use]
    pub fn address(&self) -> DeviceAddress {
        self.address
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory as 64-bit words.
    #[inline(always)]
    #[must_use]
    pub fn words64(&self) -> &[AtomicU64] {
        self.memory.words64()
    }

    /// The memory as 32-bit words. A driver must access each word with only one width.
    #[inline(always)]
    #[must_use]
    pub fn words32(&self) -> &[AtomicU32] {
        self.memory.words32()
    }

    /// The memory as 16-bit words. A driver must access each word with only one width.
    #[inline(always)]
    #[must_use]
    pub fn words16(&self) -> &[AtomicU16] {
        self.memory.words16()
    }
}

/// The descriptors of a ring pair.
#[derive(Debug, Clone)]
pub struct RingPairMemory {
    /// Descriptors of frames to send.
    pub tx: DescriptorMemory,
    /// Descriptors of frames to receive.
    pub rx: DescriptorMemory,
}

/// The memory of one device: the buffers of its port's region, and descriptors.
pub struct DeviceMemory {
    mapper: Arc<dyn DmaMapper>,
    area: Option<MappedArea>,
    descriptors: Vec<DescriptorMemory>,
}

/// The buffers of a region, mapped for the device.
#[derive(Debug, Clone, Copy)]
struct MappedArea {
    buffers: BufferArea,
    /// Number of bytes that are mapped: the buffers and the slack after them.
    len: u64,
    /// The device's address of byte 0 of buffer 0.
    data: DeviceAddress,
    /// The device's address of the first mapped byte.
    start: DeviceAddress,
}

impl DeviceMemory {
    /// Creates the memory of a device. The device cannot access any memory yet.
    #[must_use]
    pub fn new(mapper: Arc<dyn DmaMapper>) -> Self {
        Self { mapper, area: None, descriptors: Vec::new() }
    }

    /// Allocates `len` zeroed bytes for descriptors.
    ///
    /// # Errors
    /// The system's error.
    pub fn alloc(&mut self, len: usize) -> io::Result<DescriptorMemory> {
        let memory = self.mapper.alloc(len)?;
        self.descriptors.push(memory.clone());
        Ok(memory)
    }

    /// Returns the addresses of the buffers, for a driver's rings.
    #[must_use]
    pub fn addresses(&self) -> BufferAddresses {
        let area = self.area;
        BufferAddresses {
            data: area.map_or(0, |area| area.data),
            buf_size: area.map_or(0, |area| area.buffers.buf_size),
            bufs: area.map_or(0, |area| area.buffers.bufs),
        }
    }
}

/// The device's addresses of a port's buffers.
#[derive(Debug, Clone, Copy)]
pub struct BufferAddresses {
    data: DeviceAddress,
    buf_size: u32,
    bufs: u32,
}

impl BufferAddresses {
    /// Returns the device's address of byte 0 of a buffer; `None` if the port has no such buffer.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, BufIdx(buf): BufIdx) -> Option<DeviceAddress> {
        (buf < self.bufs).then(|| self.data + u64::from(buf) * u64::from(self.buf_size))
    }

    /// Number of buffers.
    #[must_use]
    pub fn bufs(&self) -> u32 {
        self.bufs
    }

    /// Number of bytes of a buffer.
    #[must_use]
    pub fn buf_size(&self) -> u32 {
        self.buf_size
    }
}

impl DmaMemory for DeviceMemory {
    type DescriptorRings = RingPairMemory;

    /// Maps the buffers and the slack after them, because the last buffer extends into the slack.
    /// The device cannot access rings and slots.
    fn map_buffers(&mut self, region: &Region) -> io::Result<()> {
        if self.area.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let buffers = BufferArea::of(region);
        let len = region.size() - region.buf_start();
        let offset = region.file_offset() + region.buf_start();
        let file = (!region.is_private()).then(|| (region.fd(), offset));
        let start = self.mapper.map(&MemoryRange { start: buffers.start, len, file })?;
        let data = start + (region.data_start() - region.buf_start());
        self.area = Some(MappedArea { buffers, len, data, start });
        Ok(())
    }

    fn unmap(mut self) -> io::Result<()> {
        let area = self.area.take().map(|area| (area.start, area.len));
        let rings = self.descriptors.drain(..).map(|memory| (memory.address, memory.len() as u64));
        let ranges: Vec<_> = area.into_iter().chain(rings).collect();
        // Tries to unmap all ranges, even if one of them cannot be unmapped.
        let mut result = Ok(());
        for (at, len) in ranges {
            result = result.and(self.mapper.unmap(at, len));
        }
        result
    }

    /// Returns the device's address of byte 0 of a buffer, which is 256 bytes after the start of
    /// the buffer's chunk.
    fn address_of(&self, buf: BufIdx) -> Option<DeviceAddress> {
        self.addresses().of(buf)
    }

    fn make_rings(&mut self, slots: u32) -> io::Result<RingPairMemory> {
        let len = slots as usize * BYTES_PER_SLOT;
        Ok(RingPairMemory { tx: self.alloc(len)?, rx: self.alloc(len)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_ring::{Geometry, HugePages};
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    /// Maps each range at the next multiple of 16 MiB.
    #[derive(Default)]
    struct RecordingMapper(Mutex<Vec<(u64, u64, Option<u64>)>>);

    impl DmaMapper for RecordingMapper {
        fn map(&self, range: &MemoryRange<'_>) -> io::Result<DeviceAddress> {
            let mut ranges = self.0.lock().unwrap();
            ranges.push((range.start, range.len, range.file.map(|(_, offset)| offset)));
            Ok((ranges.len() as u64) << 24)
        }

        fn unmap(&self, at: DeviceAddress, len: u64) -> io::Result<()> {
            let found = self.0.lock().unwrap()[(at >> 24) as usize - 1].1 == len;
            if found { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        }
    }

    fn geometry() -> Geometry {
        Geometry { ring_bytes: 1 << 16, bufs: 64, buf_size: 2048 }
    }

    #[test]
    fn the_device_reaches_every_byte_of_every_buffer_and_none_of_the_rings() {
        let region = Region::create_shared(geometry(), HugePages::Never).unwrap();
        let mapper = Arc::new(RecordingMapper::default());
        let mut memory = DeviceMemory::new(mapper.clone());
        memory.map_buffers(&region).unwrap();
        let (start, len, offset) = mapper.0.lock().unwrap()[0];
        assert_eq!(start, region.base().as_ptr().addr() as u64 + region.buf_start());
        assert_eq!(offset, Some(region.buf_start()));
        assert_eq!((start % PAGE_BYTES, len % PAGE_BYTES), (0, 0));
        let first = memory.address_of(BufIdx(0)).unwrap();
        assert_eq!(first, (1 << 24) + 256);
        let last = memory.address_of(BufIdx(63)).unwrap();
        assert_eq!(last - first, 63 * 2048);
        assert!(last + 2048 <= (1 << 24) + len, "the last buffer reaches into the slack");
        assert_eq!(memory.address_of(BufIdx(64)), None);
        assert_eq!(memory.map_buffers(&region).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        memory.unmap().unwrap();
    }

    #[test]
    fn a_private_region_has_no_file_that_a_transport_could_pass_on() {
        let region = Region::create(geometry(), HugePages::Never).unwrap();
        let mapper = Arc::new(RecordingMapper::default());
        DeviceMemory::new(mapper.clone()).map_buffers(&region).unwrap();
        assert_eq!(mapper.0.lock().unwrap()[0].2, None);
    }

    #[test]
    fn descriptors_are_zeroed_pages_with_an_address_of_their_own() {
        let mut memory = DeviceMemory::new(Arc::new(RecordingMapper::default()));
        let rings = memory.make_rings(64).unwrap();
        assert_eq!((rings.tx.address(), rings.rx.address()), (1 << 24, 2 << 24));
        assert_eq!((rings.tx.len(), rings.tx.words64().len()), (4096, 512));
        assert!(rings.rx.words64().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        rings.rx.words32()[1].store(5, Ordering::Relaxed);
        assert_eq!(rings.rx.words64()[0].load(Ordering::Relaxed), 5 << 32);
        assert_eq!(rings.rx.words16()[2].load(Ordering::Relaxed), 5);
        memory.unmap().unwrap();
    }
}
