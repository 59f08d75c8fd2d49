//! The frames of the pipe benchmarks. Every byte is written, and every byte is read and checked.

use slipring_ring::SharedBuf;

/// Writes frame number `sequence` with `N` bytes to `buf`. Returns its length.
#[inline(always)]
pub(super) fn write<const N: usize>(buf: &mut [u8], sequence: u64) -> usize {
    let frame = buf.first_chunk_mut::<N>().expect("buffers have 2048 bytes, frames fewer");
    let (words, rest) = frame.as_chunks_mut::<8>();
    for (i, word) in words.iter_mut().enumerate() {
        *word = sequence.wrapping_add(i as u64).to_ne_bytes();
    }
    rest.copy_from_slice(&sequence.to_ne_bytes()[..rest.len()]);
    N
}

/// Returns whether `bytes` are frame number `sequence` with `N` bytes. Of the 64-bit words, only
/// the sum is compared.
#[inline(always)]
pub(super) fn is_right<const N: usize>(bytes: &[u8], sequence: u64) -> bool {
    let (Some(frame), true) = (bytes.first_chunk::<N>(), bytes.len() == N) else { return false };
    let (words, rest) = frame.as_chunks::<8>();
    let sum = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    sum == total(words.len(), sequence) && *rest == sequence.to_ne_bytes()[..rest.len()]
}

/// Returns whether frames of `len` bytes in a shared region are written and read by value, one
/// cache line at a time. Frames of other lengths are built and read in private memory, and copied
/// as a whole. Such a copy needs two instructions per cache line. Access by value needs eight,
/// which would limit how many cache lines of a long frame are in flight.
pub(super) const fn is_by_value(len: usize) -> bool {
    len <= 128 && len.is_multiple_of(64)
}

/// Like [`write()`], but for a buffer that is written by value.
#[inline(always)]
pub(super) fn write_by_value<const N: usize>(
    buf: SharedBuf<'_>,
    sequence: u64,
    scratch: &mut [u8; N],
) -> usize {
    if !is_by_value(N) {
        write::<N>(scratch, sequence);
        buf.copy_in(scratch);
        return N;
    }
    let word = |i: usize| sequence.wrapping_add(i as u64).to_ne_bytes();
    for line in 0..N / 64 {
        let mut bytes = [0; 64];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (i, to) in words.iter_mut().enumerate() {
            *to = word(8 * line + i);
        }
        buf.write(64 * line, bytes);
    }
    N
}

/// Like [`is_right`], but for a buffer that is read by value.
#[inline(always)]
pub(super) fn is_right_by_value<const N: usize>(
    bytes: SharedBuf<'_>,
    sequence: u64,
    scratch: &mut [u8; N],
) -> bool {
    if bytes.len() != N {
        return false;
    }
    if !is_by_value(N) {
        bytes.copy_out(scratch);
        return is_right::<N>(scratch, sequence);
    }
    let mut sum = 0u64;
    for line in 0..N / 64 {
        let Some(line) = bytes.read::<64>(64 * line) else { return false };
        let (words, _) = line.as_chunks::<8>();
        sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    }
    sum == total(N / 8, sequence)
}

/// Returns whether the words have the same sum as those of frame number `sequence`.
#[inline(always)]
pub(super) fn sums_to(words: &[u64; 8], sequence: u64) -> bool {
    words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)) == total(words.len(), sequence)
}

/// Returns the sum that the words of a frame must have.
#[inline(always)]
fn total(words: usize, sequence: u64) -> u64 {
    let n = words as u64;
    n.wrapping_mul(sequence).wrapping_add(n * n.saturating_sub(1) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_ring::{Geometry, HugePages, Region, RingHalves, Tx};

    #[test]
    fn a_frame_is_right_until_a_byte_the_length_or_the_number_changes() {
        fn try_len<const N: usize>() {
            let mut buf = [0; 2048];
            assert_eq!(write::<N>(&mut buf, 7), N);
            by_value::<N>();
            assert!(is_right::<N>(&buf[..N], 7));
            assert!(!is_right::<N>(&buf[..N], 8));
            assert!(!is_right::<N>(&buf[..N - 1], 7));
            assert!(!is_right::<N>(&buf[..=N], 7));
            for i in 0..N {
                buf[i] ^= 1;
                assert!(!is_right::<N>(&buf[..N], 7), "byte {i} of {N}");
                buf[i] ^= 1;
            }
        }
        fn by_value<const N: usize>() {
            let geometry = Geometry { ring_bytes: 1 << 12, bufs: 8, buf_size: 2048 };
            let region = Region::create(geometry, HugePages::Never).unwrap();
            let RingHalves { mut app, mut kern } = RingHalves::<Tx>::create(&region, 0, 4).unwrap();
            let scratch = &mut [0; N];
            app.fill_by_value(1, |buf| write_by_value::<N>(buf, 7, scratch));
            app.fill(1, |buf| write::<N>(buf, 7));
            kern.released().unwrap();
            let (one, other) = (kern.bytes(0).to_vec(), kern.bytes(1).to_vec());
            assert!(one == other && is_right_by_value::<N>(kern.bytes(0), 7, scratch));
            assert!(!is_right_by_value::<N>(kern.bytes(0), 8, scratch));
            kern.bytes(0).write(N - 1, [one[N - 1] ^ 1]);
            assert!(!is_right_by_value::<N>(kern.bytes(0), 7, scratch));
        }
        try_len::<64>();
        try_len::<1500>();
    }
}
