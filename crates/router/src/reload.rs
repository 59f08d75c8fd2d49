//! Reads the files of a run again: on HUP, and for `slipring route ctl reload`.
//!
//! ```text
//!   HUP --> main thread ---.
//!   ctl reload --> service +--> Reload::run --> rules of the file in force, or the error
//! ```
//!
//! # Invariants
//! 1. All of the files takes effect, or nothing: everything that can fail comes before the first
//!    change.

use std::path::PathBuf;
use std::sync::Arc;

use slipring_cli::codes::SR0014;
use slipring_cli::{Diagnostic, Failure};

use crate::rules::RunningRules;

/// What a run can read again.
pub(crate) struct Reload {
    /// The rules in force, and their file.
    rules: Option<(PathBuf, Arc<RunningRules>)>,
}

/// What was read.
pub(crate) struct Reloaded {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) warnings: Vec<String>,
}

impl Reload {
    pub(crate) const fn new(rules: Option<(PathBuf, Arc<RunningRules>)>) -> Self {
        Self { rules }
    }

    /// Reads the files, and puts in force what they say.
    ///
    /// # Errors
    /// The mistake, with its line. Everything is as before then.
    pub(crate) fn run(&self) -> Result<Reloaded, Failure> {
        let (path, rules) = self.rules.as_ref().ok_or_else(nothing_to_read)?;
        let warnings = rules.replace(path)?;
        Ok(Reloaded { files: vec![path.clone()], warnings })
    }
}

fn nothing_to_read() -> Diagnostic {
    Diagnostic::new(SR0014, "there is no file to read again")
        .with_cause("the router was started without --rules")
        .with_help("start it with a file: slipring route eth0 eth1 --rules FILE")
}
