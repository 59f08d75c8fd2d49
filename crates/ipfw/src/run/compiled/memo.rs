//! Candidates that were found before, by the classes that they were found for.
//!
//! Which rules a packet's fields leave follows from its classes alone, whatever rules then do, so
//! what was found holds for as long as the program does. Packets of a flow have the same classes,
//! and so have many flows; who has more of them than there are places searches as if there were
//! none.

use alloc::vec::Vec;

/// Sets of places for candidates. All together take 2 MiB.
const SETS: usize = 1 << 14;
/// Candidates that are remembered: the first ones, up to one that ends every packet's way.
const MOST: usize = 12;
/// Behind the last one.
const END: u32 = u32::MAX;

/// The classes of a packet, packed.
pub(in super::super) type Key = [u64; 2];

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Place {
    key: Key,
    rules: [u32; MOST],
}

/// Nothing found: a packet with this very key just searches.
const EMPTY: Place = Place { key: [u64::MAX; 2], rules: [END; MOST] };

/// The places, none until they are needed.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Memo {
    sets: Vec<[Place; 2]>,
}

/// The first candidates of a packet, ascending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'m> {
    rules: &'m [u32; MOST],
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
            let [first, second] = &self.sets[set_of(key)];
            core::hint::black_box(first.key[0] ^ second.key[0]);
        }
    }

    /// What is known for a key; where nothing is, `find` gives candidates, in order, to be
    /// remembered until it gives none.
    #[inline]
    pub(super) fn recall(&mut self, key: Key, find: impl FnMut() -> Option<u32>) -> Known<'_> {
        if self.sets.is_empty() {
            self.sets.resize(SETS, [EMPTY; 2]);
        }
        let set = &mut self.sets[set_of(key)];
        let at = if set[0].key == key {
            0
        } else if set[1].key == key {
            1
        } else {
            // The one that was found longer ago goes.
            set[1] = set[0];
            set[0] = found(key, find);
            0
        };
        Known { rules: &set[at].rules, passed: 0 }
    }
}

#[inline(never)]
fn found(key: Key, mut find: impl FnMut() -> Option<u32>) -> Place {
    let mut place = Place { key, ..EMPTY };
    for rule in &mut place.rules {
        let Some(next) = find() else { break };
        *rule = next;
    }
    place
}

/// Fibonacci hashing: who makes flows collide makes them search.
#[inline(always)]
fn set_of([low, high]: Key) -> usize {
    const PHI: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (low ^ high.rotate_left(29)).wrapping_mul(PHI);
    (mixed >> (64 - SETS.ilog2())) as usize
}

impl Known<'_> {
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
                let mut rules = [key as u32, key as u32 + 7].into_iter();
                let mut known = memo.recall([key, key << 60], || rules.next());
                let first = key as usize;
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
                None
            });
            is_known
        };
        assert!(known_now(&mut memo));
        memo.forget();
        assert!(!known_now(&mut memo));
    }

    #[test]
    fn more_candidates_than_a_place_holds_are_not_known() {
        let mut memo = Memo::default();
        let mut rules = 0..;
        let mut known = memo.recall([1, 2], || rules.next());
        assert_eq!(known.from(MOST - 1), Some(MOST - 1));
        assert_eq!(known.from(MOST), None);
    }
}
