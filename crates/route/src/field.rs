//! Checked reads and writes of header fields at byte offsets. A field beyond the end of the frame
//! reads as zero, and a write to it has no effect.

/// Reads the byte at offset `at`.
#[inline(always)]
pub(crate) fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Reads `N` bytes at offset `at`; `None` if the frame ends before their end.
#[inline(always)]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// Reads the 16-bit field at offset `at`.
#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    array(bytes, at).map_or(0, u16::from_be_bytes)
}

/// Reads the 32-bit field at offset `at`.
#[inline(always)]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    array(bytes, at).map_or(0, u32::from_be_bytes)
}

/// Reads the 128-bit field at offset `at`.
#[inline(always)]
pub(crate) fn be128(bytes: &[u8], at: usize) -> u128 {
    array(bytes, at).map_or(0, u128::from_be_bytes)
}

/// Writes `value` at offset `at`.
#[inline(always)]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>()) {
        *place = value;
    }
}

/// A MAC address as a number whose lowest byte is the first one on the wire, so that it can be
/// compared with a word that is loaded from a frame.
#[inline(always)]
pub(crate) const fn mac_word(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}
