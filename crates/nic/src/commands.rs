//! The commands of `slipring nic`, and their output.

pub(crate) mod bind;

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use slipring_cli::codes::{ErrorCode, SR0002, SR0304, SR0305, SR0306, SR0307};
use slipring_cli::{Diagnostic, Exit, Failure, Session};

use crate::checks::{self, CardCheck, Verdict};
use crate::flags::NicRequest;
use crate::holders::{GroupHolder, group_holders};
use crate::host::NicHost;
use crate::list;
use crate::report;
use crate::request::BindRequest;
use crate::restore;
use crate::routes::Unrestored;
use crate::set;
use crate::state::{SavedNic, StateDir};
use crate::sysfs::{self, NamedDevice, PciNic};
use crate::timer;

pub(crate) fn run(
    host: &dyn NicHost,
    request: &NicRequest,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let state = StateDir::below(&session.run_dir);
    match request {
        NicRequest::List => show_list(host, &state, session),
        NicRequest::Doctor { nic } => doctor(host, nic, session),
        NicRequest::Bind(flags) => bind::bind(host, &state, flags, session),
        NicRequest::Confirm { nics } => confirm(host, &state, nics, session),
        NicRequest::Restore { nics, all, force } => {
            restore_cards(host, &state, (nics, *all), *force, session)
        }
        NicRequest::Set { nic, request } => {
            let nic = find_or_saved(host, &state, nic)?;
            set::set(host, &state, &nic, request, session)
        }
        NicRequest::Report { nic } => {
            let report = report::of(host, &find(host.root(), nic)?);
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
    state: &StateDir,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let rows = list::rows(host, state).map_err(|error| failed("list the cards", &error))?;
    let text = match rows.is_empty() {
        true => "This machine has no network card on PCI.".to_owned(),
        false => list::table(&rows),
    };
    session.reporter.document(&json!({ "cards": rows }), text)?;
    Ok(Exit::Done)
}

/// Finds a card by interface or PCI address.
fn find(root: &Path, name: &str) -> Result<PciNic, Failure> {
    let device = sysfs::find(root, name);
    match (checks::no_card(name, &device), device) {
        (None, NamedDevice::Pci(nic)) => Ok(nic),
        (refusal, _) => Err(refused(name, &refusal.iter().collect::<Vec<_>>()).into()),
    }
}

fn doctor(host: &dyn NicHost, name: &str, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let nic = find(host.root(), name)?;
    let checks = checks::examine(host, &nic, &BindRequest::default());
    let refuses = checks.iter().any(|check| check.verdict.refuses(false));
    let fields = json!({ "pci_address": nic.bdf, "can_bind": !refuses, "checks": checks });
    session.reporter.document(&fields, checks_text(&nic, &checks))?;
    Ok(if refuses { Exit::Machine } else { Exit::Done })
}

fn checks_text(nic: &PciNic, checks: &[CardCheck]) -> String {
    let name = nic.interfaces.first().unwrap_or(&nic.bdf);
    let width = checks.iter().map(|check| check.check.len()).max().unwrap_or(0);
    let mut text = format!("{name}, {}\n\n", nic.bdf);
    for CardCheck { check, verdict, finding, help } in checks {
        let state = match verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::NoCard | Verdict::Machine | Verdict::InUse => "FAIL",
        };
        text += &format!("{state}  {check:width$}  {finding}\n");
        if let Some(help) = help {
            text += &format!("      {:width$}  -> {help}\n", "");
        }
    }
    text + &match checks.iter().filter(|check| check.verdict.refuses(false)).count() {
        0 => format!("\nIt can be taken: sudo slipring nic bind {name}"),
        count => format!("\n{count} thing(s) are in the way."),
    }
}

/// Finds a card by its PCI address, by its interface, or by the name of the interface that it had
/// before it was bound to vfio-pci.
fn find_or_saved(host: &dyn NicHost, state: &StateDir, name: &str) -> Result<PciNic, Failure> {
    let saved = state.all(host).map_err(|error| failed("read the saved state", &error))?;
    match saved.iter().find(|saved| saved.display_name() == name) {
        Some(saved) => find(host.root(), &saved.bdf),
        None => find(host.root(), name),
    }
}

/// Returns the number of a user.
fn user_id(root: &Path, user: &str) -> Result<u32, Failure> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
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

/// Returns the saved states of the named cards; each must have one.
fn chosen(
    host: &dyn NicHost,
    state: &StateDir,
    names: &[String],
) -> Result<Vec<SavedNic>, Failure> {
    let all = state.all(host).map_err(|error| failed("read the saved state", &error))?;
    let one = |name: &String| {
        let is_meant = |saved: &&SavedNic| {
            saved.display_name() == name
                || saved.bdf == *name
                || saved.bdf == format!("0000:{name}")
        };
        all.iter().find(is_meant).cloned().ok_or_else(|| unsaved(host, name))
    };
    names.iter().map(one).collect()
}

/// Explains why there is no saved state of a card.
fn unsaved(host: &dyn NicHost, name: &str) -> Failure {
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

fn restore_cards(
    host: &dyn NicHost,
    state: &StateDir,
    (names, all): (&[String], bool),
    force: bool,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let _lock = state.lock(host).map_err(|error| failed("lock the cards", &error))?;
    let saved = match all {
        true => state.all(host).map_err(|error| failed("read the saved state", &error))?,
        false => restorable(host, state, names)?,
    };
    // If one card fails, the others are still restored.
    let mut restored = Vec::new();
    let mut failures = Vec::new();
    for saved in saved {
        match restore_one(host, state, &saved, force) {
            Ok(unrestored) => restored.push((saved, unrestored)),
            Err(failure) => failures.push(failure),
        }
    }
    if !restored.is_empty() || failures.is_empty() {
        let rows: Vec<_> = restored.iter().map(restored_row).collect();
        session.reporter.document(&json!({ "cards": rows }), restored_text(&restored))?;
    }
    let last = failures.pop();
    for failure in failures {
        if let Failure::Error(error) = failure {
            session.reporter.report_error(&error);
        }
    }
    last.map_or(Ok(Exit::Done), Err)
}

/// A card that was given back, and what could not be restored.
type RestoredNic = (SavedNic, Vec<Unrestored>);

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

fn restore_one(
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

/// Explains why a card is not bound to vfio-pci: one reason a line, with the command that helps.
fn refused(name: &str, refusals: &[&CardCheck]) -> Diagnostic {
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
    }
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Diagnostic::new(SR0307, format!("cannot {what}"))
        .with_cause(error.to_string())
        .with_help("run it as root: sudo slipring nic list")
        .into()
}
