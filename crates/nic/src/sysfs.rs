//! Network cards as sysfs shows them.
//!
//! Everything is read below a root directory, so that tests can simulate a machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::chips::{KnownChip, PciIdentity};
use crate::pci_address::PciAddress;

/// The class of Ethernet controllers: base class 02, subclass 00.
const CLASS_ETHERNET: u32 = 0x0200;
/// The base class of bridges. A bridge may be in a group with devices of VFIO.
const CLASS_BRIDGE: u32 = 0x06;
/// The driver that gives devices to programs.
pub(crate) const VFIO_DRIVER: &str = "vfio-pci";

/// Returns the trimmed text of a file; `None` if it cannot be read.
pub(crate) fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the last component of a symbolic link's target; `None` if the link cannot be read.
pub(crate) fn link_name(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// Returns the sorted names in a directory; none if it cannot be read.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Returns the directory of all PCI devices.
fn devices_dir(root: &Path) -> PathBuf {
    root.join("sys/bus/pci/devices")
}

/// Returns the directory of a PCI device.
pub(crate) fn device_dir(root: &Path, bdf: &str) -> PathBuf {
    devices_dir(root).join(bdf)
}

/// Returns the directory of a PCI driver.
pub(crate) fn driver_dir(root: &Path, driver: &str) -> PathBuf {
    root.join("sys/bus/pci/drivers").join(driver)
}

/// Returns the driver of a PCI device; `None` if it has none.
pub(crate) fn driver_of(root: &Path, bdf: &str) -> Option<String> {
    link_name(&device_dir(root, bdf).join("driver"))
}

/// Returns the only driver that may bind a device (`driver_override`); `None` if any may.
pub(crate) fn override_of(root: &Path, bdf: &str) -> Option<String> {
    let text = read(&device_dir(root, bdf).join("driver_override"))?;
    (!text.is_empty() && text != "(null)").then_some(text)
}

/// Returns the names of the interfaces of a PCI device.
pub(crate) fn interfaces_of(root: &Path, bdf: &str) -> Vec<String> {
    let dir = device_dir(root, bdf);
    let mut found = names(&dir.join("net"));
    // The interface of a virtio card belongs to a virtio device, which is a child of the PCI
    // device.
    for child in names(&dir).iter().filter(|name| name.starts_with("virtio")) {
        found.extend(names(&dir.join(child).join("net")));
    }
    found
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PciNic {
    /// The PCI address, such as `0000:03:00.0`.
    pub(crate) bdf: String,
    /// The device's identity.
    pub(crate) chip: PciIdentity,
    /// The driver of the device, if it has one.
    pub(crate) driver: Option<String>,
    /// The only driver that may bind the device (`driver_override`); `None` if any may.
    pub(crate) driver_override: Option<String>,
    /// The number of the IOMMU group; `None` without an IOMMU.
    pub(crate) group: Option<u32>,
    /// The names of the device's interfaces.
    pub(crate) interfaces: Vec<String>,
    /// How many virtual functions of the device are in use.
    pub(crate) virtual_functions: u32,
}

/// A device that shares an IOMMU group with a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupSibling {
    pub(crate) bdf: String,
    pub(crate) driver: Option<String>,
    pub(crate) interfaces: Vec<String>,
}

impl PciNic {
    /// Reads a device; `None` if there is none at this address.
    pub(crate) fn read(root: &Path, bdf: &str) -> Option<Self> {
        let dir = device_dir(root, bdf);
        let hex = |file| {
            let text = read(&dir.join(file))?;
            u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        let chip = PciIdentity {
            vendor: hex("vendor")? as u16,
            device: hex("device")? as u16,
            class: hex("class")?,
            revision: hex("revision").unwrap_or(0) as u8,
        };
        Some(Self {
            bdf: bdf.to_owned(),
            chip,
            driver: driver_of(root, bdf),
            driver_override: override_of(root, bdf),
            group: link_name(&dir.join("iommu_group")).and_then(|name| name.parse().ok()),
            interfaces: interfaces_of(root, bdf),
            virtual_functions: read(&dir.join("sriov_numvfs"))
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
        })
    }

    /// Returns every Ethernet card of the machine, in the order of their addresses.
    pub(crate) fn all(root: &Path) -> Vec<Self> {
        let cards = names(&devices_dir(root)).into_iter().filter_map(|bdf| Self::read(root, &bdf));
        cards.filter(Self::is_ethernet).collect()
    }

    /// Returns the vendor and device ID: `8086:10d3`.
    pub(crate) fn id(&self) -> String {
        format!("{:04x}:{:04x}", self.chip.vendor, self.chip.device)
    }

    /// Returns whether vfio-pci has the card.
    pub(crate) fn is_bound(&self) -> bool {
        self.driver.as_deref() == Some(VFIO_DRIVER)
    }

    pub(crate) fn is_ethernet(&self) -> bool {
        self.chip.class >> 8 == CLASS_ETHERNET
    }

    /// Returns the entry for the device's kind of chip, if it is known.
    pub(crate) fn known_chip(&self) -> Option<KnownChip> {
        self.chip.find()
    }

    /// Returns the other devices of the group, without bridges.
    pub(crate) fn siblings(&self, root: &Path) -> Vec<GroupSibling> {
        let Some(group) = self.group else { return Vec::new() };
        let members = names(&root.join(format!("sys/kernel/iommu_groups/{group}/devices")));
        let others = members.into_iter().filter(|bdf| *bdf != self.bdf);
        let endpoint = |bdf: String| {
            let class = read(&device_dir(root, &bdf).join("class")).unwrap_or_default();
            let class = u32::from_str_radix(class.trim_start_matches("0x"), 16).unwrap_or(0);
            (class >> 16 != CLASS_BRIDGE).then(|| GroupSibling {
                driver: driver_of(root, &bdf),
                interfaces: interfaces_of(root, &bdf),
                bdf,
            })
        };
        others.filter_map(endpoint).collect()
    }
}

/// The meaning of a word of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedDevice {
    /// A PCI device.
    Pci(PciNic),
    /// An interface of a device on another bus, with the name of the bus.
    OtherBus(String),
    /// An interface without a device, such as a bridge.
    Virtual,
    /// There is no such device or interface.
    Unknown,
}

/// Finds a device by the name of its interface or by its PCI address, with or without a domain.
pub(crate) fn find(root: &Path, name: &str) -> NamedDevice {
    let address = PciAddress::parse(name);
    if let Some(nic) = address.and_then(|address| PciNic::read(root, &address.to_string())) {
        return NamedDevice::Pci(nic);
    }
    let interface = root.join("sys/class/net").join(name);
    if name.is_empty() || name.contains('/') || !interface.exists() {
        return NamedDevice::Unknown;
    }
    let Ok(mut dir) = fs::canonicalize(interface.join("device")) else {
        return NamedDevice::Virtual;
    };
    let mut bus = String::new();
    // An interface belongs to a PCI device, or to a virtio device whose parent is a PCI device.
    // Devices on other buses, such as USB, also have a PCI device as an ancestor, so the nearest
    // bus decides.
    loop {
        match link_name(&dir.join("subsystem")) {
            Some(subsystem) if subsystem == "pci" && (bus.is_empty() || bus == "virtio") => {
                let bdf = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                return PciNic::read(root, bdf).map_or(NamedDevice::Unknown, NamedDevice::Pci);
            }
            Some(subsystem) if bus.is_empty() => bus = subsystem,
            _ => {}
        }
        if !dir.pop() || dir == root {
            return NamedDevice::OtherBus(bus);
        }
    }
}
