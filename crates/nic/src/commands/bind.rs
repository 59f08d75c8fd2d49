//! `slipring nic bind`.

use serde_json::{Value, json};
use slipring_cli::codes::{SR0306, SR0307};
use slipring_cli::{Diagnostic, Exit, Failure, Session};

use super::restore::{Ending, restore_one};
use super::user_id;
use crate::bind::{BindError, BindPlan};
use crate::flags::{BindFlags, RestoreFlags};
use crate::host::NicHost;
use crate::lookup::TakenCards;
use crate::refusals::{failed, refused, unreadable};
use crate::request::BindRequest;
use crate::routes::Unrestored;
use crate::state::{SavedNic, StateDir};
use crate::sysfs::{PciNic, VFIO_DRIVER};

/// Takes cards, and reports what was done.
pub(super) fn bind(
    host: &dyn NicHost,
    state: &StateDir,
    flags: &BindFlags,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let taking = take(host, state, flags)?;
    let lost: Vec<_> = taking.unrestored.iter().map(ToString::to_string).collect();
    let fields = json!({
        "dry_run": flags.dry_run,
        "cards": taking.rows(state),
        "not_restored": lost,
    });
    session.reporter.document(&fields, taking.text(state, flags))?;
    Ok(Exit::Done)
}

/// The cards of a request, and what was done or would be done.
#[derive(Debug)]
pub(crate) struct Taking {
    pub(crate) plans: Vec<BindPlan>,
    /// The PCI addresses of cards that something else has bound to vfio-pci.
    foreign: Vec<String>,
    /// What could not be restored of cards whose earlier bind did not end.
    unrestored: Vec<Unrestored>,
}

/// Takes all cards of a request, or none.
///
/// # Errors
/// A refusal, or the step that failed.
pub(crate) fn take(
    host: &dyn NicHost,
    state: &StateDir,
    flags: &BindFlags,
) -> Result<Taking, Failure> {
    // Locked before the cards are looked at, because another command may be changing them. A dry
    // run writes nothing, not even a lock.
    let _lock = match flags.dry_run {
        true => None,
        false => Some(state.lock(host).map_err(|error| failed("lock the cards", state, &error))?),
    };
    let cards = TakenCards::new(host, state);
    let mut nics = Vec::<PciNic>::new();
    for name in &flags.nics {
        let nic = cards.find(name)?;
        if nics.iter().all(|other| other.bdf != nic.bdf) {
            nics.push(nic);
        }
    }
    let request = BindRequest {
        bdfs: nics.iter().map(|nic| nic.bdf.clone()).collect(),
        uid: flags.user.as_deref().map(|user| user_id(host.root(), user)).transpose()?,
        force: flags.force,
        confirm_within: flags.confirm_within,
        tap: flags.tap,
    };
    let mut taking = Taking { plans: Vec::new(), foreign: Vec::new(), unrestored: Vec::new() };
    for nic in nics {
        if !flags.dry_run {
            taking.unrestored.extend(end_unfinished(host, state, &nic)?);
        }
        // The card has changed if it was just given back.
        let nic = cards.find(&nic.bdf)?;
        match plan(host, state, nic, &request)? {
            Planned::Plan(plan) => taking.plans.push(*plan),
            Planned::Foreign(bdf) => taking.foreign.push(bdf),
        }
    }
    for plan in &taking.plans {
        let refusals = plan.refusals(flags.force);
        if !refusals.is_empty() {
            return Err(refused(&plan.nic.bdf, &refusals).into());
        }
    }
    if !flags.dry_run {
        execute(host, state, &taking.plans)?;
    }
    Ok(taking)
}

/// What a request means for a card.
enum Planned {
    Plan(Box<BindPlan>),
    /// Something else has bound the card to vfio-pci.
    Foreign(String),
}

/// Returns the saved state of a card.
fn saved_of(
    host: &dyn NicHost,
    state: &StateDir,
    bdf: &str,
) -> Result<Option<SavedNic>, Diagnostic> {
    state.of(host, bdf).map_err(|error| unreadable(&state.damaged(bdf, error)))
}

fn is_bound(nic: &PciNic) -> bool {
    nic.driver.as_deref() == Some(VFIO_DRIVER)
}

/// If an earlier bind or restore of a card did not end, gives the card back, so that its saved
/// state is not lost. Discards a saved state that is of another card. Returns what could not be
/// restored.
fn end_unfinished(
    host: &dyn NicHost,
    state: &StateDir,
    nic: &PciNic,
) -> Result<Vec<Unrestored>, Failure> {
    let unfinished = saved_of(host, state, &nic.bdf)?
        .filter(|saved| !(is_bound(nic) && saved.complete && saved.is_of(nic)));
    let Some(saved) = unfinished else { return Ok(Vec::new()) };
    Ok(match restore_one(host, state, &saved, &RestoreFlags::default())? {
        Ending::GivenBack(unrestored) => unrestored,
        Ending::Forgotten => Vec::new(),
        Ending::Replaced(id) => vec![Unrestored {
            what: format!("what was saved of {}", saved.display_name()),
            why: format!("another card ({id}) is in its place"),
        }],
    })
}

