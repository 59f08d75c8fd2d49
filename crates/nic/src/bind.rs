//! Takes cards from their kernel drivers and binds them to vfio-pci.
//!
//! ```text
//!   1 save the state      2 start the timer      3 set the interface down
//!   4 driver_override     5 unbind               6 drivers_probe, and see that VFIO has it
//!   7 give the group to the user
//!   8 create a TAP device with name, MAC address, MTU, addresses, routes
//!   9 note in the state that the card is taken
//! ```
//!
//! All checks come before step 1. If a step fails, [`restore::put_back`] undoes the others. A state
//! without the note of step 9 is that of a bind that was killed. The next bind first gives the card
//! back, and never overwrites such a state.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::checks::{self, CardCheck, REACHED_BY, Verdict};
use crate::host::{LinkChange, NicHost};
use crate::request::BindRequest;
use crate::restore;
use crate::routes::{self, Unrestored};
use crate::stand_in;
use crate::state::{SavedInterface, SavedNic, StateDir, boot_id};
use crate::sysfs::{self, PciNic, VFIO_DRIVER, device_dir};

/// A card that will be bound to vfio-pci, and the results of its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BindPlan {
    pub(crate) nic: PciNic,
    pub(crate) checks: Vec<CardCheck>,
    pub(crate) steps: Vec<BindStep>,
    /// The state of the card, to be saved before the card is bound.
    saved: SavedNic,
    /// The index of the card's interface; `None` if it has none.
    index: Option<u32>,
    /// The state of a card that is taken already, which is written back if a step fails; `None` if
    /// the card is to be taken.
    former: Option<SavedNic>,
}

/// A step of binding a card to vfio-pci.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BindStep {
    /// Gives the card back first, because an earlier bind of it did not end. Or discards what was
    /// saved of another card, which was taken when it was in the place of this one.
    PutBack,
    /// Saves the state of the card.
    Save,
    /// Starts the timer that gives the card back after this time.
    StartTimer(Duration),
    /// Sets the interface down.
    SetDown,
    /// Allows only VFIO's driver to bind the device (`driver_override`).
    Override,
    /// Unbinds the device from its driver.
    Unbind,
    /// Makes the kernel look for a driver, and checks that it is VFIO's.
    Probe,
    /// Gives the group's node to a user.
    Chown(u32),
    /// Creates a TAP device with the interface's name, addresses and routes.
    CreateTap,
    /// Deletes the TAP device of a card that is taken already.
    DeleteTap,
    /// Notes in the state that the card is taken.
    Complete,
}

impl BindPlan {
    /// Examines a card. Nothing is changed.
    ///
    /// # Errors
    /// If the links of the machine, or the addresses and routes of the card's interface, cannot be
    /// listed.
    pub(crate) fn new(host: &dyn NicHost, nic: PciNic, request: &BindRequest) -> io::Result<Self> {
        let mut checks = checks::examine(host, &nic, request);
        checks.extend(require_confirmation(&checks, &nic, request));
        let mut saved = SavedNic::new(&nic, nic.group.unwrap_or_default(), boot_id(host.root()));
        saved.bound_at_ms = host.uptime().as_millis() as u64;
        let mut index = None;
        let links = host.links()?;
        if let Some(link) = links.iter().find(|link| nic.interfaces.contains(&link.name)) {
            let snapshot = host.snapshot(link.index)?;
            checks.extend(routes::check(host, link, &snapshot.routes));
            saved.interface = Some(SavedInterface::of(host, link, &links, &snapshot));
            saved.tap = request.tap;
            index = Some(link.index);
        }
        let steps = steps(&nic, &saved, request);
        Ok(Self { nic, checks, steps, saved, index, former: None })
    }

    /// Plans what a card that is taken already lacks of the request: another time limit, another
    /// user, a TAP device that is gone, or none.
    ///
    /// # Errors
    /// If the links of the machine cannot be listed.
    pub(crate) fn of_taken(
        host: &dyn NicHost,
        nic: PciNic,
        saved: SavedNic,
        request: &BindRequest,
    ) -> io::Result<Self> {
        let mut steps = Vec::new();
        if let Some(time) = request.confirm_within {
            steps.extend([BindStep::Save, BindStep::StartTimer(time)]);
        }
        steps.extend(request.uid.map(BindStep::Chown));
        match (saved.tap, request.tap) {
            (true, true) if stand_in::find(&host.links()?, &saved).is_none() => {
                steps.push(BindStep::CreateTap);
            }
            (true, false) => steps.push(BindStep::DeleteTap),
            _ => {}
        }
        let former = Some(saved.clone());
        Ok(Self { nic, checks: Vec::new(), steps, saved, index: None, former })
    }

