//! Memory that a netmap device laid out: its rings and buffers are used where they are.
//!
//! ```text
//!   device's mapping   | netmap_if ... | ring | ring | ... | buffer 0 | 1 | 2 | ...
//!                         read here first             ^ a ring's header says where these begin
//! ```
//!
//! All offsets in this memory are untrusted: each is checked against the mapping before use.

use std::mem::ManuallyDrop;

use super::*;
use crate::layout::RESERVED_BUFS;
use crate::peer_copy;

/// Maximum length of a device's memory in bytes. It is far beyond any netmap memory, and so small
/// that sums of sizes do not overflow.
const MAX_MAPPING_BYTES: u64 = 1 << 44;
/// Accepted buffer sizes: at most what a slot's 16-bit length can express.
const BUF_SIZES: std::ops::RangeInclusive<u32> = 64..=65_535;

/// A device's mapped memory, before its layout is known.
#[derive(Debug)]
pub struct DeviceMapping {
    /// The open device; `None` if the mapping must not keep it open.
    fd: Option<OwnedFd>,
    base: NonNull<u8>,
    bytes: u64,
}

impl DeviceMapping {
    /// Maps the first `bytes` bytes of a device's memory.
    ///
    /// # Errors
    /// [`RegionError`] if `bytes` is 0 or impossibly large, or if the device refuses the mapping.
    pub fn new(device: OwnedFd, bytes: u64) -> Result<Self, RegionError> {
        let mut mapping = Self::borrowing(device.as_fd(), bytes)?;
        mapping.fd = Some(device);
        Ok(mapping)
    }

    /// Like [`Self::new`], but the mapping does not keep the device open: the caller keeps the
    /// descriptor and may close it at any time.
    ///
    /// # Errors
    /// Same as [`Self::new`].
    pub fn borrowing(device: BorrowedFd<'_>, bytes: u64) -> Result<Self, RegionError> {
        if !(1..=MAX_MAPPING_BYTES).contains(&bytes) {
            return Err(RegionError::NotARegion("the device says an impossible size"));
        }
        let base = map(device, 0, bytes, MapFlags::empty())?;
        Ok(Self { fd: None, base, bytes })
    }

    /// Copies the bytes at offset `at` of the mapping into `out`. Returns false and does nothing if
    /// they are out of bounds.
    #[must_use]
    pub fn read(&self, at: u64, out: &mut [u8]) -> bool {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY:
        // - In bounds: checked above.
        let source = unsafe { self.base.add(at as usize) };
        // SAFETY:
        // - The source is mapped while `self` lives, and `out` is borrowed exclusively. The caller
        //   checks the copied bytes.
        unsafe { peer_copy::copy(source.as_ptr(), out.as_mut_ptr(), out.len()) };
        true
    }

    /// Turns the mapping into a region with buffers of `buf_size` bytes from `data_start` up to the
    /// end of the mapping.
    ///
    /// # Errors
    /// [`RegionError::NotARegion`] if the buffers cannot be at `data_start`, or if `data_start` or
    /// `buf_size` is no multiple of 8.
    pub fn into_region(self, data_start: u64, buf_size: u32) -> Result<Arc<Region>, RegionError> {
        self.into_region_of(data_start, buf_size, u32::MAX)
    }

    /// Like [`Self::into_region`], but with at most `max_bufs` buffers.
    ///
    /// # Errors
    /// Same as [`Self::into_region`].
    pub fn into_region_of(
        self,
        data_start: u64,
        buf_size: u32,
        max_bufs: u32,
    ) -> Result<Arc<Region>, RegionError> {
        let space = self.bytes.saturating_sub(data_start);
        let bufs = u32::try_from(space / u64::from(buf_size.max(1))).unwrap_or(u32::MAX);
        let bufs = bufs.min(max_bufs);
        // The data of buffer 0 begins HEADROOM_BYTES after the start of the buffer area, as in
        // regions that this crate lays out.
        let buf_start = data_start.checked_sub(HEADROOM_BYTES).filter(|_| bufs > RESERVED_BUFS);
        let buf_start = buf_start.filter(|_| BUF_SIZES.contains(&buf_size));
        let buf_start =
            buf_start.ok_or(RegionError::NotARegion("its buffers lie outside of it"))?;
        // Buffers are also copied by words.
        if !data_start.is_multiple_of(8) || !buf_size.is_multiple_of(8) {
            return Err(RegionError::NotARegion("its buffers are not aligned to 8 bytes"));
        }
        let header = RegionHeader::foreign(buf_start, self.bytes, bufs, buf_size);
        let this = ManuallyDrop::new(self);
        // SAFETY:
        // - `this` is never dropped nor used again, so the descriptor has one owner.
        let fd = unsafe { std::ptr::read(&raw const this.fd) };
        let base = this.base;
        Ok(Arc::new(Region::from_mapping(fd.map(Arc::new), base, header)))
    }
}

