//! A device whose accesses by a driver are watched.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use slipring_pci::{
    Bar, DmaMapper, InterruptKind, PciDevice, PciError, RegisterAccess, ResetResult, Width,
};

/// A function that is called before each write to the configuration space, with the device, the
/// byte offset and the value.
type ConfigCheck = fn(&dyn PciDevice, u16, u32);

/// A device that counts writes to its registers, and checks writes to its configuration space.
pub(crate) struct Watched<D> {
    device: D,
    check: ConfigCheck,
    accesses: Arc<Accesses>,
}

/// What is known of a driver's accesses.
#[derive(Default)]
pub(crate) struct Accesses {
    /// Number of writes to registers.
    pub(crate) writes: AtomicU64,
    /// The base address registers that the driver has asked for, with their indices. Accesses that
    /// a test makes by these are not counted.
    pub(crate) bars: Mutex<Vec<(u8, Bar)>>,
}

impl<D: PciDevice> Watched<D> {
    pub(crate) fn new(device: D, check: ConfigCheck) -> Self {
        Self { device, check, accesses: Arc::default() }
    }

    pub(crate) fn accesses(&self) -> Arc<Accesses> {
        self.accesses.clone()
    }
}

/// Registers whose writes are counted.
struct CountedRegisters {
    bar: Bar,
    accesses: Arc<Accesses>,
}

impl RegisterAccess for CountedRegisters {
    fn read(&self, at: u64, width: Width) -> u32 {
        match width {
            Width::Byte => self.bar.read8(at).into(),
            Width::Word => self.bar.read16(at).into(),
            Width::Long => self.bar.read32(at),
        }
    }

    fn write(&self, at: u64, width: Width, value: u32) {
        self.accesses.writes.fetch_add(1, Ordering::Relaxed);
        match width {
            Width::Byte => self.bar.write8(at, value as u8),
            Width::Word => self.bar.write16(at, value as u16),
            Width::Long => self.bar.write32(at, value),
        }
    }
}

impl<D: PciDevice> PciDevice for Watched<D> {
    fn address(&self) -> &str {
        self.device.address()
    }

    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError> {
        self.device.config_read(at, width)
    }

    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError> {
        (self.check)(&self.device, at, value);
        self.device.config_write(at, width, value)
    }

    fn bar(&self, index: u8) -> Result<Bar, PciError> {
        let bar = self.device.bar(index)?;
        self.accesses.bars.lock().unwrap().push((index, bar.clone()));
        let counted = CountedRegisters { bar: bar.clone(), accesses: self.accesses.clone() };
        Ok(Bar::new(bar.len(), Vec::new(), Box::new(counted)))
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        self.device.dma()
    }

    fn interrupts(&self, kind: InterruptKind) -> u32 {
        self.device.interrupts(kind)
    }

    fn set_interrupts(&self, kind: InterruptKind, to: &[BorrowedFd<'_>]) -> Result<(), PciError> {
        self.device.set_interrupts(kind, to)
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        self.device.unmask_intx()
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        self.device.reset()
    }
}
