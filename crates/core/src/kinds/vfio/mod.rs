//! `vfio:PCI`, a network card that a driver of ours drives: [`slipring_drivers`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_drivers::{
    CardControl, CardSettings, ChipId, NicDriver, NicSetup, TakenPeriod, driver_of, listen,
    open_port, refused, unknown_chip,
};
use slipring_native_proto::trust::{self, TrustError};
use slipring_pci::vfio::{VfioDevice, VfioGroup, VfioPaths, full_address, id_of};
use slipring_port::{OpenCause, OpenError, OpenOptions, Port, RegionNeeds};
use slipring_ring::Region;

use super::{DoctorContext, Finding, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: VfioDriver = VfioDriver;

pub(super) struct VfioDriver;

/// The run directory of root.
const SYSTEM_RUN_DIR: &str = "/run/slipring";

static FACTS: PortKindInfo = PortKindInfo {
    // The card only reads the buffers of sent frames, and no peer gets these buffers.
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
        let address = full_address(request.bare_name());
        let opened = || -> Result<Port, OpenCause> {
            let settings = kept_settings(&settings_dirs(request.options()), &address, &boot_id())?;
            let device = VfioDevice::open(&address).map_err(refused)?;
            // If the kernel cannot report the removal of the card, the removal waits until the
            // program ends.
            let removal = device.removal_event().ok();
            let control = Arc::<CardControl>::default();
            let setup = NicSetup::new(name, region, request.options());
            let setup = NicSetup { settings, control: Some(&control), ..setup };
            let mut port = open_port(Box::new(device), &setup)?;
            if listen(&address, &control, removal).is_err() {
                // Without a socket, the port works, but `slipring nic set` cannot reach it, and it
                // does not end when the card is removed.
                port.info.mode = port.info.mode.with("settings", "fixed");
            }
            Ok(port)
        };
        opened().map_err(|cause| OpenError::new(name, cause))
    }

    fn examine(&self, port: &PortName, _context: &DoctorContext<'_>) -> Vec<Finding> {
        vec![finding(&VfioPaths::default(), port)]
    }
}

/// Returns the run directories in which `slipring nic set` may have saved settings: the directory
/// of the user who opens the card, and that of root, because only root can take a card from the
/// kernel.
fn settings_dirs(options: &OpenOptions) -> Vec<PathBuf> {
    let own = options.daemon.as_deref().and_then(Path::parent).map(Path::to_owned);
    own.into_iter().chain([PathBuf::from(SYSTEM_RUN_DIR)]).collect()
}

/// Returns the settings that were saved for a card in its present [`TakenPeriod`]: since
/// `slipring nic bind` took it in the current boot (`boot_id`), or in all of this boot if another
/// program took it. Root's settings, in the last directory, are the base; the settings of a user
/// are added to them and override them. Directories that are not trusted are ignored.
///
/// # Errors
/// If a trusted directory or its file cannot be read: without the settings, the link may not work.
fn kept_settings(
    run_dirs: &[PathBuf],
    address: &str,
    boot_id: &str,
) -> Result<CardSettings, OpenCause> {
    let mut dirs = Vec::new();
    for dir in run_dirs.iter().map(|dir| dir.join("nic")) {
        match trust::check_dir(&dir) {
            Ok(()) => dirs.push(dir),
            Err(error) if is_without_settings(&error) => {}
            Err(error) => return Err(closed_dir(&dir, &error)),
        }
    }
    let period = TakenPeriod::find(&dirs, address, boot_id);
    let mut settings = CardSettings::default();
    for dir in dirs.iter().rev() {
        let saved = CardSettings::read_saved(dir, address, &period);
        let saved = saved.map_err(|error| OpenCause::Card {
            reason: error.to_string(),
            help: Some(forget(dir, address)),
        })?;
        settings = settings.merged(saved.unwrap_or_default());
    }
    Ok(settings)
}

/// Returns an advice for the user: the command that discards the settings of a card in `dir`.
fn forget(dir: &Path, address: &str) -> String {
    match dir.starts_with(SYSTEM_RUN_DIR) {
        true => format!("forget the settings: sudo slipring nic set {address} --reset"),
        false => format!("forget the settings: slipring nic set {address} --reset"),
    }
}

/// Returns whether an error of [`trust::check_dir`] means that a directory contains no settings:
/// it does not exist, or it is not trusted.
fn is_without_settings(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || TrustError::of(error).is_some()
}

