//! Maps every value of a wide field to a number: a multi-bit trie that stores repeated entries
//! once.
//!
//! ```text
//!   address:  | root bits | 6 bits | 6 bits | …
//!                 |           |
//!   root[..] ---> node:  runs (64 bits, one set where a slot differs from the previous), entry,
//!                 |      entry, … (one for each run)
//!                 guard: bits to compare, bit count, entry outside, entry within
//! ```
//!
//! A node covers 64 values of its six bits, but stores only one entry for each run of equal
//! entries, as the poptrie of Asai and Ohara does for its leaves. The entries follow the runs,
//! mostly in the same cache line. An entry is a number, or the index in `words` of a node or guard.
//!
//! A block is all values with the same leading bits. In some blocks, all values whose number
//! differs from that of the block's first value share more bits than a node decides on. Then a
//! guard takes the place of the nodes for these bits: it compares all shared bits in one step.
//! Values with other bits get the guard's entry `outside`.
//!
//! # Invariants
//! 1. Bit 0 of `runs` is set, so every slot belongs to a run.
//! 2. Each node or guard that a search can reach is the entry of exactly one slot or guard.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use slipring_simd::prefetch_element;

/// Number of bits of the value that select a slot of a node.
const STRIDE: u32 = 6;
const SLOTS: usize = 1 << STRIDE;
/// Set in entries that are not numbers.
const NODE_FLAG: u32 = 1 << 31;
/// Set in entries that refer to guards.
const GUARD_FLAG: u32 = 1 << 30;
const INDEX_MASK: u32 = GUARD_FLAG - 1;
/// A trie should be rebuilt when it has more words than twice the number that it was built with,
/// plus this number.
const MIN_PATCH_WORDS: usize = 1 << 12;
/// The number of values that are looked up together.
const LOOKUP_BATCH: usize = 32;

/// A value that a trie can look up.
pub trait TrieKey: Copy + Ord + core::fmt::Debug + Into<u128> {
    /// The number of bits.
    const BITS: u32;
    /// The lowest value.
    const ZERO: Self;

    /// Returns `count` bits after the first `skip` bits, padded with zeros. `count` is 1 to 32.
    fn bits(self, skip: u32, count: u32) -> usize;
    /// Returns the value with `digits` in the `count` bits after the first `skip`. These bits must
    /// be 0 in `self`.
    fn with_bits(self, skip: u32, count: u32, digits: usize) -> Self;
    /// The last value with the same first `len` bits.
    fn last_of(self, len: u32) -> Self;
    /// The next value; `None` after the last one.
    fn after(self) -> Option<Self>;
    /// The previous value; `None` before the first one.
    fn before(self) -> Option<Self>;
    /// The number of leading bits that two values share.
    fn common(self, other: Self) -> u32;
    /// Appends the value to `words`.
    fn write(self, words: &mut Vec<u32>);
    /// Reads the value written at `at`, and returns the index after it.
    fn read(words: &[u32], at: usize) -> (Self, usize);
}

macro_rules! key {
    ($type:ty) => {
        impl TrieKey for $type {
            const BITS: u32 = <$type>::BITS;
            const ZERO: Self = 0;

            #[inline(always)]
            fn bits(self, skip: u32, count: u32) -> usize {
                let rest = self << skip;
                (rest >> (Self::BITS - count)) as usize
            }

            fn with_bits(self, skip: u32, count: u32, digits: usize) -> Self {
                match Self::BITS.checked_sub(skip + count) {
                    Some(shift) => self | (digits as Self) << shift,
                    // At the end of the value, fewer than `count` bits remain.
                    None => self | (digits as Self) >> (skip + count - Self::BITS),
                }
            }

            fn last_of(self, len: u32) -> Self {
                self | Self::MAX.checked_shr(len).unwrap_or(0)
            }

            fn after(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }

            #[inline(always)]
            fn common(self, other: Self) -> u32 {
                (self ^ other).leading_zeros()
            }

            fn write(self, words: &mut Vec<u32>) {
                words.extend((0..Self::BITS).step_by(32).map(|skip| self.bits(skip, 32) as u32));
            }

            #[inline(always)]
            fn read(words: &[u32], at: usize) -> (Self, usize) {
                let mut key = 0;
                let end = at + Self::BITS as usize / 32;
                for &word in &words[at..end] {
                    // The shift is done in two steps, because a `u32` cannot be shifted by 32 bits
                    // at once.
                    key = key << (31_u32 & (Self::BITS - 1)) << 1 | Self::from(word);
                }
                (key, end)
            }
        }
    };
}

