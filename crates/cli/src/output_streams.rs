//! Where a program writes.

use std::io::{self, IsTerminal, Write};

/// The standard streams, or what a test puts in their place.
pub struct OutputStreams {
    /// The command's results.
    pub stdout: Box<dyn Write>,
    /// Messages and errors.
    pub stderr: Box<dyn Write>,
    /// Whether talk goes to a terminal that wants colour.
    pub coloured: bool,
}

impl OutputStreams {
    /// The process's own. `NO_COLOR` with any value switches colour off.
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
