//! Distribution tables in netem's `.dist` format.

use alloc::format;
use alloc::vec::Vec;

use super::{FormatError, words};

/// Maximum number of entries in a table. netem's tools accept no larger tables.
const MAX_ENTRIES: usize = 16_384;

const ALLOWED: &str = "whole numbers from -32768 to 32767, up to 16384 of them";

/// Reads a netem table: the inverse of a distribution function, at equal steps of the probability.
/// Entries are distances from the mean, in units of 1/8192 of a standard deviation. `#` starts a
/// comment.
///
/// # Errors
/// Returns an error if a word is not a 16-bit integer, or there are no entries or too many.
pub fn netem_table(text: &str) -> Result<Vec<i16>, FormatError> {
    let mut table = Vec::new();
    for word in words(text) {
        if table.len() == MAX_ENTRIES {
            return Err(word.error(format!("more than {MAX_ENTRIES} entries"), ALLOWED));
        }
        let entry = word.text.parse();
        table.push(entry.map_err(|_| word.error(format!("`{}` is no entry", word.text), ALLOWED))?);
    }
    if table.is_empty() {
        return Err(FormatError::new(1, 1, "the table is empty", ALLOWED));
    }
    Ok(table)
}
