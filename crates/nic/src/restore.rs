//! Gives cards back to their kernel drivers.
//!
//! A step that is no longer needed does nothing, so that a restore that was interrupted can be
//! repeated, and a bind that failed anywhere can be undone. If the kernel refuses a route, or
//! another interface has the name by now, this is reported, and everything else is restored: a
//! repeated restore would fail in the same way.

use std::io;
use std::time::Duration;

use slipring_port::netlink::{NetlinkLink, SavedSetting};

use crate::holders::{GroupHolder, group_holders};
use crate::host::{LinkChange, NicHost};
use crate::routes::{self, Unrestored};
use crate::stand_in;
use crate::state::{SavedInterface, SavedMessage, SavedNic, StateDir};
use crate::sysctls;
use crate::sysfs::{self, PciNic, VFIO_DRIVER, device_dir};

/// How long to wait for the interface after the driver was bound.
const INTERFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a rule of udev may take to rename the interface.
const RENAME_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a program may take to end after the signal TERM, and again after KILL.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two checks whether the awaited event has happened.
const PAUSE: Duration = Duration::from_millis(20);

/// Gives a card back, restores everything that was saved, and removes the state. Returns what the
/// kernel does not accept any more.
///
/// # Errors
/// The first error; the state stays, so that the command can be repeated.
pub(crate) fn put_back(
    host: &dyn NicHost,
    state: &StateDir,
    saved: &SavedNic,
) -> io::Result<Vec<Unrestored>> {
    if !device_dir(host.root(), &saved.bdf).exists() {
        return Err(no_longer_there());
    }
    let mut unrestored: Vec<_> = lost_with_state(saved).into_iter().collect();
    unrestored.extend(added_meanwhile(host, saved));
    stand_in::delete(host, saved)?;
    give_to_driver(host, saved)?;
    let has_driver = sysfs::driver_of(host.root(), &saved.bdf).is_some();
    if let Some(interface) = saved.interface.as_ref().filter(|_| has_driver) {
        let link = wait_for_interface(host, saved, interface)?;
        unrestored.extend(rename(host, &link, interface)?);
        unrestored.extend(configure(host, link.index, interface)?);
    }
    state.remove(&saved.bdf)?;
    Ok(unrestored)
}

/// Returns the error for a card that was removed from the machine.
pub(crate) fn no_longer_there() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "the card is no longer in the machine; to look for it: echo 1 > /sys/bus/pci/rescan",
    )
}

/// Whether a card that was taken is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Presence {
    There,
    Gone,
    /// Another card, with these IDs, is in its place.
    Replaced(String),
}

/// Finds out whether a card that was taken is there.
pub(crate) fn presence(host: &dyn NicHost, saved: &SavedNic) -> Presence {
    match PciNic::read(host.root(), &saved.bdf) {
        None => Presence::Gone,
        Some(nic) if saved.is_of(&nic) => Presence::There,
        Some(nic) => Presence::Replaced(nic.id()),
    }
}

/// Discards what was saved of a card that is not there any more: its TAP device, with the addresses
/// and routes, its state and its settings.
///
/// # Errors
/// The first error; the state stays, so that the command can be repeated.
pub(crate) fn forget(host: &dyn NicHost, state: &StateDir, saved: &SavedNic) -> io::Result<()> {
    stand_in::delete(host, saved)?;
    state.remove(&saved.bdf)
}

/// Returns what is lost of a card whose first state could not be read.
fn lost_with_state(saved: &SavedNic) -> Option<Unrestored> {
    let error = saved.rebuilt.as_ref()?;
    let what = match &saved.interface {
        Some(SavedInterface { name, .. }) => format!(
            "what was saved; name, MAC address, MTU, addresses and routes are those of the TAP device {name}"
        ),
        None => "what was saved, such as the name and the addresses".to_owned(),
    };
    Some(Unrestored { what, why: format!("the saved state cannot be read: {error}") })
}

/// Returns the addresses and routes that the TAP device has got while the card was taken. They end
/// with it.
fn added_meanwhile(host: &dyn NicHost, saved: &SavedNic) -> Vec<Unrestored> {
    // If the links or the settings cannot be listed, nothing is returned. That must not prevent the
    // restore.
    let links = host.links().unwrap_or_default();
    let (Some(interface), Some(tap)) = (&saved.interface, stand_in::find(&links, saved)) else {
        return Vec::new();
    };
    let now = host.snapshot(tap.index).unwrap_or_default();
    let added = |kind: &str, now: &[SavedSetting], before: &[SavedMessage]| {
        // The kernel makes the route of link-local addresses by itself.
        let is_new = |one: &&SavedSetting| {
            !one.text.starts_with("fe80::/64") && before.iter().all(|other| other.text != one.text)
        };
        let dropped = |one: &SavedSetting| Unrestored {
            what: format!("the {kind} {}", one.text),
            why: format!("{} got it while the card was taken", tap.name),
        };
        now.iter().filter(is_new).map(dropped).collect::<Vec<_>>()
    };
    let mut dropped = added("address", &now.addresses, &interface.addresses);
    dropped.extend(added("route", &now.routes, &interface.routes));
    dropped
}

