//! Maps every value of a 16-bit field to a number.

use alloc::boxed::Box;
use alloc::vec;

/// A table with one entry for each value. This is the fastest lookup, but takes 256 KiB.
#[derive(Clone, Debug)]
pub struct DirectTable(Box<[u32; 1 << 16]>);

impl DirectTable {
    /// Builds the table from ranges of values. Each element of `starts` is the first value of a
    /// range and the number of all values in it. The ranges ascend, and the first begins at 0.
    #[must_use]
    pub fn build(starts: &[(u16, u32)]) -> Self {
        let mut table = vec![0; 1 << 16];
        for (at, &(start, number)) in starts.iter().enumerate() {
            let end = starts.get(at + 1).map_or(1 << 16, |next| usize::from(next.0));
            table[usize::from(start)..end].fill(number);
        }
        Self(table.into_boxed_slice().try_into().expect("the length is 1 << 16"))
    }

    /// Returns the number of a value.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, value: u16) -> u32 {
        self.0[usize::from(value)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_the_number_of_the_last_start_before_it() {
        let table = DirectTable::build(&[(0, 7), (80, 1), (81, 7), (65535, 9)]);
        for (value, number) in [(0, 7), (79, 7), (80, 1), (81, 7), (65534, 7), (65535, 9)] {
            assert_eq!(table.get(value), number, "{value}");
        }
    }
}