/// Plans what a card needs. Only in a dry run, the card may still have the state of an earlier bind
/// that did not end.
fn plan(
    host: &dyn NicHost,
    state: &StateDir,
    nic: PciNic,
    request: &BindRequest,
) -> Result<Planned, Failure> {
    let plan = match saved_of(host, state, &nic.bdf)? {
        Some(saved) if !saved.is_of(&nic) => BindPlan::of_replacement(host, nic, request),
        None if is_bound(&nic) => return foreign(host, state, &nic, request),
        None => BindPlan::new(host, nic, request),
        Some(saved) if is_bound(&nic) && saved.complete => {
            BindPlan::of_taken(host, nic, saved, request)
        }
        Some(saved) => Ok(BindPlan::of_unfinished(nic, saved, request)),
    };
    let plan = plan.map_err(|error| failed("examine the card", state, &error))?;
    Ok(Planned::Plan(Box::new(plan)))
}

/// Handles a card that another program has bound to vfio-pci. It can be opened, so the request
/// succeeds, unless it has `--confirm-within` or `--user`, which do not apply to such a card.
fn foreign(
    host: &dyn NicHost,
    state: &StateDir,
    nic: &PciNic,
    request: &BindRequest,
) -> Result<Planned, Failure> {
    if request.confirm_within.is_none() && request.uid.is_none() {
        return Ok(Planned::Foreign(nic.bdf.clone()));
    }
    let name = std::slice::from_ref(&nic.bdf);
    TakenCards::new(host, state).refuse_roots("bind", Some(name))?;
    let bdf = &nic.bdf;
    Err(Diagnostic::new(SR0306, format!("{bdf} was not taken by slipring; nothing was changed"))
        .with_cause(format!(
            "another program has bound it to {VFIO_DRIVER}, so --confirm-within and --user do not apply"
        ))
        .with_help(format!("open it as vfio:{bdf}, or give it back as it was taken"))
        .into())
}

/// Takes all cards, or none.
fn execute(host: &dyn NicHost, state: &StateDir, plans: &[BindPlan]) -> Result<(), Failure> {
    for (at, plan) in plans.iter().enumerate() {
        let Err(mut error) = plan.execute(host, state) else { continue };
        for earlier in plans[..at].iter().rev() {
            match earlier.undo(host, state) {
                Ok(unrestored) => error.unrestored.extend(unrestored),
                Err(undone) => error.not_undone = Some(undone),
            }
        }
        return Err(failure(plan, &error).into());
    }
    Ok(())
}

fn failure(plan: &BindPlan, error: &BindError) -> Diagnostic {
    let bdf = &plan.nic.bdf;
    let cause = format!("{}: {}", error.step, error.source);
    let diagnostic = Diagnostic::new(SR0307, format!("{bdf} could not be taken"));
    match &error.not_undone {
        None => {
            let lost = error.unrestored.iter().map(|lost| format!("\nbut not restored: {lost}"));
            let lost: String = lost.collect();
            diagnostic
                .with_cause(format!("{cause}\nwhat was done before was undone{lost}"))
                .with_help(format!("slipring nic doctor {bdf}"))
        }
        Some(undone) => diagnostic
            .with_cause(format!("{cause}\nand it could not be put back: {undone}"))
            .with_help(format!("slipring nic restore {bdf}")),
    }
}

impl Taking {
    fn rows(&self, state: &StateDir) -> Vec<Value> {
        let row = |bdf: &str, already_bound: bool, steps: Vec<String>| {
            json!({
                "pci_address": bdf,
                "port": format!("vfio:{bdf}"),
                "already_bound": already_bound,
                "state": state.path(bdf),
                "steps": steps,
            })
        };
        let foreign = self.foreign.iter().map(|bdf| row(bdf, true, Vec::new()));
        let planned = self.plans.iter().map(|plan| {
            let steps = plan.steps.iter().map(|step| plan.describe(step, state)).collect();
            row(&plan.nic.bdf, plan.is_taken(), steps)
        });
        foreign.chain(planned).collect()
    }

    fn text(&self, state: &StateDir, flags: &BindFlags) -> String {
        let already = |bdf: &str| format!("{bdf} is bound already: open it as vfio:{bdf}");
        let mut lines: Vec<_> = self.foreign.iter().map(|bdf| already(bdf)).collect();
        for plan in &self.plans {
            let bdf = &plan.nic.bdf;
            let steps = plan.steps.iter().map(|step| format!("  {}", plan.describe(step, state)));
            match (plan.is_taken(), flags.dry_run) {
                (true, _) => lines.push(already(bdf)),
                (false, true) => lines.push(format!("{bdf}:")),
                (false, false) => lines.push(format!("{bdf} is taken: open it as vfio:{bdf}")),
            }
            if plan.is_taken() || flags.dry_run {
                lines.extend(steps);
            }
            if let Some(time) = flags.confirm_within.filter(|_| !flags.dry_run) {
                lines.push(format!(
                    "It is given back after {} s, unless you run: slipring nic confirm {bdf}",
                    time.as_secs()
                ));
            }
        }
        lines.extend(self.unrestored.iter().map(|lost| format!("not restored: {lost}")));
        lines.join("\n")
    }
}
