//! The deduplication window and its verdicts.

use core::hash::Hasher;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::limits::{DedupLimitError, DedupLimits};
use crate::store::DedupStore;

/// The verdict on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupVerdict {
    /// The frame was not seen within the window, and is now remembered.
    Fresh,
    /// The frame was seen within the window.
    Duplicate,
    /// Hold mode only: the window is full. The caller must send the oldest frame
    /// ([`Dedup::oldest`], [`Dedup::release`]) and offer the new frame again.
    Full,
}

/// Counters of the frames offered. `frames = fresh + duplicates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DedupCounters {
    /// Number of frames offered, without those whose verdict was [`DedupVerdict::Full`].
    pub frames: u64,
    /// Bytes in these frames.
    pub bytes: u64,
    /// Frames that were not seen within the window.
    pub fresh: u64,
    /// Frames seen within the window.
    pub duplicates: u64,
    /// Bytes in the duplicates.
    pub duplicate_bytes: u64,
    /// Frames that left the window early because memory was full.
    pub forgotten_early: u64,
}

/// Remembers frames and recognizes copies.
///
/// ```
/// use slipring_dedup::{Dedup, DedupLimits, DedupVerdict};
///
/// let mut dedup = Dedup::new(DedupLimits { frames: None, ..DedupLimits::default() }, [1, 2])?;
/// assert_eq!(dedup.offer(0, b"frame"), DedupVerdict::Fresh);
/// assert_eq!(dedup.offer(50_000, b"frame"), DedupVerdict::Duplicate);
/// assert_eq!(dedup.offer(50_001, b"frame"), DedupVerdict::Fresh);
/// # Ok::<(), slipring_dedup::DedupLimitError>(())
/// ```
#[derive(Debug)]
pub struct Dedup {
    limits: DedupLimits,
    is_holding: bool,
    hasher: SipHasher13,
    store: DedupStore,
    /// The numbers of the stored frames, by the frames' hashes.
    numbers: HashTable<u64>,
    latest_ns: u64,
    counters: DedupCounters,
}

impl Dedup {
    /// Makes an empty window with `limits`; `secret` keys the hash and should be random.
    ///
    /// # Errors
    /// [`DedupLimitError`] if the limits are invalid.
    pub fn new(limits: DedupLimits, secret: [u64; 2]) -> Result<Self, DedupLimitError> {
        limits.check()?;
        Ok(Self {
            limits,
            is_holding: false,
            hasher: SipHasher13::new_with_keys(secret[0], secret[1]),
            store: DedupStore::default(),
            numbers: HashTable::new(),
            latest_ns: 0,
            counters: DedupCounters::default(),
        })
    }

    /// Enables hold mode: frames stay until the caller removes them with [`Self::release`].
    #[must_use]
    pub fn holding(self) -> Self {
        Self { is_holding: true, ..self }
    }

    /// Decides about a frame that arrived at `now_ns`. If this time is earlier than that of the
    /// previous call, the previous time is used.
    pub fn offer(&mut self, now_ns: u64, frame: &[u8]) -> DedupVerdict {
        self.latest_ns = self.latest_ns.max(now_ns);
        if !self.is_holding {
            self.forget_old();
        }
        let hash = self.hash(frame);
        if self.is_known(hash, frame) {
            self.count(frame);
            self.counters.duplicates += 1;
            self.counters.duplicate_bytes += frame.len() as u64;
            return DedupVerdict::Duplicate;
        }
        if !self.make_room(frame.len()) {
            return DedupVerdict::Full;
        }
        let number = self.store.push(hash, self.latest_ns, frame);
        let store = &self.store;
        let rehash = |&number: &u64| store.entry(number).map_or(0, |entry| entry.hash);
        self.numbers.insert_unique(hash, number, rehash);
        self.count(frame);
        self.counters.fresh += 1;
        DedupVerdict::Fresh
    }

    /// Returns the oldest frame if it has left the window by `now_ns`; `None` otherwise. In hold
    /// mode, this is the frame to send next.
    #[must_use]
    pub fn due(&self, now_ns: u64) -> Option<&[u8]> {
        let (_, entry) = self.store.oldest()?;
        (!self.is_within(now_ns.max(self.latest_ns), entry.arrival_ns))
            .then(|| self.store.frame(entry))
    }

    /// When the oldest frame leaves the window, in ns on the caller's clock; `None` if there are no
    /// frames or there is no time limit.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        let (_, entry) = self.store.oldest()?;
        Some(entry.arrival_ns.saturating_add(self.limits.window_ns?).saturating_add(1))
    }

    /// The oldest frame, even if it is still within the window.
    #[must_use]
    pub fn oldest(&self) -> Option<&[u8]> {
        self.store.oldest().map(|(_, entry)| self.store.frame(entry))
    }

    /// Forgets the oldest frame.
    pub fn release(&mut self) {
        let Some((number, entry)) = self.store.oldest() else { return };
        if let Ok(found) = self.numbers.find_entry(entry.hash, |&other| other == number) {
            found.remove();
        }
        self.store.pop();
    }

    /// The number of remembered frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns whether no frame is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.store.len() == 0
    }

    /// The counters of all frames.
    #[must_use]
    pub fn counters(&self) -> DedupCounters {
        self.counters
    }

    fn hash(&self, frame: &[u8]) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(frame);
        hasher.finish()
    }

    fn is_known(&self, hash: u64, frame: &[u8]) -> bool {
        let same = |&number: &u64| {
            self.store.entry(number).is_some_and(|entry| {
                entry.hash == hash
                    && self.is_within(self.latest_ns, entry.arrival_ns)
                    && self.store.frame(entry) == frame
            })
        };
        self.numbers.find(hash, same).is_some()
    }

    fn is_within(&self, now_ns: u64, arrival_ns: u64) -> bool {
        self.limits.window_ns.is_none_or(|window_ns| now_ns - arrival_ns <= window_ns)
    }

    fn forget_old(&mut self) {
        while self.due(self.latest_ns).is_some() {
            self.release();
        }
    }

    /// Makes space for one more frame; returns `false` if the caller must remove frames first.
    fn make_room(&mut self, len: usize) -> bool {
        loop {
            let crowded = self.limits.frames.is_some_and(|frames| self.store.len() >= frames);
            let heavy = self.store.len() > 0 && self.store.bytes() + len > self.limits.bytes;
            if !crowded && !heavy {
                return true;
            }
            if self.is_holding {
                return false;
            }
            self.counters.forgotten_early += u64::from(!crowded);
            self.release();
        }
    }

    fn count(&mut self, frame: &[u8]) {
        self.counters.frames += 1;
        self.counters.bytes += frame.len() as u64;
    }
}

#[cfg(test)]
mod tests;
