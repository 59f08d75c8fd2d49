//! Errors with a position in a file.

use slipring_cli::Diagnostic;
use slipring_cli::codes::SR0010;
use toml::Spanned;

/// A file's name and text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigText<'t> {
    pub(super) name: &'t str,
    pub(super) text: &'t str,
}

impl ConfigText<'_> {
    /// Returns the line and column of a byte offset as text. Both are counted from 1.
    pub(super) fn location(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        format!("line {line}, column {}", before[start..].chars().count() + 1)
    }

    /// Returns the error for a mistake at a byte offset.
    pub(super) fn refusal(&self, offset: usize, message: String, allowed: String) -> Diagnostic {
        Diagnostic::new(SR0010, format!("{}: {message}", self.name))
            .with_cause(format!("{} of it", self.location(offset)))
            .with_help(format!("allowed: {allowed}"))
    }

    /// Parses a value. An error contains the position of the value.
    pub(super) fn read<V: std::fmt::Debug, T>(
        &self,
        value: &Spanned<V>,
        reader: impl Fn(&V) -> Result<T, String>,
    ) -> Result<T, Diagnostic> {
        reader(value.get_ref()).map_err(|allowed| {
            let message = format!("the value {:?} is not one of this key", value.get_ref());
            self.refusal(value.span().start, message, allowed)
        })
    }
}
