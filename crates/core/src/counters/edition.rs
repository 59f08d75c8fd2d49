//! How words of one moment are written and read without a lock, over any storage: what `loom` explores
//! is what runs.
//!
//! ```text
//!   publisher                                 reader
//!   edition := odd                            edition, even
//!   words, one by one              all words
//!   edition := next even one (Release)        edition again: the same, or everything is thrown away
//! ```

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word that one thread writes.
pub(super) trait PublishedWord {
    /// Writes it, and orders nothing.
    fn store_relaxed(&self, value: u64);
    /// Writes it after everything written so far.
    fn store_release(&self, value: u64);
    /// Orders all that was written before, for whoever sees what is written afterwards.
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

/// Publishes values together: `edition` is the last even one, and grows by two.
pub(super) fn publish_edition<'w, W: PublishedWord + 'w>(
    edition_word: &W,
    edition: &mut u64,
    values: impl IntoIterator<Item = (&'w W, u64)>,
) {
    edition_word.store_relaxed(*edition + 1);
    // Whoever sees a word of this edition sees that it has begun.
    W::release_fence();
    for (word, value) in values {
        word.store_relaxed(value);
    }
    *edition += 2;
    // Whoever sees that it has ended sees all of its words.
    edition_word.store_release(*edition);
}

/// What a reader reads from: words that change meanwhile.
pub(super) trait EditionSource {
    /// What is read at the beginning and at the end.
    type Head;
    /// Why nothing can be read.
    type Error;
    /// Reads the head. What was written before its edition is visible afterwards.
    fn head(&mut self) -> Result<Self::Head, Self::Error>;
    /// The edition that a head tells.
    fn edition_of(head: &Self::Head) -> u64;
    /// Reads all words, and keeps them.
    fn read_words(&mut self) -> Result<(), Self::Error>;
    /// Orders all that was read before what is read afterwards.
    fn acquire_fence();
}

/// Reads all words; the head that they belong to, or nothing if they were written meanwhile.
pub(super) fn read_edition<S: EditionSource>(source: &mut S) -> Result<Option<S::Head>, S::Error> {
    let before = source.head()?;
    if S::edition_of(&before) % 2 == 1 {
        return Ok(None);
    }
    source.read_words()?;
    // Pairs with the release fence in `publish_edition`: if a word is of a later edition, so is the
    // head that is read now.
    S::acquire_fence();
    let after = source.head()?;
    Ok((S::edition_of(&before) == S::edition_of(&after)).then_some(before))
}
