//! The commands of `slipring nic`, and their output.

pub(crate) mod bind;
pub(crate) mod restore;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slipring_cli::codes::{SR0002, SR0306};
use slipring_cli::{Diagnostic, Exit, Failure, Session};

use crate::doctor;
use crate::flags::NicRequest;
use crate::host::NicHost;
use crate::list;
use crate::lookup::TakenCards;
use crate::refusals::{failed, unreadable};
use crate::report;
use crate::set;
use crate::state::{SavedNic, StateDir};
use crate::sysfs;
use crate::timer;

pub(crate) fn run(
    host: &dyn NicHost,
    request: &NicRequest,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let state = StateDir::below(&session.run_dir);
    let cards = TakenCards::new(host, &state);
    match request {
        NicRequest::List => show_list(host, &cards, session),
        NicRequest::Doctor { nic } => doctor::doctor(host, &cards.find(nic)?, session),
        NicRequest::Bind(flags) => bind::bind(host, &state, flags, session),
        NicRequest::Confirm { nics } => {
            cards.refuse_roots("confirm", Some(nics))?;
            confirm(host, &state, nics, session)
        }
        NicRequest::Restore(flags) => {
            cards.refuse_roots("restore", (!flags.all).then_some(&flags.nics[..]))?;
            restore::restore(host, &state, flags, session)
        }
        NicRequest::Set { nic, request } => {
            let nic = cards.find(nic)?;
            set::set(host, &state, &nic, request, session)
        }
        NicRequest::Report { nic } => {
            let report = report::of(host, &cards.find(nic)?);
            session.reporter.document(&json!({ "report": report }), report.text())?;
            Ok(Exit::Done)
        }
        NicRequest::Expire { bdf } => {
            timer::detach()?;
            timer::expire(host, &state, bdf);
            Ok(Exit::Done)
        }
    }
}

fn show_list(
    host: &dyn NicHost,
    cards: &TakenCards<'_>,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let rows =
        list::rows(host, cards).map_err(|error| failed("list the cards", cards.own(), &error))?;
    let text = match rows.is_empty() {
        true => "This machine has no network card on PCI.".to_owned(),
        false => list::table(&rows),
    };
    session.reporter.document(&json!({ "cards": rows }), text)?;
    Ok(Exit::Done)
}

/// Returns the number of a user.
pub(crate) fn user_id(root: &Path, user: &str) -> Result<u32, Failure> {
    match user.parse() {
        // The system call that gives a file to a user takes this number as "leave it as it is".
        Ok(u32::MAX) => {
            return Err(Diagnostic::new(SR0002, format!("{user} is not the number of a user"))
                .with_cause("for the kernel, it stands for no user")
                .with_help("give the name of the user, or the number by `id -u`")
                .into());
        }
        Ok(uid) => return Ok(uid),
        Err(_) if user.is_empty() => {
            return Err(Diagnostic::new(SR0002, "--user names no user")
                .with_cause("its value is empty")
                .with_help("give a name or a number: --user \"$(id -un)\"")
                .into());
        }
        Err(_) => {}
    }
    let accounts = fs::read_to_string(root.join("etc/passwd")).unwrap_or_default();
    let uid = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok())?
    });
    uid.ok_or_else(|| {
        Diagnostic::new(SR0002, format!("there is no user `{user}`"))
            .with_cause("/etc/passwd has no such line")
            .with_help(format!("give the number: --user \"$(id -u {user})\""))
            .into()
    })
}

fn confirm(
    host: &dyn NicHost,
    state: &StateDir,
    names: &[String],
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let _lock = state.lock(host).map_err(|error| failed("lock the cards", state, &error))?;
    let saved = chosen(host, state, names)?;
    for saved in &saved {
        state
            .write(&saved.with_confirm_by(None))
            .map_err(|error| failed("save the state", state, &error))?;
    }
    let lines: Vec<_> = saved.iter().map(|saved| format!("{} stays taken", saved.bdf)).collect();
    let rows: Vec<_> = saved.iter().map(row_of).collect();
    session.reporter.document(&json!({ "cards": rows }), lines.join("\n"))?;
    Ok(Exit::Done)
}

fn row_of(saved: &SavedNic) -> Value {
    let interface = saved.interface.as_ref().map(|interface| &interface.name);
    json!({ "pci_address": saved.bdf, "interface": interface, "driver": saved.driver })
}

/// Returns the saved states of the named cards, each once. Each card must have one.
fn chosen(
    host: &dyn NicHost,
    state: &StateDir,
    names: &[String],
) -> Result<Vec<SavedNic>, Failure> {
    let cards = TakenCards::new(host, state);
    let mut chosen: Vec<SavedNic> = Vec::new();
    for name in names {
        let bdf = cards.address_of(name)?;
        let saved = match &bdf {
            Some(bdf) => {
                state.of(host, bdf).map_err(|error| unreadable(&state.damaged(bdf, error)))?
            }
            None => None,
        };
        let saved = saved.ok_or_else(|| unsaved(host, state, name, bdf.as_deref()))?;
        if chosen.iter().all(|other| other.bdf != saved.bdf) {
            chosen.push(saved);
        }
    }
    Ok(chosen)
}

/// Explains why there is no saved state of a card. `bdf` is its PCI address, if the name means a
/// device.
fn unsaved(host: &dyn NicHost, state: &StateDir, name: &str, bdf: Option<&str>) -> Failure {
    // The name of a card's interface stands in its state only.
    let damaged = state.unreadable().into_iter().next().filter(|_| bdf.is_none());
    if let Some(damaged) = damaged {
        return unreadable(&damaged).into();
    }
    let cause = match bdf.and_then(|bdf| sysfs::driver_of(host.root(), bdf)) {
        Some(driver) => format!("its driver is {driver}"),
        None => "there is no saved state of it".to_owned(),
    };
    Diagnostic::new(SR0306, format!("`{name}` was not taken by slipring"))
        .with_cause(cause)
        .with_help("slipring nic list")
        .into()
}