/// Returns the error for a directory of settings that cannot be read.
fn closed_dir(dir: &Path, error: &io::Error) -> OpenCause {
    let run_dir = dir.parent().unwrap_or(dir).display();
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("sudo chmod a+x {run_dir} && sudo chmod a+rx {}", dir.display())
        }
        _ => format!("see what it is: ls -ld {}", dir.display()),
    };
    let reason = format!("{}, with the settings of cards: {error}", dir.display());
    OpenCause::Card { reason, help: Some(help) }
}

/// Returns the kernel's ID of the current boot; empty if it cannot be read.
fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// A card that can be opened, as far as can be seen without opening it.
struct FoundCard {
    group: VfioGroup,
    driver: &'static dyn NicDriver,
    chip: &'static ChipId,
}

/// Finds a card. First checks that there is a driver for its chip: without a driver, it would be
/// useless to bind the card to `vfio-pci`.
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Creates an imitation of sysfs that has a card with this PCI device ID, bound to `driver`.
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
    fn the_next_port_has_the_settings_that_were_kept_and_only_from_a_trusted_directory() {
        let root = tempfile::tempdir().unwrap();
        let dirs = [root.path().join("own"), root.path().join("system")];
        let kept = || kept_settings(&dirs, "0000:03:00.0", "this start");
        assert!(kept().unwrap().is_empty());
        for (dir, text, all) in [
            (&dirs[1], "speed=100 autoneg=off mtu=4000", "speed=100 autoneg=off mtu=4000"),
            (&dirs[0], "mtu=1500", "speed=100 autoneg=off mtu=1500"),
        ] {
            fs::create_dir_all(dir.join("nic")).unwrap();
            let file = dir.join("nic/0000:03:00.0.link");
            fs::write(file, format!("boot=this start\n{text}\n")).unwrap();
            assert_eq!(kept().unwrap().to_string(), all, "a user's are added to root's");
        }
        let before = kept_settings(&dirs, "0000:03:00.0", "the next start").unwrap();
        assert!(before.is_empty());
        let everyone = fs::Permissions::from_mode(0o777);
        fs::set_permissions(dirs[0].join("nic"), everyone).unwrap();
        assert_eq!(kept().unwrap().to_string(), "speed=100 autoneg=off mtu=4000");
        fs::write(dirs[1].join("nic/0000:03:00.0.link"), "boot=this start\ncolour=red").unwrap();
        let OpenCause::Card { reason, help } = kept().unwrap_err() else { panic!("another cause") };
        assert!(reason.contains("`colour=red` is no setting"), "{reason}");
        assert!(help.unwrap().ends_with("slipring nic set 0000:03:00.0 --reset"));
    }

    #[test]
    fn settings_of_a_user_end_when_root_gives_the_card_back() {
        let root = tempfile::tempdir().unwrap();
        let dirs = [root.path().join("own"), root.path().join("system")];
        let kept = || kept_settings(&dirs, "0000:03:00.0", "a").unwrap().to_string();
        for dir in &dirs {
            fs::create_dir_all(dir.join("nic")).unwrap();
        }
        let [own, state] =
            [dirs[0].join("nic/0000:03:00.0.link"), dirs[1].join("nic/0000:03:00.0.json")];
        fs::write(&own, "boot=a taken=7\nmtu=9000\n").unwrap();
        fs::write(&state, r#"{"boot_id":"a","bound_at_ms":7}"#).unwrap();
        assert_eq!(kept(), "mtu=9000");
        fs::write(&state, r#"{"boot_id":"a","bound_at_ms":8}"#).unwrap();
        assert_eq!(kept(), "", "taken again");
        fs::remove_file(&state).unwrap();
        assert_eq!(kept(), "", "given back");
    }

    #[test]
    fn a_directory_of_settings_that_cannot_be_read_is_no_directory_without_settings() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("nic"), "no directory").unwrap();
        let kept = kept_settings(&[root.path().to_owned()], "0000:03:00.0", "");
        let OpenCause::Card { reason, help } = kept.unwrap_err() else { panic!("another cause") };
        assert!(reason.contains("nic, with the settings of cards: "), "{reason}");
        assert!(help.unwrap().contains("ls -ld "));
        let closed = closed_dir(Path::new("/r/nic"), &io::ErrorKind::PermissionDenied.into());
        let OpenCause::Card { help, .. } = closed else { panic!("another cause") };
        assert_eq!(help.unwrap(), "sudo chmod a+x /r && sudo chmod a+rx /r/nic");
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
