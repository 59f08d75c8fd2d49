//! Reads and writes big-endian fields at byte offsets, with bounds checks.
//!
//! All accesses of this crate to frames check their bounds, most of them by these functions. So a
//! wrong offset in a header has no effect outside the frame.

/// Copies the `N` bytes at offset `at`; `None` if the frame is too short.
#[inline(always)]
pub(crate) fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk::<N>().copied()
}

/// Reads the 16-bit field at offset `at`; `None` if the frame is too short.
#[inline(always)]
pub(crate) fn be16(frame: &[u8], at: usize) -> Option<u16> {
    array(frame, at).map(u16::from_be_bytes)
}

/// Reads the 32-bit field at offset `at`; `None` if the frame is too short.
#[inline(always)]
pub(crate) fn be32(frame: &[u8], at: usize) -> Option<u32> {
    array(frame, at).map(u32::from_be_bytes)
}

/// Writes `bytes` at offset `at`. If they do not fit, writes nothing and returns `None`.
#[inline(always)]
pub(crate) fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) -> Option<()> {
    *frame.get_mut(at..)?.first_chunk_mut::<N>()? = bytes;
    Some(())
}

/// Writes the 16-bit field at offset `at`. If it does not fit, writes nothing and returns `None`.
#[inline(always)]
pub(crate) fn put_be16(frame: &mut [u8], at: usize, value: u16) -> Option<()> {
    put(frame, at, value.to_be_bytes())
}
