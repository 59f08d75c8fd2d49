//! A cache of the candidate rules of packets, by flow and by classes.
//!
//! The candidates of a packet depend only on its classes, not on what the rules do, so an entry is
//! valid until the rules are compiled again. Many flows share their classes. If the rules only test
//! fields that are equal in all packets of a flow, candidates are also cached by flow. With more
//! flows than cache entries, we fall back to the class key; with more classes than entries, to a
//! full search.

use alloc::vec::Vec;

use slipring_simd::prefetch_element;

/// Number of cache sets. All sets together take 1 MiB.
const CACHE_SETS: usize = 1 << 14;
/// Number of packets in a [`CacheTrial`]: a quarter of the cache's capacity, so that a few trials
/// fill it with the present flows.
const TRIAL_PACKETS: u32 = 1 << 13;
/// Number of packets that are not looked up after a failed trial.
const PAUSE_PACKETS: u32 = 16 * TRIAL_PACKETS;
/// Maximum number of candidates per entry: the first candidates, up to one that ends the search for
/// every packet that reaches it.
const MAX_CACHED_RULES: usize = 8;
/// Marks the end of the candidates.
const END_OF_RULES: u16 = u16::MAX;

/// Candidates are only cached for lists with fewer rules than this.
pub(super) const MAX_RULES: usize = END_OF_RULES as usize;

/// The packed flow or classes of a packet.
pub(in super::super) type FlowCacheKey = [u64; 2];

#[derive(Clone, Copy, Debug)]
struct CacheEntry {
    key: FlowCacheKey,
    rules: CachedRules,
}

/// Two entries in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct CacheSet([CacheEntry; 2]);

impl CacheSet {
    /// Returns the index of the entry that may hold the key. The code is branchless, because the
    /// result is unpredictable.
    #[inline(always)]
    fn entry_index(&self, key: FlowCacheKey) -> usize {
        usize::from(self.0[0].key != key)
    }
}

/// An entry without a key.
const EMPTY_ENTRY: CacheEntry = CacheEntry { key: NO_KEY, rules: [END_OF_RULES; MAX_CACHED_RULES] };

/// A key that is never cached.
pub(super) const NO_KEY: FlowCacheKey = [u64::MAX; 2];

/// The first candidate rules of a packet, in ascending order.
pub(super) type CachedRules = [u16; MAX_CACHED_RULES];

/// The cache; allocated on first use.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct FlowCache {
    sets: Vec<CacheSet>,
}

/// The first candidates of a packet, and the number of them that it has passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct CandidateCursor {
    rules: CachedRules,
    passed: usize,
}

impl FlowCache {
    /// Removes all entries, because the rules were compiled again.
    pub(in super::super) fn clear(&mut self) {
        self.sets.clear();
    }

    /// Prefetches the sets that [`Self::get_or_insert`] will read.
    pub(in super::super) fn prefetch(&self, keys: impl Iterator<Item = FlowCacheKey>) {
        if self.sets.is_empty() {
            return;
        }
        for key in keys {
            prefetch_element(&self.sets, set_index(key));
        }
    }

    /// Returns whether the key is cached.
    #[inline(always)]
    pub(super) fn contains(&self, key: FlowCacheKey) -> bool {
        self.sets.get(set_index(key)).is_some_and(|set| set.0[set.entry_index(key)].key == key)
    }

    /// Returns the entry of a key; inserts the result of `find` if there is none.
    #[inline(always)]
    pub(super) fn get_or_insert(
        &mut self,
        key: FlowCacheKey,
        find: impl FnOnce() -> CachedRules,
    ) -> &CachedRules {
        if self.sets.is_empty() {
            self.sets.resize(CACHE_SETS, CacheSet([EMPTY_ENTRY; 2]));
        }
        let set = &mut self.sets[set_index(key)];
        let mut at = set.entry_index(key);
        if set.0[at].key != key {
            // The newer entry moves to the second place, which evicts the older entry.
            set.0[1] = set.0[0];
            set.0[0] = CacheEntry { key, rules: find() };
            at = 0;
        }
        &set.0[at].rules
    }
}

/// Decides whether flows are looked up in a cache. A miss touches two cache lines and evicts an
/// entry, so lookups pay off only if most packets are found. A trial counts misses and hits. If it
/// fails, there is a pause before the next trial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheTrial {
    asked: u32,
    found: u32,
    /// Number of packets until the pause is over; 0 if there is none.
    pause: u32,
}

impl CacheTrial {
    /// Returns whether the next `packets` packets are looked up.
    #[inline(always)]
    pub(super) const fn begins(&mut self, packets: usize) -> bool {
        let is_on = self.pause == 0;
        self.pause = self.pause.saturating_sub(packets as u32);
        is_on
    }