key!(u32);
key!(u64);
key!(u128);

/// A map from every value of `K` to a number below 2³¹.
#[derive(Clone, Debug)]
pub struct Trie<K> {
    root: Vec<u32>,
    root_bits: u32,
    words: Vec<u32>,
    /// The length of `words` just after the trie was built.
    built: usize,
    key: PhantomData<K>,
}

impl<K: TrieKey> Trie<K> {
    /// Builds the trie from ranges of values. Each element of `starts` is the first value of a
    /// range, and the number to which all values of the range are mapped. The ranges ascend, and
    /// the first begins at 0. Numbers are below 2³¹.
    #[must_use]
    pub fn build(starts: &[(K, u32)]) -> Self {
        let root_bits = root_bits(starts.len());
        let root = vec![0; 1 << root_bits];
        let mut trie = Self { root, root_bits, words: Vec::new(), built: 0, key: PhantomData };
        let mut rest = starts;
        for slot in 0..trie.root.len() {
            let first = K::ZERO.with_bits(0, root_bits, slot);
            let (inside, from) = Self::split(&mut rest, first, root_bits);
            trie.root[slot] = trie.entry(first, root_bits, inside, from);
        }
        trie.built = trie.words.len();
        trie
    }

    /// The number of root entries for the values with the same first `len` bits, which is the cost
    /// of patching these values.
    pub(crate) const fn slots_of(&self, len: u32) -> usize {
        1 << self.root_bits.saturating_sub(len)
    }

    /// Recomputes the numbers of all values with the first `len` bits of `key`, by copying the
    /// nodes that lead to them. `starts(first, len)` returns the values at which the number
    /// changes, among those with the first `len` bits of `first`. The format is that of
    /// [`Self::build`], except that the first start is at `first`.
    pub(crate) fn patch(&mut self, key: K, len: u32, starts: impl Fn(K, u32) -> Vec<(K, u32)>) {
        let (bits, key) = (self.root_bits, prefix(key, len));
        let from = key.bits(0, bits);
        for slot in from..from + self.slots_of(len) {
            let first = K::ZERO.with_bits(0, bits, slot);
            self.root[slot] = self.patched(self.root[slot], (first, bits), (key, len), &starts);
        }
    }

    /// Returns an entry for the values of `block`, in which the values of `changed` have new
    /// numbers. A block is given by its first value and the number of leading bits that its values
    /// share.
    fn patched(
        &mut self,
        entry: u32,
        block: (K, u32),
        changed: (K, u32),
        starts: &impl Fn(K, u32) -> Vec<(K, u32)>,
    ) -> u32 {
        let ((first, len), (key, key_len)) = (block, changed);
        if entry & NODE_FLAG == 0 || key_len <= len {
            let starts = starts(first, len);
            return self.entry(first, len, &starts[1..], starts[0].1);
        }
        let at = (entry & INDEX_MASK) as usize;
        if entry & GUARD_FLAG == 0 {
            return self.patched_node(at, block, changed, starts);
        }
        let (guarded, end) = K::read(&self.words, at);
        let &[bits, around, within] = self.words[end..].first_chunk().expect("a guard has them");
        if key_len < bits || key.common(guarded) < bits {
            // Values outside the guard's block have changed, so the guard no longer describes this
            // block.
            return self.patched(0, block, changed, starts);
        }
        let within = self.patched(within, (guarded, bits), changed, starts);
        let at = self.words.len() as u32;
        guarded.write(&mut self.words);
        self.words.extend([bits, around, within]);
        NODE_FLAG | GUARD_FLAG | at
    }

