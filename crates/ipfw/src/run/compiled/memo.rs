//! Candidates that were found before, by the flow or the classes that they were found for.
//!
//! Which rules a packet's fields leave follows from its classes alone, whatever rules then do, so
//! what was found holds for as long as the program does. Packets of a flow have the same classes,
//! and so have many flows: who has more flows than there are places is known by classes, who has
//! more of them, too, searches as if there were none.

use alloc::vec::Vec;

/// Sets of places for candidates. All together take 1 MiB.
const SETS: usize = 1 << 14;
/// Candidates that are remembered: the first ones, up to one that ends every packet's way.
const MOST: usize = 8;
/// Behind the last one.
const END: u16 = u16::MAX;

/// The longest list whose rules can be remembered.
pub(super) const MAX_RULES: usize = END as usize;

/// The flow or the classes of a packet, packed.
pub(in super::super) type Key = [u64; 2];

#[derive(Clone, Copy, Debug)]
struct Place {
    key: Key,
    rules: Rules,
}

/// Two places in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set([Place; 2]);

impl Set {
    /// Which of the places a key has, if it has one: without a branch, for there is no telling.
    #[inline(always)]
    fn place_of(&self, key: Key) -> usize {
        usize::from(self.0[0].key != key)
    }
}

/// Nothing found: a packet with this very key just searches.
const EMPTY: Place = Place { key: NO_KEY, rules: [END; MOST] };

/// The key of nothing that is remembered.
pub(super) const NO_KEY: Key = [u64::MAX; 2];

/// The first candidates of a packet, ascending.
pub(super) type Rules = [u16; MOST];

/// The places, none until they are needed.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Memo {
    sets: Vec<Set>,
}

/// The first candidates of a packet, as it goes from one to the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    rules: Rules,
    passed: usize,
}

impl Memo {
    /// Forgets everything: there is another program.
    pub(in super::super) fn forget(&mut self) {
        self.sets.clear();
    }

    /// Brings near what [`Self::recall`] will look at.
    pub(in super::super) fn bring_near(&self, keys: impl Iterator<Item = Key>) {
        if self.sets.is_empty() {
            return;
        }
        for key in keys {
            core::hint::black_box(self.sets[set_of(key)].0[0].key[0]);
        }
    }

    /// Whether something is known for a key.
    #[inline(always)]
    pub(super) fn knows(&self, key: Key) -> bool {
        self.sets.get(set_of(key)).is_some_and(|set| set.0[set.place_of(key)].key == key)
    }

    /// What is known for a key; where nothing is, what `find` finds, from now on.
    #[inline(always)]
    pub(super) fn recall(&mut self, key: Key, find: impl FnOnce() -> Rules) -> &Rules {
        if self.sets.is_empty() {
            self.sets.resize(SETS, Set([EMPTY; 2]));
        }
        let set = &mut self.sets[set_of(key)];
        let mut at = set.place_of(key);
        if set.0[at].key != key {
            // The one that was found longer ago goes.
            set.0[1] = set.0[0];
            set.0[0] = Place { key, rules: find() };
            at = 0;
        }
        &set.0[at].rules
    }
}

/// The first of what `find` gives, in order, until it gives none.
#[inline(never)]
pub(super) fn first_of(find: impl FnMut() -> Option<usize>) -> Rules {
    let mut rules = [END; MOST];
    rules.iter_mut().zip(core::iter::from_fn(find)).for_each(|(rule, found)| *rule = found as u16);
    rules
}

/// Fibonacci hashing: who makes flows collide makes them search.
#[inline(always)]
fn set_of([low, high]: Key) -> usize {
    const PHI: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (low ^ high.rotate_left(29)).wrapping_mul(PHI);
    (mixed >> (64 - SETS.ilog2())) as usize
}

impl Known {
    #[inline(always)]
    pub(super) const fn of(rules: Rules) -> Self {
        Self { rules, passed: 0 }
    }

    /// None at all.
    pub(super) const NOTHING: Self = Self::of([END; MOST]);

    /// From now on there is none.
    #[inline(always)]
    pub(super) const fn clear(&mut self) {
        (self.rules[0], self.passed) = (END, 0);
    }

    /// Whether there is none.
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.rules[0] == END
    }

    /// The first candidate at `at` or behind it, as far as is known.
    #[inline(always)]
    pub(super) fn from(&mut self, at: usize) -> Option<usize> {
        if self.passed > 0 && self.rules[self.passed - 1] as usize >= at {
            // A jump back.
            self.passed = 0;
        }
        while let Some(&rule) = self.rules.get(self.passed) {
            if rule == END {
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
        let mut memo = Memo::default();
        for round in 0..3 {
            for key in 0..100_000_u64 {
                let mut rules = [key as usize % 60_000, key as usize % 60_000 + 7].into_iter();
                let mut known =
                    Known::of(*memo.recall([key, key << 60], || first_of(|| rules.next())));
                let first = key as usize % 60_000;
                assert_eq!(known.from(first), Some(first), "round {round}");
                assert_eq!(known.from(first + 1), Some(first + 7));
                assert_eq!(known.from(first + 8), None);
                assert_eq!(known.from(0), Some(first), "a jump back");
            }
        }
        let known_now = |memo: &mut Memo| {
            let mut is_known = true;
            let _ = memo.recall([99_999, 99_999 << 60], || {
                is_known = false;
                first_of(|| None)
            });
            is_known
        };
        assert!(known_now(&mut memo));
        memo.forget();
        assert!(!known_now(&mut memo));
    }

    #[test]
    fn more_candidates_than_a_place_holds_are_not_known() {
        let mut rules = 0..;
        let mut known = Known::of(first_of(|| rules.next()));
        assert_eq!(known.from(MOST - 1), Some(MOST - 1));
        assert_eq!(known.from(MOST), None);
    }
}
