//! The words of a command, one after another.

use alloc::format;
use alloc::string::String;

use super::error::ShaperTextError;

/// A word of a command, and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShaperWord<'t> {
    pub(super) text: &'t str,
    /// Column of the word's first character, counted from 1.
    pub(super) column: usize,
}

impl ShaperWord<'_> {
    pub(super) fn wrong(&self, expected: impl Into<String>) -> ShaperTextError {
        self.error(format!("unexpected `{}`", self.text), expected)
    }

    pub(super) fn error(
        &self,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> ShaperTextError {
        ShaperTextError { column: self.column, what: what.into(), expected: expected.into() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ShaperCursor<'t> {
    rest: &'t str,
    column: usize,
}

impl<'t> ShaperCursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        // A comment starts at `#`, so the command ends before it.
        let code = text.split_once('#').map_or(text, |(code, _)| code);
        Self { rest: code, column: 1 }
    }

    /// Takes the next word; `None` at the end of the command.
    pub(super) fn take(&mut self) -> Option<ShaperWord<'t>> {
        let start = self.rest.find(|c: char| !c.is_whitespace())?;
        let (blank, rest) = self.rest.split_at(start);
        let column = self.column + blank.chars().count();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (text, rest) = rest.split_at(end);
        self.column = column + text.chars().count();
        self.rest = rest;
        Some(ShaperWord { text, column })
    }

    pub(super) fn peek(&self) -> Option<ShaperWord<'t>> {
        self.clone().take()
    }

    /// Takes the next word. At the end of the command, returns an error that says what was
    /// `expected`.
    pub(super) fn next(&mut self, expected: &str) -> Result<ShaperWord<'t>, ShaperTextError> {
        let column = self.column;
        self.take().ok_or_else(|| ShaperTextError {
            column,
            what: "the command ends early".into(),
            expected: expected.into(),
        })
    }

    pub(super) fn end(&self) -> Result<(), ShaperTextError> {
        self.peek().map_or(Ok(()), |word| Err(word.wrong("the end of the command")))
    }
}
