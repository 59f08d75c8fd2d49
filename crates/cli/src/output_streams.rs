//! The streams to which a program writes.

use std::io::{self, IsTerminal, Write};

/// The standard streams, or their replacements in a test.
pub struct OutputStreams {
    /// The command's results.
    pub stdout: Box<dyn Write>,
    /// Messages and errors.
    pub stderr: Box<dyn Write>,
    /// Whether messages are coloured, unless `--color` says otherwise.
    pub coloured: bool,
}

impl OutputStreams {
    /// Returns the process's stdout and stderr. `NO_COLOR` with any value that is not empty
    /// switches colour off.
    #[must_use]
    pub fn standard() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
            coloured: io::stderr().is_terminal() && !no_color,
        }
    }
}
