//! The file, word by word.

/// "This is such a file", and in which byte order.
pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"slipstat");
/// Raised when a reader of the old version would misread.
pub(super) const VERSION: u64 = 1;
/// Words before the text.
pub(super) const HEADER_WORDS: usize = 9;
/// Bytes of a word.
pub(super) const WORD_BYTES: usize = 8;
/// Bytes of a whole file at most: some ten thousand objects.
pub(super) const MAX_FILE_BYTES: u64 = 256 << 20;

/// Where each word of the header stands.
pub(super) mod at {
    /// [`super::MAGIC`].
    pub(crate) const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub(crate) const VERSION: usize = 1;
    /// Bytes of the file.
    pub(crate) const LENGTH: usize = 2;
    /// Process number of the publisher.
    pub(crate) const PID: usize = 3;
    /// When publishing began, CLOCK_MONOTONIC in ns.
    pub(crate) const START: usize = 4;
    /// Bytes of the text, without what fills its last word up.
    pub(crate) const TEXT: usize = 5;
    /// Number of words behind the text.
    pub(crate) const WORDS: usize = 6;
    /// How often words were published, twice; odd in between.
    pub(crate) const EDITION: usize = 7;
    /// From when the words are, CLOCK_MONOTONIC in ns.
    pub(crate) const PUBLISHED: usize = 8;
}

/// The sizes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountersLayout {
    pub(super) text_bytes: usize,
    pub(super) words: usize,
}

impl CountersLayout {
    /// The shape that a header tells; `None` if it is not one, or not that of a file of `length`
    /// bytes.
    pub(super) fn of_header(header: &[u64; HEADER_WORDS], length: u64) -> Option<Self> {
        let size = |word: usize| (header[word] <= MAX_FILE_BYTES).then_some(header[word] as usize);
        let shape = Self { text_bytes: size(at::TEXT)?, words: size(at::WORDS)? };
        let whole = header[at::LENGTH] == length && shape.length() == length;
        (whole && length <= MAX_FILE_BYTES).then_some(shape)
    }

    /// The first word behind the text.
    pub(super) fn first_word(self) -> usize {
        HEADER_WORDS + self.text_bytes.div_ceil(WORD_BYTES)
    }

    /// All words of the file.
    pub(super) fn all_words(self) -> usize {
        self.first_word() + self.words
    }

    /// Bytes of the file.
    pub(super) fn length(self) -> u64 {
        (self.all_words() * WORD_BYTES) as u64
    }
}

/// Words out of the bytes of a file; what is left over at the end is no word.
pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    words.iter().map(|word| u64::from_ne_bytes(*word))
}
