//! `vfio:PCI`, a network card that a driver of ours drives: [`slipring_drivers`].

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_drivers::{ChipId, NicDriver, NicSetup, driver_of, open_port, refused, unknown_chip};
use slipring_pci::vfio::{VfioDevice, VfioGroup, VfioPaths, full_address, id_of};
use slipring_port::{OpenCause, OpenError, Port, RegionNeeds};
use slipring_ring::Region;

use super::{DoctorContext, Finding, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: VfioDriver = VfioDriver;

pub(super) struct VfioDriver;

static FACTS: PortKindInfo = PortKindInfo {
    // The card reads the buffers of sent frames, and nothing else is given to it.
    only_reads_tx: true,
    ..PortKindInfo::new(&[NameRow {
        name: "`vfio:PCI`",
        what: "a network card, driven from user space",
        needs: "an IOMMU, the card on `vfio-pci`, its group in `/dev/vfio`",
        help: "a network card by its PCI address, without the kernel",
    }])
};

impl PortDriver for VfioDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        find(&VfioPaths::default(), request.bare_name())
            .map_err(|cause| OpenError::new(request.display_name(), cause))?;
        Ok(RegionNeeds::pairs(1, request.options().slots))
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        let name = request.display_name();
        let setup = NicSetup { name, region, options: request.options() };
        let device = VfioDevice::open(request.bare_name()).map_err(refused);
        let opened = device.and_then(|device| open_port(Box::new(device), &setup));
        opened.map_err(|cause| OpenError::new(name, cause))
    }

    fn examine(&self, port: &PortName, _context: &DoctorContext<'_>) -> Vec<Finding> {
        vec![finding(&VfioPaths::default(), port)]
    }
}

/// A card that can be opened, as far as can be seen without opening it.
struct FoundCard {
    group: VfioGroup,
    driver: &'static dyn NicDriver,
    chip: &'static ChipId,
}

/// Finds a card. That there is a driver for its chip is checked first: if there is none, binding
/// it to `vfio-pci` would be in vain.
fn find(paths: &VfioPaths, address: &str) -> Result<FoundCard, OpenCause> {
    let address = full_address(address);
    let id = id_of(paths, &address).map_err(refused)?;
    let (driver, chip) = driver_of(id).ok_or_else(|| unknown_chip(&address, id))?;
    let group = VfioGroup::find(paths, &address).map_err(refused)?;
    Ok(FoundCard { group, driver, chip })
}

fn finding(paths: &VfioPaths, port: &PortName) -> Finding {
    match find(paths, &port.name) {
        Ok(FoundCard { group, driver, chip }) => Finding::port_ok(format!(
            "{port} is a {} for the driver {}, alone or with devices of vfio-pci in group {}",
            chip.name,
            driver.name(),
            group.number
        )),
        Err(cause) => Finding::port_refused(&OpenError::new(port, cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Makes a sysfs with a card of this device number, bound to `driver`.
    fn machine(root: &Path, device: &str, driver: &str) -> VfioPaths {
        let paths = VfioPaths { sysfs: root.join("sys"), dev: root.join("dev") };
        let card = root.join("sys/bus/pci/devices/0000:03:00.0");
        fs::create_dir_all(&card).unwrap();
        fs::create_dir_all(root.join("dev/vfio")).unwrap();
        for node in ["vfio", "7"] {
            fs::write(root.join("dev/vfio").join(node), "").unwrap();
        }
        fs::write(card.join("vendor"), "0x8086\n").unwrap();
        fs::write(card.join("device"), device).unwrap();
        symlink("/sys/kernel/iommu_groups/7", card.join("iommu_group")).unwrap();
        symlink(Path::new("/sys/bus/pci/drivers").join(driver), card.join("driver")).unwrap();
        paths
    }

    #[test]
    fn doctor_names_the_chip_and_its_driver() {
        let root = tempfile::tempdir().unwrap();
        let paths = machine(root.path(), "0x10d3\n", "vfio-pci");
        let finding = finding(&paths, &"vfio:03:00.0".parse().unwrap());
        assert!(finding.is_port_ok(), "{finding:?}");
        assert!(finding.finding.contains("82574L for the driver e1000e"), "{finding:?}");
    }

    #[test]
    fn a_card_of_the_kernel_and_a_chip_without_a_driver_are_told_apart() {
        let port = "vfio:03:00.0".parse().unwrap();
        let root = tempfile::tempdir().unwrap();
        let bound = finding(&machine(root.path(), "0x10d3\n", "e1000e"), &port);
        assert_eq!(
            bound.mend.unwrap(),
            "take it from the kernel first: slipring nic bind 0000:03:00.0"
        );
        let root = tempfile::tempdir().unwrap();
        let unknown = finding(&machine(root.path(), "0x15b8\n", "e1000e"), &port);
        assert!(unknown.finding.contains("no driver for the chip 8086:15b8"), "{unknown:?}");
        assert!(unknown.mend.unwrap().contains("82574L"));
    }
}
