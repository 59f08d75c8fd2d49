//! Errors for refused settings. Like every error of the program, they have a summary, a cause, a
//! location and a help text.

use slipring_abi::name::PortNameError;
use slipring_cli::codes::{ErrorCode, SR0007, SR0011, SR0201, SR0205};
use slipring_cli::{Diagnose, Diagnostic};
use slipring_link::SpecError;
use slipring_model::format::FormatError;

use super::tree::ConfigLocation;

/// The error for an invalid setting: what is wrong, why, where it was written, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulationConfigError {
    code: ErrorCode,
    summary: String,
    cause: String,
    location: Option<ConfigLocation>,
    help: String,
}

impl EmulationConfigError {
    /// Creates an error for an invalid value of a setting.
    pub fn value(setting: &str, value: &str, cause: impl Into<String>) -> Self {
        let summary = match value {
            "" => format!("the value of {setting} is empty"),
            _ => format!("`{value}` does not fit {setting}"),
        };
        Self::new(SR0007, summary, cause)
    }

    /// Creates an error for a setting that is unknown, missing, given twice or of the wrong type.
    pub fn key(summary: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(SR0011, summary, cause)
    }

    /// Creates an error for a file that cannot be opened or read.
    pub fn unreadable(file: &str, cause: impl Into<String>) -> Self {
        Self::new(SR0201, format!("cannot open {file}"), cause)
    }

    /// Creates an error for a trace, table or profile with invalid contents.
    pub fn format(file: &str, error: &FormatError) -> Self {
        let error_in = Self::new(SR0205, format!("{file} cannot be used"), error.to_string());
        error_in.help(format!("allowed: {}", error.allowed))
    }

    /// Creates an error for an invalid port name.
    pub fn port(error: &PortNameError, location: &ConfigLocation) -> Self {
        let fault = Self::new(error.code(), error.summary(), error.reason.to_string());
        fault
            .at(&location.advanced_by(error.column - 1))
            .help(Diagnose::help(error).unwrap_or_default())
    }

    pub fn new(code: ErrorCode, summary: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            code,
            summary: summary.into(),
            cause: cause.into(),
            location: None,
            help: String::new(),
        }
    }

    /// Sets the location, unless the error already has one.
    pub fn at(mut self, location: &ConfigLocation) -> Self {
        self.location = self.location.or_else(|| Some(location.clone()));
        self
    }

    /// Sets the help text.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}

impl From<SpecError> for EmulationConfigError {
    fn from(error: SpecError) -> Self {
        let SpecError { field, value, allowed } = error;
        Self::value(&field, &value, "the link cannot have it").help(format!("allowed: {allowed}"))
    }
}

impl Diagnose for EmulationConfigError {
    fn code(&self) -> ErrorCode {
        self.code
    }

    fn summary(&self) -> String {
        self.summary.clone()
    }

    fn cause(&self) -> Option<String> {
        match (&self.location, self.cause.as_str()) {
            (None, "") => None,
            (None, cause) => Some(cause.to_owned()),
            (Some(location), "") => Some(format!("at {location}")),
            (Some(location), cause) => Some(format!("{cause} at {location}")),
        }
    }

    fn help(&self) -> Option<String> {
        Some(self.help.clone()).filter(|help| !help.is_empty())
    }
}

impl std::fmt::Display for EmulationConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Diagnostic::of(self).fmt(f)
    }
}

/// Returns the known name that is most similar to `name`; `None` if none is similar.
pub(crate) fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let near = |other: &&'n str| (distance(name, other), *other);
    let (distance, other) = known.iter().map(near).min()?;
    (distance <= other.len().min(name.len()).div_ceil(3)).then_some(other)
}

/// Returns the edit distance: insertions, deletions, changes and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
            };
        }
    }
    rows[a.len()][b.len()]
}

/// Joins names as `a, b, c`.
pub(crate) fn listed(names: &[&str]) -> String {
    names.join(", ")
}
