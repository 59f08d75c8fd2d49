//! A timing wheel: handles with any release times, given out in order of time.
//!
//! Time is cut into slots of about a microsecond. A slot ahead is a list, so
//! putting a handle in costs the same however many are there; a slot is sorted
//! when its time comes. Levels of 1024 slots each, every one 1024 times coarser
//! than the one below, reach as far as a `u64` of nanoseconds:
//!
//! ```text
//!   release time   ... | 10 bits | 10 bits | 10 bits |
//!                       level 1:  level 0:  sorted
//!                       1 ms      1 us      when due
//! ```
//!
//! A handle is on the level of the highest digit in which its slot differs from
//! the current one, as in Varghese and Lauck's hierarchical wheels (SOSP 1987);
//! when time enters a slot of a higher level, its handles spread over the lower
//! ones.
//!
//! # Invariants
//! 1. `near` holds the handles of slots up to `current`, the lists all later ones.
//! 2. Lists hold the last handle pushed first. Handles of equal times are in one
//!    list and stay in order of pushing, because a list is emptied into lower
//!    levels before anything is pushed there directly.
//! 3. Every slot that holds handles on a level comes before any on higher levels.
//! 4. `first_ns` of a level is the least release time on it.
//!
//! Not for: delays that never overtake, where [`DelayLine`] alone is cheaper.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::DelayLine;

/// Handles waiting for their release times, in nanoseconds, in any order.
///
/// ```
/// let mut wheel = slipring_model::Wheel::new();
/// wheel.push(5_000_000, 'b');
/// wheel.push(200, 'a');
/// assert_eq!(wheel.next_release_ns(), Some(200));
/// assert_eq!(wheel.pop_due(4_999_999), Some('a'));
/// assert_eq!(wheel.pop_due(4_999_999), None);
/// assert_eq!(wheel.pop_due(5_000_000), Some('b'));
/// ```
#[derive(Clone, Debug)]
pub struct Wheel<H> {
    near: DelayLine<H>,
    /// The slot that time has reached.
    current: u64,
    levels: [Option<Box<Level>>; LEVELS],
    /// Which levels hold handles, a bit each.
    busy: u32,
    nodes: Vec<Node<H>>,
    free: u32,
    waiting: usize,
    due: Vec<(u64, H)>,
}

/// Nanoseconds in a slot, as a power of two.
const SLOT_BITS: u32 = 10;
/// Slots in a level, as a power of two.
const DIGIT_BITS: u32 = 10;
const SLOTS: usize = 1 << DIGIT_BITS;
/// As many as reach over all slots that there are.
const LEVELS: usize = (64 - SLOT_BITS).div_ceil(DIGIT_BITS) as usize;
/// No node.
const NIL: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node<H> {
    release_ns: u64,
    next: u32,
    handle: H,
}

#[derive(Clone, Debug)]
struct Level {
    heads: [u32; SLOTS],
    occupied: [u64; SLOTS / 64],
    first_ns: u64,
}