    /// Plans a dry run for a card whose earlier bind did not end: it is given back, and taken
    /// again.
    pub(crate) fn of_unfinished(nic: PciNic, saved: SavedNic, request: &BindRequest) -> Self {
        let nic = PciNic { driver: saved.driver.clone(), ..nic };
        let mut steps = steps(&nic, &saved, request);
        steps.insert(0, BindStep::PutBack);
        Self { nic, checks: Vec::new(), steps, saved, index: None, former: None }
    }

    /// Plans a dry run for a card in whose place another card was, which was taken: what was saved
    /// of that other card is discarded first, with its TAP device.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub(crate) fn of_replacement(
        host: &dyn NicHost,
        nic: PciNic,
        request: &BindRequest,
    ) -> io::Result<Self> {
        let mut plan = Self::new(host, nic, request)?;
        plan.checks.retain(|check| check.check != checks::LEFT_OVER);
        plan.steps.insert(0, BindStep::PutBack);
        Ok(plan)
    }

    /// Returns whether the card is taken already.
    pub(crate) fn is_taken(&self) -> bool {
        self.former.is_some()
    }

    /// Returns the checks that prevent taking the card.
    pub(crate) fn refusals(&self, force: bool) -> Vec<&CardCheck> {
        self.checks.iter().filter(|check| check.verdict.refuses(force)).collect()
    }

    /// Describes a step as the command that would do it.
    pub(crate) fn describe(&self, step: &BindStep, state: &StateDir) -> String {
        let bdf = &self.nic.bdf;
        let name = self.saved.display_name();
        match step {
            BindStep::PutBack => {
                format!(
                    "slipring nic restore {bdf}, because what an earlier bind has saved is still there"
                )
            }
            BindStep::Save => format!("save the card's state to {}", state.path(bdf).display()),
            BindStep::StartTimer(time) => format!(
                "start a process that gives the card back after {} s, unless: slipring nic confirm {name}",
                time.as_secs()
            ),
            BindStep::SetDown => format!("ip link set {name} down"),
            BindStep::Override => {
                format!("echo {VFIO_DRIVER} > /sys/bus/pci/devices/{bdf}/driver_override")
            }
            BindStep::Unbind => format!("echo {bdf} > /sys/bus/pci/devices/{bdf}/driver/unbind"),
            BindStep::Probe => format!("echo {bdf} > /sys/bus/pci/drivers_probe"),
            BindStep::Chown(uid) => format!("chown {uid} /dev/vfio/{}", self.saved.group),
            BindStep::CreateTap => {
                format!(
                    "create the TAP device {name} with the card's MAC address, MTU, addresses and routes"
                )
            }
            BindStep::DeleteTap => format!("delete the TAP device {name}"),
            BindStep::Complete => {
                format!("note in {} that the card is taken", state.path(bdf).display())
            }
        }
    }

    /// Takes the card. If a step fails, undoes the steps before it.
    ///
    /// # Errors
    /// [`BindError`] says which step failed, and whether it could be undone.
    pub(crate) fn execute(&self, host: &dyn NicHost, state: &StateDir) -> Result<(), BindError> {
        for step in &self.steps {
            let Err(source) = self.perform(step, host, state) else { continue };
            let undone = self.undo(host, state);
            let step = self.describe(step, state);
            return Err(match undone {
                Ok(unrestored) => BindError { step, source, not_undone: None, unrestored },
                Err(error) => {
                    BindError { step, source, not_undone: Some(error), unrestored: Vec::new() }
                }
            });
        }
        Ok(())
    }

    /// Does only the first `count` steps, as a process that is killed then. Returns whether there
    /// are more.
    #[cfg(test)]
    pub(crate) fn killed_after(&self, count: usize, host: &dyn NicHost, state: &StateDir) -> bool {
        for step in self.steps.iter().take(count) {
            self.perform(step, host, state).unwrap();
        }
        count < self.steps.len()
    }

    fn perform(&self, step: &BindStep, host: &dyn NicHost, state: &StateDir) -> io::Result<()> {
        let root = host.root();
        let bdf = &self.nic.bdf;
        let dir = device_dir(root, bdf);
        match step {
            // Only a dry run has this step.
            BindStep::PutBack => Ok(()),
            BindStep::Save => {
                let confirm_by = self.steps.iter().find_map(|step| match step {
                    BindStep::StartTimer(time) => Some(host.uptime() + *time),
                    _ => None,
                });
                state.write(&self.saved.with_confirm_by(confirm_by))
            }
            BindStep::StartTimer(_) => host.start_timer(bdf),
            BindStep::SetDown => {
                let index = self.index.expect("only an interface is set down");
                host.change_link(index, &LinkChange::Down)
            }
            BindStep::Override => host.write(&dir.join("driver_override"), VFIO_DRIVER),
            BindStep::Unbind => host.write(&dir.join("driver/unbind"), bdf),
            BindStep::Probe => {
                host.write(&root.join("sys/bus/pci/drivers_probe"), bdf)?;
                match sysfs::driver_of(root, bdf) {
                    Some(driver) if driver == VFIO_DRIVER => Ok(()),
                    other => Err(io::Error::other(format!(
                        "the kernel gave the card to {}, and not to {VFIO_DRIVER}; `dmesg` may say why",
                        other.as_deref().unwrap_or("no driver")
                    ))),
                }
            }
            BindStep::Chown(uid) => host.chown(&group_node(host, self.saved.group), *uid),
            BindStep::CreateTap => stand_in::create(host, &self.saved),
            BindStep::DeleteTap => {
                note(state, bdf, |saved| saved.tap = false)?;
                stand_in::delete(host, &self.saved)
            }
            BindStep::Complete => note(state, bdf, |saved| saved.complete = true),
        }
    }

    /// Gives this card back to its kernel driver, because it or another card could not be bound. A
    /// card that was taken already stays so, with the state that it had.
    pub(crate) fn undo(&self, host: &dyn NicHost, state: &StateDir) -> io::Result<Vec<Unrestored>> {
        match &self.former {
            // The state was not changed, for example because the disk is full: nothing is undone.
            Some(former) if state.read(&former.bdf)?.as_ref() == Some(former) => Ok(Vec::new()),
            Some(former) => {
                state.write(former)?;
                let links = host.links()?;
                if former.tap && stand_in::find(&links, former).is_none() {
                    stand_in::create(host, former)?;
                }
                Ok(Vec::new())
            }
            None => restore::put_back(host, state, &self.saved),
        }
    }
}

