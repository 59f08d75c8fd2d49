//! The functions of [`crate::Simd`], implemented without vector instructions.

pub(crate) fn sum_words(blocks: &[[u8; 32]]) -> u64 {
    let mut lanes = [0_u64; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            let word = u64::from_ne_bytes(*word);
            *lane += (word & 0xffff_ffff) + (word >> 32);
        }
    }
    lanes.iter().sum()
}

#[inline]
pub(crate) fn rank<const N: usize>(node: &[u64; N], key: u64) -> usize {
    node.partition_point(|&one| one <= key)
}

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
pub(crate) fn matching_tags(tags: &[u8; 16], tag: u8) -> u16 {
    tags.iter().rev().fold(0, |mask, &one| mask << 1 | u16::from(one == tag))
}
