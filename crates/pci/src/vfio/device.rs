//! An open device.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use slipring_port::nic::dma::DeviceAddress;

use super::{VfioGroup, VfioPaths};
use crate::bar::{Bar, MappedRegisters, RegisterAccess, Width};
use crate::config;
use crate::device::{PciDevice, ResetResult};
use crate::error::PciError;
use crate::interrupt::InterruptKind;
use crate::iova::IovaSpace;
use crate::memory::{DmaMapper, MemoryRange};
use crate::sys::mapping::Mapping;
use crate::sys::vfio::{self, RecordRequest, ValueRequest};
use crate::vfio_user::message::{self, CONFIG_REGION, RegionInfo, irq_flags, region_flags};

/// The version of the interface, which has never changed.
const API_VERSION: u32 = 0;
/// An IOMMU with version 2 of the mapping interface (`VFIO_TYPE1v2_IOMMU`).
const TYPE1_V2_IOMMU: u64 = 3;
/// Status of a group: no device of the group is driven by the kernel.
const GROUP_IS_VIABLE: u32 = 1;
/// Device flag: the device can be reset.
const DEVICE_CAN_RESET: u32 = 1;
/// IOMMU flag: capabilities follow.
const IOMMU_HAS_CAPS: u32 = 2;
/// IOMMU capability: which addresses can be mapped.
const IOMMU_CAP_IOVA_RANGE: u32 = 1;
/// Number of words in a record with capabilities.
const RECORD_WORDS: usize = 256;
const NUM_BARS: u8 = 6;
/// The interrupt by which the kernel asks for the device (`VFIO_PCI_REQ_IRQ_INDEX`).
const REQUEST_IRQ: u32 = 4;

/// A device that the kernel lends to this process.
pub struct VfioDevice {
    address: String,
    device: Arc<OwnedFd>,
    can_reset: bool,
    /// Offset of the configuration space in the device's file.
    config_offset: u64,
    memory: Arc<ContainerMemory>,
}

impl VfioDevice {
    /// Opens the device with this PCI address, which is bound to `vfio-pci`.
    ///
    /// # Errors
    /// A [`PciError`] that says what is missing. [`PciError::help`] may have advice.
    pub fn open(address: &str) -> Result<Self, PciError> {
        Self::open_below(&VfioPaths::default(), address)
    }

    /// Like [`Self::open`], but in the directories of `paths`.
    ///
    /// # Errors
    /// Same as for [`Self::open`].
    pub fn open_below(paths: &VfioPaths, address: &str) -> Result<Self, PciError> {
        let found = VfioGroup::find(paths, address)?;
        let container = found.open_container(paths)?;
        check_version(&container)?;
        let group = found.open(paths)?;
        join(&found, paths, &group, &container)?;
        let name = CString::new(found.address.as_str());
        let name = name.map_err(|_| PciError::NoDevice { address: found.address.clone() })?;
        let device = vfio::device_fd(&group, &name).map_err(|source| not_given(&found, source))?;
        Self::over(found.address, device, group, container)
    }

    fn over(
        address: String,
        device: OwnedFd,
        group: File,
        container: File,
    ) -> Result<Self, PciError> {
        let mut info = [0; 4];
        vfio::request_record(&device, RecordRequest::DeviceInfo, &mut info)
            .map_err(|source| PciError::system("ask for the device", source))?;
        let space = IovaSpace::new(iova_ranges(&container)?);
        let reply = region_info(&device, CONFIG_REGION)?;
        let (config, _) = RegionInfo::read(&reply).map_err(|_| odd_reply())?;
        let memory =
            Arc::new(ContainerMemory { space: Mutex::new(space), _group: group, container });
        let can_reset = info[1] & DEVICE_CAN_RESET != 0;
        Ok(Self {
            address,
            device: Arc::new(device),
            can_reset,
            config_offset: config.offset,
            memory,
        })
    }

    /// Returns an event that becomes readable when the kernel wants the device back: the device is
    /// being removed, or unbound from `vfio-pci`. The kernel then waits until the device is closed.
    ///
    /// # Errors
    /// [`PciError::System`] for a kernel that does not report this, and if no descriptor is free.
    pub fn removal_event(&self) -> Result<OwnedFd, PciError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|source| PciError::system("make an eventfd", source))?;
        let flags = irq_flags::DATA_EVENTFD | irq_flags::TRIGGER;
        self.set_irqs(REQUEST_IRQ, flags, 1, &[event.as_fd()])?;
        Ok(event)
    }

    fn set_irqs(
        &self,
        index: u32,
        flags: u32,
        count: u32,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError> {
        let mut record = vec![0, flags, index, 0, count];
        record.extend(events.iter().map(|event| event.as_raw_fd() as u32));
        vfio::request_record(&*self.device, RecordRequest::SetIrqs, &mut record)
            .map_err(|source| PciError::system("set the interrupts", source))
    }
}

fn check_version(container: &File) -> Result<(), PciError> {
    let version = vfio::request(container, ValueRequest::ApiVersion, 0)
        .map_err(|source| PciError::system("ask for the version of VFIO", source))?;
    if version == API_VERSION {
        return Ok(());
    }
    Err(PciError::NoVfio { source: io::Error::other(format!("it has version {version}")) })
}

