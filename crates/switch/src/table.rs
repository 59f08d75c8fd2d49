//! The address table, which maps addresses to ports.
//!
//! A bucket holds four addresses and is one cache line. An address that does not fit in its bucket
//! goes to the next one. The number of buckets doubles when five eighths of the slots are taken. A
//! slot records when its address was last seen, to within 17 ms. So the slot of a busy address is
//! written sixty times a second and not once per frame.
//!
//! # Invariants
//! 1. All buckets from the one that an address's hash selects up to, but not including, the one
//!    that holds the address are full.
//! 2. Each address is less than [`MAX_PROBES`] buckets after the one that its hash selects.
//!
//! An address that is too old counts as absent, although it still has a slot. [`MacTable::sweep`]
//! frees such slots a few at a time, unless new addresses take them first.

use alloc::vec;
use alloc::vec::Vec;

use slipring_wire::MacAddr;

use crate::port::SwitchPortId;

/// A tick is 2^24 ns, which is 16.8 ms. 32 bits of ticks last two years.
const TICK_SHIFT: u32 = 24;
/// Number of buckets in which [`MacTable::put`] looks for a free slot, starting at the one that the
/// hash selects.
const MAX_PROBES: usize = 32;
const MIN_BUCKETS: usize = 256;
/// Number of slots in a bucket.
const SLOTS_PER_BUCKET: usize = 4;
/// An address in a VLAN, with its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MacKey {
    pub(crate) key: u64,
    hash: u64,
}

/// Bit set in the key of a taken slot. It is above the address (48 bits) and the VLAN (12 bits).
const TAKEN_FLAG: u64 = 1 << 63;
/// Bit set in the port number of a static address, which neither ages nor moves.
const PINNED_FLAG: u32 = 1 << 31;

/// An address in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MacEntry {
    /// The MAC address.
    pub mac: MacAddr,
    /// The address's VLAN; 0 in a switch that is not VLAN-aware.
    pub vlan: u16,
    /// The port at which the address was seen or set.
    pub port: SwitchPortId,
    /// The time since the address was last seen, in ns, to within 17 ms.
    pub age_ns: u64,
    /// Whether the address is static: it neither ages nor moves.
    pub is_pinned: bool,
}

/// What [`MacTable::learn`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LearnOutcome {
    Known,
    New,
    Moved,
    Full,
}

/// One slot of a bucket: an address, its port, and when it was last seen.
#[derive(Debug, Clone, Copy, Default)]
struct MacSlot {
    /// [`TAKEN_FLAG`], the VLAN and the address; 0 if the slot is free.
    key: u64,
    port: u32,
    last_seen: u32,
}

/// Four addresses in one cache line. Taken slots come before free ones.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct MacBucket {
    keys: [u64; SLOTS_PER_BUCKET],
    ports: [u32; SLOTS_PER_BUCKET],
    last_seen: [u32; SLOTS_PER_BUCKET],
}

/// The location of a slot: its bucket, and its index in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MacSlotIndex {
    bucket: usize,
    slot: usize,
}

impl MacBucket {
    fn is_full(&self) -> bool {
        self.keys[SLOTS_PER_BUCKET - 1] != 0
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<usize> {
        // All four keys are compared, without branches, because the position of a key in its bucket
        // is unpredictable.
        let mask =
            (0..SLOTS_PER_BUCKET).fold(0, |mask, i| mask | u32::from(self.keys[i] == key) << i);
        (mask != 0).then(|| mask.trailing_zeros() as usize & (SLOTS_PER_BUCKET - 1))
    }

    fn slot(&self, at: usize) -> MacSlot {
        MacSlot { key: self.keys[at], port: self.ports[at], last_seen: self.last_seen[at] }
    }

    fn set(&mut self, at: usize, slot: MacSlot) {
        (self.keys[at], self.ports[at], self.last_seen[at]) = (slot.key, slot.port, slot.last_seen);
    }

    /// Adds an address to a bucket that is not full.
    fn push(&mut self, slot: MacSlot) {
        if let Some(at) = self.keys.iter().position(|&key| key == 0) {
            self.set(at, slot);
        }
    }

    /// Removes an address. The last address of the bucket moves to the free slot.
    fn remove(&mut self, at: usize) {
        let last = self.keys.iter().rposition(|&key| key != 0).unwrap_or(at);
        self.set(at, self.slot(last));
        self.set(last, MacSlot::default());
    }

    fn taken(&self) -> impl Iterator<Item = MacSlot> + '_ {
        (0..SLOTS_PER_BUCKET).map(|at| self.slot(at)).take_while(|slot| slot.key != 0)
    }
}

