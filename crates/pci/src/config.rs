//! The configuration space (PCI Local Bus Specification 3.0, chapter 6).

use crate::bar::Width;
use crate::device::PciDevice;
use crate::error::PciError;

/// Vendor and device identifier.
const IDS: u16 = 0x00;
const COMMAND: u16 = 0x04;
const STATUS: u16 = 0x06;
/// Subsystem vendor and subsystem identifier.
const SUBSYSTEM: u16 = 0x2c;
const CAPABILITIES: u16 = 0x34;

/// Command register: the device decodes memory addresses.
const COMMAND_MEMORY: u32 = 1 << 1;
/// Command register: the device may access memory.
const COMMAND_BUS_MASTER: u32 = 1 << 2;
/// Command register: the device must not assert its interrupt line.
const COMMAND_INTX_OFF: u32 = 1 << 10;
/// Status register: the device has a list of capabilities.
const STATUS_CAPABILITIES: u32 = 1 << 4;

/// Capability: vendor-specific, which virtio uses to describe its registers.
pub const CAPABILITY_VENDOR: u8 = 0x09;
/// Capability: PCI Express.
pub const CAPABILITY_EXPRESS: u8 = 0x10;

/// Link control, relative to the PCI Express capability; bits 0 and 1 are ASPM.
const EXPRESS_LINK_CONTROL: u16 = 0x10;
const LINK_CONTROL_ASPM: u32 = 3;

/// Offsets at which a capability can lie: after the standard header, and within the 256 bytes that
/// the configuration space of every device has.
const CAPABILITY_RANGE: std::ops::Range<u16> = 0x40..0x100;
/// Maximum number of capabilities: each has at least four bytes. A longer list must contain a loop.
const MAX_CAPABILITIES: usize = 48;

/// Identifies a device model: its vendor and its device ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciId {
    /// The vendor ID.
    pub vendor: u16,
    /// The device ID, which the vendor has assigned.
    pub device: u16,
}

impl std::fmt::Display for PciId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

fn id_of(value: u32) -> PciId {
    PciId { vendor: value as u16, device: (value >> 16) as u16 }
}

/// Reads the vendor and device identifier.
///
/// # Errors
/// [`PciError::Gone`] if there is no device; the transport's error.
pub fn id(device: &dyn PciDevice) -> Result<PciId, PciError> {
    match device.config_read(IDS, Width::Long)? {
        u32::MAX => Err(PciError::Gone { address: device.address().to_owned() }),
        value => Ok(id_of(value)),
    }
}

/// Reads the identifiers of the board that the chip is on.
///
/// # Errors
/// The transport's error.
pub fn subsystem(device: &dyn PciDevice) -> Result<PciId, PciError> {
    Ok(id_of(device.config_read(SUBSYSTEM, Width::Long)?))
}

/// Allows the device to decode its memory BARs, and forbids it to access memory. A driver calls
/// this before it stops the device, which may still have the rings of a process that was killed.
///
/// # Errors
/// The transport's error.
pub fn enable_registers(device: &dyn PciDevice) -> Result<(), PciError> {
    let command = device.config_read(COMMAND, Width::Word)?;
    device.config_write(COMMAND, Width::Word, (command | COMMAND_MEMORY) & !COMMAND_BUS_MASTER)
}

/// Allows the device to decode its memory BARs, to access memory, and to assert its interrupt
/// line.
///
/// # Errors
/// The transport's error.
pub fn enable(device: &dyn PciDevice) -> Result<(), PciError> {
    let command = device.config_read(COMMAND, Width::Word)?;
    let enabled = (command | COMMAND_MEMORY | COMMAND_BUS_MASTER) & !COMMAND_INTX_OFF;
    device.config_write(COMMAND, Width::Word, enabled)
}

/// Forbids the device to access memory.
///
/// # Errors
/// The transport's error.
pub fn stop_bus_master(device: &dyn PciDevice) -> Result<(), PciError> {
    let command = device.config_read(COMMAND, Width::Word)?;
    device.config_write(COMMAND, Width::Word, command & !COMMAND_BUS_MASTER)
}

/// Returns the offsets of all capabilities with this number, in the order of the list.
///
/// # Errors
/// The transport's error.
pub fn capabilities(device: &dyn PciDevice, number: u8) -> Result<Vec<u16>, PciError> {
    let mut found = Vec::new();
    if device.config_read(STATUS, Width::Word)? & STATUS_CAPABILITIES == 0 {
        return Ok(found);
    }
    // The two lowest bits of a pointer are reserved.
    let mut at = device.config_read(CAPABILITIES, Width::Byte)? as u16 & !3;
    for _ in 0..MAX_CAPABILITIES {
        if !CAPABILITY_RANGE.contains(&at) {
            break;
        }
        let head = device.config_read(at, Width::Word)?;
        if head as u8 == number {
            found.push(at);
        }
        at = (head >> 8) as u16 & !3;
    }
    Ok(found)
}

/// Turns off the power saving of the link (ASPM), because it makes several chips lose frames. Does
/// nothing if the device is not a PCI Express device.
///
/// # Errors
/// The transport's error.
pub fn disable_aspm(device: &dyn PciDevice) -> Result<(), PciError> {
    for at in capabilities(device, CAPABILITY_EXPRESS)? {
        let control = device.config_read(at + EXPRESS_LINK_CONTROL, Width::Word)?;
        device.config_write(
            at + EXPRESS_LINK_CONTROL,
            Width::Word,
            control & !LINK_CONTROL_ASPM,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
