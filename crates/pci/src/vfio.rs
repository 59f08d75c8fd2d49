//! A device that is bound to `vfio-pci`.
//!
//! ```text
//!   /dev/vfio/vfio      container: which memory the devices may access
//!        | SET_CONTAINER, SET_IOMMU
//!   /dev/vfio/GROUP     group: the devices that the IOMMU cannot tell apart
//!        | GET_DEVICE_FD
//!   device              regions (pread, pwrite, mmap), interrupts, reset
//! ```
//! Nearly every kernel with VFIO has the container and group interface. When the device is closed,
//! for example because this process was killed, the kernel ends the device's access to memory.

mod device;
mod group;

use std::path::{Path, PathBuf};

use crate::error::PciError;

pub use device::VfioDevice;
pub use group::VfioGroup;

/// The directories of the kernel's devices and groups. Tests have their own trees.
#[derive(Debug, Clone)]
pub struct VfioPaths {
    /// The directory that contains `bus/pci/devices`.
    pub sysfs: PathBuf,
    /// The directory that contains `vfio`, with the containers' node and the groups.
    pub dev: PathBuf,
}

impl Default for VfioPaths {
    fn default() -> Self {
        Self { sysfs: "/sys".into(), dev: "/dev".into() }
    }
}

impl VfioPaths {
    fn device(&self, address: &str) -> PathBuf {
        self.sysfs.join("bus/pci/devices").join(address)
    }

    fn container(&self) -> PathBuf {
        self.dev.join("vfio/vfio")
    }

    fn group(&self, group: &str) -> PathBuf {
        self.dev.join("vfio").join(group)
    }
}

/// Returns the address in the kernel's form, which includes the domain.
#[must_use]
pub fn full_address(address: &str) -> String {
    let is_short = address.matches(':').count() == 1;
    let full = if is_short { format!("0000:{address}") } else { address.to_owned() };
    full.to_ascii_lowercase()
}

/// Returns the last component of the target of a link of sysfs.
fn link_name(link: &Path) -> Option<String> {
    let target = std::fs::read_link(link).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// Reads the identifier of a device from sysfs, without opening the device.
///
/// # Errors
/// [`PciError::NoDevice`].
pub fn id_of(paths: &VfioPaths, address: &str) -> Result<crate::config::PciId, PciError> {
    let number = |file: &str| {
        let text = std::fs::read_to_string(paths.device(address).join(file)).ok()?;
        u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let absent = || PciError::NoDevice { address: address.to_owned() };
    let vendor = number("vendor").ok_or_else(absent)?;
    let device = number("device").ok_or_else(absent)?;
    Ok(crate::config::PciId { vendor, device })
}

#[cfg(test)]
mod tests;
