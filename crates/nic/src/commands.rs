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
use crate::lookup::{TakenCards, is_named};
use crate::refusals::failed;
use crate::report;
use crate::set;
use crate::state::{SavedNic, StateDir, UnreadableState};
use crate::sysfs::{self, NamedDevice};
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
        NicRequest::Restore { nics, all, force } => {
            cards.refuse_roots("restore", (!all).then_some(nics))?;
            restore::restore(host, &state, (nics, *all), *force, session)
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
    let rows = list::rows(host, cards).map_err(|error| failed("list the cards", &error))?;
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
    let _lock = state.lock(host).map_err(|error| failed("lock the cards", &error))?;
    let saved = chosen(host, state, names)?;
    for saved in &saved {
        state
            .write(&saved.with_confirm_by(None))
            .map_err(|error| failed("save the state", &error))?;
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
    let all = state.all(host).map_err(|error| failed("read the saved state", &error))?;
    let mut chosen: Vec<SavedNic> = Vec::new();
    for name in names {
        let found = all.iter().find(|saved| is_named(saved, name));
        let saved = found.ok_or_else(|| unsaved(host, state, name))?;
        if chosen.iter().all(|other| other.bdf != saved.bdf) {
            chosen.push(saved.clone());
        }
    }
    Ok(chosen)
}

/// Explains why there is no saved state of a card.
fn unsaved(host: &dyn NicHost, state: &StateDir, name: &str) -> Failure {
    let address = match sysfs::find(host.root(), name) {
        NamedDevice::Pci(nic) => Some(nic.bdf),
        _ => None,
    };
    // The name of a card's interface stands in its state only.
    let is_meant = |damaged: &UnreadableState| match &address {
        Some(address) => damaged.bdf == *address,
        None => true,
    };
    if let Some(damaged) = state.unreadable().into_iter().find(is_meant) {
        return restore::unreadable(&damaged).into();
    }
    let error = Diagnostic::new(SR0306, format!("`{name}` was not taken by slipring"));
    let driver = match sysfs::find(host.root(), name) {
        NamedDevice::Pci(nic) => nic.driver,
        _ => None,
    };
    let (cause, help) = match driver {
        Some(driver) => (format!("its driver is {driver}"), "slipring nic list"),
        None => ("there is no saved state of it".to_owned(), "slipring nic list"),
    };
    error.with_cause(cause).with_help(help).into()
}
