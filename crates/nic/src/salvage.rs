//! Makes the state of a card again if the saved one cannot be read. The TAP device, which has the
//! card's alias, still has the name, MAC address, MTU, addresses and routes. Everything else is
//! lost, and the card gets the driver that the kernel chooses.

use std::io;

use crate::alias;
use crate::host::NicHost;
use crate::state::{SavedInterface, SavedNic, UnreadableState, boot_id};
use crate::sysfs::{PciNic, VFIO_DRIVER};

/// Returns the state of a card, as far as the machine still has it.
///
/// # Errors
/// `NotFound` if the card is not there; otherwise the error of listing the links.
pub(crate) fn rebuild(host: &dyn NicHost, damaged: &UnreadableState) -> io::Result<SavedNic> {
    let nic = PciNic::read(host.root(), &damaged.bdf).ok_or(io::ErrorKind::NotFound)?;
    let group = nic.group.unwrap_or_default();
    let mut saved = SavedNic::new(&nic, group, boot_id(host.root()));
    saved.rebuilt = Some(damaged.error.to_string());
    saved.driver = saved.driver.filter(|driver| driver != VFIO_DRIVER);
    saved.driver_override = saved.driver_override.filter(|driver| driver != VFIO_DRIVER);
    saved.bound_at_ms = host.uptime().as_millis() as u64;
    let links = host.links()?;
    if let Some(tap) = alias::taps_of(&links, &damaged.bdf).next() {
        let interface = SavedInterface::of(host, tap, &links, &host.snapshot(tap.index)?);
        saved.interface = Some(interface);
        saved.tap = true;
    }
    Ok(saved)
}
