//! The TAP device that has the name, addresses and routes of a card's interface while the card is
//! bound to vfio-pci.

use std::io;

use slipring_port::netlink::NetlinkLink;
use slipring_port::taken;

use crate::host::{LinkChange, NicHost};
use crate::restore;
use crate::state::{SavedInterface, SavedNic};

/// Finds the TAP device of a card by its alias, because it may have been renamed, and another may
/// have its name.
pub(crate) fn find<'a>(links: &'a [NetlinkLink], saved: &SavedNic) -> Option<&'a NetlinkLink> {
    let interface = saved.interface.as_ref()?;
    let alias = taken::alias_of(&saved.bdf);
    let mut taps = links.iter().filter(|link| link.kind == "tun");
    taps.clone().find(|tap| tap.alias == alias).or_else(|| {
        // The alias may have been changed, or `bind` was killed before it was set.
        taps.find(|tap| {
            let is_new = !saved.complete && tap.alias.is_empty();
            tap.name == interface.name && (is_new || tap.mac == interface.mac)
        })
    })
}

/// Creates the TAP device of a card.
///
/// # Errors
/// The kernel's error, also for a single route.
pub(crate) fn create(host: &dyn NicHost, saved: &SavedNic) -> io::Result<()> {
    let Some(interface) = &saved.interface else { return Ok(()) };
    let index = host.create_tap(&interface.name)?;
    // By this alias, `netmap:IF` finds the card, and `netmap:IF^` finds the TAP device.
    host.change_link(index, &LinkChange::Alias(&taken::alias_of(&saved.bdf)))?;
    // A bond or team would choose a card without a carrier, or take the TAP device's MAC address.
    let links = host.links()?;
    let bridge = links.iter().find(|link| Some(&link.name) == interface.master.as_ref());
    let bridge = bridge.filter(|master| master.kind == "bridge").map(|bridge| bridge.name.clone());
    let interface = SavedInterface { master: bridge, ..interface.clone() };
    match restore::configure(host, index, &interface)?.first() {
        Some(unrestored) => Err(io::Error::other(unrestored.to_string())),
        None => Ok(()),
    }
}

/// Deletes the TAP device of a card, if there is one.
///
/// # Errors
/// The kernel's error.
pub(crate) fn delete(host: &dyn NicHost, saved: &SavedNic) -> io::Result<()> {
    if !saved.tap {
        return Ok(());
    }
    match find(&host.links()?, saved) {
        Some(tap) => host.change_link(tap.index, &LinkChange::Delete),
        None => Ok(()),
    }
}
