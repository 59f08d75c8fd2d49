//! The AVX-512 implementations of the functions of [`crate::Simd`] that gain by it.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    _mm512_cmple_epu64_mask, _mm512_loadu_si512, _mm512_mask_cmple_epu64_mask,
    _mm512_maskz_loadu_epi64, _mm512_set1_epi64,
};

/// Selects the lower 4 of the 8 lanes of a vector.
const LOW_HALF: u8 = 0x0f;

#[inline]
#[target_feature(enable = "avx512f,popcnt")]
pub(crate) fn rank<const N: usize>(node: &[u64; N], key: u64) -> usize {
    let key = _mm512_set1_epi64(key as i64);
    let (eights, rest) = node.as_chunks::<8>();
    // Collects one comparison bit for each key of two vectors, so that one instruction counts
    // them.
    let mut below = 0;
    for pair in eights.chunks(2) {
        let mut bits = 0_u32;
        for eight in pair {
            // SAFETY: eight live words of 8 bytes; the instruction needs no alignment.
            let keys = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
            bits = bits << 8 | u32::from(_mm512_cmple_epu64_mask(keys, key));
        }
        below += bits.count_ones();
    }
    if let Some(four) = rest.first_chunk::<4>() {
        // SAFETY: four live words of 8 bytes; lanes that are not in the mask are not loaded.
        let keys = unsafe { _mm512_maskz_loadu_epi64(LOW_HALF, four.as_ptr().cast()) };
        below += _mm512_mask_cmple_epu64_mask(LOW_HALF, keys, key).count_ones();
    }
    below as usize
}

#[target_feature(enable = "avx512f,popcnt")]
pub(crate) fn descend<'n, T: 'n, const N: usize>(
    keys: &[u64],
    places: &mut [u32],
    node: impl Fn(u32) -> &'n T,
    keys_of: impl Fn(&'n T) -> &'n [u64; N],
    child: impl Fn(&'n T, usize) -> u32,
) {
    for (&key, place) in keys.iter().zip(places) {
        let node = node(*place);
        *place = child(node, rank(keys_of(node), key));
    }
}
