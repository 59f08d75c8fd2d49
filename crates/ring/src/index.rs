//! Slot indices and their cyclic arithmetic in a ring of `n` slots. All functions expect indices
//! below `n`.

/// Position of a slot in its ring.
pub type SlotIdx = u32;

/// Index of a buffer in its region. Buffers 0 and 1 are reserved and never carry a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufIdx(pub u32);

/// The slot after `i` in a ring of `n` slots.
#[inline(always)]
pub(crate) const fn next(i: SlotIdx, n: u32) -> SlotIdx {
    if i + 1 == n { 0 } else { i + 1 }
}

/// The slot before `i` in a ring of `n` slots.
#[inline(always)]
pub(crate) const fn prev(i: SlotIdx, n: u32) -> SlotIdx {
    if i == 0 { n - 1 } else { i - 1 }
}

/// The slot `count` slots after `i`, where `count <= n`.
#[inline(always)]
pub(crate) const fn add(i: SlotIdx, count: u32, n: u32) -> SlotIdx {
    let sum = i + count;
    if sum >= n { sum - n } else { sum }
}

/// Number of slots in the cyclic range `from..to`.
#[inline(always)]
pub(crate) const fn distance(from: SlotIdx, to: SlotIdx, n: u32) -> u32 {
    if to >= from { to - from } else { to + n - from }
}

/// Splits the cyclic range `from..to` into two contiguous ranges, which may be empty.
#[inline(always)]
pub(crate) const fn spans(from: SlotIdx, to: SlotIdx, n: u32) -> [(SlotIdx, SlotIdx); 2] {
    if to >= from { [(from, to), (0, 0)] } else { [(from, n), (0, to)] }
}

/// The slots of the cyclic range `from..to`.
#[inline(always)]
pub(crate) fn cyclic(from: SlotIdx, to: SlotIdx, n: u32) -> CyclicIndices {
    let [(at, end), second] = spans(from, to, n);
    CyclicIndices { at, end, second }
}

/// Iterator of [`cyclic`]. It needs one comparison per slot; an iterator over a wrapping index
/// would need two.
#[derive(Debug)]
pub(crate) struct CyclicIndices {
    at: SlotIdx,
    end: SlotIdx,
    second: (SlotIdx, SlotIdx),
}

impl Iterator for CyclicIndices {
    type Item = SlotIdx;

    #[inline(always)]
    fn next(&mut self) -> Option<SlotIdx> {
        if self.at == self.end {
            (self.at, self.end) = std::mem::take(&mut self.second);
            if self.at == self.end {
                return None;
            }
        }
        let i = self.at;
        self.at += 1;
        Some(i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_list_the_same_slots_as_stepping((n, from, to) in (1u32..40)
            .prop_flat_map(|n| (Just(n), 0..n, 0..n)))
        {
            let mut stepped = Vec::new();
            let mut i = from;
            while i != to {
                stepped.push(i);
                i = next(i, n);
            }
            let listed: Vec<u32> = cyclic(from, to, n).collect();
            prop_assert_eq!(stepped.len() as u32, distance(from, to, n));
            prop_assert_eq!(add(from, distance(from, to, n), n), to);
            prop_assert_eq!(prev(next(from, n), n), from);
            prop_assert_eq!(stepped, listed);
        }
    }
}
