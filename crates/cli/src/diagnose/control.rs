//! Diagnostics for errors between a client and a running program.

use std::io::ErrorKind::PermissionDenied;

use slipring_control::{ControlError, RunningProgram};

use crate::Diagnose;
use crate::codes::{ErrorCode, SR0013, SR0014, SR0204, SR0405};

impl Diagnose for ControlError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NothingRuns { .. } | Self::Several { .. } | Self::Unknown { .. } => SR0013,
            Self::BadName { .. } | Self::NameTaken { .. } => SR0013,
            Self::Untrusted(_) | Self::System { .. } => SR0204,
            Self::Refused(refusal) => refusal.code.parse().unwrap_or(SR0014),
            Self::NoAnswer(_) | Self::TimedOut { .. } => SR0405,
        }
    }

    fn summary(&self) -> String {
        self.to_string()
    }

    fn cause(&self) -> Option<String> {
        Some(match self {
            Self::NothingRuns { .. } => "no process listens there".to_owned(),
            Self::Several { .. } => "no name says which is meant".to_owned(),
            Self::Unknown { running, .. } => match &running[..] {
                [] => "nothing runs there".to_owned(),
                runs => format!("there are: {}", listed(runs)),
            },
            Self::BadName { .. } => {
                "names are letters, digits, - _ and ., 64 at most, not digits alone".to_owned()
            }
            Self::NameTaken { .. } => "its control socket is in the run directory".to_owned(),
            Self::Untrusted(_) => {
                "a stranger could answer there in the place of what is meant".to_owned()
            }
            Self::System { source, .. } if source.kind() == PermissionDenied => {
                "it is another user's: only that user and root are answered".to_owned()
            }
            Self::System { .. } => "control sockets live in the run directory".to_owned(),
            Self::Refused(refusal) => return refusal.cause.clone(),
            Self::NoAnswer(_) | Self::TimedOut { .. } => return None,
        })
    }

    fn help(&self) -> Option<String> {
        Some(match self {
            Self::NothingRuns { program, .. } => {
                let example = match program.as_deref() {
                    Some("route") => "slipring route eth0 eth1",
                    Some("emulator") => "slipring emulate --name lab ...",
                    _ => {
                        "slipring emulate --name lab ..., slipring firewall --name lab ... or \
                         slipring route eth0 eth1"
                    }
                };
                format!("start one, as {example}; or say --run-dir DIR")
            }
            Self::Several { .. } => "say --name NAME, or --name PID".to_owned(),
            Self::Unknown { .. } => "say --name NAME, or --run-dir DIR".to_owned(),
            Self::BadName { .. } => "say --name lab".to_owned(),
            Self::NameTaken { name } => {
                format!("take another name, or end {name} first")
            }
            Self::Untrusted(why) => why.help(),
            Self::System { source, .. } if source.kind() == PermissionDenied => {
                "ask as that user, with sudo -u; or say --run-dir DIR with a directory of your own"
                    .to_owned()
            }
            Self::System { .. } => "say --run-dir DIR with a directory of your own".to_owned(),
            Self::Refused(refusal) => return refusal.help.clone(),
            Self::NoAnswer(_) | Self::TimedOut { .. } => {
                "see whether it still runs, or is stopped (T): ps -o pid,stat,args -C slipring"
                    .to_owned()
            }
        })
    }
}

fn listed(runs: &[RunningProgram]) -> String {
    runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use slipring_control::ControlRefusal;

    use super::*;
    use crate::Diagnostic;

    #[test]
    fn a_run_that_is_not_there_is_answered_by_those_that_are() {
        let running = vec![RunningProgram { pid: 7, names: vec!["lab".to_owned()] }];
        let error = ControlError::Unknown { target: "x".to_owned(), running };
        let text = Diagnostic::of(&error).to_text(false);
        assert!(text.starts_with("error[SR0013]: nothing called `x` runs\n"), "{text}");
        assert!(text.contains("cause: there are: 7 (lab)\n"), "{text}");
    }

    #[test]
    fn a_router_that_does_not_run_is_started_by_route() {
        let error = |program: Option<&str>| ControlError::NothingRuns {
            dir: "/run/x".into(),
            program: program.map(str::to_owned),
        };
        let text = Diagnostic::of(&error(Some("route"))).to_text(false);
        assert!(text.starts_with("error[SR0013]: no router runs in /run/x\n"), "{text}");
        assert!(text.contains("start one, as slipring route eth0 eth1;"), "{text}");
        assert!(!text.contains("emulate"), "{text}");
        let text = Diagnostic::of(&error(None)).to_text(false);
        assert!(text.contains("slipring emulate") && text.contains("slipring route"), "{text}");
    }

    #[test]
    fn a_refusal_keeps_the_words_of_the_program_and_unknown_codes_become_ours() {
        let refusal = |code: &str| ControlRefusal {
            code: code.to_owned(),
            summary: "no".to_owned(),
            cause: Some("because".to_owned()),
            help: None,
        };
        let text_of = |code| Diagnostic::of(&ControlError::Refused(refusal(code))).to_text(false);
        assert!(text_of("SR0015").starts_with("error[SR0015]: no\n  cause: because\n   note:"));
        assert!(text_of("nonsense").starts_with("error[SR0014]: no\n"));
    }
}
