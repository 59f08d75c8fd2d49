//! Tests of `slipring gen`: to and from captures, over null ports, and over links in the tests' own
//! network namespaces.
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
use slipring_test_support::program::output;

use support::SLIPRING;

/// Runs slipring in this process's own namespaces, which needs no privilege.
fn slipring(words: &str) -> Run {
    Run(output(Command::new(SLIPRING).args(words.split_ascii_whitespace())))
}

/// A finished run.
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

    /// Asserts that the run ended with this status; returns `self`.
    fn ended(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{}{}", self.stdout(), self.stderr());
        self
    }

    /// Returns the one document on stdout.
    fn document(&self) -> Value {
        serde_json::from_str(&self.stdout()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Returns a number of a report.
fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("no {key} in {report}"))
}
