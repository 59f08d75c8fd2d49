//! Where in a file something stands, and errors that say so.

use slipring_cli::Diagnostic;
use slipring_cli::codes::SR0010;
use toml::Spanned;

/// A file's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigText<'t> {
    pub(super) name: &'t str,
    pub(super) text: &'t str,
}

impl ConfigText<'_> {
    /// Line and column of a byte, both from 1.
    pub(super) fn location(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        format!("line {line}, column {}", before[start..].chars().count() + 1)
    }

    /// An error at a byte.
    pub(super) fn refusal(&self, offset: usize, said: String, allowed: String) -> Diagnostic {
        Diagnostic::new(SR0010, format!("{}: {said}", self.name))
            .with_cause(format!("{} of it", self.location(offset)))
            .with_help(format!("allowed: {allowed}"))
    }

    /// Reads a value; what is wrong with it is told with its place.
    pub(super) fn read<V: std::fmt::Debug, T>(
        &self,
        value: &Spanned<V>,
        reader: impl Fn(&V) -> Result<T, String>,
    ) -> Result<T, Diagnostic> {
        reader(value.get_ref()).map_err(|allowed| {
            let said = format!("the value {:?} is not one of this key", value.get_ref());
            self.refusal(value.span().start, said, allowed)
        })
    }
}
