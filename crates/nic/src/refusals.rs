//! The errors of the commands, with what helps.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::process::geteuid;
use slipring_cli::codes::{ErrorCode, SR0304, SR0305, SR0306, SR0307, SR0308};
use slipring_cli::{Diagnostic, Failure};
use slipring_native_proto::trust::TrustError;

use crate::checks::{CardCheck, Verdict};
use crate::state::{StateDir, UnreadableState};

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

/// Explains that a word of the command line is not the name of a card.
pub(crate) fn no_card(name: &str, refusal: Option<CardCheck>) -> Diagnostic {
    let error = Diagnostic::new(SR0306, format!("`{name}` is no network card on PCI"));
    match refusal {
        Some(CardCheck { finding, help, .. }) => {
            error.with_cause(finding).with_help(help.unwrap_or_default())
        }
        None => error,
    }
}

/// Explains that a word of the command line means more than one card.
pub(crate) fn ambiguous(name: &str, meant: &BTreeSet<String>) -> Diagnostic {
    let addresses: Vec<_> = meant.iter().map(String::as_str).collect();
    Diagnostic::new(SR0306, format!("`{name}` is the name of {} cards", meant.len()))
        .with_cause("one of them was taken with this name, and another one has it now")
        .with_help(format!(
            "write the PCI address of the one that you mean: {}",
            addresses.join(" or ")
        ))
}

/// Returns the name of a card, followed by its PCI address.
pub(crate) fn with_address(name: &str, bdf: &str) -> String {
    if name == bdf { bdf.to_owned() } else { format!("{name} ({bdf})") }
}

/// Explains that a card that was taken is not there.
pub(crate) fn not_there(name: &str, bdf: &str) -> Diagnostic {
    Diagnostic::new(SR0307, format!("{} is not there", with_address(name, bdf)))
        .with_cause(
            "it is no longer in the machine; what was saved, and its TAP device with the addresses, are kept for its return",
        )
        .with_help(format!(
            "look for it again: echo 1 > /sys/bus/pci/rescan\n\
             discard what was saved: sudo slipring nic restore {bdf} --forget"
        ))
}

/// Explains that a TAP device is left of a card that is not there and of which nothing is saved.
pub(crate) fn left_over(name: &str, bdf: &str) -> Diagnostic {
    Diagnostic::new(SR0306, format!("`{name}` is the TAP device of {bdf}, which is not there"))
        .with_cause("nothing is saved of the card")
        .with_help(format!("delete the device, with its addresses: ip link delete {name}"))
}

/// Explains how to give a card back whose saved state cannot be read.
pub(crate) fn unreadable(damaged: &UnreadableState) -> Diagnostic {
    let UnreadableState { bdf, path, error } = damaged;
    let help = match error.kind() {
        io::ErrorKind::InvalidData => format!(
            "give it back with what its TAP device still has: sudo slipring nic restore {bdf}; a restart of the machine gives every card back"
        ),
        _ => format!("see what is there, as root: ls -l {}", path.display()),
    };
    Diagnostic::new(SR0307, format!("cannot read what was saved of {bdf}"))
        .with_cause(error.to_string())
        .with_help(help)
}

/// Starts the error of an operation that failed. `state` is the directory of states that it uses.
pub(crate) fn failed(what: &str, state: &StateDir, error: &io::Error) -> Failure {
    Diagnostic::new(SR0307, format!("cannot {what}"))
        .with_cause(error.to_string())
        .with_help(help_with(error, state.dir(), geteuid().is_root()))
        .into()
}

/// Returns what helps if a directory of states, or the list of links, cannot be read or written.
pub(crate) fn help_with(error: &io::Error, dir: &Path, is_root: bool) -> String {
    // The directory itself may not be there yet.
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir).display();
    match (error.kind(), TrustError::of(error)) {
        (_, Some(TrustError::Writable { path, .. })) => format!("chmod go-w {}", path.display()),
        (_, Some(untrusted)) => untrusted.help(),
        (io::ErrorKind::PermissionDenied, _) if !is_root => {
            "run it as root: sudo slipring nic list".to_owned()
        }
        (io::ErrorKind::ReadOnlyFilesystem, _) => {
            format!("mount -o remount,rw \"$(findmnt -n -o TARGET -T {there})\"")
        }
        (io::ErrorKind::StorageFull, _) => format!("make room there: df {there}"),
        (io::ErrorKind::TimedOut, _) => "repeat this command when the other one has ended".into(),
        _ => format!("see what is there: ls -l {there}"),
    }
}
