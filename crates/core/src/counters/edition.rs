//! Lock-free publishing and reading of consistent words, generic over their storage, so that `loom`
//! checks the code that runs.
//!
//! ```text
//!   publisher                                 reader
//!   edition := odd                            edition, even
//!   words, one by one              all words
//!   edition := next even one (Release)        edition again: the same, or everything is thrown away
//! ```

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word with a single writer.
pub(super) trait PublishedWord {
    /// Stores the value without ordering.
    fn store_relaxed(&self, value: u64);
    /// Stores the value with Release.
    fn store_release(&self, value: u64);
    /// Release fence.
    fn release_fence();
}

impl PublishedWord for AtomicU64 {
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

/// Publishes values together: `edition` is the last even edition, and grows by two.
pub(super) fn publish_edition<'w, W: PublishedWord + 'w>(
    edition_word: &W,
    edition: &mut u64,
    values: impl IntoIterator<Item = (&'w W, u64)>,
) {
    edition_word.store_relaxed(*edition + 1);
    // A reader that sees a word of this edition also sees the odd edition.
    W::release_fence();
    for (word, value) in values {
        word.store_relaxed(value);
    }
    *edition += 2;
    // A reader that sees the even edition also sees all of its words.
    edition_word.store_release(*edition);
}

/// A source of words that may change while they are read.
pub(super) trait EditionSource {
    /// Header data, read at the beginning and at the end.
    type Head;
    /// The error of a failed read.
    type Error;
    /// Reads the head (acquire).
    fn head(&mut self) -> Result<Self::Head, Self::Error>;
    /// The edition in a head.
    fn edition_of(head: &Self::Head) -> u64;
    /// Reads and stores all words.
    fn read_words(&mut self) -> Result<(), Self::Error>;
    /// Acquire fence.
    fn acquire_fence();
}

/// Reads all words; returns their head, or `None` if they were written meanwhile.
pub(super) fn read_edition<S: EditionSource>(source: &mut S) -> Result<Option<S::Head>, S::Error> {
    let before = source.head()?;
    if S::edition_of(&before) % 2 == 1 {
        return Ok(None);
    }
    source.read_words()?;
    // Pairs with the release fence in `publish_edition`: if a word is of a later edition, so is the
    // edition that is read now.
    S::acquire_fence();
    let after = source.head()?;
    Ok((S::edition_of(&before) == S::edition_of(&after)).then_some(before))
}
