//! The model as a PCI device in the driver's process. A register access is a function call, so the
//! model needs no thread, and an access does not wait for one.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slipring_pci::{
    Bar, DmaMapper, InterruptKind, MemoryRange, PciDevice, PciError, RegisterAccess, ResetResult,
    Width,
};

use crate::device::{Device, DeviceRegion};
use crate::dma::DmaPermissions;
use crate::interrupts::InterruptIndex;

/// A model that a test and a driver share.
pub type SharedModel = Arc<Mutex<Device>>;

/// Locks the model. A driver's access to the device waits until the guard is dropped.
pub fn locked(model: &SharedModel) -> MutexGuard<'_, Device> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A model as a PCI device.
pub struct ModelDevice {
    model: SharedModel,
    mapper: Arc<ModelMapper>,
    /// The only kind of interrupts that the machine has; `None` if it has all kinds.
    only: Option<InterruptKind>,
}

impl ModelDevice {
    /// The model in a machine with all kinds of interrupts.
    #[must_use]
    pub fn new(model: &SharedModel) -> Self {
        Self::with(model, None)
    }

    /// The model in a machine with one kind of interrupts.
    #[must_use]
    pub fn with_only(model: &SharedModel, kind: InterruptKind) -> Self {
        Self::with(model, Some(kind))
    }

    fn with(model: &SharedModel, only: Option<InterruptKind>) -> Self {
        let mapper = ModelMapper { model: Arc::clone(model), next: AtomicU64::new(1 << 24) };
        Self { model: Arc::clone(model), mapper: Arc::new(mapper), only }
    }
}

impl Drop for ModelDevice {
    /// Detaches the device, as VFIO does when the device is closed, or when its process is killed.
    fn drop(&mut self) {
        locked(&self.model).detach();
    }
}

fn index_of(kind: InterruptKind) -> InterruptIndex {
    match kind {
        InterruptKind::IntX => InterruptIndex::Intx,
        InterruptKind::Msi => InterruptIndex::Msi,
        InterruptKind::MsiX => InterruptIndex::MsiX,
    }
}

impl PciDevice for ModelDevice {
    fn address(&self) -> &str {
        "0000:03:00.0"
    }

    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError> {
        let mut bytes = [0; 4];
        let len = width.bytes() as usize;
        locked(&self.model).read(DeviceRegion::Config, at.into(), &mut bytes[..len]);
        Ok(u32::from_le_bytes(bytes))
    }

    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError> {
        let bytes = &value.to_le_bytes()[..width.bytes() as usize];
        locked(&self.model).write(DeviceRegion::Config, at.into(), bytes);
        Ok(())
    }

    fn bar(&self, bar: u8) -> Result<Bar, PciError> {
        let absent = || PciError::NoBar { address: self.address().to_owned(), bar };
        let region = DeviceRegion::new(bar.into()).ok_or_else(absent)?;
        let len = locked(&self.model).size_of(region);
        Ok(Bar::new(len, Vec::new(), Box::new(ModelRegisters(Arc::clone(&self.model)))))
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        self.mapper.clone()
    }

    fn interrupts(&self, kind: InterruptKind) -> u32 {
        match self.only {
            Some(only) if only != kind => 0,
            _ => index_of(kind).vectors(),
        }
    }

    fn set_interrupts(
        &self,
        kind: InterruptKind,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError> {
        let event = events.first().map(|event| event.try_clone_to_owned());
        let event = event.transpose().map_err(|e| PciError::system("copy an event", e))?;
        locked(&self.model).interrupts().set_event(index_of(kind), event);
        Ok(())
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        locked(&self.model).interrupts().mask_intx(false);
        Ok(())
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        Ok(ResetResult::Unsupported)
    }
}

struct ModelRegisters(SharedModel);

impl RegisterAccess for ModelRegisters {
    fn read(&self, at: u64, width: Width) -> u32 {
        locked(&self.0).read_register(at, width as u8) & width.all_ones()
    }

    fn write(&self, at: u64, width: Width, value: u32) {
        locked(&self.0).write_register(at, width as u8, value);
    }
}

/// Maps each range at the next multiple of 16 MiB.
struct ModelMapper {
    model: SharedModel,
    next: AtomicU64,
}

impl DmaMapper for ModelMapper {
    fn map(&self, range: &MemoryRange<'_>) -> io::Result<u64> {
        let (file, offset) = range.file.ok_or(io::ErrorKind::InvalidInput)?;
        let step = range.len.next_multiple_of(1 << 24);
        let at = self.next.fetch_add(step, Ordering::Relaxed);
        let both = DmaPermissions { read: true, write: true };
        let file = file.try_clone_to_owned()?;
        let mapped = locked(&self.model).dma().map(at, range.len, file, offset, both);
        mapped.map(|()| at).map_err(io::Error::other)
    }

    fn unmap(&self, at: u64, len: u64) -> io::Result<()> {
        locked(&self.model).dma().unmap(at, len).map_err(io::Error::other)
    }
}
