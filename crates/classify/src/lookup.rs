//! The structure that lookups in a table of prefixes read, chosen when it is built.

use alloc::vec::Vec;

use slipring_simd::Simd;

use crate::intervals::IntervalTree;
use crate::trie::{Trie, TrieKey, prefix};

/// Number of bits in the keys of an interval tree.
const UPPER_BITS: u32 = 64;

/// Maps every value of `K` to a number.
#[derive(Clone, Debug)]
pub(crate) enum Lookup<K> {
    Trie(Trie<K>),
    /// For values of 128 bits, unless many starts need more than the upper half.
    Intervals(IntervalTree),
}

impl<K: TrieKey> Lookup<K> {
    /// Builds the structure from the values at which the number changes, as [`Trie::build`] does.
    pub(crate) fn build(starts: &[(K, u32)]) -> Self {
        let tree =
            if K::BITS > UPPER_BITS { IntervalTree::build(starts, Simd::detect()) } else { None };
        tree.map_or_else(|| Self::Trie(Trie::build(starts)), Self::Intervals)
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: K) -> u32 {
        match self {
            Self::Trie(trie) => trie.get(key),
            Self::Intervals(tree) => tree.get(key.into()),
        }
    }

    pub(crate) fn get_many(&self, keys: &[K], numbers: &mut [u32]) {
        match self {
            Self::Trie(trie) => trie.get_many(keys, numbers),
            Self::Intervals(tree) => tree.get_many(keys, numbers),
        }
    }

    /// Recomputes the numbers of all values with the first `len` bits of `key`, as [`Trie::patch`]
    /// does.
    pub(crate) fn patch(&mut self, key: K, len: u32, starts: impl Fn(K, u32) -> Vec<(K, u32)>) {
        match self {
            Self::Trie(trie) => trie.patch(key, len, starts),
            Self::Intervals(tree) => {
                let len = Self::patched_len(len);
                let first = prefix(key, len);
                tree.replace(first.last_of(len), &starts(first, len));
            }
        }
    }

    /// Returns how many leading bits the values share that an interval tree patches for a prefix of
    /// `len` bits.
    pub(crate) fn patched_len(len: u32) -> u32 {
        len.min(UPPER_BITS)
    }

    /// Whether the structure should be built again for this many prefixes.
    pub(crate) fn needs_rebuild(&self, prefixes: usize) -> bool {
        match self {
            Self::Trie(trie) => trie.needs_rebuild(prefixes),
            Self::Intervals(tree) => tree.needs_rebuild(prefixes),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.size_bytes(),
            Self::Intervals(tree) => tree.size_bytes(),
        }
    }
}
