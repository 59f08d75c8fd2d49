//! QFQ: quick fair queueing (Checconi, Rizzo and Valente, 2013), whose cost per packet is constant.
//!
//! QFQ approximates WF2Q+ and differs from fair shares by at most a few packets. Queues are grouped
//! by the logarithm of lmax / weight, which is the longest virtual time that a packet of the queue
//! can take. Group g rounds virtual starts down to slots of length 2^g, and keeps its queues by
//! slot. Each group that has queues is in one of four sets, depending on its start, its finish and
//! the scheduler's virtual time V. The sets are stored as bit masks, so the next queue is found
//! with a few bit scans:
//!
//! | set | start of the group | earlier finish in a higher ready group |
//! |---|---|---|
//! | ready | not after V | no: the lowest group has the earliest finish |
//! | blocked | not after V | yes |
//! | ineligible | after V | no |
//! | blocked ineligible | after V | yes |
//!
//! # Invariants
//! 1. A group with queues is in exactly one of the sets. An empty group is in none.
//! 2. The finish times of the groups in `ready` increase with the number of the group.
//! 3. A group's start is a multiple of its slot length. Its finish is two slot lengths after its
//!    start.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::queue_share::{MAX_PACKET_LEN, QueueShare, grown};

/// Binary logarithm of the virtual time that a byte takes at weight 1. It is chosen so that a byte
/// takes at least 4096 units at any weight.
const FRACTION_BITS: u32 = 28;
/// When the virtual time V exceeds this value, all virtual times are reduced by the same amount.
const REBASE_THRESHOLD: u64 = 1 << 62;
/// Number of slots per group. `LAST_SLOT` is the last slot that gets queues, counted from the
/// group's start.
const SLOTS: u64 = 64;
const LAST_SLOT: u64 = SLOTS - 2;
const GROUPS: usize = 64;
const NO_QUEUE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Qfq {
    queues: Vec<QfqQueue>,
    groups: [Option<Box<QfqGroup>>; GROUPS],
    sets: [u64; 4],
    /// The virtual time V.
    now: u64,
    /// Sum of the weights of all queues, also of those without packets. If it counted only the
    /// queues with packets, V could overtake the finish times of queues that wait, and groups would
    /// no longer be ready in the order of their finish times.
    weights: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct QfqQueue {
    start: u64,
    finish: u64,
    weight: u32,
    lmax: u32,
    head_len: u32,
    group: u32,
    /// Index of the next queue in the same slot.
    next: u32,
    has_packets: bool,
}

#[derive(Clone, Debug)]
struct QfqGroup {
    start: u64,
    finish: u64,
    /// The slots that contain queues. Bit n stands for the slot at the index (`front` + n) modulo
    /// 64 in `heads`.
    full: u64,
    front: u64,
    heads: [u32; SLOTS as usize],
}

/// The indexes of the four sets. The two bits of an index are the properties "blocked" and
/// "ineligible".
const READY: usize = 0;
const INELIGIBLE: usize = 1;
const BLOCKED: usize = 2;
const BLOCKED_INELIGIBLE: usize = INELIGIBLE | BLOCKED;

impl Default for Qfq {
    fn default() -> Self {
        Self {
            queues: Vec::new(),
            groups: [const { None }; GROUPS],
            sets: [0; 4],
            now: 0,
            weights: 0,
        }
    }
}

impl QfqQueue {
    fn span(&self, len: u32) -> u64 {
        (u64::from(len.min(MAX_PACKET_LEN)) << FRACTION_BITS) / u64::from(self.weight)
    }

    /// Returns the number of the queue's group, which follows from its weight and `lmax`.
    fn home(&self) -> u32 {
        let longest = self.span(self.lmax.max(1));
        64 - longest.saturating_sub(1).leading_zeros()
    }
}

const fn round_down(time: u64, group: u32) -> u64 {
    time >> group << group
}

/// Returns the bits of `set` for `group` and all groups with higher numbers.
const fn bits_from(set: u64, group: u32) -> u64 {
    if group >= 64 { 0 } else { set >> group << group }
}

impl Qfq {
    pub(super) fn set(&mut self, index: u32, share: QueueShare) {
        let queue = grown(&mut self.queues, index);
        let (old, had_packets) = (u64::from(queue.weight), queue.has_packets);
        queue.weight = share.weight;
        queue.lmax = share.lmax;
        self.weights = self.weights + u64::from(share.weight) - old;
        if had_packets {
            self.rebuild();
        } else {
            queue.group = queue.home();
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        let queue = core::mem::take(grown(&mut self.queues, index));
        self.weights -= u64::from(queue.weight);
        if queue.has_packets {
            self.rebuild();
        }
    }

    pub(super) fn arrive(&mut self, index: u32, len: u32) {
        self.queues[index as usize].has_packets = true;
        self.activate(index, len);
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        let group = self.lowest(self.sets[READY])?;
        Some(group.heads[group.front as usize])
    }

    pub(super) fn sent(&mut self, index: u32, len: u32, next: Option<u32>) {
        let number = self.sets[READY].trailing_zeros();
        let before = self.now;
        self.now += (u64::from(len.min(MAX_PACKET_LEN)) << FRACTION_BITS) / self.weights.max(1);
        let queue = &mut self.queues[index as usize];
        queue.finish = queue.start + queue.span(len);
        if self.move_to_next_slot(index, number, next) {
            self.renew(number);
        }
        if next.is_none() {
            self.queues[index as usize].has_packets = false;
        } else if let Some(next) = next
            && self.queues[index as usize].group != number
        {
            // The new head is longer than all packets before it, so the queue moves to another
            // group.
            self.activate(index, next);
        }
        self.catch_up(before);
        if self.now > REBASE_THRESHOLD {
            self.rebase();
        }
    }

    /// Called after a packet of the queue at the head of group `number`'s first slot has left. If
    /// the slot of the queue's next packet, which has `next` bytes, is in the same group, moves the
    /// queue to that slot. Otherwise only removes the queue from the first slot. Returns false if
    /// the queue stays where it is, because both slots are the same.
    fn move_to_next_slot(&mut self, index: u32, number: u32, next: Option<u32>) -> bool {
        let queue = &mut self.queues[index as usize];
        let Some(group) = &mut self.groups[number as usize] else { return false };
        let start = queue.finish;
        let mut stays = false;
        if let Some(next) = next {
            queue.lmax = queue.lmax.max(next);
            queue.group = queue.home();
            stays = queue.group == number;
            if stays {
                queue.start = start;
                queue.finish = start + queue.span(next);
                queue.head_len = next;
                if round_down(start, number) == group.start {
                    return false;
                }
            }
        }
        let front = group.front as usize;
        group.heads[front] = queue.next;
        if group.heads[front] == NO_QUEUE {
            group.full &= !1;
        }
        if stays {
            insert(group, &mut self.queues, index, number);
        }
        true
    }

    /// Updates start, finish and set of group `number`. Its first slot may have become empty.
    fn renew(&mut self, number: u32) {
        let Some(group) = &mut self.groups[number as usize] else { return };
        let old_finish = group.finish;
        if group.full == 0 {
            self.sets[READY] &= !(1 << number);
        } else {
            let skip = group.full.trailing_zeros();
            if skip == 0 {
                return;
            }
            group.full >>= skip;
            group.front = (group.front + u64::from(skip)) % SLOTS;
            group.start += u64::from(skip) << number;
            group.finish = group.start + (2 << number);
            self.sets[READY] &= !(1 << number);
            self.file_group(number);
        }
        self.unblock(number, old_finish);
    }

    /// Puts group `number` into the set that its start and finish require.
    fn file_group(&mut self, number: u32) {
        let Some(group) = &self.groups[number as usize] else { return };
        let is_later = group.start > self.now;
        let is_blocked = self
            .lowest(bits_from(self.sets[READY], number))
            .is_some_and(|next| group.finish > next.finish);
        let set = usize::from(is_later) * INELIGIBLE + usize::from(is_blocked) * BLOCKED;
        self.sets[set] |= 1 << number;
    }

    /// Called after group `number`, whose finish was `old_finish`, has become empty or got a later
    /// finish. Unblocks the groups below it, unless a higher ready group finishes at or before
    /// `old_finish` and so still blocks them.
    fn unblock(&mut self, number: u32, old_finish: u64) {
        let above = self.lowest(bits_from(self.sets[READY], number + 1));
        if above.is_some_and(|next| next.finish <= old_finish) {
            return;
        }
        let below = (1u64 << number) - 1;
        self.move_groups(below, BLOCKED, READY);
        self.move_groups(below, BLOCKED_INELIGIBLE, INELIGIBLE);
    }

    /// Updates the sets after V has advanced from `before`. The groups whose start V has reached
    /// become eligible. If no group is ready, V first jumps to the start of the lowest ineligible
    /// group.
    fn catch_up(&mut self, before: u64) {
        let later = self.sets[INELIGIBLE] | self.sets[BLOCKED_INELIGIBLE];
        if later == 0 {
            return;
        }
        if self.sets[READY] == 0 {
            let first = self.lowest(later).map_or(0, |group| group.start);
            self.now = self.now.max(first);
        }
        let changed = self.now ^ before;
        if changed != 0 {
            // The start of a group g is a multiple of 2^g. V can have reached it only if bit g of V
            // or a higher bit has changed.
            let reached = u64::MAX >> changed.leading_zeros();
            self.move_groups(reached, INELIGIBLE, READY);
            self.move_groups(reached, BLOCKED_INELIGIBLE, BLOCKED);
        }
    }

    fn move_groups(&mut self, mask: u64, source: usize, target: usize) {
        let moved = self.sets[source] & mask;
        self.sets[source] &= !moved;
        self.sets[target] |= moved;
    }

    /// Returns the lowest group in `set`.
    #[inline]
    fn lowest(&self, set: u64) -> Option<&QfqGroup> {
        self.groups.get(set.trailing_zeros() as usize)?.as_deref()
    }

    /// Adds a queue that is in no slot. The packet at its head has `len` bytes.
    fn activate(&mut self, index: u32, len: u32) {
        let queue = &mut self.queues[index as usize];
        queue.lmax = queue.lmax.max(len);
        queue.group = queue.home();
        let (number, finish) = (queue.group, queue.finish);
        let start = self.fresh_start(number, finish);
        let queue = &mut self.queues[index as usize];
        queue.head_len = len;
        queue.start = start;
        queue.finish = start + queue.span(len);
        let rounded = round_down(start, number);
        let nobody_ready = self.sets[READY] == 0;
        let group = self.groups[number as usize].get_or_insert_with(QfqGroup::empty);
        let is_new = group.full == 0;
        if is_new || rounded < group.start {
            if is_new {
                if nobody_ready && rounded > self.now {
                    self.now = rounded;
                }
            } else {
                let back = ((group.start - rounded) >> number).min(SLOTS - 1);
                group.full <<= back;
                group.front = (group.front + SLOTS - back) % SLOTS;
                self.sets.iter_mut().for_each(|set| *set &= !(1 << number));
            }
            group.start = rounded;
            group.finish = rounded + (2 << number);
            insert(group, &mut self.queues, index, number);
            self.file_group(number);
        } else {
            insert(group, &mut self.queues, index, number);
        }
    }

    /// Returns the virtual start of a queue whose previous packet finished at `finish`. This is
    /// `finish`, unless `finish` is in the past or too far ahead. In those cases, the start is V or
    /// the time that the order of the sets requires.
    fn fresh_start(&self, number: u32, finish: u64) -> u64 {
        let limit = round_down(self.now, number) + (1 << number);
        let rounded = round_down(finish, number);
        if finish > self.now && rounded <= limit {
            return finish;
        }
        let next = self.lowest(bits_from(self.sets[READY], number));
        match next {
            Some(next) if rounded > next.finish => next.finish.min(limit).max(self.now),
            _ => self.now,
        }
    }

    /// Rebuilds all sets and groups after one of the rare changes for which they cannot be updated
    /// step by step.
    #[cold]
    fn rebuild(&mut self) {
        self.sets = [0; 4];
        self.groups.iter_mut().flatten().for_each(|group| **group = *QfqGroup::empty());
        for index in 0..self.queues.len() as u32 {
            let queue = &mut self.queues[index as usize];
            if queue.has_packets {
                queue.finish = queue.start;
                let len = queue.head_len;
                self.activate(index, len);
            }
        }
        self.catch_up(0);
    }

    /// Reduces all virtual times by the same amount, long before they could overflow.
    #[cold]
    fn rebase(&mut self) {
        // `base` is a multiple of the slot length of every group.
        let base = round_down(self.now - (REBASE_THRESHOLD >> 2), 56);
        self.now -= base;
        for queue in &mut self.queues {
            queue.start = queue.start.saturating_sub(base);
            queue.finish = queue.finish.saturating_sub(base);
        }
        for group in self.groups.iter_mut().flatten() {
            group.start = group.start.saturating_sub(base);
            group.finish = group.finish.saturating_sub(base);
        }
    }
}

/// Puts a queue into the slot of its group that contains the queue's start.
fn insert(group: &mut QfqGroup, queues: &mut [QfqQueue], index: u32, number: u32) {
    let queue = &mut queues[index as usize];
    let mut slot = round_down(queue.start, number).saturating_sub(group.start) >> number;
    if slot > LAST_SLOT {
        // The start is beyond the last slot. The queue is put into the last slot, and is served
        // slightly too early.
        let early = (slot - LAST_SLOT) << number;
        queue.start -= early;
        queue.finish -= early;
        slot = LAST_SLOT;
    }
    let at = ((group.front + slot) % SLOTS) as usize;
    let was_full = group.full >> slot & 1 == 1;
    queue.next = if was_full { group.heads[at] } else { NO_QUEUE };
    group.heads[at] = index;
    group.full |= 1 << slot;
}

impl QfqGroup {
    fn empty() -> Box<Self> {
        Box::new(Self { start: 0, finish: 0, full: 0, front: 0, heads: [NO_QUEUE; SLOTS as usize] })
    }
}
