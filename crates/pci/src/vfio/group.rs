//! The group of a device: checks whether it can be opened, and reports what prevents it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::{VfioPaths, full_address, link_name};
use crate::error::PciError;

/// The driver that gives a device to a program.
const VFIO_PCI: &str = "vfio-pci";
/// Drivers of bridges. Bridges may be in the group, because they access no memory by themselves.
const BRIDGE_DRIVERS: [&str; 2] = ["pcieport", "shpchp"];

/// The IOMMU group of a device that is bound to `vfio-pci`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VfioGroup {
    /// The device's address, with its domain.
    pub address: String,
    /// The number of the group.
    pub number: String,
}

impl VfioGroup {
    /// Finds the group of a device, and makes all checks that are possible without opening a file.
    /// Changes nothing.
    ///
    /// # Errors
    /// [`PciError`] for a device that does not exist or belongs to another driver, an IOMMU that is
    /// off, other devices in the group, a module that is not loaded, and a node that this user may
    /// not open.
    pub fn find(paths: &VfioPaths, address: &str) -> Result<Self, PciError> {
        let address = full_address(address);
        let device = paths.device(&address);
        if !device.exists() {
            return Err(PciError::NoDevice { address });
        }
        // Without an IOMMU, a device cannot even be bound to vfio-pci. So this is the cause that
        // the error must name.
        let Some(number) = link_name(&device.join("iommu_group")) else {
            return Err(PciError::NoIommu { address });
        };
        let driver = link_name(&device.join("driver"));
        if driver.as_deref() != Some(VFIO_PCI) {
            return Err(PciError::NotBound { address, driver });
        }
        let group = Self { address, number };
        group.check_siblings(paths)?;
        group.check_nodes(paths)?;
        Ok(group)
    }

    /// Refuses a group with devices that kernel drivers use.
    pub(super) fn check_siblings(&self, paths: &VfioPaths) -> Result<(), PciError> {
        let devices = paths.device(&self.address).join("iommu_group/devices");
        let mut siblings: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(devices).into_iter().flatten().flatten() {
            let driver = link_name(&entry.path().join("driver"));
            let is_free = driver
                .is_none_or(|driver| driver == VFIO_PCI || BRIDGE_DRIVERS.contains(&&*driver));
            if !is_free {
                siblings.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        siblings.sort();
        if siblings.is_empty() {
            return Ok(());
        }
        Err(PciError::GroupShared { group: self.number.clone(), siblings })
    }

    fn check_nodes(&self, paths: &VfioPaths) -> Result<(), PciError> {
        use rustix::fs::{Access, access};
        let may_use = |path: &Path| access(path, Access::READ_OK | Access::WRITE_OK);
        may_use(&paths.container()).map_err(|error| self.not_opened(error.into()))?;
        may_use(&paths.group(&self.number)).map_err(|error| self.not_opened(error.into()))
    }

    /// Opens the group's node.
    pub(super) fn open(&self, paths: &VfioPaths) -> Result<File, PciError> {
        open_node(&paths.group(&self.number)).map_err(|error| self.not_opened(error))
    }

    /// Opens a new container.
    pub(super) fn open_container(&self, paths: &VfioPaths) -> Result<File, PciError> {
        open_node(&paths.container()).map_err(|error| self.not_opened(error))
    }

    pub(super) fn not_opened(&self, source: io::Error) -> PciError {
        let group = self.number.clone();
        match source.raw_os_error() {
            Some(libc::EBUSY) => PciError::GroupInUse { group },
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => PciError::NoVfio { source },
            Some(libc::EACCES | libc::EPERM) => PciError::Closed { group, source },
            _ => PciError::system("open the group of the device", source),
        }
    }
}

fn open_node(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}
