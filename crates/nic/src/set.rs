//! `slipring nic set`: changes the settings of a card that is bound to vfio-pci, as ethtool does
//! for a card with a kernel driver.
//!
//! ```text
//!   change -> check -> ask the program that has the card open, if any: it sets its port now
//!                         '-> accepted, or no program: save in nic/BDF.link -> the next vfio: port
//! ```
//! A setting that the chip does not have is refused before anything changes. If a program has the
//! card open, it is asked first, by its socket. The settings are saved only after it has accepted
//! them.

use std::io;

use serde_json::json;
use slipring_cli::codes::{SR0002, SR0305, SR0306, SR0307};
use slipring_cli::{Diagnostic, Exit, Failure, Session};
use slipring_drivers::{
    CardSettings, CardStatus, LinkAbilities, PciId, SettingRefusal, SettingsRequest, driver_of,
};

use crate::holders::{GroupHolder, group_holders};
use crate::host::{LinkChange, NicHost};
use crate::stand_in;
use crate::state::StateDir;
use crate::sysfs::{self, PciNic, VFIO_DRIVER};

/// Changes settings of a card, or shows them if nothing is to be changed.
pub(crate) fn set(
    host: &dyn NicHost,
    state: &StateDir,
    nic: &PciNic,
    request: &SettingsRequest,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let outcome = apply(host, state, nic, request)?;
    let SetOutcome { settings, status } = &outcome;
    let link = status.as_ref().map(|(holder, status)| {
        json!({
            "process": holder.pid,
            "up": status.link.is_up,
            "mbit_per_s": status.link.mbit_per_s,
            "full_duplex": status.link.is_full_duplex,
        })
    });
    let fields = json!({
        "pci_address": nic.bdf,
        "settings": settings.to_string(),
        "in_use": link,
    });
    session.reporter.document(&fields, outcome.text(&nic.bdf))?;
    Ok(Exit::Done)
}

/// The result of a request.
#[derive(Debug)]
pub(crate) struct SetOutcome {
    /// The settings for the next port.
    pub(crate) settings: CardSettings,
    /// The program that has the card open, and the status of its port; `None` if no program has it
    /// open.
    pub(crate) status: Option<(GroupHolder, CardStatus)>,
}

impl SetOutcome {
    fn text(&self, bdf: &str) -> String {
        let kept = match self.settings.is_empty() {
            true => format!("{bdf}: nothing is set; the driver chooses"),
            false => format!("{bdf}: {}", self.settings),
        };
        let Some((GroupHolder { pid, process }, CardStatus { link, .. })) = &self.status else {
            return format!("{kept}\nfor the next port that opens it");
        };
        let duplex = if link.is_full_duplex { "full" } else { "half" };
        let link = match (link.is_up, link.mbit_per_s) {
            (false, _) => "the link is down, or not up again yet".to_owned(),
            (true, 0) => "the link is up".to_owned(),
            (true, speed) => format!("the link is up, {speed} Mbit/s, {duplex} duplex"),
        };
        format!("{kept}\nin use by {process} (process {pid}): {link}")
    }
}

/// Checks and executes a request.
pub(crate) fn apply(
    host: &dyn NicHost,
    state: &StateDir,
    nic: &PciNic,
    request: &SettingsRequest,
) -> Result<SetOutcome, Failure> {
    if nic.driver.as_deref() != Some(VFIO_DRIVER) {
        return Err(not_taken(nic).into());
    }
    let unkept = |error: io::Error| unkept(nic, &error);
    // Held until the settings are written, so that no other command changes them meanwhile.
    let _lock = match request.is_empty() {
        true => None,
        false => Some(state.lock(host).map_err(unkept)?),
    };
    // Another command may have given the card back while this one waited for the lock.
    if sysfs::driver_of(host.root(), &nic.bdf).as_deref() != Some(VFIO_DRIVER) {
        let now = PciNic::read(host.root(), &nic.bdf);
        return Err(not_taken(now.as_ref().unwrap_or(nic)).into());
    }
    // A reset does not read the saved settings, so it also works if their file cannot be read.
    let kept = match request.reset {
        true => CardSettings::default(),
        false => state.settings(host, &nic.bdf).map_err(unkept)?,
    };
    let settings = request.applied_to(kept);
    settings.check(&abilities(nic)?).map_err(|refusal| refused(nic, refusal))?;
    let holder = nic.group.and_then(|group| group_holders(host.root(), group).into_iter().next());
    let status = match holder {
        None => None,
        Some(holder) => {
            let status = ask(host, nic, &holder, request)?;
            Some((holder, status))
        }
    };
    if !request.is_empty() {
        state.keep_settings(host, &nic.bdf, &settings).map_err(unkept)?;
        follow_mtu(host, state, nic, request).map_err(unkept)?;
    }
    Ok(SetOutcome { settings, status })
}

