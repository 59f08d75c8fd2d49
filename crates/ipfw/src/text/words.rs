//! Splits a line into words.
//!
//! Blanks separate words, except next to commas. Brackets around words are separate words; brackets
//! within a word, as in `table(x)` and `1.2.3.0/24{1,2}`, belong to that word. A word that begins
//! with `//` begins the comment, which the parser takes from the line. Before the comment, `#` ends
//! the line.

use alloc::string::String;
use alloc::vec::Vec;

/// A word and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceWord {
    pub(super) text: String,
    pub(super) line: u32,
    /// Column in characters, from 1.
    pub(super) column: u32,
    /// Offset in bytes from the start of the line.
    pub(super) offset: usize,
}

pub(super) fn split(text: &str, line: u32) -> Vec<SourceWord> {
    let mut splitter = WordSplitter { line, words: Vec::new(), glue: false, in_comment: false };
    let (mut column, mut offset) = (1, 0);
    for piece in text.split_inclusive(char::is_whitespace) {
        let raw = piece.trim_end_matches(char::is_whitespace);
        if !splitter.piece(raw, column, offset) {
            break;
        }
        column += piece.chars().count() as u32;
        offset += piece.len();
    }
    splitter.words
}

struct WordSplitter {
    line: u32,
    words: Vec<SourceWord>,
    /// Whether the last word ends in a comma, so that the next piece is appended to that word.
    glue: bool,
    in_comment: bool,
}

impl WordSplitter {
    /// Adds the words of `raw`, a piece of the line without blanks. Returns `false` if a `#` in
    /// this piece ends the line.
    fn piece(&mut self, raw: &str, column: u32, offset: usize) -> bool {
        let comment = self.in_comment || raw.starts_with("//");
        let (raw, ends) = match raw.find('#') {
            Some(at) if !comment => (&raw[..at], true),
            _ => (raw, false),
        };
        if !raw.is_empty() {
            self.add(raw, column, offset, comment);
        }
        !ends
    }

    fn add(&mut self, raw: &str, column: u32, offset: usize, comment: bool) {
        let joins = !comment && (self.glue || raw.starts_with(','));
        self.in_comment = comment;
        self.glue = !comment && raw.ends_with(',');
        match self.words.last_mut() {
            Some(last) if joins => {
                let (rest, closing) = split_closing(raw, surplus(&last.text));
                last.text.push_str(rest);
                self.close(closing, column + rest.chars().count() as u32, offset + rest.len());
            }
            _ if comment => self.push(raw, column, offset),
            _ => self.brackets(raw, column, offset),
        }
    }

    fn brackets(&mut self, raw: &str, column: u32, offset: usize) {
        let (mut raw, mut column, mut offset) = (raw, column, offset);
        while let Some(rest) = raw.strip_prefix(['{', '(']) {
            self.push(&raw[..1], column, offset);
            (raw, column, offset) = (rest, column + 1, offset + 1);
        }
        let (rest, closing) = split_closing(raw, 0);
        if !rest.is_empty() {
            self.push(rest, column, offset);
        }
        self.close(closing, column + rest.chars().count() as u32, offset + rest.len());
    }

    /// Adds each closing bracket as a word.
    fn close(&mut self, closing: &str, column: u32, offset: usize) {
        for at in 0..closing.len() {
            self.push(&closing[at..=at], column + at as u32, offset + at);
        }
    }

    fn push(&mut self, text: &str, column: u32, offset: usize) {
        self.words.push(SourceWord { text: text.into(), line: self.line, column, offset });
    }
}

/// Splits off the closing brackets at the end whose opening brackets are neither in this text nor
/// in the text before it. `before` is the [`surplus`] of the text before it.
fn split_closing(text: &str, before: i32) -> (&str, &str) {
    let mut at = text.len();
    while before + surplus(&text[..at]) > 0 && text[..at].ends_with(['}', ')']) {
        at -= 1;
    }
    text.split_at(at)
}

/// Returns the number of closing brackets minus the number of opening brackets.
fn surplus(text: &str) -> i32 {
    text.bytes().fold(0, |sum, byte| match byte {
        b'{' | b'(' => sum - 1,
        b'}' | b')' => sum + 1,
        _ => sum,
    })
}
