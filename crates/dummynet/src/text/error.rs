//! The error in an invalid command.

use alloc::string::String;

/// What is wrong in a command, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at column {column}; expected {expected}")]
pub struct ShaperTextError {
    /// Column of the mistake, counted in characters from 1.
    pub column: usize,
    /// What is wrong, in words.
    pub what: String,
    /// What would be valid at this position, in words.
    pub expected: String,
}
