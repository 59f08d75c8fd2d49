//! The file format, word by word.

/// Identifies the format and its byte order.
pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"slipstat");
/// Incremented when a reader of the previous version would misread the file.
pub(super) const VERSION: u64 = 1;
/// Number of words before the text.
pub(super) const HEADER_WORDS: usize = 9;
/// Size of a word in bytes.
pub(super) const WORD_BYTES: usize = 8;
/// Maximum file size in bytes. This is space for the counters of far more than ten thousand
/// objects.
pub(super) const MAX_FILE_BYTES: u64 = 256 << 20;

/// Index of each header word.
pub(super) mod at {
    /// Index of [`super::MAGIC`].
    pub(crate) const MAGIC: usize = 0;
    /// Index of [`super::VERSION`].
    pub(crate) const VERSION: usize = 1;
    /// Size of the file in bytes.
    pub(crate) const LENGTH: usize = 2;
    /// Process id of the publisher.
    pub(crate) const PID: usize = 3;
    /// When publishing began, CLOCK_MONOTONIC in ns.
    pub(crate) const START: usize = 4;
    /// Length of the text in bytes, without padding of its last word.
    pub(crate) const TEXT: usize = 5;
    /// Number of words after the text.
    pub(crate) const WORDS: usize = 6;
    /// Twice the number of times that words were published; odd during an update.
    pub(crate) const SEQUENCE: usize = 7;
    /// Timestamp of the words, CLOCK_MONOTONIC in ns.
    pub(crate) const PUBLISHED: usize = 8;
}

/// The sizes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountersLayout {
    pub(super) text_bytes: usize,
    pub(super) words: usize,
}

impl CountersLayout {
    /// Reads the layout from a header; `None` if the header is invalid or does not fit a file of
    /// `length` bytes.
    pub(super) fn of_header(header: &[u64; HEADER_WORDS], length: u64) -> Option<Self> {
        let size = |word: usize| (header[word] <= MAX_FILE_BYTES).then_some(header[word] as usize);
        let shape = Self { text_bytes: size(at::TEXT)?, words: size(at::WORDS)? };
        let whole = header[at::LENGTH] == length && shape.length() == length;
        (whole && length <= MAX_FILE_BYTES).then_some(shape)
    }

    /// Index of the first word after the text.
    pub(super) fn first_word(self) -> usize {
        HEADER_WORDS + self.text_bytes.div_ceil(WORD_BYTES)
    }

    /// Number of words in the file.
    pub(super) fn all_words(self) -> usize {
        self.first_word() + self.words
    }

    /// Size of the file in bytes.
    pub(super) fn length(self) -> u64 {
        (self.all_words() * WORD_BYTES) as u64
    }
}

/// Splits the bytes of a file into words, ignoring an incomplete word at the end.
pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    words.iter().map(|word| u64::from_ne_bytes(*word))
}
