//! Parses the time of a change: `+2s` counts from now, `10s` from the start of the run.

use serde_json::{Value, json};
use slipring_port::Nanos;

use crate::config::EmulationConfigError;
use crate::config::quantity::time_ns;
use crate::config::tree::ConfigNode;

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeTime {
    FromNow(Nanos),
    FromStart(Nanos),
}

impl ChangeTime {
    /// Parses a time.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if the text is not a time; `setting` names the setting in the
    /// error.
    pub(super) fn read(setting: &str, node: &ConfigNode) -> Result<Self, EmulationConfigError> {
        let text = node.shown();
        match text.strip_prefix('+') {
            Some(rest) => time_ns(setting, &ConfigNode::text(rest, node.location.advanced_by(1)))
                .map(Self::FromNow),
            None => time_ns(setting, node).map(Self::FromStart),
        }
    }

    /// Returns the time in the form that a control request contains.
    pub(super) fn to_request(self) -> Value {
        match self {
            Self::FromNow(ns) => json!(format!("+{ns}ns")),
            Self::FromStart(ns) => json!(ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_cli::{Diagnose, Diagnostic};

    use super::*;
    use crate::config::tree::ConfigLocation;

    fn read(text: &str) -> Result<ChangeTime, Diagnostic> {
        let moment = ChangeTime::read(
            "--at",
            &ConfigNode::text(text, ConfigLocation::flag("--at").classic_if(true)),
        );
        moment.map_err(|error| Diagnostic::of(&error))
    }

    #[test]
    fn a_sign_counts_from_now_and_none_from_the_start() {
        assert_eq!(read("+2s").unwrap(), ChangeTime::FromNow(2_000_000_000));
        assert_eq!(read("10s").unwrap(), ChangeTime::FromStart(10_000_000_000));
        assert_eq!(read("1.5").unwrap().to_request(), json!(1_500_000_000));
        assert_eq!(read("+5m").unwrap().to_request(), json!("+5000000ns"));
    }

    #[test]
    fn what_is_no_time_is_told_by_the_flag_and_its_column() {
        for (text, summary, cause) in [
            ("-5s", "`-5s` does not fit --at", "it is negative at column 1 of --at"),
            ("tomorrow", "`tomorrow` does not fit --at", "expected a number at column 1 of --at"),
            ("+-5s", "`-5s` does not fit --at", "it is negative at column 2 of --at"),
            ("+", "the value of --at is empty", "expected a number at column 2 of --at"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(
                (error.summary().as_str(), error.cause().as_deref()),
                (summary, Some(cause))
            );
        }
    }
}
