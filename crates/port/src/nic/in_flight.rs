//! Tracks which buffers the kernel has. The state is kept by buffer index, because the kernel
//! returns buffers in any order.

use slipring_ring::BufIdx;

/// The state of a buffer that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendState(u16);

impl SendState {
    const LEN_MASK: u16 = 0x1fff;
    const LAST_BIT: u16 = 1 << 13;
    const REFUSED_BIT: u16 = 1 << 14;
    const SPLIT_BIT: u16 = 1 << 15;

    /// Creates the state of a slot of `len` bytes, 1 to 8191. `last` is true if it is the last slot
    /// of its packet, `split` if it is sent in two descriptors.
    #[inline(always)]
    pub(crate) fn new(len: u16, last: bool, split: bool) -> Self {
        let last = if last { Self::LAST_BIT } else { 0 };
        let split = if split { Self::SPLIT_BIT } else { 0 };
        Self(len & Self::LEN_MASK | last | split)
    }

    /// Length of the slot, in bytes.
    #[inline(always)]
    pub(crate) fn len(self) -> u16 {
        self.0 & Self::LEN_MASK
    }

    /// Returns whether the slot is the last of its packet.
    #[inline(always)]
    pub(crate) fn is_last(self) -> bool {
        self.0 & Self::LAST_BIT != 0
    }

    /// Returns whether the kernel reported that it dropped the packet.
    #[inline(always)]
    pub(crate) fn is_refused(self) -> bool {
        self.0 & Self::REFUSED_BIT != 0
    }
}

/// Buffers that are being sent.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// The state of each buffer, by buffer index; 0 for buffers that are not in flight.
    entries: Box<[u16]>,
}

impl InFlight {
    pub(crate) fn new(num_bufs: u32) -> Self {
        Self { entries: vec![0; num_bufs as usize].into() }
    }

    /// Adds a buffer. Returns false if it is in flight already, or does not exist.
    #[inline(always)]
    pub(crate) fn start(&mut self, BufIdx(buf): BufIdx, sending: SendState) -> bool {
        match self.entries.get_mut(buf as usize) {
            Some(entry @ 0) => {
                *entry = sending.0;
                true
            }
            _ => false,
        }
    }

    /// Returns whether a buffer is in flight.
    pub(crate) fn has(&self, BufIdx(buf): BufIdx) -> bool {
        self.entries.get(buf as usize).is_some_and(|&entry| entry != 0)
    }

    /// Records that the kernel has completed one part of a buffer. Returns the buffer's state once
    /// all its parts are complete, `None` before that. Returns an error if the buffer was not in
    /// flight.
    #[inline(always)]
    pub(crate) fn complete(
        &mut self,
        BufIdx(buf): BufIdx,
    ) -> Result<Option<SendState>, StrayCompletion> {
        match self.entries.get_mut(buf as usize) {
            None | Some(0) => Err(StrayCompletion),
            Some(entry) if *entry & SendState::SPLIT_BIT != 0 => {
                *entry &= !SendState::SPLIT_BIT;
                Ok(None)
            }
            Some(entry) => Ok(Some(SendState(std::mem::take(entry)))),
        }
    }

    /// Marks a buffer's packet as dropped by the kernel.
    pub(crate) fn refuse(&mut self, BufIdx(buf): BufIdx) {
        if let Some(entry) = self.entries.get_mut(buf as usize).filter(|entry| **entry != 0) {
            *entry |= SendState::REFUSED_BIT;
        }
    }

    /// Removes and returns all buffers.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = BufIdx> + '_ {
        let taken = self.entries.iter_mut().enumerate();
        taken.filter_map(|(i, entry)| (std::mem::take(entry) != 0).then_some(BufIdx(i as u32)))
    }
}

/// The kernel has completed a buffer that was not in flight: a late or repeated completion, or a
/// buffer that is not the port's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StrayCompletion;

/// Buffers that the kernel may receive into.
#[derive(Debug)]
pub(crate) struct PostedBufs {
    bits: Box<[u64]>,
}

impl PostedBufs {
    pub(crate) fn new(num_bufs: u32) -> Self {
        Self { bits: vec![0; (num_bufs as usize).div_ceil(64)].into() }
    }

    #[inline(always)]
    fn bit(&mut self, BufIdx(buf): BufIdx) -> Option<(&mut u64, u64)> {
        Some((self.bits.get_mut((buf / 64) as usize)?, 1 << (buf % 64)))
    }

    /// Adds a buffer. Returns false if it is posted already, or if its index is beyond the bitmap,
    /// whose size is the number of buffers, rounded up to a multiple of 64.
    #[inline(always)]
    pub(crate) fn add(&mut self, buf: BufIdx) -> bool {
        self.bit(buf).is_some_and(|(word, bit)| {
            let new = *word & bit == 0;
            *word |= bit;
            new
        })
    }

    /// Removes a buffer. Returns false if it was not posted.
    #[inline(always)]
    pub(crate) fn remove(&mut self, buf: BufIdx) -> bool {
        self.bit(buf).is_some_and(|(word, bit)| {
            let had = *word & bit != 0;
            *word &= !bit;
            had
        })
    }

    /// Removes and returns all buffers.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = BufIdx> + '_ {
        self.bits.iter_mut().enumerate().flat_map(|(i, word)| {
            let bits = std::mem::take(word);
            (0..64)
                .filter(move |bit| bits >> bit & 1 != 0)
                .map(move |bit| BufIdx(i as u32 * 64 + bit))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_split_buffer_is_done_when_both_parts_are() {
        let mut flight = InFlight::new(8);
        assert!(flight.start(BufIdx(3), SendState::new(2048, true, true)));
        assert!(!flight.start(BufIdx(3), SendState::new(1, true, false)));
        assert_eq!(flight.complete(BufIdx(3)), Ok(None));
        let done = flight.complete(BufIdx(3)).unwrap().unwrap();
        assert_eq!((done.len(), done.is_last(), done.is_refused()), (2048, true, false));
        assert_eq!(flight.complete(BufIdx(3)), Err(StrayCompletion));
        assert_eq!(flight.complete(BufIdx(99)), Err(StrayCompletion));
    }

    #[test]
    fn a_refusal_shows_at_completion_and_leaves_others_alone() {
        let mut flight = InFlight::new(4);
        flight.start(BufIdx(2), SendState::new(60, false, false));
        flight.refuse(BufIdx(2));
        flight.refuse(BufIdx(3));
        assert!(flight.complete(BufIdx(2)).unwrap().unwrap().is_refused());
        assert_eq!(flight.complete(BufIdx(3)), Err(StrayCompletion));
    }

    proptest! {
        #[test]
        fn posted_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..200), 0..300)) {
            let mut posted = PostedBufs::new(190);
            let mut model = BTreeSet::new();
            for (add, buf) in steps {
                let expected = match add {
                    // The bitmap is rounded up to whole words, so it has bits for 192 buffers.
                    true => buf < 192 && model.insert(buf),
                    false => model.remove(&buf),
                };
                let found = if add { posted.add(BufIdx(buf)) } else { posted.remove(BufIdx(buf)) };
                prop_assert_eq!(found, expected);
            }
            let drained: Vec<u32> = posted.drain().map(|buf| buf.0).collect();
            prop_assert_eq!(drained, model.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(posted.drain().count(), 0);
        }
    }
}
