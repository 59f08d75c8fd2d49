//! A seqlock: lock-free publishing and reading of consistent words, generic over their storage, so
//! that `loom` checks the code that runs.
//!
//! ```text
//!   publisher                             reader
//!   sets sequence to the next odd one     reads sequence; must be even
//!   stores the words one by one           reads all words
//!   sets sequence to the next even one    reads sequence again; discards the words if it has
//!     (Release)                             changed
//! ```

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word with a single writer.
pub(super) trait SeqlockWord {
    /// Stores the value without ordering.
    fn store_relaxed(&self, value: u64);
    /// Stores the value with Release.
    fn store_release(&self, value: u64);
    /// Release fence.
    fn release_fence();
}

impl SeqlockWord for AtomicU64 {
    fn store_relaxed(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }

    fn store_release(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn release_fence() {
        fence(Ordering::Release);
    }
}

/// Publishes values together. `sequence` is the last even sequence number; this call increases it
/// by two.
pub(super) fn seqlock_write<'w, W: SeqlockWord + 'w>(
    sequence_word: &W,
    sequence: &mut u64,
    values: impl IntoIterator<Item = (&'w W, u64)>,
) {
    sequence_word.store_relaxed(*sequence + 1);
    // A reader that sees a word of this publication also sees the odd number, or a later number.
    W::release_fence();
    for (word, value) in values {
        word.store_relaxed(value);
    }
    *sequence += 2;
    // A reader that sees the even number also sees all words published with it.
    sequence_word.store_release(*sequence);
}

/// A source of words that may change while they are read.
pub(super) trait SeqlockSource {
    /// Header data, read at the beginning and at the end.
    type Head;
    /// The error of a failed read.
    type Error;
    /// Reads the head (acquire).
    fn head(&mut self) -> Result<Self::Head, Self::Error>;
    /// The sequence number in a head.
    fn sequence_of(head: &Self::Head) -> u64;
    /// Reads all words and keeps them in `self`.
    fn read_words(&mut self) -> Result<(), Self::Error>;
    /// Acquire fence.
    fn acquire_fence();
}

/// Reads all words; returns the header data read before them, or `None` if words were written
/// meanwhile.
pub(super) fn seqlock_read<S: SeqlockSource>(source: &mut S) -> Result<Option<S::Head>, S::Error> {
    let before = source.head()?;
    if S::sequence_of(&before) % 2 == 1 {
        return Ok(None);
    }
    source.read_words()?;
    // Pairs with the release fence in `seqlock_write`: if a word read above is of a later
    // publication, the sequence number that is read now is also later.
    S::acquire_fence();
    let after = source.head()?;
    Ok((S::sequence_of(&before) == S::sequence_of(&after)).then_some(before))
}
