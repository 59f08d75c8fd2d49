//! Longest-prefix match in a table of prefixes that changes.
//!
//! Changes go into an ordered map. [`PrefixMap::settle`] builds a trie from it, once for any
//! number of changes, or patches the trie if few values have changed. Earlier lookups are correct
//! too, but slow.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use crate::trie::{Trie, TrieKey, prefix};

/// The trie's number for values that no prefix contains.
pub const NO_PREFIX: u32 = (1 << 31) - 1;

/// Maps prefixes to numbers below 2³¹ - 1.
#[derive(Clone, Debug)]
pub struct PrefixMap<K> {
    prefixes: BTreeMap<(K, u8), u32>,
    /// `None` after many changes.
    trie: Option<Trie<K>>,
    /// Prefixes changed since the trie was up to date.
    changed: Vec<(K, u8)>,
    /// The cost of patching the trie, in entries of its root.
    patches: usize,
}

/// Maximum number of entries that are patched one by one. Each costs some lookups in the map;
/// building a large table takes a tenth of a second.
const MAX_PATCHES: usize = 2048;

impl<K: TrieKey> Default for PrefixMap<K> {
    fn default() -> Self {
        Self { prefixes: BTreeMap::new(), trie: None, changed: Vec::new(), patches: 0 }
    }
}

impl<K: TrieKey> PrefixMap<K> {
    /// The number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// All prefixes with their lengths and numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (K, u8, u32)> {
        self.prefixes.iter().map(|(&(key, len), &number)| (key, len, number))
    }

    /// Returns the number of the prefix with exactly this length.
    #[must_use]
    pub fn exact(&self, key: K, len: u8) -> Option<u32> {
        self.prefixes.get(&(prefix(key, len.into()), len)).copied()
    }

    /// Maps the first `len` bits of `key` to a number; returns the previous number.
    pub fn insert(&mut self, key: K, len: u8, number: u32) -> Option<u32> {
        self.insert_if((key, len), number, true, true).unwrap_or_default()
    }

    /// Same as [`Self::insert`] if the prefix exists and `changes`, or does not exist and `grows`;
    /// otherwise nothing changes.
    ///
    /// # Errors
    /// Returns the present number, if any.
    pub fn insert_if(
        &mut self,
        (key, len): (K, u8),
        number: u32,
        changes: bool,
        grows: bool,
    ) -> Result<Option<u32>, Option<u32>> {
        let old = match self.prefixes.entry((prefix(key, len.into()), len)) {
            Entry::Vacant(entry) if grows => {
                entry.insert(number);
                None
            }
            Entry::Vacant(_) => return Err(None),
            Entry::Occupied(mut entry) if changes => Some(entry.insert(number)),
            Entry::Occupied(entry) => return Err(Some(*entry.get())),
        };
        self.mark_changed(key, len);
        Ok(old)
    }

    /// Removes a prefix; returns its number.
    pub fn remove(&mut self, key: K, len: u8) -> Option<u32> {
        self.mark_changed(key, len);
        self.prefixes.remove(&(prefix(key, len.into()), len))
    }

    /// Records that a prefix changes.
    fn mark_changed(&mut self, key: K, len: u8) {
        let Some(trie) = &self.trie else { return };
        self.patches += trie.slots_of(len.into());
        if self.patches > MAX_PATCHES {
            self.forget_trie();
        } else {
            self.changed.push((key, len));
        }
    }

    fn forget_trie(&mut self) {
        (self.trie, self.changed, self.patches) = (None, Vec::new(), 0);
    }

    /// Returns the longest prefix that contains `key`: its length and number.
    #[must_use]
    pub fn longest(&self, key: K) -> Option<(u8, u32)> {
        (0..=K::BITS as u8).rev().find_map(|len| Some((len, self.exact(key, len)?)))
    }

    /// Returns the number of the longest prefix that contains `key`.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, key: K) -> Option<u32> {
        match &self.trie {
            Some(trie) if self.changed.is_empty() => {
                Some(trie.get(key)).filter(|&number| number != NO_PREFIX)
            }
            _ => self.longest(key).map(|(_, number)| number),
        }
    }

    /// Writes the numbers of the longest prefixes for many values, [`NO_PREFIX`] where no prefix
    /// contains the value. Cheaper than single lookups.
    pub fn get_many(&self, keys: &[K], numbers: &mut [u32]) {
        match &self.trie {
            Some(trie) if self.changed.is_empty() => trie.get_many(keys, numbers),
            _ => {
                for (&key, number) in keys.iter().zip(numbers) {
                    *number = self.get(key).unwrap_or(NO_PREFIX);
                }
            }
        }
    }

    /// Whether lookups are fast: nothing has changed since [`Self::settle`].
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.trie.is_some() && self.changed.is_empty()
    }

    /// Makes lookups fast again after changes.
    pub fn settle(&mut self) {
        if let Some(mut trie) = self.trie.take() {
            for (key, len) in core::mem::take(&mut self.changed) {
                trie.patch(key, len.into(), |first, len| self.starts_within(first, len));
            }
            self.patches = 0;
            self.trie = Some(trie).filter(|trie| !trie.needs_rebuild(self.prefixes.len()));
        }
        if self.trie.is_none() {
            let all = self.sweep((K::ZERO, 0), K::ZERO.last_of(0), NO_PREFIX);
            self.trie = Some(Trie::build(&all));
        }
    }

    /// The values at which the number changes, among those with the first `len` bits of `first`.
    fn starts_within(&self, first: K, len: u32) -> Vec<(K, u32)> {
        let len = len as u8;
        let base = (0..=len).rev().find_map(|len| self.exact(first, len)).unwrap_or(NO_PREFIX);
        if u32::from(len) == K::BITS {
            // No prefix is longer.
            return alloc::vec![(first, base)];
        }
        self.sweep((first, len + 1), first.last_of(len.into()), base)
    }

    /// The memory that lookups read, in bytes.
    #[must_use]
    pub fn trie_bytes(&self) -> usize {
        self.trie.as_ref().map_or(0, Trie::size_bytes)
    }

    /// The values at which the number changes, from the prefix `from` up to `end`, with the number
    /// `base` where no prefix is. Sweeps over the prefixes in order; a prefix precedes those that
    /// it contains.
    fn sweep(&self, from: (K, u8), end: K, base: u32) -> Vec<(K, u32)> {
        let mut starts = RunStarts { all: Vec::new(), end, base };
        starts.set(from.0, base);
        // The prefixes that contain the sweep's position: the last value of each, and its number.
        let mut around: Vec<(K, u32)> = Vec::new();
        for (&(key, len), &number) in self.prefixes.range(from..=(end, K::BITS as u8)) {
            while let Some((last, _)) = around.pop_if(|around| around.0 < key) {
                starts.end_prefix(last, &around);
            }
            starts.set(key, number);
            around.push((key.last_of(len.into()), number));
        }
        while let Some((last, _)) = around.pop() {
            starts.end_prefix(last, &around);
        }
        starts.all
    }
}

