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
//!
//! A user saves settings in the run directory of that user. They are added to root's settings; if
//! both have a value, the user's counts. They are valid until root gives the card back.

use std::io;

use rustix::process::geteuid;
use serde_json::json;
use slipring_cli::codes::{SR0002, SR0305, SR0306, SR0307};
use slipring_cli::{Diagnostic, Exit, Failure, Session};
use slipring_drivers::{
    CardSettings, CardStatus, LinkAbilities, PciId, SettingRefusal, SettingsRequest, driver_of,
};
use slipring_native_proto::trust::TrustError;

use crate::holders::{GroupHolder, group_holders};
use crate::host::{LinkChange, NicHost};
use crate::lookup::TakenCards;
use crate::refusals::{help_with, unreadable};
use crate::stand_in;
use crate::state::StateDir;
use crate::sysfs::{PciNic, VFIO_DRIVER};

/// Changes settings of a card, or shows them if nothing is to be changed.
pub(crate) fn set(
    host: &dyn NicHost,
    state: &StateDir,
    nic: &PciNic,
    request: &SettingsRequest,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let outcome = apply(host, state, nic, request)?;
    let SetOutcome { settings, status, .. } = &outcome;
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
        "settings_of_root": outcome.of_root.as_ref().map(ToString::to_string),
        "in_use": link,
    });
    session.reporter.document(&fields, outcome.text(&nic.bdf))?;
    Ok(Exit::Done)
}

/// The result of a request.
#[derive(Debug)]
pub(crate) struct SetOutcome {
    /// The settings for the next port, including root's.
    pub(crate) settings: CardSettings,
    /// The part of `settings` that root has saved; `None` if this command's directory is root's.
    pub(crate) of_root: Option<CardSettings>,
    /// The program that has the card open, and the status of its port; `None` if no program has it
    /// open.
    pub(crate) status: Option<(GroupHolder, CardStatus)>,
    /// The name of a TAP device whose MTU this user may not change, and the MTU.
    pub(crate) tap_mtu: Option<(String, u32)>,
}

