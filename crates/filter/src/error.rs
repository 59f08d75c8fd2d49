//! Errors in filter expressions.

use alloc::string::String;

/// Why a filter expression was rejected. Columns are counted in characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The text does not follow the grammar.
    #[error("column {column}: expected {expected}, found {found}")]
    Syntax {
        /// The column, in characters from 1.
        column: usize,
        /// What is allowed at that position.
        expected: &'static str,
        /// The text found there, in backquotes, or `the end of the filter`.
        found: String,
    },
    /// The text is valid in the language, but has no meaning here or is not supported by this
    /// compiler.
    #[error("column {column}: `{text}`: {reason}")]
    Refused {
        /// The column, in characters from 1.
        column: usize,
        /// The faulty word or value.
        text: String,
        /// The reason for the refusal.
        reason: &'static str,
    },
    /// Parentheses, operators or indexes are nested too deeply.
    #[error("column {column}: nested more than {limit} levels deep")]
    TooDeep {
        /// Where the limit was exceeded, in characters from 1.
        column: usize,
        /// The number of levels allowed.
        limit: usize,
    },
    /// An arithmetic expression needs more scratch memory than a program has.
    #[error("an arithmetic expression needs more than {limit} intermediate values at once")]
    TooManyValues {
        /// The number of memory slots.
        limit: usize,
    },
    /// The compiled program has more instructions than a kernel accepts.
    #[error("the filter needs {insns} instructions, more than the {limit} a program may have")]
    TooLong {
        /// Instructions needed.
        insns: usize,
        /// Instructions allowed.
        limit: usize,
    },
}

impl FilterError {
    /// The faulty column, in characters from 1, if the error is at one position.
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
