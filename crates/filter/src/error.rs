//! Errors in filter expressions.

use alloc::string::String;

/// Why a filter expression was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The text does not follow the grammar.
    #[error("column {column}: expected {expected}, found {found}")]
    Syntax {
        /// The column of the mistake, counted in characters from 1.
        column: usize,
        /// What is allowed at this position.
        expected: &'static str,
        /// The text at this position, in backquotes, or `the end of the filter`.
        found: String,
    },
    /// The text is valid in the language, but it has no meaning here, or this compiler does not
    /// support it.
    #[error("column {column}: `{text}`: {reason}")]
    Refused {
        /// The column of the mistake, counted in characters from 1.
        column: usize,
        /// The faulty word or value.
        text: String,
        /// Why the word or value is refused.
        reason: &'static str,
    },
    /// Parentheses, operators or indexes are nested too deeply.
    #[error("column {column}: nested more than {limit} levels deep")]
    TooDeep {
        /// The column at which the limit was exceeded, counted in characters from 1.
        column: usize,
        /// How many levels are allowed.
        limit: usize,
    },
    /// An arithmetic expression needs more scratch memory than a program has.
    #[error("an arithmetic expression needs more than {limit} intermediate values at once")]
    TooManyValues {
        /// How many memory slots there are.
        limit: usize,
    },
    /// The compiled program has more instructions than a kernel accepts.
    #[error("the filter needs {insns} instructions, more than the {limit} a program may have")]
    TooLong {
        /// How many instructions the filter needs.
        insns: usize,
        /// How many instructions a program may have.
        limit: usize,
    },
}

impl FilterError {
    /// Returns the column of the mistake, counted in characters from 1; `None` if the error is not
    /// at one position.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        match self {
            Self::Syntax { column, .. }
            | Self::Refused { column, .. }
            | Self::TooDeep { column, .. } => Some(*column),
            Self::TooManyValues { .. } | Self::TooLong { .. } => None,
        }
    }
}
