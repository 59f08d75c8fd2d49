//! Longest-prefix match in a table of prefixes that changes.
//!
//! ```text
//!   insert, remove --> ordered map --settle--> Trie           32 and 64 bits, or many beyond /64
//!                         |                    IntervalTree   128 bits, few prefixes beyond /64
//!                         v                        |
//!             lookups until then, slow             v
//!                                             lookups, fast
//! ```
//!
//! [`PrefixMap::settle`] builds the fast lookup structure after any number of changes. If few
//! values have changed, it patches the structure; the cost is then proportional to the number of
//! prefixes inside each changed prefix. Lookups before `settle` are correct too, but slow.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use crate::lookup::Lookup;
use crate::trie::{TrieKey, prefix};

/// The result for a value that no prefix contains.
pub const NO_PREFIX: u32 = (1 << 31) - 1;

/// Maps prefixes to numbers below 2³¹ - 1.
#[derive(Clone, Debug)]
pub struct PrefixMap<K> {
    prefixes: BTreeMap<(K, u8), u32>,
    /// The fast lookup structure; `None` if rebuilding it is cheaper than patching it for
    /// all changes.
    lookup: Option<Lookup<K>>,
    /// Prefixes changed since `lookup` was last up to date.
    changed: Vec<(K, u8)>,
    /// Sum of [`Self::patch_cost`] over `changed`.
    patches: usize,
}

/// Maximum sum of patch costs. If it is exceeded, the structure is rebuilt. A unit of cost is the
/// time of a few lookups in the map; building a large structure takes a tenth of a second.
const MAX_PATCHES: usize = 2048;
/// Number of prefixes per unit of patch cost, for the sweep that patches an interval tree.
const PREFIXES_PER_PATCH: usize = 64;

impl<K: TrieKey> Default for PrefixMap<K> {
    fn default() -> Self {
        Self { prefixes: BTreeMap::new(), lookup: None, changed: Vec::new(), patches: 0 }
    }
}

