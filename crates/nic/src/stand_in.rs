//! The TAP device that has the name, addresses and routes of a card's interface while the card is
//! bound to vfio-pci.

use std::io;

use slipring_port::netlink::NetlinkLink;
use slipring_port::taken;

use crate::alias::taps_of;
use crate::host::{LinkChange, NicHost};
use crate::restore;
use crate::state::{SavedInterface, SavedNic};

/// Finds the TAP device of a card by its alias, because it may have been renamed, and another may
/// have its name. Of several with the alias, the one with the name counts.
pub(crate) fn find<'a>(links: &'a [NetlinkLink], saved: &SavedNic) -> Option<&'a NetlinkLink> {
    let interface = saved.interface.as_ref()?;
    let mut own = taps_of(links, &saved.bdf);
    let with_name = own.clone().find(|tap| tap.name == interface.name);
    with_name.or_else(|| own.next()).or_else(|| {
        // The alias may have been changed, or `bind` was killed before it was set.
        links.iter().filter(|link| link.kind == "tun").find(|tap| {
            let is_new = !saved.complete && tap.alias.is_empty();
            tap.name == interface.name && (is_new || tap.mac == interface.mac)
        })
    })
}

/// Creates the TAP device of a card.
///
/// # Errors
/// The kernel's error, also if it refuses only one of the settings.
pub(crate) fn create(host: &dyn NicHost, saved: &SavedNic) -> io::Result<()> {
    let Some(interface) = &saved.interface else { return Ok(()) };
    let index = host.create_tap(&interface.name)?;
    // By this alias, `netmap:IF` finds the card, and `netmap:IF^` finds the TAP device.
    host.change_link(index, &LinkChange::Alias(&taken::alias_of(&saved.bdf)))?;
    // The TAP device joins a bridge, but no bond or team: these would choose it even if the card
    // has no carrier, or take its MAC address.
    let links = host.links()?;
    let bridge = links.iter().find(|link| Some(&link.name) == interface.master.as_ref());
    let bridge = bridge.filter(|master| master.kind == "bridge").map(|bridge| bridge.name.clone());
    let interface = SavedInterface { master: bridge, ..interface.clone() };
    match restore::configure(host, index, &interface)?.first() {
        Some(unrestored) => Err(io::Error::other(unrestored.to_string())),
        None => Ok(()),
    }
}

/// Deletes the TAP device of a card, if there is one, and all others with the card's alias.
///
/// # Errors
/// The kernel's error.
pub(crate) fn delete(host: &dyn NicHost, saved: &SavedNic) -> io::Result<()> {
    let links = host.links()?;
    let found = find(&links, saved).filter(|_| saved.tap).map(|tap| tap.index);
    let mut indices: Vec<_> = taps_of(&links, &saved.bdf).map(|tap| tap.index).collect();
    indices.extend(found.filter(|index| !indices.contains(index)));
    delete_all(host, &indices)
}

/// Deletes every TAP device with the alias of a card.
///
/// # Errors
/// The kernel's error.
pub(crate) fn delete_of_card(host: &dyn NicHost, bdf: &str) -> io::Result<()> {
    let indices: Vec<_> = taps_of(&host.links()?, bdf).map(|tap| tap.index).collect();
    delete_all(host, &indices)
}

fn delete_all(host: &dyn NicHost, indices: &[u32]) -> io::Result<()> {
    indices.iter().try_for_each(|index| host.change_link(*index, &LinkChange::Delete))
}