    /// Copies the node at `at`, with new entries where numbers have changed. Returns the entry that
    /// refers to the copy.
    fn patched_node(
        &mut self,
        at: usize,
        (first, len): (K, u32),
        changed: (K, u32),
        starts: &impl Fn(K, u32) -> Vec<(K, u32)>,
    ) -> u32 {
        let before = u64::from(self.words[at + 1]) << 32 | u64::from(self.words[at]);
        let end = (len + STRIDE).min(K::BITS);
        let from = changed.0.bits(len, STRIDE);
        let to = from + (SLOTS >> STRIDE.min(changed.1 - len));
        let (mut runs, mut entries) = (0_u64, Vec::new());
        let group = SLOTS >> STRIDE.min(K::BITS - len);
        for slot in (0..SLOTS).step_by(group) {
            let rank = (before << (SLOTS - 1 - slot)).count_ones() as usize;
            let mut entry = self.words[at + 1 + rank];
            if (from..to).contains(&slot) {
                let start = first.with_bits(len, STRIDE, slot);
                entry = self.patched(entry, (start, end), changed, starts);
            }
            if entries.last() != Some(&entry) {
                runs |= 1 << slot;
                entries.push(entry);
            }
        }
        let at = self.words.len() as u32;
        self.words.extend([runs as u32, (runs >> 32) as u32]);
        self.words.extend(entries);
        NODE_FLAG | at
    }

    /// Returns whether the trie should be rebuilt for this number of starts: patches have left too
    /// many unused words, or the starts need a wider root.
    pub(crate) fn needs_rebuild(&self, starts: usize) -> bool {
        self.words.len() > 2 * self.built + MIN_PATCH_WORDS || root_bits(starts) > self.root_bits
    }