struct RunStarts<K> {
    all: Vec<(K, u32)>,
    /// The last value of the sweep.
    end: K,
    /// The number where there is no prefix.
    base: u32,
}

impl<K: TrieKey> RunStarts<K> {
    fn set(&mut self, key: K, number: u32) {
        match self.all.last_mut() {
            Some(last) if last.0 == key => last.1 = number,
            _ => self.all.push((key, number)),
        }
    }

    /// After the last value of a prefix, the enclosing prefix applies again.
    fn end_prefix(&mut self, last: K, around: &[(K, u32)]) {
        if let Some(next) = last.after().filter(|next| *next <= self.end) {
            self.set(next, around.last().map_or(self.base, |around| around.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use alloc::vec;

    use super::*;

    fn agree<K: TrieKey>(prefixes: &[(K, u8, u32)], probes: &[K]) {
        let mut map = PrefixMap::default();
        for &(key, len, number) in prefixes {
            map.insert(key, len, number);
        }
        let slow: Vec<_> = probes.iter().map(|&probe| map.get(probe)).collect();
        map.settle();
        let fast: Vec<_> = probes.iter().map(|&probe| map.get(probe)).collect();
        assert_eq!(fast, slow);
        let mut many = vec![0; probes.len()];
        map.get_many(probes, &mut many);
        assert!(many.iter().zip(&slow).all(|(many, slow)| *many == slow.unwrap_or(NO_PREFIX)));
    }

    proptest! {
        #[test]
        fn a_settled_table_finds_what_the_slow_search_finds(
            prefixes in prop::collection::vec((0..1_u32 << 8, 0..=32_u8, 0..1000_u32), 0..60),
            probes in prop::collection::vec(0..1_u32 << 8, 30),
        ) {
            // Eight significant bits, at both ends of the address.
            let spread = |bits: u32| bits.rotate_right(4);
            let prefixes: Vec<_> =
                prefixes.iter().map(|&(bits, len, number)| (spread(bits), len, number)).collect();
            let probes: Vec<_> = probes.iter().map(|&bits| spread(bits)).collect();
            agree(&prefixes, &probes);
            let wide = |bits: u32| u128::from(bits >> 16) << 112 | u128::from(bits & 0xffff) << 50;
            let prefixes: Vec<_> =
                prefixes.iter().map(|&(bits, len, number)| (wide(bits), len * 4, number)).collect();
            agree(&prefixes, &probes.iter().map(|&bits| wide(bits)).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn a_table_brought_up_to_date_is_one_made_anew(
            steps in prop::collection::vec(
                prop::collection::vec((0..1_u32 << 8, 0..=32_u8, 0..5_u32), 0..6),
                1..30,
            ),
            probes in prop::collection::vec(0..1_u32 << 8, 30),
        ) {
            let spread = |bits: u32| bits.rotate_right(4);
            let (mut narrow, mut wide) = (PrefixMap::default(), PrefixMap::default());
            let widen = |bits: u32| u128::from(bits) << 96;
            for changes in steps {
                for (bits, len, number) in changes {
                    if number == 0 {
                        narrow.remove(spread(bits), len);
                        wide.remove(widen(spread(bits)), len * 4);
                    } else {
                        narrow.insert(spread(bits), len, number);
                        wide.insert(widen(spread(bits)), len * 4, number);
                    }
                }
                narrow.settle();
                wide.settle();
                for probe in probes.iter().map(|&probe| spread(probe)) {
                    let slow = narrow.longest(probe).map(|found| found.1);
                    prop_assert_eq!(narrow.get(probe), slow);
                    let slow = wide.longest(widen(probe)).map(|found| found.1);
                    prop_assert_eq!(wide.get(widen(probe)), slow);
                }
            }
        }
    }

    #[test]
    fn a_change_to_a_large_table_leaves_most_of_it_alone() {
        let mut map = PrefixMap::default();
        for number in 0..100_000_u32 {
            map.insert(number.wrapping_mul(0x9e37_79b1), 32, number);
        }
        map.settle();
        let before = map.trie_bytes();
        map.insert(0x0a00_0000, 24, 7);
        assert!(!map.is_settled() && map.trie.is_some());
        map.settle();
        assert_eq!(map.get(0x0a00_0001), map.longest(0x0a00_0001).map(|found| found.1));
        assert!(map.trie_bytes() > before && map.trie_bytes() < before + 1024);
        // All of these are below one entry of the root.
        let mut wide = PrefixMap::default();
        for number in 0..100_000_u128 {
            wide.insert(0x2001 << 112 | (number * 0x9e37) << 60, 64, number as u32);
        }
        wide.settle();
        let before_wide = wide.trie_bytes();
        wide.insert(0x2001_0db8 << 96, 48, 7);
        wide.settle();
        assert!(wide.trie_bytes() < before_wide + 8192, "a path is copied, and nothing else");
        for round in 0..20_000_u32 {
            map.insert(round << 12, 24, round);
            map.settle();
        }
        assert!(map.trie_bytes() < 4 * before, "what patches leave behind is cleared away");
    }

    #[test]
    fn a_change_shows_at_once() {
        let mut map = PrefixMap::default();
        map.insert(0x0a00_0000_u32, 8, 1);
        map.settle();
        assert_eq!(map.get(0x0a01_0203), Some(1));
        assert_eq!(map.insert(0x0a01_0000, 16, 2), None);
        assert_eq!(map.get(0x0a01_0203), Some(2));
        map.settle();
        assert_eq!((map.get(0x0a01_0203), map.get(0x0b00_0000)), (Some(2), None));
        assert_eq!(map.remove(0x0a01_ffff, 16), Some(2));
        assert_eq!(map.get(0x0a01_0203), Some(1));
        assert_eq!(map.insert(0x0a00_0000, 8, 7), Some(1));
    }
}