/// Changes the saved state of a card.
fn note(state: &StateDir, bdf: &str, change: impl FnOnce(&mut SavedNic)) -> io::Result<()> {
    match state.read(bdf)? {
        Some(mut saved) => {
            change(&mut saved);
            state.write(&saved)
        }
        None => Err(io::Error::other("the saved state is gone")),
    }
}

/// Returns the path of a group's node.
pub(crate) fn group_node(host: &dyn NicHost, group: u32) -> PathBuf {
    host.root().join(format!("dev/vfio/{group}"))
}

/// A step failed.
#[derive(Debug)]
pub(crate) struct BindError {
    /// The step, as described by [`BindPlan::describe`].
    pub(crate) step: String,
    /// Why it failed.
    pub(crate) source: io::Error,
    /// Why the earlier steps could not be undone; `None` if they were undone.
    pub(crate) not_undone: Option<io::Error>,
    /// What could not be restored when the earlier steps were undone.
    pub(crate) unrestored: Vec<Unrestored>,
}

/// Returns a refusal if a card that may carry the user's session would be bound with `--force`, but
/// without `--confirm-within`.
fn require_confirmation(
    checks: &[CardCheck],
    nic: &PciNic,
    request: &BindRequest,
) -> Option<CardCheck> {
    checks.iter().find(|check| REACHED_BY.contains(&check.check))?;
    let name = nic.interfaces.first().unwrap_or(&nic.bdf);
    (request.force && request.confirm_within.is_none()).then(|| CardCheck {
        check: "confirm",
        verdict: Verdict::NoWayBack,
        finding:
            "--force alone does not take a card by which this machine may be reached: it needs --confirm-within"
                .into(),
        help: Some(format!(
            "slipring nic bind {name} --force --confirm-within 60, then: slipring nic confirm {name}"
        )),
    })
}

fn steps(nic: &PciNic, saved: &SavedNic, request: &BindRequest) -> Vec<BindStep> {
    let mut steps = vec![BindStep::Save];
    steps.extend(request.confirm_within.map(BindStep::StartTimer));
    if saved.interface.as_ref().is_some_and(|interface| interface.up) {
        steps.push(BindStep::SetDown);
    }
    steps.push(BindStep::Override);
    if nic.driver.is_some() {
        steps.push(BindStep::Unbind);
    }
    steps.push(BindStep::Probe);
    steps.extend(request.uid.map(BindStep::Chown));
    if saved.tap {
        steps.push(BindStep::CreateTap);
    }
    steps.push(BindStep::Complete);
    steps
}
