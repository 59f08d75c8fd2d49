//! Tests of groups in simulated sysfs trees.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

const CARD: &str = "0000:03:00.0";

/// A machine with a card in group 7, and another device in the same group.
struct FakeMachine {
    root: TempDir,
}

impl FakeMachine {
    fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap() };
        machine.add(CARD, Some("vfio-pci"));
        machine.add("0000:03:00.1", None);
        let vfio = machine.root.path().join("dev/vfio");
        fs::create_dir_all(&vfio).unwrap();
        fs::write(vfio.join("vfio"), "").unwrap();
        fs::write(vfio.join("7"), "").unwrap();
        machine
    }

    fn paths(&self) -> VfioPaths {
        let root = self.root.path();
        VfioPaths { sysfs: root.join("sys"), dev: root.join("dev") }
    }

    fn add(&self, address: &str, driver: Option<&str>) {
        let device = self.paths().device(address);
        let group = self.root.path().join("sys/kernel/iommu_groups/7");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(group.join("devices")).unwrap();
        symlink(&group, device.join("iommu_group")).unwrap();
        symlink(&device, group.join("devices").join(address)).unwrap();
        fs::write(device.join("vendor"), "0x8086\n").unwrap();
        fs::write(device.join("device"), "0x10d3\n").unwrap();
        if let Some(driver) = driver {
            self.bind(address, driver);
        }
    }

    fn bind(&self, address: &str, driver: &str) {
        let link = self.paths().device(address).join("driver");
        let _ = fs::remove_file(&link);
        symlink(Path::new("/sys/bus/pci/drivers").join(driver), link).unwrap();
    }

    fn refusal(&self) -> PciError {
        VfioGroup::find(&self.paths(), "03:00.0").unwrap_err()
    }
}

#[test]
fn a_card_on_vfio_pci_is_found_by_its_short_address() {
    let machine = FakeMachine::new();
    let group = VfioGroup::find(&machine.paths(), "03:00.0").unwrap();
    assert_eq!((group.number.as_str(), group.address.as_str()), ("7", CARD));
    assert_eq!(id_of(&machine.paths(), CARD).unwrap().to_string(), "8086:10d3");
    assert_eq!(full_address("0A:1f.7"), "0000:0a:1f.7");
}

#[test]
fn each_obstacle_has_its_own_message_and_a_command_that_helps() {
    let machine = FakeMachine::new();
    let card = machine.paths().device(CARD);
    let check = |text: &str, help: &str| {
        let error = machine.refusal();
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.help().unwrap().contains(help), "{error:?}");
    };
    machine.bind("0000:03:00.1", "snd_hda_intel");
    check("group 7 also has 0000:03:00.1", "slipring nic bind 0000:03:00.1");
    machine.bind("0000:03:00.1", "pcieport");
    assert!(VfioGroup::find(&machine.paths(), CARD).is_ok(), "bridges may stay");
    machine.bind(CARD, "e1000e");
    check("belongs to the driver e1000e", "slipring nic bind 0000:03:00.0");
    machine.bind(CARD, "vfio-pci");
    fs::remove_file(machine.root.path().join("dev/vfio/vfio")).unwrap();
    check("VFIO is not there", "modprobe vfio-pci");
    fs::remove_file(card.join("iommu_group")).unwrap();
    check("in no IOMMU group", "intel_iommu=on");
    fs::remove_dir_all(&card).unwrap();
    check("no PCI device 0000:03:00.0", "slipring nic list");
}

/// The kernel's error numbers for each step of opening, as they were observed.
#[test]
fn refusals_of_the_kernel_are_named_at_the_step_at_which_they_come() {
    use super::device::{not_added, not_given, not_translated};
    let machine = FakeMachine::new();
    let found = VfioGroup::find(&machine.paths(), CARD).unwrap();
    let errno = std::io::Error::from_raw_os_error;
    for (error, text, help) in [
        (found.not_opened(errno(libc::EBUSY)), "group 7 is in use", "fuser -v /dev/vfio/7"),
        (found.not_opened(errno(libc::EACCES)), "/dev/vfio/7 is not open to this user", "chown"),
        (found.not_opened(errno(libc::EPERM)), "/dev/vfio/7 is not open to this user", "chown"),
        (found.not_opened(errno(libc::ENOENT)), "VFIO is not there", "modprobe vfio-pci"),
        (found.not_opened(errno(libc::ENODEV)), "VFIO is not there", "modprobe vfio-pci"),
        (not_added(&found, errno(libc::EBUSY)), "group 7 is in use", "fuser -v /dev/vfio/7"),
        (not_translated(errno(libc::EPERM)), "no interrupt remapping", "allow_unsafe_interrupts"),
        (not_given(&found, errno(libc::EBUSY)), "group 7 is in use", "fuser -v /dev/vfio/7"),
        (not_given(&found, errno(libc::ENODEV)), "no PCI device 0000:03:00.0", "nic list"),
    ] {
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.help().unwrap().contains(help), "{error:?}");
    }
    for error in [not_added(&found, errno(libc::EIO)), not_translated(errno(libc::EIO))] {
        assert!(matches!(error, PciError::System { .. }), "{error}");
    }
}

/// The nodes are ordinary files. So the kernel answers requests of VFIO with an error.
#[test]
fn nodes_that_are_not_vfios_end_the_opening_with_an_error_that_names_the_step() {
    let machine = FakeMachine::new();
    let Err(error) = VfioDevice::open_below(&machine.paths(), CARD) else { panic!("a device") };
    assert!(error.to_string().contains("ask for the version of VFIO"), "{error}");
}
