//! The AVX2 implementations of the functions of [`crate::Simd`].
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m128i, __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
    _mm256_add_epi64, _mm256_and_si256, _mm256_cmpgt_epi64, _mm256_loadu_si256,
    _mm256_movemask_epi8, _mm256_packs_epi16, _mm256_packs_epi32, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 live bytes; the instruction needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
pub(crate) fn sum_words(blocks: &[[u8; 32]]) -> u64 {
    let low_half = _mm256_set1_epi64x(0xffff_ffff);
    let (mut low, mut high) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for block in blocks {
        let words = load(block);
        low = _mm256_add_epi64(low, _mm256_and_si256(words, low_half));
        high = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(words));
    }
    let mut lanes = [0_u64; 4];
    let sums = _mm256_add_epi64(low, high);
    // SAFETY: `lanes` is 32 bytes, exclusive to this call; the instruction needs no alignment.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
    lanes.iter().sum()
}

#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn rank<const N: usize>(node: &[u64; N], key: u64) -> usize {
    // The comparison is signed; flipping the top bits turns it into an unsigned comparison.
    let flip = _mm256_set1_epi64x(i64::MIN);
    let key = _mm256_xor_si256(_mm256_set1_epi64x(key as i64), flip);
    let above = |quad: &[u64; 4]| {
        // SAFETY: four live words of 8 bytes; the instruction needs no alignment.
        let keys = unsafe { _mm256_loadu_si256(quad.as_ptr().cast()) };
        _mm256_cmpgt_epi64(_mm256_xor_si256(keys, flip), key)
    };
    let (quads, _) = node.as_chunks::<4>();
    let (fours, rest) = quads.as_chunks::<4>();
    let mut greater = 0;
    for [a, b, c, d] in fours {
        // Narrows each comparison's result to two bytes. Their order does not matter, because they
        // are only counted.
        let first = _mm256_packs_epi32(above(a), above(b));
        let second = _mm256_packs_epi32(above(c), above(d));
        greater += _mm256_movemask_epi8(_mm256_packs_epi16(first, second)).count_ones() / 2;
    }
    for quad in rest {
        greater += _mm256_movemask_epi8(above(quad)).count_ones() / 8;
    }
    N - greater as usize
}

#[target_feature(enable = "avx2,popcnt")]
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

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn matching_tags(tags: &[u8; 16], tag: u8) -> u16 {
    // SAFETY: 16 live bytes; the instruction needs no alignment.
    let tags: __m128i = unsafe { _mm_loadu_si128(tags.as_ptr().cast()) };
    _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u16
}
