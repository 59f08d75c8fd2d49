//! A timing wheel: handles with any release times, returned in order of time.
//!
//! Time is divided into slots of about eight microseconds. A future slot is a list, so adding a
//! handle costs the same for any number of handles; a slot is sorted to the nanosecond when it
//! becomes current. There are levels of 1024 slots, each level 1024 times coarser than the level
//! below. Together they cover a `u64` of nanoseconds:
//!
//! ```text
//!   release time   ... | 10 bits | 10 bits | 13 bits |
//!                       level 1:  level 0:  sorted
//!                       8 ms      8 us      when due
//! ```
//!
//! A handle is on the level of the highest digit in which its slot number differs from the current
//! slot number, as in Varghese and Lauck's hierarchical wheels (SOSP 1987). When time enters a slot
//! of a higher level, the handles of this slot are distributed over the lower levels.
//!
//! # Invariants
//! 1. `ready` and `late` hold the handles of slots up to `current`; the levels hold the handles of
//!    all later slots.
//! 2. `ready` is sorted, with the first handle to leave at its end; `late` holds handles pushed
//!    after their slot had become current. Of two handles with equal times, one in `ready` and one
//!    in `late`, the handle in `ready` was pushed first.
//! 3. A list is in push order: it gets handles from a list of a higher level before any handle is
//!    pushed to it directly.
//! 4. On each level, every slot that holds handles comes before all slots that hold handles on
//!    higher levels.
//!
//! Not for delays with which no handle overtakes another: [`DelayLine`] is cheaper.

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
    ready: Vec<WheelEntry<H>>,
    late: DelayLine<H>,
    /// Scratch space for sorting.
    spare: Vec<WheelEntry<H>>,
    /// Number of the slot that time has reached: the current slot.
    current: u64,
    levels: [Option<Box<WheelLevel<H>>>; LEVELS],
    /// Bit `n` is set if level `n` holds handles.
    busy: u32,
    len: usize,
}

/// Binary logarithm of the nanoseconds in a slot of level 0.
const SLOT_BITS: u32 = 13;
/// Binary logarithm of the number of slots in a level.
const DIGIT_BITS: u32 = 10;
const SLOTS: usize = 1 << DIGIT_BITS;
/// The number of levels needed to cover all slots.
const LEVELS: usize = (64 - SLOT_BITS).div_ceil(DIGIT_BITS) as usize;

impl<H: Copy> Wheel<H> {
    /// Makes an empty wheel. Levels are allocated when first used.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ready: Vec::new(),
            late: DelayLine::new(),
            spare: Vec::new(),
            current: 0,
            levels: [const { None }; LEVELS],
            busy: 0,
            len: 0,
        }
    }

    /// Adds `handle`, which leaves at `release_ns`.
    ///
    /// Constant time, unless `release_ns` is in the current slot or before it. Then the cost is the
    /// same as for [`DelayLine::push`].
    #[inline]
    pub fn push(&mut self, release_ns: u64, handle: H) {
        self.len += 1;
        if release_ns >> SLOT_BITS <= self.current {
            self.late.push(release_ns, handle);
        } else {
            self.file(WheelEntry { release_ns, handle });
        }
    }

    /// Removes the first handle if its release time is `now_ns` or earlier; otherwise returns
    /// `None`.
    #[inline]
    pub fn pop_due(&mut self, now_ns: u64) -> Option<H> {
        if self.ready.is_empty() && now_ns >> SLOT_BITS > self.current {
            self.advance(now_ns >> SLOT_BITS);
        }
        let near_ns = self.ready.last().map(|entry| entry.release_ns);
        let late_ns = self.late.next_release_ns();
        let handle = match (near_ns, late_ns) {
            (Some(near_ns), None) if near_ns <= now_ns => self.ready.pop()?.handle,
            (Some(near_ns), Some(late_ns)) if near_ns <= late_ns.min(now_ns) => {
                self.ready.pop()?.handle
            }
            _ => self.late.pop_due(now_ns)?,
        };
        self.len -= 1;
        Some(handle)
    }

    /// Release time of the first handle in ns, so that the caller can sleep until then; `None` if
    /// the wheel is empty.
    #[inline]
    #[must_use]
    pub fn next_release_ns(&self) -> Option<u64> {
        let near_ns = self.ready.last().map(|entry| entry.release_ns);
        let late_ns = self.late.next_release_ns();
        let soon_ns = near_ns.into_iter().chain(late_ns).min();
        soon_ns.or_else(|| {
            let level = self.levels.get(self.busy.trailing_zeros() as usize)?.as_ref()?;
            level.first_slot().map(|digit| level.lists[level.heads[digit] as usize].first_ns)
        })
    }

    /// How many handles are in the wheel.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the wheel is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Advances time to slot `target`, but stops earlier at the first slot that holds handles.
    fn advance(&mut self, target: u64) {
        while self.ready.is_empty() {
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
            self.current = start;
            let list = level.close(digit, &mut self.ready);
            self.busy &= !(u32::from(level.words == 0) << depth);
            if depth > 0 {
                self.spread(depth, list);
            }
            sort(&mut self.ready, &mut self.spare);
        }
    }

    /// Distributes the entries of list number `list` to lower levels. This list was just closed,
    /// and its entries are now in `ready`. Entries of the current slot stay in `ready`.
    fn spread(&mut self, depth: u32, list: u32) {
        let mut entries = core::mem::take(&mut self.ready);
        for entry in entries.drain(..) {
            if entry.release_ns >> SLOT_BITS == self.current {
                self.ready.push(entry);
            } else {
                self.file(entry);
            }
        }
        if let Some(level) = &mut self.levels[depth as usize] {
            level.lists[list as usize].entries = entries;
        }
    }

    /// Adds an entry to the list of its slot, which is in the future.
    #[inline]
    fn file(&mut self, entry: WheelEntry<H>) {
        let slot = entry.release_ns >> SLOT_BITS;
        let depth = (63 - (slot ^ self.current).leading_zeros()) / DIGIT_BITS;
        let digit = (slot >> (depth * DIGIT_BITS)) as usize % SLOTS;
        self.busy |= 1 << depth;
        self.levels[depth as usize].get_or_insert_with(WheelLevel::empty).file(digit, entry);
    }
}

