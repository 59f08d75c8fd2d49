//! The errors of the commands, with what helps.

use std::io;

use rustix::process::geteuid;
use slipring_cli::codes::{ErrorCode, SR0304, SR0305, SR0306, SR0307, SR0308};
use slipring_cli::{Diagnostic, Failure};

use crate::checks::{CardCheck, Verdict};

/// Explains why a card is not bound to vfio-pci: one reason a line, with the command that helps.
pub(crate) fn refused(name: &str, refusals: &[&CardCheck]) -> Diagnostic {
    let code = refusals.first().map_or(SR0306, |refusal| code_of(refusal.verdict));
    let findings: Vec<_> = refusals.iter().map(|refusal| refusal.finding.as_str()).collect();
    let helps: Vec<_> = refusals.iter().filter_map(|refusal| refusal.help.as_deref()).collect();
    Diagnostic::new(code, format!("{name} is not taken; nothing was changed"))
        .with_cause(findings.join("\n"))
        .with_help(helps.join("\n"))
}

fn code_of(verdict: Verdict) -> ErrorCode {
    match verdict {
        Verdict::Ok | Verdict::Warn | Verdict::NoCard => SR0306,
        Verdict::Machine => SR0304,
        Verdict::InUse => SR0305,
        Verdict::NoWayBack => SR0308,
    }
}

/// Starts the error of an operation that failed.
pub(crate) fn failed(what: &str, error: &io::Error) -> Failure {
    Diagnostic::new(SR0307, format!("cannot {what}"))
        .with_cause(error.to_string())
        .with_help(help_with(error.kind(), geteuid().is_root()))
        .into()
}

/// Returns what helps if the run directory, or the list of links, cannot be read or written.
pub(crate) fn help_with(kind: io::ErrorKind, is_root: bool) -> &'static str {
    match kind {
        io::ErrorKind::PermissionDenied if !is_root => "run it as root: sudo slipring nic list",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull => {
            "name a run directory in which this user can create files: --run-dir DIR"
        }
        io::ErrorKind::TimedOut => "repeat this command when the other one has ended",
        _ => "see what is in the run directory: ls -l RUN_DIR/nic",
    }
}