/// Returns the settings that the chip of a card supports.
///
/// # Errors
/// If no native driver knows the chip.
fn abilities(nic: &PciNic) -> Result<LinkAbilities, Failure> {
    let id = PciId { vendor: nic.chip.vendor, device: nic.chip.device };
    let Some((driver, chip)) = driver_of(id) else {
        return Err(Diagnostic::new(SR0306, format!("{} has no native driver", nic.bdf))
            .with_cause("only a native driver can set it")
            .with_help("chips with a native driver: slipring nic list")
            .into());
    };
    Ok(driver.abilities(chip))
}

fn ask(
    host: &dyn NicHost,
    nic: &PciNic,
    holder: &GroupHolder,
    request: &SettingsRequest,
) -> Result<CardStatus, Failure> {
    match host.ask_card(holder.pid, &nic.bdf, request) {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(refusal)) => Err(refused(nic, refusal).into()),
        Err(error) => Err(unreachable(nic, holder, &error).into()),
    }
}

/// If a TAP device has the card's name, sets its MTU to the requested one. If the request is a
/// reset without an MTU, sets the MTU that the interface had before the card was taken.
fn follow_mtu(
    host: &dyn NicHost,
    state: &StateDir,
    nic: &PciNic,
    request: &SettingsRequest,
) -> io::Result<()> {
    let saved = state.read(&nic.bdf)?.filter(|saved| saved.tap);
    let Some(saved) = saved else { return Ok(()) };
    let former = saved.interface.as_ref().filter(|_| request.reset).map(|former| former.mtu);
    let Some(mtu) = request.change.mtu.or(former) else { return Ok(()) };
    match stand_in::find(&host.links()?, &saved) {
        Some(tap) => host.change_link(tap.index, &LinkChange::Mtu(mtu)),
        None => Ok(()),
    }
}

fn refused(nic: &PciNic, SettingRefusal { reason, help }: SettingRefusal) -> Diagnostic {
    Diagnostic::new(SR0002, format!("{} cannot be set so; nothing was saved", nic.bdf))
        .with_cause(reason)
        .with_help(help)
}

fn not_taken(nic: &PciNic) -> Diagnostic {
    let name = nic.interfaces.first().unwrap_or(&nic.bdf);
    let driver = nic.driver.as_deref().unwrap_or("no driver");
    Diagnostic::new(SR0306, format!("{name} was not taken from the kernel"))
        .with_cause(format!("its driver is {driver}, which has its own settings"))
        .with_help(format!("ethtool -s {name} speed 100 autoneg off; or: slipring nic bind {name}"))
}

/// Explains why a program that has the card does not answer.
fn unreachable(nic: &PciNic, holder: &GroupHolder, error: &io::Error) -> Diagnostic {
    let GroupHolder { pid, process } = holder;
    let summary =
        format!("{} is in use by {process} (process {pid}), which cannot be asked", nic.bdf);
    let (cause, help) = match error.kind() {
        io::ErrorKind::ConnectionRefused => (
            "it does not listen in this network namespace".to_owned(),
            format!("nsenter -n -t {pid} slipring nic set {} ...; or end it: kill {pid}", nic.bdf),
        ),
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => (
            "it answers only root and its own user".to_owned(),
            format!("sudo slipring nic set {} ...", nic.bdf),
        ),
        io::ErrorKind::PermissionDenied => (
            "another program has taken the name of its socket".to_owned(),
            format!("see which, and end it: ss -xlp | grep slipring/{pid}/nic/{}", nic.bdf),
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => (
            "it does not answer: it is stopped, or has not used its port yet".to_owned(),
            format!("kill -CONT {pid}; slipring nic set {} ...", nic.bdf),
        ),
        _ => (
            error.to_string(),
            format!("set the next port: kill {pid}; slipring nic set {} ...", nic.bdf),
        ),
    };
    Diagnostic::new(SR0305, summary).with_cause(cause).with_help(help)
}

fn unkept(nic: &PciNic, error: &io::Error) -> Diagnostic {
    let help = match error.kind() {
        io::ErrorKind::InvalidData => {
            format!("discard what was saved: sudo slipring nic set {} --reset", nic.bdf)
        }
        // Another command holds the lock, but only for a limited time, so this command can be
        // repeated.
        io::ErrorKind::TimedOut => format!("slipring nic set {} ...", nic.bdf),
        _ => format!("sudo slipring nic set {} ...", nic.bdf),
    };
    Diagnostic::new(SR0307, format!("the settings of {} cannot be kept", nic.bdf))
        .with_cause(error.to_string())
        .with_help(help)
}
