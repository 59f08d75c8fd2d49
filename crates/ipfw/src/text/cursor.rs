use alloc::format;
use alloc::string::String;

use super::error::{RuleTextError, is_unprintable};
use super::words::SourceWord;

/// A cursor over the words of a line.
#[derive(Clone)]
pub(super) struct WordCursor<'w> {
    words: &'w [SourceWord],
    at: usize,
    raw: &'w str,
    line: u32,
}

impl<'w> WordCursor<'w> {
    pub(super) fn new(words: &'w [SourceWord], raw: &'w str, line: u32) -> Self {
        Self { words, at: 0, raw, line }
    }

    pub(super) fn peek(&self) -> Option<&'w SourceWord> {
        self.words.get(self.at)
    }

    /// Returns the next word's text; empty at the end.
    pub(super) fn peek_text(&self) -> &'w str {
        self.peek().map_or("", |word| &word.text)
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns the next word, which must exist.
    pub(super) fn next(&mut self, expected: &str) -> Result<&'w SourceWord, RuleTextError> {
        let word = self.peek().ok_or_else(|| self.too_short(expected))?;
        self.at += 1;
        Ok(word)
    }

    /// Consumes the next word if it is `text`; returns whether it was.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.text == text);
        self.at += usize::from(found);
        found
    }

    pub(super) fn must_eat(&mut self, text: &str, expected: &str) -> Result<(), RuleTextError> {
        let word = self.next(expected)?;
        if word.text == text { Ok(()) } else { Err(RuleTextError::unexpected(word, expected)) }
    }

    /// Returns the error for a line that has too few words.
    pub(super) fn too_short(&self, expected: &str) -> RuleTextError {
        let text = String::new();
        let column = self.raw.trim_end().chars().count() as u32 + 1;
        let end = SourceWord { text, line: self.line, column, offset: self.raw.len() };
        RuleTextError::at(&end, "the line ends too early".into(), expected)
    }

    /// If the next word begins with `//`, consumes all words and returns the line after the `//`;
    /// otherwise returns `None`. Unprintable characters are replaced.
    pub(super) fn comment(&mut self) -> Option<String> {
        let word = self.peek().filter(|word| word.text.starts_with("//"))?;
        self.at = self.words.len();
        let comment = self.raw[word.offset + 2..].trim();
        Some(comment.replace(is_unprintable, "\u{fffd}"))
    }

    /// Returns the line as written, from `word` up to the first `#`; consumes all words.
    pub(super) fn rest_of_line(&mut self, word: &SourceWord) -> &'w str {
        self.at = self.words.len();
        let text = &self.raw[word.offset..];
        text.split('#').next().unwrap_or(text).trim_end()
    }

    /// Fails if any words are left.
    pub(super) fn end(&self) -> Result<(), RuleTextError> {
        self.peek().map_or(Ok(()), |word| {
            Err(RuleTextError::at(word, format!("`{}` is one word too many", word.text), "the end"))
        })
    }
}