/// Adds the group to the container, and then makes the container use the IOMMU.
fn join(
    found: &VfioGroup,
    paths: &VfioPaths,
    group: &File,
    container: &File,
) -> Result<(), PciError> {
    let mut status = [0; 2];
    vfio::request_record(group, RecordRequest::GroupStatus, &mut status)
        .map_err(|source| PciError::system("ask for the group of the device", source))?;
    if status[1] & GROUP_IS_VIABLE == 0 {
        found.check_siblings(paths)?;
        let siblings = vec!["a device that cannot be seen from here".to_owned()];
        return Err(PciError::GroupShared { group: found.number.clone(), siblings });
    }
    vfio::set_container(group, container).map_err(|source| not_added(found, source))?;
    let set = vfio::request(container, ValueRequest::SetIommu, TYPE1_V2_IOMMU);
    set.map(drop).map_err(not_translated)
}

/// Returns the error for a group that the kernel did not add to a container.
pub(super) fn not_added(found: &VfioGroup, source: io::Error) -> PciError {
    match source.raw_os_error() {
        Some(libc::EBUSY) => PciError::GroupInUse { group: found.number.clone() },
        _ => PciError::system("add the group to a container", source),
    }
}

/// Returns the error for a refused request to make a container use the IOMMU. Without interrupt
/// remapping, the kernel refuses it with EPERM, even if the process has all rights.
pub(super) fn not_translated(source: io::Error) -> PciError {
    match source.raw_os_error() {
        Some(libc::EPERM) => PciError::NoInterruptRemapping,
        _ => PciError::system("put the device behind the IOMMU", source),
    }
}

/// Returns the error for a device of the group that the kernel did not give to this process.
pub(super) fn not_given(found: &VfioGroup, source: io::Error) -> PciError {
    match source.raw_os_error() {
        Some(libc::EBUSY) => PciError::GroupInUse { group: found.number.clone() },
        Some(libc::ENODEV) => PciError::NoDevice { address: found.address.clone() },
        _ => PciError::system("open the device", source),
    }
}

fn odd_reply() -> PciError {
    PciError::system("read the kernel's reply", io::Error::from(io::ErrorKind::InvalidData))
}

/// Requests the properties of region `index`. Returns the record with its capabilities as bytes, in
/// the form that vfio-user also has.
fn region_info(device: &impl AsFd, index: u32) -> Result<Vec<u8>, PciError> {
    let mut record = [0; RECORD_WORDS];
    record[2] = index;
    vfio::request_record(device, RecordRequest::RegionInfo, &mut record)
        .map_err(|source| PciError::system("ask for a region of the device", source))?;
    Ok(record.iter().flat_map(|word: &u32| word.to_le_bytes()).collect())
}

/// Requests the addresses that the IOMMU can map. Kernels before 5.4 do not report them; in this
/// case, returns the range of all addresses.
fn iova_ranges(container: &File) -> Result<Vec<std::ops::Range<u64>>, PciError> {
    let mut record = [0; RECORD_WORDS];
    vfio::request_record(container, RecordRequest::IommuInfo, &mut record)
        .map_err(|source| PciError::system("ask for the IOMMU", source))?;
    let found = if record[1] & IOMMU_HAS_CAPS != 0 { ranges_of(&record, record[4]) } else { None };
    Ok(found.unwrap_or_else(|| std::iter::once(0..u64::MAX).collect()))
}

/// Finds the ranges in a list of capabilities that begins at byte `at` of the record.
fn ranges_of(record: &[u32], mut at: u32) -> Option<Vec<std::ops::Range<u64>>> {
    // Each capability has at least two words, so a longer list must contain a loop.
    for _ in 0..record.len() / 2 {
        let words = record.get(at as usize / 4..).filter(|_| at != 0)?;
        let &[head, next, count, _, ref ranges @ ..] = words else { return None };
        if head & 0xffff == IOMMU_CAP_IOVA_RANGE {
            let number = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            let ranges = ranges.chunks_exact(4).take(count as usize);
            // The kernel's ends are inclusive.
            let range = |r: &[u32]| number(r[0], r[1])..number(r[2], r[3]).saturating_add(1);
            return Some(ranges.map(range).collect());
        }
        at = next;
    }
    None
}

impl PciDevice for VfioDevice {
    fn address(&self) -> &str {
        &self.address
    }

    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError> {
        let calls = FileCalls { device: self.device.clone(), offset: self.config_offset };
        Ok(calls.read(at.into(), width))
    }

    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError> {
        let calls = FileCalls { device: self.device.clone(), offset: self.config_offset };
        calls.write(at.into(), width, value);
        Ok(())
    }

