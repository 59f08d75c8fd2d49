//! All codes, and the lookup of a code.

use std::str::FromStr;

use super::entry::{CodeEntry, ErrorCode};
use crate::{Diagnose, Exit};

/// Returns the entries of all codes, in ascending order of the codes.
pub fn entries() -> impl Iterator<Item = &'static CodeEntry> {
    [
        super::usage::ENTRIES,
        super::opening::ENTRIES,
        super::files::ENTRIES,
        super::machine::ENTRIES,
        super::running::ENTRIES,
    ]
    .into_iter()
    .flatten()
}

impl ErrorCode {
    /// Returns the entry of this code.
    ///
    /// # Panics
    /// Never: the table's macro defines a code together with its entry.
    #[must_use]
    pub fn entry(self) -> &'static CodeEntry {
        entries().find(|entry| entry.code == self).expect("a code is made together with its entry")
    }

    /// Returns the exit status of a command that fails with this code.
    #[must_use]
    pub fn exit(self) -> Exit {
        self.entry().exit
    }
}

/// The error for a text that is not a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCode(String);

impl FromStr for ErrorCode {
    type Err = UnknownCode;

    /// Parses `SR0107`, in upper or lower case, and the bare number `107`.
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let upper = text.to_ascii_uppercase();
        let digits = upper.strip_prefix("SR").unwrap_or(&upper);
        let number = digits.parse().ok();
        entries()
            .map(|entry| entry.code)
            .find(|code| Some(code.0) == number)
            .ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

impl Diagnose for UnknownCode {
    fn code(&self) -> ErrorCode {
        super::SR0008
    }

    fn summary(&self) -> String {
        format!("`{}` is not an error code", self.0)
    }

    fn cause(&self) -> Option<String> {
        Some("codes are SR and four digits, and this is none of those there are".to_owned())
    }

    fn help(&self) -> Option<String> {
        Some("list them all: slipring explain".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_rise_strictly_so_none_is_given_twice() {
        let codes: Vec<_> = entries().map(|entry| entry.code).collect();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn every_entry_has_a_text_that_ends_lines_before_column_100() {
        for entry in entries() {
            let text = entry.to_string();
            for line in text.lines() {
                assert!(line.len() <= 100, "{}: {line}", entry.code);
            }
            assert!(!entry.title.ends_with('.'), "{}", entry.code);
        }
    }

    #[test]
    fn only_a_failed_expectation_exits_1_and_no_error_exits_0() {
        for entry in entries() {
            assert_ne!(entry.exit, Exit::Done, "{}", entry.code);
            let expected = entry.code == super::super::SR0404;
            assert_eq!(entry.exit == Exit::Expectation, expected);
        }
    }

    #[test]
    fn a_code_is_found_by_its_name_in_any_case_and_by_its_number() {
        for text in ["SR0107", "sr0107", "0107", "107"] {
            assert_eq!(text.parse(), Ok(super::super::SR0107), "{text}");
        }
        for text in ["SR9999", "", "SR", "x", "-1"] {
            assert_eq!(text.parse::<ErrorCode>(), Err(UnknownCode(text.to_owned())));
        }
    }
}