impl MacSlot {
    fn entry(&self, tick: u32) -> MacEntry {
        let age = tick.wrapping_sub(self.last_seen);
        MacEntry {
            mac: MacAddr::from_u64(self.key),
            vlan: (self.key >> 48) as u16 & 0xfff,
            port: SwitchPortId(self.port & !PINNED_FLAG),
            age_ns: if age > u32::MAX / 2 { 0 } else { u64::from(age) << TICK_SHIFT },
            is_pinned: self.port & PINNED_FLAG != 0,
        }
    }
}

/// A table of addresses with ageing.
#[derive(Debug)]
pub struct MacTable {
    buckets: Vec<MacBucket>,
    len: usize,
    limit: usize,
    /// Maximum age of an address in ticks; `u32::MAX` means that addresses do not age.
    max_age: u32,
    secret: [u64; 2],
    /// Index of the bucket where the next sweep starts.
    swept: usize,
}

/// Returns the table's key for an address in a VLAN.
#[inline(always)]
pub(crate) fn key_of(mac: u64, vlan: u16) -> u64 {
    mac | u64::from(vlan) << 48 | TAKEN_FLAG
}

/// Returns the tick in which `now_ns` is.
#[inline(always)]
pub(crate) fn tick_of(now_ns: u64) -> u32 {
    (now_ns >> TICK_SHIFT) as u32
}

impl MacTable {
    pub(crate) fn new(limit: usize, ageing_ns: Option<u64>, secret: [u64; 2]) -> Self {
        let buckets = vec![MacBucket::default(); MIN_BUCKETS];
        let mut table = Self { buckets, len: 0, limit, max_age: 0, secret, swept: 0 };
        table.set_ageing(ageing_ns);
        table
    }

    pub(crate) fn set_ageing(&mut self, ageing_ns: Option<u64>) {
        let ticks = ageing_ns.map(|ns| (ns >> TICK_SHIFT).max(1));
        self.max_age = ticks.map_or(u32::MAX, |ticks| ticks.min(u64::from(u32::MAX / 2)) as u32);
    }

