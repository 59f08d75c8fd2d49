//! Errors of commands.

use alloc::string::String;

/// The error in a command, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at column {column}; expected {expected}")]
pub struct ShaperTextError {
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong, in words.
    pub what: String,
    /// What would be valid at this position, in words.
    pub expected: String,
}
