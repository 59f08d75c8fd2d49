//! Interrupts as eventfds.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::device::PciDevice;
use crate::error::PciError;

/// The kinds of interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptKind {
    /// An interrupt line, which is level-triggered and may be shared.
    IntX,
    /// Message-signalled interrupts.
    Msi,
    /// Message-signalled interrupts with a table of vectors.
    MsiX,
}

impl InterruptKind {
    /// The name, for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IntX => "intx",
            Self::Msi => "msi",
            Self::MsiX => "msix",
        }
    }

    /// VFIO's index of the kind (`VFIO_PCI_INTX_IRQ_INDEX` and so on), which vfio-user also uses.
    pub(crate) const fn index(self) -> u32 {
        match self {
            Self::IntX => 0,
            Self::Msi => 1,
            Self::MsiX => 2,
        }
    }
}

/// Interrupt 0 of a device, of the best kind that the device supports.
///
/// A driver masks the device's causes while it polls and unmasks them before it sleeps, so besides
/// [`Self::clear`], only an interrupt line needs a system call per interrupt: [`Self::rearm`].
#[derive(Debug)]
pub struct Interrupt {
    event: OwnedFd,
    kind: InterruptKind,
}

impl Interrupt {
    /// Turns an interrupt on: MSI-X if the device has it, else MSI, else its line.
    ///
    /// # Errors
    /// [`PciError::NoInterrupt`] if the device supports no kind; otherwise the error of the
    /// eventfd, or of the last kind that was tried.
    pub fn open(device: &dyn PciDevice) -> Result<Self, PciError> {
        Self::open_one_of(device, &[InterruptKind::MsiX, InterruptKind::Msi, InterruptKind::IntX])
    }

    /// Like [`Self::open`], but tries `kinds` in this order.
    ///
    /// # Errors
    /// Same as for [`Self::open`].
    pub fn open_one_of(device: &dyn PciDevice, kinds: &[InterruptKind]) -> Result<Self, PciError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|source| PciError::system("make an eventfd", source))?;
        let mut failure = None;
        for &kind in kinds.iter().filter(|&&kind| device.interrupts(kind) > 0) {
            match device.set_interrupts(kind, &[event.as_fd()]) {
                Ok(()) => return Ok(Self { event, kind }),
                Err(error) => failure = Some(error),
            }
        }
        let address = device.address().to_owned();
        Err(failure.unwrap_or(PciError::NoInterrupt { address }))
    }

    /// The kind in use.
    #[must_use]
    pub fn kind(&self) -> InterruptKind {
        self.kind
    }

    /// A descriptor that is readable when the device has interrupted.
    #[must_use]
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Clears the event; returns whether the device had interrupted.
    pub fn clear(&self) -> bool {
        let mut count = [0; 8];
        matches!(rustix::io::read(&self.event, &mut count), Ok(8))
    }

    /// Allows the next interrupt, after the device's causes were acknowledged or masked.
    ///
    /// # Errors
    /// The transport's error.
    pub fn rearm(&self, device: &dyn PciDevice) -> Result<(), PciError> {
        match self.kind {
            InterruptKind::IntX => device.unmask_intx(),
            InterruptKind::Msi | InterruptKind::MsiX => Ok(()),
        }
    }

    /// Turns the interrupt off.
    ///
    /// # Errors
    /// The transport's error.
    pub fn close(self, device: &dyn PciDevice) -> Result<(), PciError> {
        device.set_interrupts(self.kind, &[])
    }
}
