//! Reads the links of a configuration file, for programs that move the frames themselves.

use std::path::Path;

use slipring_cli::Diagnostic;
use slipring_cli::codes::SR0003;
use slipring_link::NetworkSpec;

use crate::config::{EmulationConfig, EmulationConfigError, ScheduledChange};

/// The links of a configuration file, which has the format of `slipring emulate --config`.
#[derive(Debug, Clone)]
pub struct LinkSettings {
    /// The links at the start.
    pub network: NetworkSpec,
    /// Later states of the links, with their times in ns since the start, in order.
    pub changes: Vec<(u64, NetworkSpec)>,
    /// The seed; `None` if the file has none.
    pub seed: Option<u64>,
}

/// Settings that do not concern links, each with a text that says what uses it.
const NOT_OF_LINKS: [(&str, &str); 2] = [
    ("route", "a setting of `slipring emulate` alone"),
    ("output", "a setting of commands, which write the logs"),
];

impl LinkSettings {
    /// Reads a file. Names of traces and tables in it are relative to the file's directory.
    ///
    /// # Errors
    /// [`Diagnostic`] that names the first invalid setting, or says why the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, Diagnostic> {
        Self::of(&EmulationConfig::open(path).map_err(in_words)?)
    }

    /// Parses the text of a file. Names of files in it are relative to the current directory.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        Self::of(&EmulationConfig::parse("links", text).map_err(in_words)?)
    }

    fn of(config: &EmulationConfig) -> Result<Self, Diagnostic> {
        let given = |(key, _): &(&str, &str)| config.root.get(key).is_some();
        if let Some((key, whose)) = NOT_OF_LINKS.into_iter().find(given) {
            let error = Diagnostic::new(SR0003, format!("{key} is {whose}"));
            return Err(error.with_help(format!("take the table [{key}] out")));
        }
        let change = |change: &ScheduledChange| Ok((change.at_ns, change.config.network()?));
        let schedule = config.schedule().map_err(in_words)?;
        let changes: Result<_, EmulationConfigError> = schedule.iter().map(change).collect();
        Ok(Self {
            network: config.network().map_err(in_words)?,
            changes: changes.map_err(in_words)?,
            seed: config.seed().map_err(in_words)?,
        })
    }
}

fn in_words(error: EmulationConfigError) -> Diagnostic {
    Diagnostic::of(&error)
}