impl<K: TrieKey> PrefixMap<K> {
    /// The number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns whether there are no prefixes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// All prefixes with their lengths and numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (K, u8, u32)> {
        self.prefixes.iter().map(|(&(key, len), &number)| (key, len, number))
    }

    /// Returns the number of the prefix that consists of the first `len` bits of `key`; `None` if
    /// the table does not have it.
    #[must_use]
    pub fn exact(&self, key: K, len: u8) -> Option<u32> {
        self.prefixes.get(&(prefix(key, len.into()), len)).copied()
    }

    /// Maps the first `len` bits of `key` to a number; returns the previous number.
    pub fn insert(&mut self, key: K, len: u8, number: u32) -> Option<u32> {
        self.insert_if((key, len), number, true, true).unwrap_or_default()
    }

    /// Like [`Self::insert`], but changes an existing prefix only if `changes` is true, and adds a
    /// new prefix only if `grows` is true.
    ///
    /// # Errors
    /// If nothing was changed: the current number of the prefix, if it exists.
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

    /// Records that a prefix changes. Drops the lookup structure if patching it has become too
    /// expensive.
    fn mark_changed(&mut self, key: K, len: u8) {
        let Some(lookup) = &self.lookup else { return };
        self.patches += self.patch_cost(lookup, key, len);
        if self.patches > MAX_PATCHES {
            self.forget_lookup();
        } else {
            self.changed.push((key, len));
        }
    }

    /// Returns the cost of patching the values of a prefix: the number of root entries in a trie,
    /// or the number of prefixes to sweep over, in units of [`PREFIXES_PER_PATCH`], in an interval
    /// tree.
    fn patch_cost(&self, lookup: &Lookup<K>, key: K, len: u8) -> usize {
        match lookup {
            Lookup::Trie(trie) => trie.slots_of(len.into()),
            Lookup::Intervals(_) => {
                let first = prefix(key, len.into());
                let last = first.last_of(len.into());
                let inside = self.prefixes.range((first, 0)..=(last, K::BITS as u8));
                1 + inside.take(MAX_PATCHES * PREFIXES_PER_PATCH).count() / PREFIXES_PER_PATCH
            }
        }
    }

    fn forget_lookup(&mut self) {
        (self.lookup, self.changed, self.patches) = (None, Vec::new(), 0);
    }

    /// Returns the longest prefix that contains `key`: its length and number.
    #[must_use]
    pub fn longest(&self, key: K) -> Option<(u8, u32)> {
        self.longest_up_to(key, K::BITS)
    }

    /// Returns the longest prefix of at most `len` bits that contains `key`, from the ordered map.
    /// Each step takes the last prefix that sorts at or before the first `len` bits of `key`. If
    /// that prefix does not contain `key`, the two share only their first n bits. No prefix longer
    /// than n bits contains `key`, so the next step uses `len` = n.
    fn longest_up_to(&self, key: K, mut len: u32) -> Option<(u8, u32)> {
        loop {
            let until = (prefix(key, len), len as u8);
            let (&(near, near_len), &number) = self.prefixes.range(..=until).next_back()?;
            let common = near.common(key);
            if common >= near_len.into() {
                return Some((near_len, number));
            }
            len = common;
        }
    }

    /// Returns the number of the longest prefix that contains `key`.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, key: K) -> Option<u32> {
        match &self.lookup {
            Some(lookup) if self.changed.is_empty() => {
                Some(lookup.get(key)).filter(|&number| number != NO_PREFIX)
            }
            _ => self.longest(key).map(|(_, number)| number),
        }
    }

    /// Writes the numbers of the longest prefixes for many values, [`NO_PREFIX`] where no prefix
    /// contains the value. If [`Self::is_settled`], this is cheaper than single lookups.
    pub fn get_many(&self, keys: &[K], numbers: &mut [u32]) {
        match &self.lookup {
            Some(lookup) if self.changed.is_empty() => lookup.get_many(keys, numbers),
            _ => {
                for (&key, number) in keys.iter().zip(numbers) {
                    *number = self.get(key).unwrap_or(NO_PREFIX);
                }
            }
        }
    }

    /// Returns whether lookups are fast: nothing has changed since [`Self::settle`].
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.lookup.is_some() && self.changed.is_empty()
    }

    /// Patches the lookup structure for the changes since the last call, or builds it again, so
    /// that lookups are fast.
    pub fn settle(&mut self) {
        if let Some(mut lookup) = self.lookup.take() {
            for (key, len) in core::mem::take(&mut self.changed) {
                lookup.patch(key, len.into(), |first, len| self.starts_within(first, len));
            }
            self.patches = 0;
            self.lookup = Some(lookup).filter(|lookup| !lookup.needs_rebuild(self.prefixes.len()));
        }
        if self.lookup.is_none() {
            let all = self.sweep((K::ZERO, 0), K::ZERO.last_of(0), NO_PREFIX);
            self.lookup = Some(Lookup::build(&all));
        }
    }

    /// Returns the ranges in which all values have the same number, among the values that have the
    /// same first `len` bits as `first`. Each element is the first value of a range, and the
    /// number.
    fn starts_within(&self, first: K, len: u32) -> Vec<(K, u32)> {
        let shorter = len.checked_sub(1).and_then(|len| self.longest_up_to(first, len));
        let base = shorter.map_or(NO_PREFIX, |found| found.1);
        self.sweep((first, len as u8), first.last_of(len), base)
    }

    /// The memory that lookups read, in bytes.
    #[must_use]
    pub fn lookup_bytes(&self) -> usize {
        self.lookup.as_ref().map_or(0, Lookup::size_bytes)
    }

    /// Returns the ranges in which all values have the same number, from the first value of the
    /// prefix `from` up to `end`. Each element is the first value of a range, and the number.
    /// Values outside all prefixes have the number `base`. Sweeps over the prefixes in order; a
    /// prefix precedes those that it contains.
    fn sweep(&self, from: (K, u8), end: K, base: u32) -> Vec<(K, u32)> {
        let mut starts = RunStarts { all: Vec::new(), end, base };
        starts.set(from.0, base);
        // The prefixes that contain the sweep's position. Each element is a prefix's last value and
        // its number.
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
    /// The number of values outside all prefixes.
    base: u32,
}

impl<K: TrieKey> RunStarts<K> {
    fn set(&mut self, key: K, number: u32) {
        match self.all.last_mut() {
            Some(last) if last.0 == key => last.1 = number,
            _ => self.all.push((key, number)),
        }
    }

    /// Adds the change after the last value of a prefix, where the enclosing prefix applies again.
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
            // The values have eight significant bits, four at each end of the address.
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

    /// The model for the tests: a map of prefixes, searched one by one.
    #[derive(Default)]
    struct PrefixList(BTreeMap<(u32, u8), u32>);

    impl PrefixList {
        fn longest(&self, key: u32) -> Option<(u8, u32)> {
            let covers = |&(start, len): &(u32, u8)| (start ^ key).leading_zeros() >= len.into();
            let found = self.0.iter().filter(|(prefix, _)| covers(prefix));
            found.map(|(&(_, len), &number)| (len, number)).max()
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Insert,
        InsertIf(bool, bool),
        Remove,
        Settle,
    }

    fn changes() -> impl Strategy<Value = Vec<(Change, u32, u8, u32)>> {
        let change = prop_oneof![
            4 => Just(Change::Insert),
            2 => any::<(bool, bool)>().prop_map(|(changes, grows)| Change::InsertIf(changes, grows)),
            2 => Just(Change::Remove),
            2 => Just(Change::Settle),
        ];
        prop::collection::vec((change, 0..8_u32, 0..=3_u8, 0..100_u32), 1..40)
    }