fn give_to_driver(host: &dyn NicHost, saved: &SavedNic) -> io::Result<()> {
    let root = host.root();
    let dir = device_dir(root, &saved.bdf);
    if sysfs::override_of(root, &saved.bdf) != saved.driver_override {
        // A newline alone removes the override.
        let text = saved.driver_override.as_deref().unwrap_or("\n");
        host.write(&dir.join("driver_override"), text)?;
    }
    if saved.driver.as_deref() != Some(VFIO_DRIVER)
        && sysfs::driver_of(root, &saved.bdf).as_deref() == Some(VFIO_DRIVER)
    {
        host.write(&dir.join("driver/unbind"), &saved.bdf)?;
    }
    let is_any = saved.rebuilt.is_some();
    if (saved.driver.is_some() || is_any) && sysfs::driver_of(root, &saved.bdf).is_none() {
        host.write(&root.join("sys/bus/pci/drivers_probe"), &saved.bdf)?;
    }
    let driver = sysfs::driver_of(root, &saved.bdf);
    if driver != saved.driver && !is_any {
        let name = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "no driver".into());
        return Err(io::Error::other(format!(
            "the kernel gave the card to {}, and not to {}",
            name(&driver),
            name(&saved.driver)
        )));
    }
    // Without a driver, there is no interface for what was saved, which must then be kept.
    if is_any && saved.interface.is_some() && driver.is_none() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no driver of the kernel takes the card; load its module, and repeat this command",
        ));
    }
    Ok(())
}

/// Waits for the card's interface, and returns it: at once if it has its saved name, otherwise not
/// before [`RENAME_TIMEOUT`] from the call, because udev may rename it.
fn wait_for_interface(
    host: &dyn NicHost,
    saved: &SavedNic,
    interface: &SavedInterface,
) -> io::Result<NetlinkLink> {
    let start = host.uptime();
    loop {
        let names = sysfs::interfaces_of(host.root(), &saved.bdf);
        let links = host.links()?;
        let mut own = links.into_iter().filter(|link| names.contains(&link.name));
        let waited = host.uptime().saturating_sub(start);
        match own.next() {
            Some(link) if link.name == interface.name || waited >= RENAME_TIMEOUT => {
                return Ok(link);
            }
            None if waited >= INTERFACE_TIMEOUT => {
                let text = format!("the driver made no interface for {}", saved.bdf);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            _ => host.pause(PAUSE),
        }
    }
}

/// Gives a link the name of a saved interface. If another link has this name, returns it as
/// unrestored.
fn rename(
    host: &dyn NicHost,
    link: &NetlinkLink,
    interface: &SavedInterface,
) -> io::Result<Option<Unrestored>> {
    if link.name == interface.name {
        return Ok(None);
    }
    if let Some(other) = host.links()?.iter().find(|other| other.name == interface.name) {
        let kind = if other.kind.is_empty() { "hardware" } else { &other.kind };
        let what = format!("the name {}", interface.name);
        let why = format!("another interface ({kind}) has it, so the card is {}", link.name);
        return Ok(Some(Unrestored { what, why }));
    }
    if link.up {
        host.change_link(link.index, &LinkChange::Down)?;
    }
    host.change_link(link.index, &LinkChange::Name(&interface.name))?;
    Ok(None)
}

/// Gives a link the settings of a saved interface. Returns those that the kernel refuses.
pub(crate) fn configure(
    host: &dyn NicHost,
    index: u32,
    interface: &SavedInterface,
) -> io::Result<Vec<Unrestored>> {
    let links = host.links()?;
    let link = links.iter().find(|link| link.index == index).ok_or(io::ErrorKind::NotFound)?;
    // Before the addresses, because IPv6 may be disabled, and while the link is down, because a
    // bond takes no link that is up.
    let mut unrestored = sysctls::restore(host, &link.name, &interface.sysctls);
    unrestored.extend(join(host, link, &links, interface.master.as_deref()));
    if link.mac != interface.mac {
        host.change_link(index, &LinkChange::Mac(interface.mac))?;
    }
    if link.mtu != interface.mtu {
        host.change_link(index, &LinkChange::Mtu(interface.mtu))?;
    }
    for address in &interface.addresses {
        host.change_link(index, &LinkChange::Address(&address.setting()?)).map_err(|error| {
            io::Error::new(error.kind(), format!("the address {}: {error}", address.text))
        })?;
    }
    if !interface.up {
        return Ok(unrestored);
    }
    host.change_link(index, &LinkChange::Up)?;
    // The kernel has deleted the routes along with the interface.
    unrestored.extend(routes::restore(host, index, &interface.routes)?);
    Ok(unrestored)
}

/// Makes a link a member of its former bridge, bond or team. If that one is gone, or does not
/// accept the link, returns the membership as unrestored.
fn join(
    host: &dyn NicHost,
    link: &NetlinkLink,
    links: &[NetlinkLink],
    master: Option<&str>,
) -> Option<Unrestored> {
    let name = master?;
    let unrestored =
        |why: String| Some(Unrestored { what: format!("the membership in {name}"), why });
    match links.iter().find(|other| other.name == name) {
        Some(master) if link.master == Some(master.index) => None,
        Some(master) => match host.change_link(link.index, &LinkChange::Master(master.index)) {
            Ok(()) => None,
            Err(error) => unrestored(error.to_string()),
        },
        None => unrestored("there is no such interface any more".to_owned()),
    }
}

/// Ends the programs that have a card's group open, because the kernel cannot take the card from
/// them.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if one of them does not end.
pub(crate) fn end_holders(host: &dyn NicHost, group: u32) -> io::Result<()> {
    for kill in [false, true] {
        for GroupHolder { pid, .. } in group_holders(host.root(), group) {
            // The process may have ended by itself, so an error is ignored.
            let _ = host.end_process(pid, kill);
        }
        let until = host.uptime() + END_TIMEOUT;
        while host.uptime() < until {
            if group_holders(host.root(), group).is_empty() {
                return Ok(());
            }
            host.pause(PAUSE);
        }
    }
    match group_holders(host.root(), group).first() {
        None => Ok(()),
        Some(GroupHolder { pid, process }) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the program {process} (process {pid}) does not end"),
        )),
    }
}