impl<H: Copy> Default for Wheel<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Sorts the entries of one slot by descending time, so that `pop` returns the earliest entry.
/// Entries of equal times leave in the order in which they were added.
#[inline]
fn sort<H: Copy>(entries: &mut Vec<WheelEntry<H>>, spare: &mut Vec<WheelEntry<H>>) {
    match entries.len() {
        ..2 => {}
        2..=8 => rank::<H, 8>(entries, spare),
        9..=16 => rank::<H, 16>(entries, spare),
        17..=32 => rank::<H, 32>(entries, spare),
        _ => {
            distribute(entries, spare, 0);
            distribute(entries, spare, SLOT_BITS / 2);
            entries.reverse();
        }
    }
}

/// Sorts at most `N` entries by comparing each with all others. No branch depends on a comparison,
/// so none is mispredicted.
fn rank<H: Copy, const N: usize>(entries: &mut [WheelEntry<H>], spare: &mut Vec<WheelEntry<H>>) {
    const LAST: u64 = (1 << SLOT_BITS) - 1;
    // Keys are distinct, and later times have smaller keys. Unused elements are sorted last.
    let mut keys = [i32::MAX; N];
    for (index, (key, entry)) in keys.iter_mut().zip(&*entries).enumerate() {
        *key = ((!entry.release_ns & LAST) as i32) << 8 | (N - index) as i32;
    }
    spare.clear();
    spare.extend_from_slice(entries);
    for (entry, key) in spare.iter().zip(keys) {
        let rank: i32 = keys.iter().map(|other| i32::from(*other < key)).sum();
        entries[rank as usize] = *entry;
    }
}

/// Sorts by one digit of the release time within a slot. The digit starts at bit `shift`; entries
/// with equal digits keep their order.
fn distribute<H: Copy>(
    entries: &mut Vec<WheelEntry<H>>,
    spare: &mut Vec<WheelEntry<H>>,
    shift: u32,
) {
    const DIGITS: usize = 1 << SLOT_BITS.div_ceil(2);
    let digit = |entry: &WheelEntry<H>| (entry.release_ns >> shift) as usize % DIGITS;
    let mut offsets = [0u32; DIGITS];
    for entry in &*entries {
        offsets[digit(entry)] += 1;
    }
    let mut sum = 0;
    for offset in &mut offsets {
        sum += core::mem::replace(offset, sum);
    }
    spare.clear();
    spare.extend_from_slice(entries);
    for entry in &*entries {
        let offset = &mut offsets[digit(entry)];
        spare[*offset as usize] = *entry;
        *offset += 1;
    }
    core::mem::swap(entries, spare);
}

#[derive(Clone, Copy, Debug)]
struct WheelEntry<H> {
    release_ns: u64,
    handle: H,
}

/// The slots of one level, all of the same length. A slot has a list while it holds entries.
///
/// Closed lists are reused, the most recently closed one first, and keep their memory. So there are
/// never more lists than were in use at one time.
#[derive(Clone, Debug)]
struct WheelLevel<H> {
    heads: [u32; SLOTS],
    occupied: [u64; SLOTS / 64],
    /// Bit `n` is set if word `n` of `occupied` is not 0.
    words: u32,
    lists: Vec<WheelList<H>>,
    spare: Vec<u32>,
}

#[derive(Clone, Debug)]
struct WheelList<H> {
    first_ns: u64,
    entries: Vec<WheelEntry<H>>,
}

impl<H> WheelLevel<H> {
    #[cold]
    fn empty() -> Box<Self> {
        Box::new(Self {
            heads: [0; SLOTS],
            occupied: [0; SLOTS / 64],
            words: 0,
            lists: Vec::new(),
            spare: Vec::new(),
        })
    }

    fn first_slot(&self) -> Option<usize> {
        let word = self.words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied.get(word)?.trailing_zeros() as usize)
    }

    #[inline]
    fn file(&mut self, digit: usize, entry: WheelEntry<H>) {
        if self.occupied[digit / 64] >> (digit % 64) & 1 == 0 {
            self.open(digit);
        }
        let list = &mut self.lists[self.heads[digit] as usize];
        list.first_ns = list.first_ns.min(entry.release_ns);
        list.entries.push(entry);
    }

    fn open(&mut self, digit: usize) {
        self.occupied[digit / 64] |= 1 << (digit % 64);
        self.words |= 1 << (digit / 64);
        self.heads[digit] = self.spare.pop().unwrap_or_else(|| {
            self.lists.push(WheelList { first_ns: u64::MAX, entries: Vec::new() });
            self.lists.len() as u32 - 1
        });
    }

    /// Moves the entries of slot `digit` into `entries`, which is empty, and frees the slot's list;
    /// returns the index of the list.
    fn close(&mut self, digit: usize, entries: &mut Vec<WheelEntry<H>>) -> u32 {
        let word = &mut self.occupied[digit / 64];
        *word &= !(1 << (digit % 64));
        self.words &= !(u32::from(*word == 0) << (digit / 64));
        let list = self.heads[digit];
        self.spare.push(list);
        let closed = &mut self.lists[list as usize];
        closed.first_ns = u64::MAX;
        core::mem::swap(&mut closed.entries, entries);
        list
    }
}

#[cfg(test)]
mod tests;