    proptest! {
        #[test]
        fn a_table_answers_as_a_list_of_prefixes_does(changes in changes()) {
            let (mut map, mut list) = (PrefixMap::default(), PrefixList::default());
            let keys: Vec<u32> = (0..8).map(|bits| bits << 29).collect();
            for (change, bits, len, number) in changes {
                let (key, start) = (bits << 29 | 1, bits >> (3 - len) << (3 - len) << 29);
                let known = list.0.get(&(start, len)).copied();
                match change {
                    Change::Insert => {
                        prop_assert_eq!(map.insert(key, len, number), known);
                        list.0.insert((start, len), number);
                    }
                    Change::InsertIf(changes, grows) => {
                        let may = if known.is_some() { changes } else { grows };
                        let done = map.insert_if((key, len), number, changes, grows);
                        prop_assert_eq!(done, if may { Ok(known) } else { Err(known) });
                        if may {
                            list.0.insert((start, len), number);
                        }
                    }
                    Change::Remove => {
                        prop_assert_eq!(map.remove(key, len), known);
                        list.0.remove(&(start, len));
                    }
                    Change::Settle => {
                        map.settle();
                        prop_assert!(map.is_settled());
                    }
                }
                prop_assert_eq!((map.len(), map.is_empty()), (list.0.len(), list.0.is_empty()));
                prop_assert!(map.iter().eq(list.0.iter().map(|(&(key, len), &it)| (key, len, it))));
                prop_assert_eq!(map.exact(key, len), list.0.get(&(start, len)).copied());
                let mut many = vec![0; keys.len()];
                map.get_many(&keys, &mut many);
                for (&key, many) in keys.iter().zip(many) {
                    let longest = list.longest(key);
                    prop_assert_eq!(map.longest(key), longest);
                    let number = longest.map(|found| found.1);
                    prop_assert_eq!((map.get(key), many), (number, number.unwrap_or(NO_PREFIX)));
                }
            }
        }
    }

    #[test]
    fn more_changes_than_patches_are_worth_build_the_trie_again() {
        let mut map = PrefixMap::default();
        assert!(!map.is_settled());
        map.settle();
        for number in 0..MAX_PATCHES as u32 {
            map.insert(number << 8, 32, number);
        }
        assert!(map.lookup.is_some() && !map.is_settled());
        map.insert(0x0a00_0000, 32, 7);
        assert!(map.lookup.is_none() && !map.is_settled());
        assert_eq!((map.get(0x0a00_0000), map.get(0x0a00_0001)), (Some(7), None));
        map.settle();
        map.insert(0x0a00_0000, 8, 8);
        assert!(map.lookup.is_some(), "changes are counted from the last build on");
        assert_eq!((map.get(0x0a00_0000), map.get(0x0a00_0001)), (Some(7), Some(8)));
    }

    #[test]
    fn a_change_around_a_guarded_prefix_is_seen_outside_of_it() {
        let mut map = PrefixMap::default();
        map.insert(0x0a00_0000_u32, 32, 1);
        map.settle();
        map.insert(0x0a00_0000, 24, 2);
        map.settle();
        let found = [0x0a00_0000, 0x0a00_0001, 0x0a00_00ff, 0x0a00_0100].map(|key| map.get(key));
        assert_eq!(found, [Some(1), Some(2), Some(2), None]);
    }

    #[test]
    fn a_change_to_a_large_table_leaves_most_of_it_alone() {
        let mut map = PrefixMap::default();
        for number in 0..100_000_u32 {
            map.insert(number.wrapping_mul(0x9e37_79b1), 32, number);
        }
        map.settle();
        let before = map.lookup_bytes();
        map.insert(0x0a00_0000, 24, 7);
        assert!(!map.is_settled() && map.lookup.is_some());
        map.settle();
        assert_eq!(map.get(0x0a00_0001), map.longest(0x0a00_0001).map(|found| found.1));
        assert!(map.lookup_bytes() > before && map.lookup_bytes() < before + 1024);
        // All these prefixes have the same first 36 bits.
        let mut wide = PrefixMap::default();
        for number in 0..100_000_u128 {
            wide.insert(0x2001 << 112 | (number * 0x9e37) << 60, 64, number as u32);
        }
        wide.settle();
        let before_wide = wide.lookup_bytes();
        wide.insert(0x2001_0db8 << 96, 48, 7);
        wide.settle();
        assert!(wide.lookup_bytes() < before_wide + 8192, "a path is copied, and nothing else");
        for round in 0..20_000_u32 {
            map.insert(round << 12, 24, round);
            map.settle();
        }
        assert!(map.lookup_bytes() < 4 * before, "what patches leave behind is cleared away");
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