    fn bar(&self, bar: u8) -> Result<Bar, PciError> {
        let absent = || PciError::NoBar { address: self.address.clone(), bar };
        if bar >= NUM_BARS {
            return Err(absent());
        }
        let reply = region_info(&*self.device, bar.into())?;
        let (info, _) = RegionInfo::read(&reply).map_err(|_| odd_reply())?;
        if info.size == 0 || info.flags & region_flags::READ == 0 {
            return Err(absent());
        }
        let areas = message::mappable_areas(&reply).map_err(|_| odd_reply())?;
        let map = |area: &message::MmapArea| {
            let len = usize::try_from(area.size).ok()?;
            let memory = Mapping::of_file(self.device.as_fd(), info.offset + area.offset, len);
            // Registers that cannot be mapped are accessed by calls.
            Some(MappedRegisters::new(area.offset, memory.ok()?))
        };
        let mapped = areas.iter().filter_map(map).collect();
        let calls = FileCalls { device: self.device.clone(), offset: info.offset };
        Ok(Bar::new(info.size, mapped, Box::new(calls)))
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        self.memory.clone()
    }

    fn interrupts(&self, kind: InterruptKind) -> u32 {
        let mut info = [0, 0, kind.index(), 0];
        let asked = vfio::request_record(&*self.device, RecordRequest::IrqInfo, &mut info);
        if asked.is_ok() { info[3] } else { 0 }
    }

    fn set_interrupts(
        &self,
        kind: InterruptKind,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError> {
        let data = if events.is_empty() { irq_flags::DATA_NONE } else { irq_flags::DATA_EVENTFD };
        self.set_irqs(kind.index(), data | irq_flags::TRIGGER, events.len() as u32, events)
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        let flags = irq_flags::DATA_NONE | irq_flags::UNMASK;
        self.set_irqs(InterruptKind::IntX.index(), flags, 1, &[])
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        if !self.can_reset {
            return Ok(ResetResult::Unsupported);
        }
        match vfio::request(&*self.device, ValueRequest::Reset, 0) {
            Ok(_) => Ok(ResetResult::Reset),
            // Many cards do not support a reset, or share it with other devices.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY)) => {
                Ok(ResetResult::Unsupported)
            }
            Err(source) => Err(PciError::system("reset the device", source)),
        }
    }
}

impl Drop for VfioDevice {
    fn drop(&mut self) {
        // Mappings of registers may keep the device open a little longer, so its access to memory
        // is ended here.
        let _ = config::stop_bus_master(self);
    }
}

/// Registers that are accessed by `pread` and `pwrite`: the configuration space, I/O ports, the
/// table of MSI-X.
struct FileCalls {
    device: Arc<OwnedFd>,
    offset: u64,
}

impl RegisterAccess for FileCalls {
    fn read(&self, at: u64, width: Width) -> u32 {
        let mut bytes = [0; 4];
        let wanted = &mut bytes[..width.bytes() as usize];
        match rustix::io::pread(&self.device, &mut *wanted, self.offset + at) {
            Ok(count) if count as u64 == width.bytes() => u32::from_le_bytes(bytes),
            _ => width.all_ones(),
        }
    }

    fn write(&self, at: u64, width: Width, value: u32) {
        let bytes = &value.to_le_bytes()[..width.bytes() as usize];
        let _ = rustix::io::pwrite(&self.device, bytes, self.offset + at);
    }
}

/// The memory that the devices of a container may access.
struct ContainerMemory {
    space: Mutex<IovaSpace>,
    /// Closed before the container.
    _group: File,
    container: File,
}

impl DmaMapper for ContainerMemory {
    fn map(&self, range: &MemoryRange<'_>) -> io::Result<DeviceAddress> {
        let mut space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let iova = space.alloc(range.len).ok_or(io::ErrorKind::AddrNotAvailable)?;
        vfio::map_dma(&self.container, range, iova).inspect_err(|_| space.release(iova))?;
        Ok(iova)
    }

    fn unmap(&self, at: DeviceAddress, len: u64) -> io::Result<()> {
        let [at_low, at_high] = [at as u32, (at >> 32) as u32];
        let [len_low, len_high] = [len as u32, (len >> 32) as u32];
        let mut record = [0, 0, at_low, at_high, len_low, len_high];
        vfio::request_record(&self.container, RecordRequest::UnmapDma, &mut record)?;
        self.space.lock().unwrap_or_else(PoisonError::into_inner).release(at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_iommu_s_ranges_are_found_behind_other_capabilities_and_a_loop_ends() {
        let mut record = [0; 32];
        // At byte 24 there is a capability of another kind, followed by the two ranges.
        record[6..8].copy_from_slice(&[3 | 1 << 16, 40]);
        record[10..14].copy_from_slice(&[1 | 1 << 16, 0, 2, 0]);
        record[14..22].copy_from_slice(&[0, 0, 0xfedf_ffff, 0, 0xfef0_0000, 0, 0xffff_ffff, 0x7f]);
        let ranges = ranges_of(&record, 24).unwrap();
        assert_eq!(ranges, [0..0xfee0_0000, 0xfef0_0000..0x80_0000_0000]);
        record[7] = 24;
        assert_eq!(ranges_of(&record, 24), None);
        assert_eq!((ranges_of(&record, 0), ranges_of(&record, 4000)), (None, None));
    }
}
