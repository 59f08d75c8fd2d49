//! Why a filter expression was turned down.

use alloc::string::String;

/// Why a filter expression was turned down. Columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The text does not follow the grammar.
    #[error("column {column}: expected {expected}, found {found}")]
    Syntax {
        /// Where, in characters from 1.
        column: usize,
        /// What could have stood there.
        expected: &'static str,
        /// What stands there, in backquotes, or `the end of the filter`.
        found: String,
    },
    /// The text is understood, but it means nothing here or lies outside this compiler.
    #[error("column {column}: `{text}`: {reason}")]
    Refused {
        /// Where, in characters from 1.
        column: usize,
        /// The word or value at fault.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Parentheses, operators or indexes are nested too deeply.
    #[error("column {column}: nested more than {limit} levels deep")]
    TooDeep {
        /// Where the limit was passed, in characters from 1.
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
    /// The compiled program has more instructions than a kernel takes.
    #[error("the filter needs {insns} instructions, more than the {limit} a program may have")]
    TooLong {
        /// Instructions needed.
        insns: usize,
        /// Instructions allowed.
        limit: usize,
    },
}

impl FilterError {
    /// The column at fault, in characters from 1, where one place can be named.
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
