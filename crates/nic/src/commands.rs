//! The commands of `slipring nic`, and their output.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use slipring_cli::codes::{ErrorCode, SR0002, SR0304, SR0305, SR0306, SR0307};
use slipring_cli::{Diagnostic, Exit, Failure, Session};

use crate::bind::{BindError, BindPlan};
use crate::checks::{self, CardCheck, Verdict};
use crate::flags::{BindFlags, NicRequest};
use crate::holders::{GroupHolder, group_holders};
use crate::host::NicHost;
use crate::list;
use crate::report;
use crate::request::BindRequest;
use crate::restore;
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
        NicRequest::Bind(flags) => bind(host, &state, flags, session),
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
            let result = timer::expire(host, &state, bdf);
            timer::log(&session.run_dir, bdf, &result);
            Ok(if result.is_ok() { Exit::Done } else { Exit::Machine })
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

fn bind(
    host: &dyn NicHost,
    state: &StateDir,
    flags: &BindFlags,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let nics = flags.nics.iter().map(|name| find_or_saved(host, state, name));
    let nics: Vec<_> = nics.collect::<Result<_, _>>()?;
    let request = BindRequest {
        bdfs: nics.iter().map(|nic| nic.bdf.clone()).collect(),
        uid: flags.user.as_deref().map(|user| user_id(host.root(), user)).transpose()?,
        force: flags.force,
        confirm_within: flags.confirm_within,
        tap: flags.tap,
    };
    // A dry run writes nothing, not even a lock.
    let _lock = match flags.dry_run {
        true => None,
        false => Some(state.lock(host).map_err(|error| failed("lock the cards", &error))?),
    };
    let plans = nics.into_iter().map(|nic| BindPlan::new(host, nic, &request));
    let plans: Vec<_> =
        plans.collect::<Result<_, _>>().map_err(|error| failed("examine the card", &error))?;
    let (bound, plans): (Vec<_>, Vec<_>) = plans.into_iter().partition(BindPlan::is_bound);
    for plan in &plans {
        let refusals = plan.refusals(flags.force);
        if !refusals.is_empty() {
            return Err(refused(&plan.nic.bdf, &refusals).into());
        }
    }
    if !flags.dry_run {
        execute(host, state, &plans)?;
    }
    let all = bound.iter().map(|plan| bound_row(plan, state, &[]));
    let all = all.chain(plans.iter().map(|plan| {
        let steps: Vec<_> = plan.steps.iter().map(|step| plan.describe(step, state)).collect();
        bound_row(plan, state, &steps)
    }));
    let rows: Vec<_> = all.collect();
    let text = bind_text(&bound, &plans, state, flags);
    session.reporter.document(&json!({ "dry_run": flags.dry_run, "cards": rows }), text)?;
    Ok(Exit::Done)
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

/// Takes all cards, or none.
fn execute(host: &dyn NicHost, state: &StateDir, plans: &[BindPlan]) -> Result<(), Failure> {
    for (at, plan) in plans.iter().enumerate() {
        let Err(mut error) = plan.execute(host, state) else { continue };
        for earlier in plans[..at].iter().rev() {
            if let Err(undone) = earlier.undo(host, state) {
                error.not_undone = Some(undone);
            }
        }
        return Err(bind_failure(plan, &error).into());
    }
    Ok(())
}

fn bound_row(plan: &BindPlan, state: &StateDir, steps: &[String]) -> Value {
    json!({
        "pci_address": plan.nic.bdf,
        "port": format!("vfio:{}", plan.nic.bdf),
        "already_bound": plan.is_bound(),
        "state": state.path(&plan.nic.bdf),
        "steps": steps,
    })
}

fn bind_text(
    bound: &[BindPlan],
    plans: &[BindPlan],
    state: &StateDir,
    flags: &BindFlags,
) -> String {
    let mut lines: Vec<_> = bound
        .iter()
        .map(|plan| format!("{0} is bound already: open it as vfio:{0}", plan.nic.bdf))
        .collect();
    for plan in plans {
        let bdf = &plan.nic.bdf;
        if flags.dry_run {
            lines.push(format!("{bdf}:"));
            lines.extend(plan.steps.iter().map(|step| format!("  {}", plan.describe(step, state))));
            continue;
        }
        lines.push(format!("{bdf} is taken: open it as vfio:{bdf}"));
        if let Some(time) = flags.confirm_within {
            lines.push(format!(
                "It is given back after {} s, unless you run: slipring nic confirm {bdf}",
                time.as_secs()
            ));
        }
    }
    lines.join("\n")
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
    session.reporter.document(&rows_of(&saved), lines.join("\n"))?;
    Ok(Exit::Done)
}

fn rows_of(saved: &[SavedNic]) -> Value {
    let row = |saved: &SavedNic| {
        let interface = saved.interface.as_ref().map(|interface| &interface.name);
        json!({ "pci_address": saved.bdf, "interface": interface, "driver": saved.driver })
    };
    json!({ "cards": saved.iter().map(row).collect::<Vec<_>>() })
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
    let results: Vec<_> =
        saved.iter().map(|saved| restore_one(host, state, saved, force)).collect();
    let restored = saved.iter().zip(&results).filter(|(_, result)| result.is_ok());
    let restored: Vec<_> = restored.map(|(saved, _)| saved.clone()).collect();
    let lines: Vec<_> = restored
        .iter()
        .map(|saved| format!("{} ({}) is the kernel's again", saved.display_name(), saved.bdf))
        .collect();
    let text = if lines.is_empty() { "Nothing is taken.".to_owned() } else { lines.join("\n") };
    match results.into_iter().find_map(Result::err) {
        Some(error) => Err(error),
        None => {
            session.reporter.document(&rows_of(&restored), text)?;
            Ok(Exit::Done)
        }
    }
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
) -> Result<(), Failure> {
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

fn bind_failure(plan: &BindPlan, error: &BindError) -> Diagnostic {
    let bdf = &plan.nic.bdf;
    let cause = format!("{}: {}", error.step, error.source);
    let diagnostic = Diagnostic::new(SR0307, format!("{bdf} could not be taken"));
    match &error.not_undone {
        None => diagnostic
            .with_cause(format!("{cause}\nwhat was done before was undone"))
            .with_help(format!("slipring nic doctor {bdf}")),
        Some(undone) => diagnostic
            .with_cause(format!("{cause}\nand it could not be put back: {undone}"))
            .with_help(format!("slipring nic restore {bdf}")),
    }
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Diagnostic::new(SR0307, format!("cannot {what}"))
        .with_cause(error.to_string())
        .with_help("run it as root: sudo slipring nic list")
        .into()
}
