//! `slipring nic restore`.

use std::io;

use serde_json::{Value, json};
use slipring_cli::codes::{SR0305, SR0307};
use slipring_cli::{Diagnostic, Exit, Failure, Session};

use super::{row_of, unsaved};
use crate::flags::RestoreFlags;
use crate::holders::{GroupHolder, group_holders};
use crate::host::NicHost;
use crate::lookup::TakenCards;
use crate::refusals::{failed, not_there, unreadable, with_address};
use crate::restore::{self, Presence};
use crate::routes::Unrestored;
use crate::salvage;
use crate::stand_in;
use crate::state::{SavedNic, StateDir, UnreadableState};
use crate::sysfs::PciNic;

/// Gives cards back, and reports what was done.
pub(super) fn restore(
    host: &dyn NicHost,
    state: &StateDir,
    flags: &RestoreFlags,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let GivenBack { restored, mut failures } = give_back(host, state, flags)?;
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
    flags: &RestoreFlags,
) -> Result<GivenBack, Failure> {
    let _lock = state.lock(host).map_err(|error| failed("lock the cards", state, &error))?;
    let cards = match flags.all {
        true => all(host, state)?,
        false => named(host, state, &flags.nics)?,
    };
    let mut restored = Vec::new();
    let mut failures = Vec::new();
    for card in cards {
        let ended = match card {
            TakenCard::Saved(saved) => {
                restore_one(host, state, &saved, flags).map(|ending| (*saved, ending))
            }
            TakenCard::Damaged(damaged) => restore_damaged(host, state, &damaged, flags),
        };
        match ended {
            Ok(ended) => restored.push(ended),
            Err(failure) => failures.push(failure),
        }
    }
    Ok(GivenBack { restored, failures })
}

/// A card that was taken.
enum TakenCard {
    Saved(Box<SavedNic>),
    /// Its state cannot be read.
    Damaged(UnreadableState),
}

fn all(host: &dyn NicHost, state: &StateDir) -> Result<Vec<TakenCard>, Failure> {
    let saved = state.all(host).map_err(|error| failed("read the saved state", state, &error))?;
    let saved = saved.into_iter().map(|saved| TakenCard::Saved(Box::new(saved)));
    Ok(saved.chain(state.unreadable().into_iter().map(TakenCard::Damaged)).collect())
}

/// Returns the named cards, each once, without those that already have their kernel driver.
fn named(
    host: &dyn NicHost,
    state: &StateDir,
    names: &[String],
) -> Result<Vec<TakenCard>, Failure> {
    let cards = TakenCards::new(host, state);
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for name in names {
        let Some(bdf) = cards.address_of(name)? else {
            return Err(unsaved(host, state, name, None));
        };
        if seen.contains(&bdf) {
            continue;
        }
        match state.of(host, &bdf) {
            Ok(Some(saved)) => found.push(TakenCard::Saved(Box::new(saved))),
            Ok(None) if is_kernels(host, &bdf) => {}
            Ok(None) => return Err(unsaved(host, state, name, Some(&bdf))),
            Err(error) => found.push(TakenCard::Damaged(state.damaged(&bdf, error))),
        }
        seen.push(bdf);
    }
    Ok(found)
}

/// Returns whether a card has a kernel driver.
fn is_kernels(host: &dyn NicHost, bdf: &str) -> bool {
    let nic = PciNic::read(host.root(), bdf);
    nic.is_some_and(|nic| nic.driver.is_some() && !nic.is_bound())
}

/// How the time in which a card was taken ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The kernel has the card again. What could not be restored of it is named.
    GivenBack(Vec<Unrestored>),
    /// The card is not there, and what was saved of it is discarded, as requested.
    Forgotten,
    /// Another card, with these IDs, is in its place, and what was saved of it is discarded.
    Replaced(String),
}

/// A card whose state is gone, and why.
pub(crate) type RestoredNic = (SavedNic, Ending);

fn restored_row((saved, ending): &RestoredNic) -> Value {
    let mut row = row_of(saved);
    let (word, unrestored) = match ending {
        Ending::GivenBack(unrestored) => ("given-back", &unrestored[..]),
        Ending::Forgotten => ("forgotten", &[][..]),
        Ending::Replaced(_) => ("replaced", &[][..]),
    };
    row["ending"] = word.into();
    row["not_restored"] = unrestored.iter().map(|lost| json!(lost.to_string())).collect();
    row
}