    /// The number of addresses. It includes old addresses that have not been swept yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table holds no address, not even an old one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all addresses that are not too old, in no particular order.
    pub fn entries(&self, now_ns: u64) -> impl Iterator<Item = MacEntry> + '_ {
        let tick = tick_of(now_ns);
        let live = self.taken().filter(move |slot| self.is_live(slot.port, slot.last_seen, tick));
        live.map(move |slot| slot.entry(tick))
    }

    /// Returns a key with its hash.
    #[inline(always)]
    pub(crate) fn locate(&self, key: u64) -> MacKey {
        MacKey { key, hash: self.hash(key) }
    }

    /// Returns the port of an address; `None` if the address is unknown or too old.
    #[inline(always)]
    pub(crate) fn find(&self, key: MacKey, tick: u32) -> Option<u32> {
        let MacSlotIndex { bucket, slot } = self.position(key)?;
        let bucket = &self.buckets[bucket];
        let port = bucket.ports[slot];
        self.is_live(port, bucket.last_seen[slot], tick).then_some(port & !PINNED_FLAG)
    }

    /// Records that an address was seen at a port.
    #[inline(always)]
    pub(crate) fn learn(&mut self, key: MacKey, port: u32, tick: u32) -> LearnOutcome {
        if let Some(MacSlotIndex { bucket, slot }) = self.position(key) {
            let bucket = &self.buckets[bucket];
            if bucket.ports[slot] & !PINNED_FLAG == port && bucket.last_seen[slot] == tick {
                return LearnOutcome::Known;
            }
        }
        self.learn_slowly(key, port, tick)
    }

    /// Sets a static address; returns `false` if the table is full.
    pub(crate) fn pin(&mut self, key: u64, port: u32, tick: u32) -> bool {
        let slot = MacSlot { key, port: port | PINNED_FLAG, last_seen: tick };
        match self.position(self.locate(key)) {
            Some(at) => self.buckets[at.bucket].set(at.slot, slot),
            None => return self.insert(slot),
        }
        true
    }

    /// Forgets one address; returns whether the table held it, even if it was too old.
    pub(crate) fn remove(&mut self, key: u64) -> bool {
        let found = self.position(self.locate(key));
        if let Some(at) = found {
            self.free(at);
        }
        found.is_some()
    }

    /// Forgets the addresses for which `which` returns true, even old ones that were not swept yet.
    /// Returns how many addresses were forgotten.
    pub(crate) fn flush(&mut self, now_ns: u64, mut which: impl FnMut(&MacEntry) -> bool) -> usize {
        let tick = tick_of(now_ns);
        let picked = self.taken().filter(|slot| which(&slot.entry(tick)));
        let picked: Vec<u64> = picked.map(|slot| slot.key).collect();
        picked.iter().for_each(|&key| {
            self.remove(key);
        });
        picked.len()
    }

    /// Frees the slots of old addresses in the next `count` buckets.
    #[inline]
    pub(crate) fn sweep(&mut self, count: usize, tick: u32) {
        for _ in 0..count.min(self.buckets.len()) {
            let bucket = self.swept & self.mask();
            self.swept = bucket + 1;
            // Freeing a slot may move another old address from a later bucket to this one.
            while let Some(slot) = self.old_slot(bucket, tick) {
                self.free(MacSlotIndex { bucket, slot });
            }
        }
    }

    fn old_slot(&self, bucket: usize, tick: u32) -> Option<usize> {
        let bucket = &self.buckets[bucket];
        let is_live = |at: usize| self.is_live(bucket.ports[at], bucket.last_seen[at], tick);
        (0..SLOTS_PER_BUCKET).find(|&at| bucket.keys[at] != 0 && !is_live(at))
    }

    fn taken(&self) -> impl Iterator<Item = MacSlot> + '_ {
        self.buckets.iter().flat_map(MacBucket::taken)
    }

    #[inline(always)]
    fn is_live(&self, port: u32, seen: u32, tick: u32) -> bool {
        let age = tick.wrapping_sub(seen);
        // The clock of another thread may be behind the time in the slot. The age is then
        // negative, and the address counts as new.
        age <= self.max_age || age > u32::MAX / 2 || port & PINNED_FLAG != 0
    }

    #[inline(always)]
    fn position(&self, key: MacKey) -> Option<MacSlotIndex> {
        let mut at = key.hash as usize & self.mask();
        loop {
            let bucket = &self.buckets[at];
            if let Some(slot) = bucket.find(key.key) {
                return Some(MacSlotIndex { bucket: at, slot });
            }
            if !bucket.is_full() {
                return None;
            }
            at = (at + 1) & self.mask();
        }
    }

    #[cold]
    #[inline(never)]
    fn learn_slowly(&mut self, key: MacKey, port: u32, tick: u32) -> LearnOutcome {
        let fresh = MacSlot { key: key.key, port, last_seen: tick };
        let Some(at) = self.position(key) else {
            let fits = self.replace_old(fresh) || self.insert(fresh);
            return if fits { LearnOutcome::New } else { LearnOutcome::Full };
        };
        let old = self.buckets[at.bucket].slot(at.slot);
        if old.port & PINNED_FLAG != 0 {
            self.buckets[at.bucket].last_seen[at.slot] = tick;
            return LearnOutcome::Known;
        }
        self.buckets[at.bucket].set(at.slot, fresh);
        match (self.is_live(old.port, old.last_seen, tick), old.port == port) {
            (false, _) => LearnOutcome::New,
            (true, true) => LearnOutcome::Known,
            (true, false) => LearnOutcome::Moved,
        }
    }

    /// Replaces an old address in the first [`MAX_PROBES`] buckets of the probe path of `fresh`;
    /// returns `false` if these have no old address.
    fn replace_old(&mut self, fresh: MacSlot) -> bool {
        let home = self.home(fresh.key);
        for step in 0..MAX_PROBES {
            let at = (home + step) & self.mask();
            for slot in 0..SLOTS_PER_BUCKET {
                let MacSlot { key, port, last_seen: seen } = self.buckets[at].slot(slot);
                if key != 0 && !self.is_live(port, seen, fresh.last_seen) {
                    self.buckets[at].set(slot, fresh);
                    return true;
                }
            }
            if !self.buckets[at].is_full() {
                return false;
            }
        }
        false
    }

    /// Adds an address that is not in the table; returns `false` if the table is full.
    fn insert(&mut self, fresh: MacSlot) -> bool {
        if self.len >= self.limit {
            return false;
        }
        if self.len * 8 >= self.buckets.len() * SLOTS_PER_BUCKET * 5 {
            self.grow();
        }
        while !self.put(fresh) {
            self.grow();
        }
        self.len += 1;
        true
    }

    /// Writes an address to the first bucket on its probe path that is not full; returns `false` if
    /// all [`MAX_PROBES`] buckets are full.
    fn put(&mut self, slot: MacSlot) -> bool {
        let home = self.home(slot.key);
        let mut probe = (0..MAX_PROBES).map(|step| (home + step) & self.mask());
        let Some(at) = probe.find(|&at| !self.buckets[at].is_full()) else { return false };
        self.buckets[at].push(slot);
        true
    }

    /// Doubles the number of buckets, and doubles it again as long as an address fits no bucket
    /// within [`MAX_PROBES`].
    fn grow(&mut self) {
        let old: Vec<MacSlot> = self.taken().collect();
        let mut count = self.buckets.len();
        loop {
            count *= 2;
            self.buckets = vec![MacBucket::default(); count];
            if old.iter().all(|&slot| self.put(slot)) {
                break;
            }
        }
        self.swept = 0;
    }

    /// Frees a slot, and moves addresses into it that were put into later buckets only because this
    /// bucket was full.
    fn free(&mut self, at: MacSlotIndex) {
        self.len -= 1;
        let mut hole = at.bucket;
        let mut passes_on = self.buckets[hole].is_full();
        self.buckets[hole].remove(at.slot);
        let mut next = hole;
        while passes_on {
            next = (next + 1) & self.mask();
            passes_on = self.buckets[next].is_full();
            if let Some(slot) = self.displaced_entry(next, hole) {
                let moved = self.buckets[next].slot(slot);
                self.buckets[next].remove(slot);
                self.buckets[hole].push(moved);
                hole = next;
            }
        }
    }

    /// Returns the slot in bucket `from` whose address may move to bucket `hole`, because its probe
    /// path contains `hole`; `None` if there is none.
    fn displaced_entry(&self, from: usize, hole: usize) -> Option<usize> {
        let distance = |to: usize| from.wrapping_sub(to) & self.mask();
        let bucket = &self.buckets[from];
        let passed = |&at: &usize| {
            bucket.keys[at] != 0 && distance(self.home(bucket.keys[at])) >= distance(hole)
        };
        (0..SLOTS_PER_BUCKET).find(passed)
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.buckets.len() - 1
    }

    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        self.hash(key) as usize & self.mask()
    }

    /// Hashes a key by folding the two halves of a 128-bit product. A sender that does not know the
    /// secret cannot choose the bucket.
    #[inline(always)]
    fn hash(&self, key: u64) -> u64 {
        let product = u128::from(key ^ self.secret[0]) * u128::from(self.secret[1] | 1);
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests;
