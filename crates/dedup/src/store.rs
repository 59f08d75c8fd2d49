//! The remembered frames, oldest first, with their bytes in one circular buffer.
//!
//! ```text
//!   buf  | newest |   free   | oldest | ... |  (unused) |
//!                 ^ tail     ^ offset of the oldest
//! ```
//! A frame is never split: if the space before the end of the buffer is too short, the frame starts
//! at 0.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A remembered frame without its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DedupEntry {
    pub(crate) hash: u64,
    pub(crate) arrival_ns: u64,
    offset: usize,
    len: usize,
}

/// The remembered frames, numbered in the order in which they were stored, from 0.
#[derive(Debug, Default)]
pub(crate) struct DedupStore {
    buf: Vec<u8>,
    tail: usize,
    entries: VecDeque<DedupEntry>,
    /// Number of the oldest entry.
    first: u64,
    bytes: usize,
}

impl DedupStore {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of bytes of all stored frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn entry(&self, number: u64) -> Option<&DedupEntry> {
        self.entries.get(number.checked_sub(self.first)? as usize)
    }

    pub(crate) fn frame(&self, entry: &DedupEntry) -> &[u8] {
        &self.buf[entry.offset..entry.offset + entry.len]
    }

    /// The oldest entry and its number.
    pub(crate) fn oldest(&self) -> Option<(u64, &DedupEntry)> {
        Some((self.first, self.entries.front()?))
    }

    /// Stores a frame; returns its number.
    pub(crate) fn push(&mut self, hash: u64, arrival_ns: u64, frame: &[u8]) -> u64 {
        let at = match self.find_space(frame.len()) {
            Some(at) => at,
            None => self.grow(frame.len()),
        };
        self.buf[at..at + frame.len()].copy_from_slice(frame);
        self.tail = at + frame.len();
        self.bytes += frame.len();
        self.entries.push_back(DedupEntry { hash, arrival_ns, offset: at, len: frame.len() });
        self.first + self.entries.len() as u64 - 1
    }

    /// Forgets the oldest frame.
    pub(crate) fn pop(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.len;
            self.first += 1;
        }
    }

    /// Returns an offset with `len` contiguous free bytes; `None` if there is none.
    fn find_space(&self, len: usize) -> Option<usize> {
        let Some(oldest) = self.entries.front() else {
            return (len <= self.buf.len()).then_some(0);
        };
        // Once `tail` has wrapped around the end of the buffer, it stays strictly below the oldest
        // frame's offset. So the two are equal only if no byte is stored.
        if self.tail < oldest.offset {
            return (self.tail + len < oldest.offset).then_some(self.tail);
        }
        if self.tail + len <= self.buf.len() {
            return Some(self.tail);
        }
        (len < oldest.offset).then_some(0)
    }

    /// Moves all frames to a buffer of at least twice the size; returns an offset with `len`
    /// free bytes.
    fn grow(&mut self, len: usize) -> usize {
        let mut buf = vec![0; (2 * self.buf.len()).max(self.bytes + 2 * len + 4096)];
        let mut at = 0;
        for entry in &mut self.entries {
            buf[at..at + entry.len]
                .copy_from_slice(&self.buf[entry.offset..entry.offset + entry.len]);
            entry.offset = at;
            at += entry.len;
        }
        self.buf = buf;
        self.tail = at;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(
            steps in prop::collection::vec(prop_oneof![(0usize..9000).prop_map(Some), Just(None)], 1..400)
        ) {
            let mut store = DedupStore::default();
            let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Some(len) => {
                        let frame: Vec<u8> = (0..len).map(|k| (k ^ i) as u8).collect();
                        model.push_back((store.push(7, 1, &frame), frame));
                    }
                    None => {
                        store.pop();
                        model.pop_front();
                    }
                }
                prop_assert_eq!(store.len(), model.len());
                prop_assert_eq!(store.bytes(), model.iter().map(|(_, frame)| frame.len()).sum::<usize>());
                for (number, frame) in &model {
                    prop_assert_eq!(store.frame(store.entry(*number).unwrap()), &frame[..]);
                }
            }
        }
    }

    #[test]
    fn a_steady_window_settles_in_one_buffer() {
        let mut store = DedupStore::default();
        for i in 0..100_000u64 {
            store.push(i, i, &[1; 1000]);
            if store.len() > 10 {
                store.pop();
            }
        }
        assert!(store.buf.len() < 40_000, "{}", store.buf.len());
    }
}
