//! Errors of commands.

use alloc::string::String;

/// The error in a command, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at column {column}; expected {expected}")]
pub struct ShaperTextError {
    /// Column in characters, from 1.
    pub column: usize,
    /// The error.
    pub what: String,
    /// What would be valid instead.
    pub expected: String,
}
