//! The structure in which a table of prefixes looks up values. Its kind is chosen when it is built.

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
    /// An interval tree: for 128-bit values, unless many starts are not multiples of 2^64.
    Intervals(IntervalTree),
}

impl<K: TrieKey> Lookup<K> {
    /// Builds the structure from the starts and numbers of ranges, as [`Trie::build`] does.
    pub(crate) fn build(starts: &[(K, u32)]) -> Self {
        if K::BITS > UPPER_BITS && !needs_lower_trees(starts) {
            Self::Intervals(IntervalTree::build(starts, Simd::detect()))
        } else {
            Self::Trie(Trie::build(starts))
        }
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
            Self::Intervals(tree) => tree.get_all(keys, numbers),
        }
    }

    /// Recomputes the numbers of all values with the first `len` bits of `key`, as [`Trie::patch`]
    /// does.
    pub(crate) fn patch(&mut self, key: K, len: u32, starts: impl Fn(K, u32) -> Vec<(K, u32)>) {
        match self {
            Self::Trie(trie) => trie.patch(key, len, starts),
            Self::Intervals(tree) => {
                let first = prefix(key, len);
                tree.replace(first, first.last_of(len), &starts(first, len));
            }
        }
    }

    /// Returns whether the structure should be built again for this many prefixes.
    pub(crate) fn needs_rebuild(&self, prefixes: usize) -> bool {
        match self {
            Self::Trie(trie) => trie.needs_rebuild(prefixes),
            Self::Intervals(tree) => tree.needs_rebuild(),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.size_bytes(),
            Self::Intervals(tree) => tree.size_bytes(),
        }
    }
}

/// Returns whether more than a quarter of the starts are not multiples of 2^64. Such a start needs
/// a tree of lower halves, in which it may be the only start.
fn needs_lower_trees<K: TrieKey>(starts: &[(K, u32)]) -> bool {
    let lower = starts.iter().filter(|start| start.0.into() as u64 != 0).count();
    lower > starts.len() / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_serves_long_values_of_which_a_quarter_need_lower_halves() {
        let is_tree =
            |starts: &[(u128, u32)]| matches!(Lookup::build(starts), Lookup::Intervals(_));
        let starts = |hosts: u128| {
            let low = move |at| if at < hosts { 7 } else { 0 };
            (0..100).map(|at| (at << 64 | low(99 - at), 1)).collect::<Vec<_>>()
        };
        assert!(is_tree(&starts(0)) && is_tree(&starts(25)));
        assert!(!is_tree(&starts(26)) && !is_tree(&starts(99)));
        assert!(matches!(Lookup::build(&[(0_u64, 1), (1 << 40, 2)]), Lookup::Trie(_)));
    }
}
