//! Diagnostics for attach errors.

use std::error::Error;

use slipring_cli::Diagnose;
use slipring_cli::codes::{ErrorCode, SR0013, SR0204, SR0405};

use crate::attach::{AttachError, TopProgram};

const START_HELP: &str = "start one (slipring emulate, lb, firewall, …), or say --run-dir DIR";

impl Diagnose for AttachError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NothingRuns { .. } | Self::Several { .. } | Self::Unknown { .. } => SR0013,
            Self::Untrusted(_) => SR0204,
            Self::Unreadable { .. } | Self::Nonsense { .. } => SR0405,
        }
    }

    fn summary(&self) -> String {
        self.to_string()
    }

    fn cause(&self) -> Option<String> {
        Some(match self {
            Self::NothingRuns { dir } => {
                format!("no running program shows its counters in {}", dir.display())
            }
            Self::Several { running } | Self::Unknown { running, .. } => listed(running),
            Self::Unreadable { source, .. } => {
                source.source().map_or(source.to_string(), ToString::to_string)
            }
            Self::Nonsense { cause, .. } => cause.clone(),
            Self::Untrusted(_) => {
                "a stranger could publish there in the place of what is meant".to_owned()
            }
        })
    }

    fn help(&self) -> Option<String> {
        Some(
            match self {
                Self::NothingRuns { .. } => START_HELP,
                Self::Unknown { running, .. } if running.is_empty() => START_HELP,
                Self::Several { .. } => "say which: slipring top NAME, or slipring top PID",
                Self::Unknown { .. } => {
                    "take a name or process number of those, or say --run-dir DIR"
                }
                Self::Untrusted(why) => return Some(why.help()),
                Self::Unreadable { .. } | Self::Nonsense { .. } => {
                    "see whether it still runs, and with which version: ps -C slipring"
                }
            }
            .to_owned(),
        )
    }
}

fn listed(running: &[TopProgram]) -> String {
    let all: Vec<_> = running.iter().map(ToString::to_string).collect();
    if all.is_empty() {
        "nothing runs there".to_owned()
    } else {
        format!("there are: {}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_what_to_try() {
        let running = vec![
            TopProgram { pid: 7, name: Some("lab".into()), line: String::new() },
            TopProgram { pid: 8, name: None, line: String::new() },
        ];
        let several = AttachError::Several { running };
        let cause = |error| Diagnose::cause(error).unwrap();
        assert_eq!(cause(&several), "there are: 7 (lab), 8");
        assert!(several.help().unwrap().contains("slipring top NAME"));
        let none = AttachError::NothingRuns { dir: "/run/x".into() };
        assert!(cause(&none).contains("/run/x"));
        let unknown = AttachError::Unknown { target: "lap".into(), running: Vec::new() };
        assert_eq!(unknown.summary(), "nothing called `lap` runs");
        assert_eq!(cause(&unknown), "nothing runs there");
        assert!(unknown.help().unwrap().starts_with("start one"), "there is no list to take from");
    }
}