    /// For the block of the values with the first `len` bits of `first`, returns the starts after
    /// `first`, and the number at `first`. Of the starts up to the end of the block, keeps only the
    /// last one in `rest`.
    fn split<'s>(rest: &mut &'s [(K, u32)], first: K, len: u32) -> (&'s [(K, u32)], u32) {
        let last = first.last_of(len);
        let skipped = rest.iter().take_while(|start| start.0 <= first).count();
        let number = skipped.checked_sub(1).map_or(0, |at| rest[at].1);
        let inside = &rest[skipped..];
        let count = inside.iter().take_while(|start| start.0 <= last).count();
        // The last start of this block stays, because it gives the number at the first value of the
        // next block.
        *rest = &rest[(skipped + count).saturating_sub(1)..];
        (&inside[..count], number)
    }

    /// Makes the entry for the values with the first `len` bits of `first`. `inside` are the starts
    /// in the block after its first value, `number` is the number at the first value.
    fn entry(&mut self, first: K, len: u32, inside: &[(K, u32)], number: u32) -> u32 {
        if inside.is_empty() {
            return number;
        }
        let (low, high) = bounds(inside, number, first.last_of(len));
        let common = low.common(high);
        if common >= len + STRIDE {
            return self.guard(low, common, inside, number);
        }
        let (runs, entries) = self.slots(first, len, inside, number);
        let at = self.words.len() as u32;
        self.words.extend([runs as u32, (runs >> 32) as u32]);
        self.words.extend(entries);
        NODE_FLAG | at
    }

    /// Makes the entry for a block in which only values with the first `len` bits of `low` have a
    /// number other than `around`.
    fn guard(&mut self, low: K, len: u32, inside: &[(K, u32)], around: u32) -> u32 {
        let first = prefix(low, len);
        let begins = inside[0].0 == first;
        let ends = inside.last().is_some_and(|last| last.0 > first.last_of(len));
        let (from, number) = if begins { (1, inside[0].1) } else { (0, around) };
        let within =
            self.entry(first, len, &inside[from..inside.len() - usize::from(ends)], number);
        let at = self.words.len() as u32;
        first.write(&mut self.words);
        self.words.extend([len, around, within]);
        NODE_FLAG | GUARD_FLAG | at
    }

    /// Returns the bit mask of the runs of a node, and the entry of each run.
    fn slots(&mut self, first: K, len: u32, inside: &[(K, u32)], number: u32) -> (u64, Vec<u32>) {
        let (mut runs, mut entries) = (0, Vec::new());
        let mut all = Vec::with_capacity(inside.len() + 1);
        all.push((first, number));
        all.extend_from_slice(inside);
        let mut rest = all.as_slice();
        // If fewer bits remain than a node decides on, several adjacent slots are for the same
        // value.
        let group = SLOTS >> STRIDE.min(K::BITS - len);
        for slot in (0..SLOTS).step_by(group) {
            let start = first.with_bits(len, STRIDE, slot);
            let end = (len + STRIDE).min(K::BITS);
            let (inside, from) = Self::split(&mut rest, start, end);
            let entry = self.entry(start, end, inside, from);
            if entries.last() != Some(&entry) {
                runs |= 1 << slot;
                entries.push(entry);
            }
        }
        (runs, entries)
    }

    /// Returns the number of a value.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, key: K) -> u32 {
        let mut entry = self.root[key.bits(0, self.root_bits)];
        let mut skip = self.root_bits;
        while entry & NODE_FLAG != 0 {
            (entry, skip) = self.follow(key, entry, skip);
        }
        entry
    }

    /// Follows an entry that is not a number; returns the next entry and the number of bits of
    /// `key` decided so far.
    #[inline(always)]
    fn follow(&self, key: K, entry: u32, skip: u32) -> (u32, u32) {
        let at = (entry & INDEX_MASK) as usize;
        if entry & GUARD_FLAG != 0 {
            let (first, at) = K::read(&self.words, at);
            let &[len, around, within] = self.words[at..].first_chunk().expect("a guard has them");
            return (if key.common(first) >= len { within } else { around }, len);
        }
        let runs = u64::from(self.words[at + 1]) << 32 | u64::from(self.words[at]);
        // The number of runs that start at or before the slot. It is at least 1.
        let rank = (runs << (63 - key.bits(skip, STRIDE))).count_ones();
        (self.words[at + 1 + rank as usize], skip + STRIDE)
    }

    /// Writes the numbers of many values. Cheaper than single lookups, because their memory
    /// accesses overlap. The shorter slice limits the number of lookups.
    pub fn get_many(&self, keys: &[K], numbers: &mut [u32]) {
        for (keys, numbers) in keys.chunks(LOOKUP_BATCH).zip(numbers.chunks_mut(LOOKUP_BATCH)) {
            let (mut skips, mut open) = ([self.root_bits; LOOKUP_BATCH], false);
            for (&key, number) in keys.iter().zip(&mut *numbers) {
                *number = self.root[key.bits(0, self.root_bits)];
                open |= self.prefetch(*number);
            }
            while open {
                open = false;
                let all = keys.iter().zip(&mut *numbers).zip(&mut skips);
                for ((&key, number), skip) in
                    all.filter(|((_, number), _)| **number & NODE_FLAG != 0)
                {
                    (*number, *skip) = self.follow(key, *number, *skip);
                    open |= self.prefetch(*number);
                }
            }
        }
    }

    /// Prefetches the node or guard to which an entry refers; returns false if the entry is a
    /// number.
    #[inline(always)]
    fn prefetch(&self, entry: u32) -> bool {
        let leads_on = entry & NODE_FLAG != 0;
        if leads_on {
            prefetch_element(&self.words, (entry & INDEX_MASK) as usize);
        }
        leads_on
    }

    /// The memory that the trie takes, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        (self.root.len() + self.words.len()) * 4
    }
}

/// Returns the first and the last of those values of a block whose number differs from `number`,
/// the number at the start of the block.
fn bounds<K: TrieKey>(inside: &[(K, u32)], number: u32, last: K) -> (K, K) {
    let end = inside.last().filter(|end| end.1 == number).and_then(|end| end.0.before());
    (inside[0].0, end.unwrap_or(last))
}

/// The first `len` bits of a value, with the rest zero.
pub(crate) fn prefix<K: TrieKey>(key: K, len: u32) -> K {
    let mut first = K::ZERO;
    for skip in (0..len.min(K::BITS)).step_by(16) {
        let count = (len.min(K::BITS) - skip).min(16);
        first = first.with_bits(skip, count, key.bits(skip, count));
    }
    first
}

/// Returns the number of bits that select an entry of the root. It grows with the number of starts.
const fn root_bits(starts: usize) -> u32 {
    match starts {
        0..=16 => 6,
        17..=255 => 12,
        256..=49_999 => 16,
        _ => 18,
    }
}

#[cfg(test)]
mod tests;
