//! Errors of commands.

use alloc::string::String;

/// What is wrong with a command, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at column {column}; expected {expected}")]
pub struct ShaperTextError {
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub expected: String,
}
