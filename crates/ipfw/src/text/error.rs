use alloc::format;
use alloc::string::String;

use super::words::Word;

/// Why a text is no command, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}; expected {expected}")]
pub struct TextError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub expected: String,
    /// What sort of mistake it is.
    pub kind: TextErrorKind,
}

/// Sorts of mistakes, which have exit codes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextErrorKind {
    /// No such command.
    Usage,
    /// A command with a mistake in it.
    Data,
    /// Something that ipfw has and that has no meaning here.
    Refused,
}

impl TextError {
    pub(super) fn at(word: &Word, message: String, expected: &str) -> Self {
        Self {
            line: word.line,
            column: word.column,
            message: shortened(message),
            expected: expected.into(),
            kind: TextErrorKind::Data,
        }
    }

    pub(super) fn unexpected(word: &Word, expected: &str) -> Self {
        Self::at(word, format!("`{}` is not understood here", word.text), expected)
    }

    pub(super) fn refused(word: &Word, why: &str) -> Self {
        let message = format!("`{}` is not available in this engine", word.text);
        Self { kind: TextErrorKind::Refused, ..Self::at(word, message, why) }
    }

    pub(super) fn nothing(line: u32) -> Self {
        Self {
            line,
            column: 1,
            message: "nothing is asked for".into(),
            expected: "a command".into(),
            kind: TextErrorKind::Usage,
        }
    }

    /// The exit code of sysexits(3) that ipfw gives: 64 or 65.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self.kind {
            TextErrorKind::Usage => 64,
            TextErrorKind::Data | TextErrorKind::Refused => 65,
        }
    }
}

/// What messages quote, without the middle of what is absurdly long.
pub(crate) fn shortened(text: String) -> String {
    const HEAD: usize = 200;
    const TAIL: usize = 60;
    let chars = text.chars().count();
    if chars <= 2 * HEAD {
        return text;
    }
    let place = |nth| text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at);
    format!("{}…{}", &text[..place(HEAD)], &text[place(chars - TAIL)..])
}