impl Drop for DeviceMapping {
    fn drop(&mut self) {
        // SAFETY:
        // - `base` and `bytes` describe exactly the mapping that `map` created, and nothing points
        //   into it, because `read` copies.
        let unmapped =
            unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes as usize) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

// SAFETY: the mapping lives as long as the value, and is only copied from.
unsafe impl Send for DeviceMapping {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{RxRing, TxRing};
    use crate::kern::RingHalves;
    use crate::mem::SlotFlags;

    fn made() -> (Arc<Region>, RingHalves<crate::Tx>) {
        let geometry = Geometry { ring_bytes: 64 << 10, bufs: 64, buf_size: 2048 };
        let region = Region::create_shared(geometry, HugePages::Never).unwrap();
        let pair = RingHalves::create(&region, 0, 16).unwrap();
        (region, pair)
    }

    fn mapping(region: &Region) -> DeviceMapping {
        DeviceMapping::new(region.fd().try_clone_to_owned().unwrap(), region.size()).unwrap()
    }

    #[test]
    fn frames_pass_through_a_ring_that_another_party_laid_out() {
        let (region, mut pair) = made();
        let mapping = mapping(&region);
        let mut header = [0; 16];
        assert!(mapping.read(pair.app.offset(), &mut header));
        assert_eq!(u32::from_ne_bytes(header[8..12].try_into().unwrap()), 16);
        let foreign = mapping.into_region(region.data_start(), 2048).unwrap();
        // The slack after the last buffer has space for one more buffer, so there are 65.
        assert_eq!((foreign.num_bufs(), foreign.data_start()), (65, region.data_start()));
        let mut tx = TxRing::attach(&foreign, pair.app.offset(), 16).unwrap();
        assert!(tx.push(&[7; 100]));
        let head = pair.kern.released().unwrap();
        let slots: Vec<_> = pair.kern.slots(0, head).map(|(_, slot)| slot).collect();
        assert_eq!(slots.len(), 1);
        assert_eq!((slots[0].len, slots[0].flags), (100, SlotFlags::default()));
        assert_eq!(pair.kern.bytes(0).to_vec(), [7; 100]);
    }

    #[test]
    fn a_buffer_to_fill_is_as_long_as_the_device_says() {
        let (region, mut pair) = made();
        let foreign = mapping(&region).into_region(region.data_start(), 1000).unwrap();
        let mut tx = TxRing::attach(&foreign, pair.app.offset(), 16).unwrap();
        let mut lens = Vec::new();
        let filled = tx.fill(3, |buf| {
            lens.push(buf.len());
            buf.len() / lens.len()
        });
        assert_eq!((filled, lens), (3, vec![1000; 3]));
        let head = pair.kern.released().unwrap();
        let lens: Vec<u16> = pair.kern.slots(0, head).map(|(_, slot)| slot.len).collect();
        assert_eq!(lens, [1000, 500, 333]);
    }

    #[test]
    fn a_ring_that_is_under_way_is_taken_over_where_it_stands() {
        let (region, mut pair) = made();
        assert!(pair.app.push(&[1; 60]) && pair.app.push(&[2; 60]));
        let foreign = mapping(&region).into_region(region.data_start(), 2048).unwrap();
        let tx = TxRing::attach(&foreign, pair.app.offset(), 16).unwrap();
        assert_eq!((tx.head(), tx.tail()), (2, 15));
    }

    #[test]
    fn what_lies_outside_is_refused_whatever_the_device_says() {
        let (region, pair) = made();
        let size = region.size();
        let file = || region.fd().try_clone_to_owned().unwrap();
        assert!(
            DeviceMapping::new(file(), 0).is_err() && DeviceMapping::new(file(), u64::MAX).is_err()
        );
        let data_start = region.data_start();
        let unaligned = [(data_start + 4, 2048), (data_start, 2049), (data_start, 100)];
        let outside = [(0, 2048), (255, 2048), (size, 2048), (u64::MAX, 2048)];
        for (start, buf_size) in unaligned.into_iter().chain(outside) {
            assert!(mapping(&region).into_region(start, buf_size).is_err(), "{start}");
        }
        for buf_size in [0, 63, 65_536, u32::MAX] {
            assert!(mapping(&region).into_region(region.data_start(), buf_size).is_err());
        }
        assert!(!mapping(&region).read(size - 7, &mut [0; 8]));
        assert!(!mapping(&region).read(u64::MAX, &mut [0; 8]));
        let foreign = mapping(&region).into_region(region.data_start(), 2048).unwrap();
        let offset = pair.app.offset();
        for (offset, num_slots) in [
            (offset, 0),
            (offset, u32::MAX),
            (offset + 4, 16),
            (region.data_start() - 128, 16),
            (u64::MAX - 15, 16),
        ] {
            assert!(RxRing::attach(&foreign, offset, num_slots).is_err(), "{offset} {num_slots}");
        }
    }
}