impl SetOutcome {
    pub(crate) fn text(&self, bdf: &str) -> String {
        let mut kept = match self.settings.is_empty() {
            true => format!("{bdf}: nothing is set; the driver chooses"),
            false => format!("{bdf}: {}", self.settings),
        };
        if let Some(of_root) = self.of_root.as_ref().filter(|settings| !settings.is_empty()) {
            kept += &format!("\nset by root: {of_root}");
        }
        if let Some((name, mtu)) = &self.tap_mtu {
            kept += &format!(
                "\nthe TAP device keeps its MTU; only root can change it: sudo ip link set {name} mtu {mtu}"
            );
        }
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
    let cards = TakenCards::new(host, state);
    if !request.is_empty() {
        // The state says whether the card has a TAP device, whose MTU must follow. The port of a
        // program that has the card open must not be changed before that is known.
        refuse_damaged(&cards, nic)?;
    }
    let sudo = if cards.roots().is_some() { "" } else { "sudo " };
    let unkept = |error: io::Error| unkept(nic, state, sudo, &error);
    // Held until the settings are written, so that no other command changes them meanwhile.
    let _lock = match request.is_empty() {
        true => None,
        false => Some(state.lock(host).map_err(unkept)?),
    };
    // Another command may have given the card back while this one waited for the lock.
    let now = PciNic::read(host.root(), &nic.bdf);
    if !now.as_ref().is_some_and(PciNic::is_bound) {
        return Err(not_taken(now.as_ref().unwrap_or(nic)).into());
    }
    let period = cards.period(&nic.bdf);
    let of_root = cards.roots().map(|roots| roots.settings(&nic.bdf, &period)).transpose();
    let of_root = of_root.map_err(|error| self::unkept(nic, state, "sudo ", &error))?;
    // A reset does not read the saved settings, so it also works if their file cannot be read.
    let kept = match request.reset {
        true => CardSettings::default(),
        false => state.settings(&nic.bdf, &period).map_err(unkept)?,
    };
    let own = request.applied_to(kept);
    let settings = of_root.unwrap_or_default().merged(own);
    settings.check(&abilities(nic)?).map_err(|refusal| refused(nic, refusal))?;
    let holder = nic.group.and_then(|group| group_holders(host.root(), group).into_iter().next());
    let status = match holder {
        None => None,
        Some(holder) => {
            // After a reset, the open port has root's settings again, as the next port will.
            let asked = match request.reset {
                true => SettingsRequest { reset: true, change: settings },
                false => *request,
            };
            let status = ask(host, nic, &holder, &asked)?;
            Some((holder, status))
        }
    };
    let mut tap_mtu = None;
    if !request.is_empty() {
        state.keep_settings(&nic.bdf, &own, &period).map_err(unkept)?;
        tap_mtu = follow_mtu(host, &cards, nic, request, of_root)
            .map_err(|error| not_followed(nic, &error))?;
    }
    Ok(SetOutcome { settings, of_root, status, tap_mtu })
}

/// Refuses a change of a card whose saved state cannot be read.
fn refuse_damaged(cards: &TakenCards<'_>, nic: &PciNic) -> Result<(), Failure> {
    match cards.saved(&nic.bdf) {
        Ok(_) => Ok(()),
        Err(error) => Err(unreadable(&cards.own().damaged(&nic.bdf, error)).into()),
    }
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

/// If the card has a TAP device, sets its MTU to the requested one. If a reset requests none, sets
/// the MTU that root has set, or that the interface had before the card was taken. Returns the name
/// of the TAP device and the MTU if only root may change it.
fn follow_mtu(
    host: &dyn NicHost,
    cards: &TakenCards<'_>,
    nic: &PciNic,
    request: &SettingsRequest,
    of_root: Option<CardSettings>,
) -> io::Result<Option<(String, u32)>> {
    let Some(saved) = cards.saved(&nic.bdf)?.filter(|saved| saved.tap) else { return Ok(None) };
    let Some(interface) = &saved.interface else { return Ok(None) };
    let of_root = of_root.and_then(|settings| settings.mtu);
    let former = request.reset.then_some(of_root.unwrap_or(interface.mtu));
    let Some(mtu) = request.change.mtu.or(former) else { return Ok(None) };
    let links = host.links()?;
    let Some(tap) = stand_in::find(&links, &saved).filter(|tap| tap.mtu != mtu) else {
        return Ok(None);
    };
    match host.change_link(tap.index, &LinkChange::Mtu(mtu)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(Some((tap.name.clone(), mtu)))
        }
        result => result.map(|()| None),
    }
}

fn refused(nic: &PciNic, SettingRefusal { reason, help }: SettingRefusal) -> Diagnostic {
    Diagnostic::new(SR0002, format!("{} cannot be set so; nothing was saved", nic.bdf))
        .with_cause(reason)
        .with_help(help)
}

fn not_taken(nic: &PciNic) -> Diagnostic {
    let name = nic.interfaces.first().unwrap_or(&nic.bdf);
    let bind = format!("slipring nic bind {name}");
    let (cause, help) = match (&nic.driver, nic.interfaces.is_empty()) {
        (None, _) => ("it has no driver".to_owned(), bind),
        (Some(driver), true) => (format!("its driver is {driver}, without an interface"), bind),
        (Some(driver), false) => (
            format!("its driver is {driver}, which has its own settings"),
            format!("ethtool -s {name} speed 100 autoneg off; or: {bind}"),
        ),
    };
    Diagnostic::new(SR0306, format!("{name} was not taken from the kernel"))
        .with_cause(cause)
        .with_help(help)
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

/// Explains why the TAP device does not have the MTU that was kept for the card.
fn not_followed(nic: &PciNic, error: &io::Error) -> Diagnostic {
    let summary = format!("the settings of {} are kept, but its TAP device keeps its MTU", nic.bdf);
    Diagnostic::new(SR0307, summary).with_cause(error.to_string()).with_help("ip link")
}

/// Explains why settings are not saved. `sudo` is the start of the command that discards the saved
/// ones: `sudo ` or nothing.
fn unkept(nic: &PciNic, state: &StateDir, sudo: &str, error: &io::Error) -> Diagnostic {
    let is_root = geteuid().is_root();
    let help = match error.kind() {
        io::ErrorKind::InvalidData => {
            format!("discard what was saved: {sudo}slipring nic set {} --reset", nic.bdf)
        }
        // Another command holds the lock, but only for a limited time, so this command can be
        // repeated.
        io::ErrorKind::TimedOut => format!("slipring nic set {} ...", nic.bdf),
        io::ErrorKind::PermissionDenied if !is_root && TrustError::of(error).is_none() => {
            format!("sudo slipring nic set {} ...", nic.bdf)
        }
        _ => help_with(error, state.dir(), is_root),
    };
    Diagnostic::new(SR0307, format!("the settings of {} cannot be kept", nic.bdf))
        .with_cause(error.to_string())
        .with_help(help)
}
