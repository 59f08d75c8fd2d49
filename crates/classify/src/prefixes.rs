//! Longest prefix first, in a table of prefixes that changes.
//!
//! Changes go into an ordered map; [`PrefixMap::settle`] makes a trie of it, once for any number of
//! changes. Lookups before that are right, too, and slow.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::trie::{Key, Trie, prefix};

/// What a trie says where no prefix holds a value.
pub const NONE: u32 = (1 << 31) - 1;

/// Maps prefixes to numbers below 2³¹ - 1.
#[derive(Clone, Debug)]
pub struct PrefixMap<K> {
    prefixes: BTreeMap<(K, u8), u32>,
    /// `None` since a change.
    trie: Option<Trie<K>>,
}

impl<K: Key> Default for PrefixMap<K> {
    fn default() -> Self {
        Self { prefixes: BTreeMap::new(), trie: None }
    }
}

impl<K: Key> PrefixMap<K> {
    /// How many prefixes there are.
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

    /// What the prefix of just this length maps to.
    #[must_use]
    pub fn exact(&self, key: K, len: u8) -> Option<u32> {
        self.prefixes.get(&(prefix(key, len.into()), len)).copied()
    }

    /// Maps the first `len` bits of `key` to a number; what they mapped to before.
    pub fn insert(&mut self, key: K, len: u8, number: u32) -> Option<u32> {
        self.trie = None;
        self.prefixes.insert((prefix(key, len.into()), len), number)
    }

    /// Forgets a prefix; what it mapped to.
    pub fn remove(&mut self, key: K, len: u8) -> Option<u32> {
        self.trie = None;
        self.prefixes.remove(&(prefix(key, len.into()), len))
    }

    /// The longest prefix that holds `key`: its length and what it maps to.
    #[must_use]
    pub fn longest(&self, key: K) -> Option<(u8, u32)> {
        (0..=K::BITS as u8).rev().find_map(|len| Some((len, self.exact(key, len)?)))
    }

    /// What the longest prefix that holds `key` maps to.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, key: K) -> Option<u32> {
        match &self.trie {
            Some(trie) => Some(trie.get(key)).filter(|&number| number != NONE),
            None => self.longest(key).map(|(_, number)| number),
        }
    }

    /// What the longest prefixes of many values map to, [`NONE`] for those that no prefix holds;
    /// costs less than asking for one after the other.
    pub fn get_many(&self, keys: &[K], numbers: &mut [u32]) {
        match &self.trie {
            Some(trie) => trie.get_many(keys, numbers),
            None => {
                for (&key, number) in keys.iter().zip(numbers) {
                    *number = self.get(key).unwrap_or(NONE);
                }
            }
        }
    }

    /// Whether lookups are fast: nothing has changed since [`Self::settle`].
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.trie.is_some()
    }

    /// Makes lookups fast again after changes.
    pub fn settle(&mut self) {
        if self.trie.is_none() {
            self.trie = Some(Trie::build(&self.starts()));
        }
    }

    /// Bytes that lookups go through.
    #[must_use]
    pub fn trie_bytes(&self) -> usize {
        self.trie.as_ref().map_or(0, Trie::size_bytes)
    }

    /// Where the number changes: a sweep over prefixes, which come before what they contain.
    fn starts(&self) -> Vec<(K, u32)> {
        let mut starts = Starts(Vec::with_capacity(self.prefixes.len() * 2 + 1));
        starts.set(K::ZERO, NONE);
        // The prefixes around where the sweep is: the last value of each, and its number.
        let mut around: Vec<(K, u32)> = Vec::new();
        for (&(key, len), &number) in &self.prefixes {
            while let Some((last, _)) = around.pop_if(|around| around.0 < key) {
                starts.leave(last, &around);
            }
            starts.set(key, number);
            around.push((key.last_of(len.into()), number));
        }
        while let Some((last, _)) = around.pop() {
            starts.leave(last, &around);
        }
        starts.0
    }
}

struct Starts<K>(Vec<(K, u32)>);

impl<K: Key> Starts<K> {
    fn set(&mut self, key: K, number: u32) {
        match self.0.last_mut() {
            Some(last) if last.0 == key => last.1 = number,
            _ => self.0.push((key, number)),
        }
    }

    /// Behind the last value of a prefix, what is around it holds again.
    fn leave(&mut self, last: K, around: &[(K, u32)]) {
        if let Some(next) = last.after() {
            self.set(next, around.last().map_or(NONE, |around| around.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use alloc::vec;

    use super::*;

    fn agree<K: Key>(prefixes: &[(K, u8, u32)], probes: &[K]) {
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
        assert!(many.iter().zip(&slow).all(|(many, slow)| *many == slow.unwrap_or(NONE)));
    }

    proptest! {
        #[test]
        fn a_settled_table_finds_what_the_slow_search_finds(
            prefixes in prop::collection::vec((0..1_u32 << 8, 0..=32_u8, 0..1000_u32), 0..60),
            probes in prop::collection::vec(0..1_u32 << 8, 30),
        ) {
            // Eight bits that differ, at both ends of the address.
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
