//! `slipring nic restore`.

use std::io;

use serde_json::{Value, json};
use slipring_cli::codes::{SR0305, SR0307};
use slipring_cli::{Diagnostic, Exit, Failure, Session};

use super::{chosen, row_of};
use crate::holders::{GroupHolder, group_holders};
use crate::host::NicHost;
use crate::refusals::failed;
use crate::restore;
use crate::routes::Unrestored;
use crate::state::{SavedNic, StateDir, UnreadableState};
use crate::sysfs::{self, NamedDevice};

/// Gives cards back, and reports what was done.
pub(super) fn restore(
    host: &dyn NicHost,
    state: &StateDir,
    cards: (&[String], bool),
    force: bool,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let GivenBack { restored, mut failures } = give_back(host, state, cards, force)?;
    if !restored.is_empty() || failures.is_empty() {
        let rows: Vec<_> = restored.iter().map(restored_row).collect();
        session.reporter.document(&json!({ "cards": rows }), restored_text(&restored))?;
    }
    // The last one is reported by the caller.
    let last = failures.pop();
    for failure in failures {
        if let Failure::Error(error) = failure {
            session.reporter.report_error(&error);
        }
    }
    last.map_or(Ok(Exit::Done), Err)
}

/// The cards that were given back, and why others were not.
#[derive(Debug)]
pub(crate) struct GivenBack {
    pub(crate) restored: Vec<RestoredNic>,
    pub(crate) failures: Vec<Failure>,
}

/// Gives the named cards back, or all of them. If one fails, the others are still given back.
///
/// # Errors
/// If a name is not that of a taken card.
pub(crate) fn give_back(
    host: &dyn NicHost,
    state: &StateDir,
    (names, all): (&[String], bool),
    force: bool,
) -> Result<GivenBack, Failure> {
    let _lock = state.lock(host).map_err(|error| failed("lock the cards", &error))?;
    let saved = match all {
        true => state.all(host).map_err(|error| failed("read the saved state", &error))?,
        false => restorable(host, state, names)?,
    };
    let mut restored = Vec::new();
    let mut failures = Vec::new();
    for saved in saved {
        match restore_one(host, state, &saved, force) {
            Ok(unrestored) => restored.push((saved, unrestored)),
            Err(failure) => failures.push(failure),
        }
    }
    if all {
        failures.extend(state.unreadable().iter().map(|damaged| unreadable(damaged).into()));
    }
    Ok(GivenBack { restored, failures })
}

/// A card that was given back, and what could not be restored.
pub(crate) type RestoredNic = (SavedNic, Vec<Unrestored>);

fn restored_row((saved, unrestored): &RestoredNic) -> Value {
    let mut row = row_of(saved);
    row["not_restored"] = unrestored.iter().map(|lost| json!(lost.to_string())).collect();
    row
}

fn restored_text(restored: &[RestoredNic]) -> String {
    if restored.is_empty() {
        return "Nothing is taken.".to_owned();
    }
    let mut lines = Vec::new();
    for (saved, unrestored) in restored {
        lines.push(format!("{} ({}) is the kernel's again", saved.display_name(), saved.bdf));
        lines.extend(unrestored.iter().map(|lost| format!("  not restored: {lost}")));
    }
    lines.join("\n")
}

/// Returns the saved states of the named cards, without cards that already have their kernel
/// driver.
fn restorable(
    host: &dyn NicHost,
    state: &StateDir,
    names: &[String],
) -> Result<Vec<SavedNic>, Failure> {
    let saved = state.all(host).map_err(|error| failed("read the saved state", &error))?;
    let is_kernels = |name: &&String| match sysfs::find(host.root(), name) {
        NamedDevice::Pci(nic) => {
            nic.driver.as_deref().is_some_and(|driver| driver != sysfs::VFIO_DRIVER)
                && saved.iter().all(|saved| saved.bdf != nic.bdf)
        }
        _ => false,
    };
    let names: Vec<_> = names.iter().filter(|name| !is_kernels(name)).cloned().collect();
    chosen(host, state, &names)
}

pub(super) fn restore_one(
    host: &dyn NicHost,
    state: &StateDir,
    saved: &SavedNic,
    force: bool,
) -> Result<Vec<Unrestored>, Failure> {
    if force {
        restore::end_holders(host, saved.group).map_err(|error| not_restored(saved, &error))?;
    }
    if let Some(GroupHolder { pid, process }) = group_holders(host.root(), saved.group).first() {
        let summary = format!("{} cannot be given back now", saved.display_name());
        return Err(Diagnostic::new(SR0305, summary)
            .with_cause(format!("the program {process} (process {pid}) has it open"))
            .with_help(format!("end it: kill {pid}; or add --force"))
            .into());
    }
    restore::put_back(host, state, saved).map_err(|error| not_restored(saved, &error).into())
}

fn not_restored(saved: &SavedNic, error: &io::Error) -> Diagnostic {
    Diagnostic::new(SR0307, format!("cannot give {} back", saved.display_name()))
        .with_cause(error.to_string())
        .with_help(format!(
            "the saved state stays, so try again: slipring nic restore {}; a restart of the machine gives every card back",
            saved.bdf
        ))
}

/// Explains how to give a card back whose saved state cannot be read.
pub(super) fn unreadable(damaged: &UnreadableState) -> Diagnostic {
    let UnreadableState { bdf, path, error } = damaged;
    let device = format!("/sys/bus/pci/devices/{bdf}");
    Diagnostic::new(SR0307, format!("cannot read what was saved of {bdf}"))
        .with_cause(error.to_string())
        .with_help(format!(
            "give it back without its addresses and routes, as root:\n\
             rm -r {}\n\
             echo > {device}/driver_override\n\
             echo {bdf} > {device}/driver/unbind\n\
             echo {bdf} > /sys/bus/pci/drivers_probe\n\
             a restart of the machine gives every card back",
            path.display()
        ))
}
