//! Checked reads and writes of big-endian fields at byte offsets.
//!
//! All frame accesses of this crate go through these functions, so a wrong offset in a header has
//! no effect outside the frame.

/// Copies `N` bytes at offset `at`; `None` if the frame does not have them.
#[inline(always)]
pub(crate) fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk::<N>().copied()
}

/// Reads the 16-bit field at offset `at`.
#[inline(always)]
pub(crate) fn be16(frame: &[u8], at: usize) -> Option<u16> {
    array(frame, at).map(u16::from_be_bytes)
}

/// Reads the 32-bit field at offset `at`.
#[inline(always)]
pub(crate) fn be32(frame: &[u8], at: usize) -> Option<u32> {
    array(frame, at).map(u32::from_be_bytes)
}

/// Writes `bytes` at offset `at`; returns `None` without effect if they do not fit.
#[inline(always)]
pub(crate) fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) -> Option<()> {
    *frame.get_mut(at..)?.first_chunk_mut::<N>()? = bytes;
    Some(())
}

/// Writes the 16-bit field at offset `at`.
#[inline(always)]
pub(crate) fn put_be16(frame: &mut [u8], at: usize, value: u16) -> Option<()> {
    put(frame, at, value.to_be_bytes())
}