fn restored_text(restored: &[RestoredNic]) -> String {
    if restored.is_empty() {
        return "Nothing is taken.".to_owned();
    }
    let mut lines = Vec::new();
    for (saved, ending) in restored {
        let name = with_address(saved.display_name(), &saved.bdf);
        match ending {
            Ending::GivenBack(unrestored) => {
                lines.push(format!("{name} is the kernel's again"));
                lines.extend(unrestored.iter().map(|lost| format!("  not restored: {lost}")));
            }
            Ending::Forgotten => {
                lines.push(format!("{name} is not there, and what was saved of it is discarded"));
            }
            Ending::Replaced(id) => lines.push(format!(
                "{name} is not there: another card ({id}) is in its place, and keeps its own name and addresses\n  \
                 what was saved is discarded"
            )),
        }
    }
    lines.join("\n")
}

/// Gives a card back, or discards what was saved of one that is not there.
pub(super) fn restore_one(
    host: &dyn NicHost,
    state: &StateDir,
    saved: &SavedNic,
    flags: &RestoreFlags,
) -> Result<Ending, Failure> {
    let forget =
        || restore::forget(host, state, saved).map_err(|error| not_restored(saved, &error));
    match restore::presence(host, saved) {
        Presence::Gone if flags.forget => Ok(forget().map(|()| Ending::Forgotten)?),
        Presence::Gone => Err(not_there(saved.display_name(), &saved.bdf).into()),
        Presence::Replaced(id) => Ok(forget().map(|()| Ending::Replaced(id))?),
        Presence::There => {
            free_group(host, saved, flags.force)?;
            let put_back = restore::put_back(host, state, saved);
            Ok(Ending::GivenBack(put_back.map_err(|error| not_restored(saved, &error))?))
        }
    }
}

/// Gives a card back whose saved state cannot be read, with what its TAP device still has.
fn restore_damaged(
    host: &dyn NicHost,
    state: &StateDir,
    damaged: &UnreadableState,
    flags: &RestoreFlags,
) -> Result<RestoredNic, Failure> {
    let bdf = &damaged.bdf;
    // A state that the kernel does not let this process read may be undamaged.
    if damaged.error.kind() != io::ErrorKind::InvalidData {
        return Err(unreadable(damaged).into());
    }
    let failed = |error: io::Error| failed("give the card back", state, &error);
    let saved = match salvage::rebuild(host, damaged) {
        Ok(saved) => saved,
        Err(error) if error.kind() == io::ErrorKind::NotFound && flags.forget => {
            stand_in::delete_of_card(host, bdf).map_err(failed)?;
            state.remove(bdf).map_err(failed)?;
            return Ok((SavedNic::unknown(bdf), Ending::Forgotten));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(not_there(bdf, bdf).into());
        }
        Err(error) => return Err(failed(error)),
    };
    free_group(host, &saved, flags.force)?;
    // Written before the TAP device goes, so that the command can be repeated.
    state.write_over_damaged(&saved).map_err(failed)?;
    let ending = restore_one(host, state, &saved, flags)?;
    Ok((saved, ending))
}

/// Refuses a card that a program has open, or ends the program.
fn free_group(host: &dyn NicHost, saved: &SavedNic, force: bool) -> Result<(), Failure> {
    if force {
        restore::end_holders(host, saved.group).map_err(|error| not_restored(saved, &error))?;
    }
    match group_holders(host.root(), saved.group).first() {
        None => Ok(()),
        Some(GroupHolder { pid, process }) => {
            let summary = format!("{} cannot be given back now", saved.display_name());
            Err(Diagnostic::new(SR0305, summary)
                .with_cause(format!("the program {process} (process {pid}) has it open"))
                .with_help(format!("end it: kill {pid}; or add --force"))
                .into())
        }
    }
}

fn not_restored(saved: &SavedNic, error: &io::Error) -> Diagnostic {
    Diagnostic::new(SR0307, format!("cannot give {} back", saved.display_name()))
        .with_cause(error.to_string())
        .with_help(format!(
            "the saved state stays, so try again: slipring nic restore {}; a restart of the machine gives every card back",
            saved.bdf
        ))
}
