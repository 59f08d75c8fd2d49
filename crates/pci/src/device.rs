//! The trait that every transport implements. Drivers use only this trait.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::bar::{Bar, Width};
use crate::error::PciError;
use crate::interrupt::InterruptKind;
use crate::memory::DmaMapper;

/// A PCI device.
///
/// Setup goes through this trait. While frames are sent and received, a driver uses only objects
/// that it got from the trait: a [`Bar`], memory, and the descriptors of interrupts.
///
/// After the device is dropped, it can no longer access memory.
pub trait PciDevice: Send {
    /// The device's PCI address, or the path of the socket that serves it: for messages.
    fn address(&self) -> &str;

    /// Reads from the configuration space, at byte `at`.
    ///
    /// # Errors
    /// The transport's error. A removed device reads as all ones.
    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError>;

    /// Writes to the configuration space, at byte `at`.
    ///
    /// # Errors
    /// The transport's error.
    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError>;

    /// Returns the registers of base address register `index`, 0 to 5.
    /// [`config::enable_registers`](crate::config::enable_registers) must have been called before.
    ///
    /// # Errors
    /// [`PciError::NoBar`] if the device does not have it; the transport's error.
    fn bar(&self, index: u8) -> Result<Bar, PciError>;

    /// Returns the mapper that gives the device access to memory.
    fn dma(&self) -> Arc<dyn DmaMapper>;

    /// Returns how many interrupts of a kind the device has; 0 if it has none of the kind.
    fn interrupts(&self, kind: InterruptKind) -> u32;

    /// Makes interrupt `i` of the device write to the eventfd `events[i]`. Without events,
    /// interrupts of this kind are turned off. Only one kind can be on at a time.
    ///
    /// # Errors
    /// The transport's error.
    fn set_interrupts(
        &self,
        kind: InterruptKind,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError>;

    /// Allows the next [`InterruptKind::IntX`] interrupt. The line is masked after it has fired,
    /// because other devices may share it. The driver must first acknowledge the device's causes.
    ///
    /// # Errors
    /// The transport's error.
    fn unmask_intx(&self) -> Result<(), PciError>;

    /// Resets the device, if the transport can. Drivers also reset the chip themselves.
    ///
    /// # Errors
    /// The transport's error.
    fn reset(&self) -> Result<ResetResult, PciError>;
}

/// The result of a request to reset a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetResult {
    /// The device is in the state after power-on.
    Reset,
    /// The device or its transport does not support a reset, as is the case with many cards.
    Unsupported,
}
