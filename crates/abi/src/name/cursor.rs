//! A position in a name. It is used for parsing, and for the columns in errors.

use alloc::borrow::ToOwned;
use core::num::NonZeroU64;

use super::error::{PortNameError, PortNameFault};

/// A position in `input`. The characters before it have been parsed.
#[derive(Clone, Copy)]
pub(super) struct NameCursor<'a> {
    input: &'a str,
    /// Number of bytes that have been parsed. It is always a character boundary.
    pos: usize,
}

impl<'a> NameCursor<'a> {
    pub(super) fn new(input: &'a str) -> Self {
        Self { input, pos: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.input[self.pos..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Returns the column of the next character, counted in characters from 1.
    pub(super) fn column(&self) -> usize {
        self.input[..self.pos].chars().count() + 1
    }

    pub(super) fn bump(&mut self) {
        self.pos += self.peek().map_or(0, char::len_utf8);
    }

    pub(super) fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !accepts(c)).unwrap_or(rest.len());
        self.pos += end;
        &rest[..end]
    }

    /// Takes an identifier, which may be empty.
    pub(super) fn identifier(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Takes the next character of a text. A character of `ends` that is not doubled ends the text.
    /// A doubled character of `ends` stands for one such character in the text.
    pub(super) fn literal(&mut self, ends: &str) -> Option<char> {
        let c = self.peek()?;
        let mut next = *self;
        next.bump();
        if ends.contains(c) && !next.eat(c) {
            return None;
        }
        *self = next;
        Some(c)
    }

    /// Returns an error at the column of the next character.
    pub(super) fn fail<T>(&self, reason: PortNameFault) -> Result<T, PortNameError> {
        self.fail_at(self.column(), reason)
    }

    pub(super) fn fail_at<T>(
        &self,
        column: usize,
        reason: PortNameFault,
    ) -> Result<T, PortNameError> {
        Err(PortNameError { input: self.input.to_owned(), column, reason })
    }

    /// Returns an error which says that `what` was expected at this position.
    pub(super) fn expected<T>(&self, what: &'static str) -> Result<T, PortNameError> {
        let found = self.peek();
        self.fail(PortNameFault::Expected { what, found })
    }

    /// Takes a decimal number of at most `max`.
    pub(super) fn number<N>(&mut self, what: &'static str, max: N) -> Result<N, PortNameError>
    where
        N: TryFrom<u64> + Into<u64>,
    {
        let start = *self;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return self.expected(what);
        }
        let max = max.into();
        let number = digits.parse().ok().filter(|number| *number <= max);
        number
            .and_then(|number| N::try_from(number).ok())
            .map_or_else(|| start.fail(PortNameFault::NumberTooLarge { max }), Ok)
    }

    /// Takes a decimal number from 1 to `max`.
    pub(super) fn positive<N>(&mut self, what: &'static str, max: N) -> Result<N, PortNameError>
    where
        N: TryFrom<NonZeroU64> + Into<NonZeroU64>,
    {
        let start = *self;
        let max = max.into().get();
        let Some(number) = NonZeroU64::new(self.number(what, max)?) else {
            return start.fail(PortNameFault::Zero);
        };
        N::try_from(number).or_else(|_| start.fail(PortNameFault::NumberTooLarge { max }))
    }
}