    /// Notes how many packets were looked up, and how many of them were found.
    #[inline(always)]
    pub(super) const fn note(&mut self, asked: usize, found: usize) {
        self.asked += asked as u32;
        self.found += found as u32;
        if self.asked >= TRIAL_PACKETS {
            self.pause = if self.found < self.asked / 2 { PAUSE_PACKETS } else { 0 };
            (self.asked, self.found) = (0, 0);
        }
    }
}

/// Collects the first results of `find`, in order, until it returns `None`.
#[inline(never)]
pub(super) fn first_of(find: impl FnMut() -> Option<usize>) -> CachedRules {
    let mut rules = [END_OF_RULES; MAX_CACHED_RULES];
    rules.iter_mut().zip(core::iter::from_fn(find)).for_each(|(rule, found)| *rule = found as u16);
    rules
}

/// Returns the index of the set for a key, by Fibonacci hashing. A collision only costs a full
/// search.
#[inline(always)]
fn set_index([low, high]: FlowCacheKey) -> usize {
    const PHI: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (low ^ high.rotate_left(29)).wrapping_mul(PHI);
    (mixed >> (64 - CACHE_SETS.ilog2())) as usize
}

impl CandidateCursor {
    #[inline(always)]
    pub(super) const fn of(rules: CachedRules) -> Self {
        Self { rules, passed: 0 }
    }

    /// No candidates.
    pub(super) const NO_CANDIDATES: Self = Self::of([END_OF_RULES; MAX_CACHED_RULES]);

    /// Removes all candidates.
    #[inline(always)]
    pub(super) const fn clear(&mut self) {
        (self.rules[0], self.passed) = (END_OF_RULES, 0);
    }

    /// Returns whether there are no candidates.
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.rules[0] == END_OF_RULES
    }

    /// Returns the first known candidate at or after `at`.
    #[inline(always)]
    pub(super) fn from(&mut self, at: usize) -> Option<usize> {
        if self.passed > 0 && self.rules[self.passed - 1] as usize >= at {
            // The packet has jumped backwards, so candidates that it had passed are candidates
            // again.
            self.passed = 0;
        }
        while let Some(&rule) = self.rules.get(self.passed) {
            if rule == END_OF_RULES {
                return None;
            }
            if rule as usize >= at {
                return Some(rule as usize);
            }
            self.passed += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_found_again_and_never_for_another_key() {
        let mut memo = FlowCache::default();
        for round in 0..3 {
            for key in 0..100_000_u64 {
                let mut rules = [key as usize % 60_000, key as usize % 60_000 + 7].into_iter();
                let mut known = CandidateCursor::of(
                    *memo.get_or_insert([key, key << 60], || first_of(|| rules.next())),
                );
                let first = key as usize % 60_000;
                assert_eq!(known.from(first), Some(first), "round {round}");
                assert_eq!(known.from(first + 1), Some(first + 7));
                assert_eq!(known.from(first + 8), None);
                assert_eq!(known.from(0), Some(first), "a jump back");
            }
        }
        let known_now = |memo: &mut FlowCache| {
            let mut is_known = true;
            let _ = memo.get_or_insert([99_999, 99_999 << 60], || {
                is_known = false;
                first_of(|| None)
            });
            is_known
        };
        assert!(known_now(&mut memo));
        memo.clear();
        assert!(!known_now(&mut memo));
    }

    #[test]
    fn more_candidates_than_a_place_holds_are_not_known() {
        let mut rules = 0..;
        let mut known = CandidateCursor::of(first_of(|| rules.next()));
        assert_eq!(known.from(MAX_CACHED_RULES - 1), Some(MAX_CACHED_RULES - 1));
        assert_eq!(known.from(MAX_CACHED_RULES), None);
    }

    #[test]
    fn flows_are_looked_up_as_long_as_most_are_found_and_tried_again_after_a_pause() {
        let mut trial = CacheTrial::default();
        let mut groups = |found: usize| -> usize {
            let all = (TRIAL_PACKETS + PAUSE_PACKETS) as usize / 64;
            let asked = |_: &usize| {
                let is_on = trial.begins(64);
                if is_on {
                    trial.note(64, found);
                }
                is_on
            };
            (0..all).filter(asked).count()
        };
        assert_eq!(groups(0), TRIAL_PACKETS as usize / 64, "one trial");
        assert_eq!(groups(31), TRIAL_PACKETS as usize / 64, "another one, after the pause");
        assert_eq!(groups(32), (TRIAL_PACKETS + PAUSE_PACKETS) as usize / 64, "no pause");
    }
}
