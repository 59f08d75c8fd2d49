//! The trait that every transport implements, and all that a driver sees of it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::bar::{Bar, Width};
use crate::error::PciError;
use crate::interrupt::InterruptKind;
use crate::memory::DmaMapper;

/// A PCI device.
///
/// Setup goes through this trait. While frames flow, a driver uses only what it got from it: a
/// [`Bar`], memory, and the descriptors of interrupts.
///
/// Dropping the device takes all access to memory away from it.
pub trait PciDevice: Send {
    /// The device's PCI address, or the path of the socket that serves it: for messages.
    fn address(&self) -> &str;

    /// Reads from the configuration space, at byte `at`.
    ///
    /// # Errors
    /// The transport's error. A device that is gone reads as all ones.
    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError>;

    /// Writes to the configuration space, at byte `at`.
    ///
    /// # Errors
    /// The transport's error.
    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError>;

    /// Returns the registers of base address register `index`, 0 to 5. The device must decode
    /// them: see [`config::enable`](crate::config::enable).
    ///
    /// # Errors
    /// [`PciError::NoBar`] if the device does not have it; the transport's error.
    fn bar(&self, index: u8) -> Result<Bar, PciError>;

    /// Returns the mapper that gives the device access to memory.
    fn dma(&self) -> Arc<dyn DmaMapper>;

    /// Returns how many interrupts of a kind the device has; 0 if it has none of the kind.
    fn interrupts(&self, kind: InterruptKind) -> u32;

    /// Makes the device write to `events`, which are eventfds: to the first for its interrupt 0,
    /// and so on. Without events, interrupts of this kind are turned off. Only one kind is on at a
    /// time.
    ///
    /// # Errors
    /// The transport's error.
    fn set_interrupts(
        &self,
        kind: InterruptKind,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError>;

    /// Allows the next [`InterruptKind::IntX`] interrupt. The line is masked when it has fired, as
    /// other devices may share it; the device must have been acknowledged first.
    ///
    /// # Errors
    /// The transport's error.
    fn unmask_intx(&self) -> Result<(), PciError>;

    /// Resets the device, if the transport can. A driver resets its chip in any case.
    ///
    /// # Errors
    /// The transport's error.
    fn reset(&self) -> Result<ResetResult, PciError>;
}

/// What became of a request to reset a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetResult {
    /// The device is as after power-on.
    Reset,
    /// The device or its transport has no reset, as many cards do not.
    Unsupported,
}
