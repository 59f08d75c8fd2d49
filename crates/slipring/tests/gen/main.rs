//! `slipring gen`: to and from captures, over null ports, and across links in network namespaces
//! of the tests' own.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod captures;
mod carrier;
mod classic;
mod errors;
mod headers;
mod kept;
mod links;

use std::process::{Command, Output};

use serde_json::Value;

use support::program::{SLIPRING, output};

/// Runs slipring outside of all namespaces, which needs no privilege.
fn slipring(words: &str) -> Run {
    Run(output(Command::new(SLIPRING).args(words.split_ascii_whitespace())))
}

/// A run that has ended.
#[derive(Debug)]
struct Run(Output);

impl Run {
    fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// Insists on this status.
    fn ended(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{}{}", self.stdout(), self.stderr());
        self
    }

    /// The one document on stdout.
    fn document(&self) -> Value {
        serde_json::from_str(&self.stdout()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A number of a report.
fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("no {key} in {report}"))
}
