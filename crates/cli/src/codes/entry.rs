//! Error codes, their entries, and the lookup of a code by its text.

use std::fmt;
use std::str::FromStr;

use crate::{Diagnose, Exit};

/// A stable error code, printed as `SR0107`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(u16);

/// The general explanation of one code, independent of the case at hand.
#[derive(Debug)]
pub struct CodeEntry {
    /// The code.
    pub code: ErrorCode,
    /// The exit status of a command that fails with it.
    pub exit: Exit,
    /// Title: one line, lower case, without a full stop.
    pub title: &'static str,
    /// Why it happens.
    pub cause: &'static str,
    /// What to try.
    pub remedy: &'static str,
    /// Commands that show or fix the problem.
    pub example: &'static str,
}

/// Returns every entry, in ascending order of codes.
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
    /// Parses the name of a constant: `SR` and digits.
    pub(super) const fn named(name: &str) -> Self {
        let digits = name.as_bytes();
        let mut number = 0;
        let mut at = 2;
        while at < digits.len() {
            number = number * 10 + (digits[at] - b'0') as u16;
            at += 1;
        }
        Self(number)
    }

    /// Returns the entry of this code.
    ///
    /// # Panics
    /// Never: the table macro makes a code and its entry together.
    #[must_use]
    pub fn entry(self) -> &'static CodeEntry {
        entries().find(|entry| entry.code == self).expect("a code is made together with its entry")
    }

    /// The exit status of a command that fails with this code.
    #[must_use]
    pub fn exit(self) -> Exit {
        self.entry().exit
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SR{:04}", self.0)
    }
}

/// The text is not one of our error codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCode(String);

impl FromStr for ErrorCode {
    type Err = UnknownCode;

    /// Accepts `SR0107`, in any case, and the bare number `107`.
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

impl fmt::Display for CodeEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.code, self.title)?;
        writeln!(f, "\n{}", self.cause)?;
        writeln!(f, "\nWhat to try\n{}", indented(self.remedy))?;
        writeln!(f, "\nExample\n{}", indented(self.example))?;
        write!(f, "\nExit status: {} ({})", self.exit.status(), self.exit)
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// Defines, for each row, a public constant of type [`ErrorCode`] and its [`CodeEntry`].
macro_rules! codes {
    ($($name:ident $exit:ident $title:literal {
        cause: $cause:literal, remedy: $remedy:literal, example: $example:literal $(,)?
    })*) => {
        $(
            #[doc = concat!(stringify!($name), ": ", $title, ".")]
            pub const $name: $crate::codes::ErrorCode = $crate::codes::ErrorCode::named(stringify!($name));
        )*
        pub(super) const ENTRIES: &[$crate::codes::CodeEntry] = &[$(
            $crate::codes::CodeEntry {
                code: $name,
                exit: $crate::Exit::$exit,
                title: $title,
                cause: $cause,
                remedy: $remedy,
                example: $example,
            }
        ),*];
    };
}
pub(super) use codes;

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
