//! A driver, as listed in the table of drivers.

use slipring_pci::config::PciId;
use slipring_pci::{PciDevice, PciError};
use slipring_port::{OpenCause, Port};

use crate::open::NicSetup;
use crate::settings::LinkAbilities;

/// A driver.
pub trait NicDriver: Sync {
    /// Returns the driver's name, which is also the name of its folder.
    fn name(&self) -> &'static str;

    /// Returns the chips that the driver supports.
    fn chips(&self) -> &'static [ChipId];

    /// Returns the settings that a chip with this identifier supports. If several chips have the
    /// same identifier, returns those that the best of them supports.
    fn abilities(&self, chip: &ChipId) -> LinkAbilities;

    /// Takes over the device and opens a port. When this fails, the device is stopped.
    ///
    /// # Errors
    /// Why the port cannot be opened, with advice on what to try next.
    fn open(
        &self,
        device: Box<dyn PciDevice>,
        chip: &ChipId,
        setup: &NicSetup<'_>,
    ) -> Result<Port, OpenCause>;
}

/// A chip and its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChipId {
    /// The identifier.
    pub id: PciId,
    /// The name that the manufacturer uses.
    pub name: &'static str,
}

impl ChipId {
    /// Creates the entry of a chip in the list of a driver.
    pub(crate) const fn new(vendor: u16, device: u16, name: &'static str) -> Self {
        Self { id: PciId { vendor, device }, name }
    }
}

/// Converts an error of a transport to the cause of a failed open.
#[must_use]
pub fn refused(error: PciError) -> OpenCause {
    match error {
        PciError::LockedMemory { bytes } => OpenCause::LockedMemory { bytes },
        PciError::GroupInUse { group } => OpenCause::CardBusy { group },
        error => OpenCause::Card { reason: error.to_string(), help: error.help() },
    }
}
