//! A mapping with the buffers of many ring entries. The buffers of one entry are called a *place*.
//!
//! ```text
//!   place:  | headers (288) | payload       | two iovecs that point to both |
//! ```

use std::io;
use std::ptr::NonNull;

use libc::iovec;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::proto::uring::HEAD_LEN;

/// The mapping. The owner of this value keeps track of the places that the kernel may access, and
/// does not access those places itself.
pub(super) struct Slab {
    start: NonNull<u8>,
    payload: usize,
}

// SAFETY:
// - The mapping is memory of the process and belongs to no thread. Besides this value, only the
//   kernel has its address.
unsafe impl Send for Slab {}

impl Slab {
    pub(super) const PLACES_PER_SLAB: usize = 64;
    /// Number of iovecs in a place.
    pub(super) const IOVECS_PER_PLACE: u32 = 2;

    pub(super) fn new(payload: usize) -> io::Result<Self> {
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY:
        // - No particular address is requested, so no existing mapping is replaced.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), Self::bytes(payload), access, kind) }?;
        let start = NonNull::new(start.cast()).expect("mmap does not answer null");
        Ok(Self { start, payload })
    }

    fn stride(payload: usize) -> usize {
        (HEAD_LEN + payload + Self::IOVECS_PER_PLACE as usize * size_of::<iovec>())
            .next_multiple_of(64)
    }

    fn bytes(payload: usize) -> usize {
        Self::PLACES_PER_SLAB * Self::stride(payload)
    }

    /// Returns a pointer to byte `at` of a place. Checks that `len` bytes fit from there.
    fn at(&self, index: usize, at: usize, len: usize) -> NonNull<u8> {
        let stride = Self::stride(self.payload);
        assert!(
            index < Self::PLACES_PER_SLAB && at <= stride && len <= stride - at,
            "within the place"
        );
        // SAFETY:
        // - As asserted, the sum is within the mapping, which has `PLACES_PER_SLAB` strides.
        unsafe { self.start.add(index * stride + at) }
    }

    /// Copies bytes from offset `at` of place `index` to `out`.
    pub(super) fn read(&self, index: usize, at: usize, out: &mut [u8]) {
        let from = self.at(index, at, out.len());
        // SAFETY:
        // - `at` has checked that all bytes are mapped. `out` is borrowed, so they do not overlap.
        // - The kernel does not write to them, because the place belongs to an entry that this
        //   process owns.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *out).cast(), out.len()) };
    }

    /// Copies bytes to offset `at` of place `index`.
    pub(super) fn write(&self, index: usize, at: usize, bytes: &[u8]) {
        let to = self.at(index, at, bytes.len());
        // SAFETY:
        // - As in `read`, but in the other direction. No other thread writes to them, because
        //   `Slab` is not `Sync`.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Writes the place's iovecs and returns their address.
    pub(super) fn parts(&self, index: usize) -> *const iovec {
        let part =
            |at, len| iovec { iov_base: self.at(index, at, len).as_ptr().cast(), iov_len: len };
        let parts = [part(0, HEAD_LEN), part(HEAD_LEN, self.payload)];
        let size = size_of_val(&parts);
        let at = (Self::stride(self.payload) - size) & !(align_of::<iovec>() - 1);
        let to = self.at(index, at, size).cast::<[iovec; Self::IOVECS_PER_PLACE as usize]>();
        // SAFETY:
        // - The iovecs are within the place, after the payload. They are aligned, because the
        //   strides and the mapping are.
        unsafe { to.write(parts) };
        to.as_ptr().cast()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY:
        // - This is the whole mapping that `new` has made, and nothing borrows from it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), Self::bytes(self.payload)) };
        debug_assert!(unmapped.is_ok(), "it was mapped with this size");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_what_is_written_to_them_and_do_not_overlap() {
        let slab = Slab::new(8192).unwrap();
        for index in 0..Slab::PLACES_PER_SLAB {
            slab.parts(index);
            slab.write(index, 0, &[index as u8; HEAD_LEN + 8192]);
        }
        for index in 0..Slab::PLACES_PER_SLAB {
            let mut seen = [0; HEAD_LEN + 8192];
            slab.read(index, 0, &mut seen);
            assert_eq!(seen, [index as u8; HEAD_LEN + 8192]);
        }
    }

    #[test]
    #[should_panic(expected = "within the place")]
    fn nothing_beyond_a_place_is_touched() {
        Slab::new(8192).unwrap().write(0, HEAD_LEN, &[0; 16 << 10]);
    }
}