impl<H: Copy> Wheel<H> {
    /// Makes an empty wheel. Levels are allocated when first used.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            near: DelayLine::new(),
            current: 0,
            levels: [const { None }; LEVELS],
            busy: 0,
            nodes: Vec::new(),
            free: NIL,
            waiting: 0,
            due: Vec::new(),
        }
    }

    /// Puts `handle` in, to come out at `release_ns`.
    ///
    /// Constant time, unless `release_ns` is in the slot that time has reached
    /// or before: then as [`DelayLine::push`].
    ///
    /// # Panics
    /// With 2³² handles inside.
    #[inline]
    pub fn push(&mut self, release_ns: u64, handle: H) {
        if release_ns >> SLOT_BITS <= self.current {
            return self.near.push(release_ns, handle);
        }
        let node = self.store(Node { release_ns, next: NIL, handle });
        self.waiting += 1;
        self.link(node, release_ns);
    }

    /// Takes out the first handle if its release time is `now_ns` or before.
    #[inline]
    pub fn pop_due(&mut self, now_ns: u64) -> Option<H> {
        if self.near.is_empty() && now_ns >> SLOT_BITS > self.current {
            self.advance(now_ns >> SLOT_BITS);
        }
        self.near.pop_due(now_ns)
    }

    /// When the first handle is due: the time to sleep until.
    #[inline]
    #[must_use]
    pub fn next_release_ns(&self) -> Option<u64> {
        self.near.next_release_ns().or_else(|| {
            let level = self.levels.get(self.busy.trailing_zeros() as usize)?;
            level.as_ref().map(|level| level.first_ns)
        })
    }

    /// How many handles are in the wheel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.near.len() + self.waiting
    }

    /// Whether the wheel is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves time on to slot `target`, or to the first slot with handles if
    /// that is before.
    fn advance(&mut self, target: u64) {
        while self.near.is_empty() {
            let depth = self.busy.trailing_zeros();
            let Some(Some(level)) = self.levels.get_mut(depth as usize) else {
                self.current = target;
                return;
            };
            let digit = level.first_slot().expect("a busy level has an occupied slot");
            let shift = depth * DIGIT_BITS;
            let above = self.current >> shift >> DIGIT_BITS << DIGIT_BITS;
            let start = (above | digit as u64) << shift;
            if start > target {
                self.current = target;
                return;
            }
            let list = level.take(digit);
            self.current = start;
            self.restore_first(depth);
            if depth == 0 { self.give_out(list) } else { self.spread(list) }
        }
    }

    /// Finds `first_ns` of a level again, or that it is empty.
    fn restore_first(&mut self, depth: u32) {
        let Some(level) = &mut self.levels[depth as usize] else { return };
        let Some(digit) = level.first_slot() else {
            level.first_ns = u64::MAX;
            self.busy &= !(1 << depth);
            return;
        };
        level.first_ns = u64::MAX;
        let mut at = level.heads[digit];
        while at != NIL {
            let node = &self.nodes[at as usize];
            level.first_ns = level.first_ns.min(node.release_ns);
            at = node.next;
        }
    }

    /// Moves the list of the current slot to `near`, in order.
    fn give_out(&mut self, list: u32) {
        let mut due = core::mem::take(&mut self.due);
        let mut at = list;
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            due.push((node.release_ns, node.handle));
            let next = core::mem::replace(&mut node.next, self.free);
            self.free = at;
            at = next;
        }
        self.waiting -= due.len();
        due.reverse();
        due.sort_by_key(|&(release_ns, _)| release_ns);
        for &(release_ns, handle) in &due {
            self.near.push(release_ns, handle);
        }
        due.clear();
        self.due = due;
    }

    /// Spreads a list over the levels below, the handle pushed first first.
    fn spread(&mut self, list: u32) {
        let mut at = self.reversed(list);
        let mut reached = NIL;
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            let (next, release_ns) = (node.next, node.release_ns);
            if release_ns >> SLOT_BITS == self.current {
                node.next = reached;
                reached = at;
            } else {
                self.link(at, release_ns);
            }
            at = next;
        }
        self.give_out(reached);
    }

    fn reversed(&mut self, list: u32) -> u32 {
        let (mut at, mut turned) = (list, NIL);
        while at != NIL {
            let next = core::mem::replace(&mut self.nodes[at as usize].next, turned);
            turned = at;
            at = next;
        }
        turned
    }

    /// Puts a node into the list of its slot, which lies ahead.
    #[inline]
    fn link(&mut self, node: u32, release_ns: u64) {
        let slot = release_ns >> SLOT_BITS;
        let depth = (63 - (slot ^ self.current).leading_zeros()) / DIGIT_BITS;
        let digit = (slot >> (depth * DIGIT_BITS)) as usize % SLOTS;
        let level = self.levels[depth as usize].get_or_insert_with(Level::empty);
        self.nodes[node as usize].next = core::mem::replace(&mut level.heads[digit], node);
        level.occupied[digit / 64] |= 1 << (digit % 64);
        level.first_ns = level.first_ns.min(release_ns);
        self.busy |= 1 << depth;
    }

    /// Keeps a node, in the place freed last if there is one.
    #[inline]
    fn store(&mut self, node: Node<H>) -> u32 {
        if let Some(place) = self.nodes.get_mut(self.free as usize) {
            let index = self.free;
            self.free = place.next;
            *place = node;
            return index;
        }
        let index = u32::try_from(self.nodes.len()).ok().filter(|&index| index != NIL);
        self.nodes.push(node);
        index.expect("a wheel holds less than 2^32 handles")
    }
}

impl<H: Copy> Default for Wheel<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl Level {
    #[cold]
    fn empty() -> Box<Self> {
        Box::new(Self { heads: [NIL; SLOTS], occupied: [0; SLOTS / 64], first_ns: u64::MAX })
    }

    fn first_slot(&self) -> Option<usize> {
        let word = self.occupied.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    fn take(&mut self, digit: usize) -> u32 {
        self.occupied[digit / 64] &= !(1 << (digit % 64));
        core::mem::replace(&mut self.heads[digit], NIL)
    }
}

#[cfg(test)]
mod tests;
