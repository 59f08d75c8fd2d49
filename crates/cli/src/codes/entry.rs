//! The definition of an error code.

use std::fmt;

use crate::Exit;

/// A stable error code, printed as `SR0107`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub(super) u16);

/// The general explanation of one code, independent of the case at hand.
#[derive(Debug)]
pub struct CodeEntry {
    /// The code.
    pub code: ErrorCode,
    /// The exit status of a command that fails with this code.
    pub exit: Exit,
    /// Title: one line, lower case, without a full stop.
    pub title: &'static str,
    /// Why the error happens.
    pub cause: &'static str,
    /// What to try next.
    pub remedy: &'static str,
    /// Commands that show or fix the problem.
    pub example: &'static str,
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
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SR{:04}", self.0)
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
