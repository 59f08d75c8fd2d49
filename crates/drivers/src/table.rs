//! The table of drivers: finds the driver of a chip.

use slipring_pci::PciDevice;
use slipring_pci::config::{self, PciId};
use slipring_port::{OpenCause, Port};

use crate::driver::{ChipId, NicDriver, refused};
use crate::open::NicSetup;
use crate::{e1000, e1000e, igb, rtl, virtio};

/// All drivers, in the order in which messages list them.
static DRIVERS: &[&dyn NicDriver] =
    &[&e1000::DRIVER, &e1000e::DRIVER, &igb::DRIVER, &rtl::DRIVER, &virtio::DRIVER];

/// All drivers.
pub fn drivers() -> impl Iterator<Item = &'static dyn NicDriver> {
    DRIVERS.iter().copied()
}

/// Finds the driver of a chip.
#[must_use]
pub fn driver_of(id: PciId) -> Option<(&'static dyn NicDriver, &'static ChipId)> {
    drivers().find_map(|driver| {
        let chip = driver.chips().iter().find(|chip| chip.id == id)?;
        Some((driver, chip))
    })
}

/// The chips that have a driver, as a message lists them.
#[must_use]
pub fn supported_chips() -> String {
    let lists = drivers().map(|driver| {
        let mut names: Vec<_> = driver.chips().iter().map(|chip| chip.name).collect();
        names.dedup();
        format!("{} ({})", driver.name(), names.join(", "))
    });
    lists.collect::<Vec<_>>().join("; ")
}

/// The error for a chip that has no driver.
#[must_use]
pub fn unknown_chip(address: &str, id: PciId) -> OpenCause {
    let reason = format!("there is no driver for the chip {id} of {address}");
    OpenCause::Card { reason, help: Some(format!("chips with a driver: {}", supported_chips())) }
}

/// Opens a port on a device, by the driver of its chip.
///
/// # Errors
/// [`OpenCause::Card`] for a chip without a driver; the errors of its driver.
pub fn open_port(device: Box<dyn PciDevice>, setup: &NicSetup<'_>) -> Result<Port, OpenCause> {
    let id = config::id(device.as_ref()).map_err(refused)?;
    match driver_of(id) {
        Some((driver, chip)) => driver.open(device, chip, setup),
        None => Err(unknown_chip(device.address(), id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chip_has_two_drivers() {
        let all: Vec<_> = drivers().flat_map(NicDriver::chips).collect();
        for (i, chip) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other.id != chip.id), "{chip:?}");
        }
    }

    #[test]
    fn a_chip_without_a_driver_is_refused_with_the_list_of_those_that_have_one() {
        let OpenCause::Card { reason, help } =
            unknown_chip("0000:03:00.0", PciId { vendor: 0x8086, device: 0x15b8 })
        else {
            panic!("another cause")
        };
        assert_eq!(reason, "there is no driver for the chip 8086:15b8 of 0000:03:00.0");
        assert!(help.unwrap().contains("e1000e (82574L"));
    }
}
