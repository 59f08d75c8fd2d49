use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

use super::words::SourceWord;

/// Why a text is not a valid command, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}; expected {expected}")]
pub struct RuleTextError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The error.
    pub message: String,
    /// A description of valid text.
    pub expected: String,
    /// The kind of error.
    pub kind: RuleTextErrorKind,
}

/// Kinds of errors; they determine [`RuleTextError::exit_code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTextErrorKind {
    /// The command is missing or does not exist.
    Usage,
    /// The command is invalid.
    Data,
    /// An ipfw feature that is not available here.
    Refused,
}

impl RuleTextError {
    pub(super) fn at(word: &SourceWord, message: String, expected: &str) -> Self {
        Self {
            line: word.line,
            column: word.column,
            message: shortened(message),
            expected: expected.into(),
            kind: RuleTextErrorKind::Data,
        }
    }

    pub(super) fn unexpected(word: &SourceWord, expected: &str) -> Self {
        Self::at(word, format!("`{}` is not understood here", word.text), expected)
    }

    pub(super) fn refused(word: &SourceWord, why: &str) -> Self {
        let message = format!("`{}` is not available in this engine", word.text);
        Self { kind: RuleTextErrorKind::Refused, ..Self::at(word, message, why) }
    }

    pub(super) fn nothing(line: u32) -> Self {
        Self {
            line,
            column: 1,
            message: "nothing is asked for".into(),
            expected: "a command".into(),
            kind: RuleTextErrorKind::Usage,
        }
    }

    /// The exit code, which is 64 or 65, as ipfw uses the codes of sysexits(3).
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self.kind {
            RuleTextErrorKind::Usage => 64,
            RuleTextErrorKind::Data | RuleTextErrorKind::Refused => 65,
        }
    }
}

/// Returns whether a terminal would interpret a character instead of showing it: control characters
/// and marks that change the text direction.
pub(super) fn is_unprintable(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// Makes a text safe to quote in messages: escapes characters that a terminal would interpret.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return text.into();
    }
    let one = |c: char| if is_unprintable(c) { c.escape_unicode().to_string() } else { c.into() };
    text.chars().map(one).collect::<String>().into()
}

/// Makes a text printable for messages, and removes the middle of a text that is too long.
pub(crate) fn shortened(text: String) -> String {
    const HEAD: usize = 200;
    const TAIL: usize = 60;
    let text = match printable(&text) {
        Cow::Owned(escaped) => escaped,
        Cow::Borrowed(_) => text,
    };
    let chars = text.chars().count();
    if chars <= 2 * HEAD {
        return text;
    }
    let offset = |nth| text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at);
    format!("{}…{}", &text[..offset(HEAD)], &text[offset(chars - TAIL)..])
}
