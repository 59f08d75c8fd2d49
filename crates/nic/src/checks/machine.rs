//! Checks of the machine.

use std::path::Path;

use super::{CardCheck, Verdict};
use crate::holders::{GroupHolder, group_holders};
use crate::host::NicHost;
use crate::request::BindRequest;
use crate::sysfs::{self, PciNic, VFIO_DRIVER};

/// Size of the memory that a port with default settings locks, in bytes: its buffers and descriptor
/// rings.
const PORT_LOCKED_BYTES: u64 = 8 << 20;

pub(super) fn examine(host: &dyn NicHost, nic: &PciNic, request: &BindRequest) -> Vec<CardCheck> {
    let root = host.root();
    let mut results = Vec::new();
    // A card that is taken already needs no more rights.
    if !nic.is_bound() {
        results.push(privilege(host, nic));
    }
    results.push(group(root, nic));
    if nic.group.is_some() {
        results.extend([siblings(root, nic, &request.bdfs), remapping(root)]);
    }
    results.extend(modules(root));
    results.extend([virtual_functions(nic), holders(root, nic)]);
    results.extend(memory_lock(host, request.uid));
    results
}

fn privilege(host: &dyn NicHost, nic: &PciNic) -> CardCheck {
    const CHECK: &str = "privilege";
    if host.is_privileged() {
        return CardCheck::ok(CHECK, "this process may bind devices");
    }
    CardCheck::bad(
        CHECK,
        Verdict::Machine,
        "only root may bind devices to drivers",
        format!(
            "sudo slipring nic bind {}; with --user USER, that user can open the card without root",
            nic.interfaces.first().unwrap_or(&nic.bdf)
        ),
    )
}

fn group(root: &Path, nic: &PciNic) -> CardCheck {
    const CHECK: &str = "iommu";
    if let Some(group) = nic.group {
        return CardCheck::ok(CHECK, format!("{} is in group {group}", nic.bdf));
    }
    let has_iommu = !sysfs::names(&root.join("sys/class/iommu")).is_empty();
    let (finding, help) = match has_iommu {
        false => (
            "this kernel uses no IOMMU, so a card could write to all memory",
            "switch VT-d or AMD-Vi on in the firmware, and boot with intel_iommu=on; in QEMU: -device intel-iommu",
        ),
        true => (
            "the IOMMU does not serve this card, so the card could write to all memory",
            "boot with iommu=on intel_iommu=on, or move the card to another slot",
        ),
    };
    CardCheck::bad(CHECK, Verdict::Machine, finding, help)
}

/// Checks the devices that the IOMMU cannot distinguish from the card. Kernel drivers must not use
/// them.
fn siblings(root: &Path, nic: &PciNic, taken_too: &[String]) -> CardCheck {
    const CHECK: &str = "group";
    let siblings = nic.siblings(root);
    let foreign: Vec<_> = siblings
        .iter()
        .filter(|sibling| !taken_too.contains(&sibling.bdf))
        .filter_map(|sibling| {
            let driver = sibling.driver.as_deref().filter(|driver| *driver != VFIO_DRIVER)?;
            Some((&*sibling.bdf, driver))
        })
        .collect();
    if foreign.is_empty() {
        let others = siblings.len();
        let finding = format!("{others} other device(s) share it, none of them the kernel's");
        return CardCheck::ok(CHECK, finding);
    }
    let named: Vec<_> = foreign.iter().map(|(bdf, driver)| format!("{bdf} ({driver})")).collect();
    let bdfs: Vec<_> = foreign.iter().map(|(bdf, _)| *bdf).collect();
    CardCheck::bad(
        CHECK,
        Verdict::Machine,
        format!("the IOMMU cannot tell it from {}, which the kernel drives", named.join(", ")),
        format!(
            "if they are cards that can go too: slipring nic bind {} {}; or move the card to another slot",
            nic.bdf,
            bdfs.join(" ")
        ),
    )
}

/// Checks whether the IOMMU remaps interrupts. Without that, a card could raise any interrupt.
fn remapping(root: &Path) -> CardCheck {
    const CHECK: &str = "interrupts";
    let unsafe_allowed =
        sysfs::read(&root.join("sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"));
    match remaps_interrupts(&sysfs::read(&root.join("proc/interrupts")).unwrap_or_default()) {
        Some(true) => CardCheck::ok(CHECK, "the IOMMU remaps interrupts"),
        // On this architecture, the kernel itself checks the isolation of interrupts when a program
        // opens the card.
        None => CardCheck::ok(CHECK, "this architecture isolates interrupts by itself"),
        Some(false) if unsafe_allowed.as_deref() == Some("Y") => CardCheck {
            verdict: Verdict::Warn,
            ..CardCheck::ok(
                CHECK,
                "no interrupt remapping, but vfio_iommu_type1.allow_unsafe_interrupts is set: a card can raise any interrupt",
            )
        },
        Some(false) => CardCheck::bad(
            CHECK,
            Verdict::Machine,
            "the IOMMU does not remap interrupts, so a card could raise any interrupt",
            "switch interrupt remapping (x2APIC) on in the firmware, and boot without intremap=off; at your own risk: \
             modprobe vfio_iommu_type1 allow_unsafe_interrupts=1",
        ),
    }
}

/// Returns whether interrupts are remapped, by the names of their controllers in
/// `/proc/interrupts`; `None` if this is not an x86 machine.
fn remaps_interrupts(interrupts: &str) -> Option<bool> {
    let has = |start: &str| interrupts.split_ascii_whitespace().any(|word| word.starts_with(start));
    if has("IR-") {
        return Some(true);
    }
    (has("IO-APIC") || has("PCI-MSI")).then_some(false)
}

/// Checks that VFIO is loaded. A kernel in lockdown permits VFIO, because the IOMMU confines the
/// card, but loads no module without a signature.
fn modules(root: &Path) -> Vec<CardCheck> {
    let missing = missing_modules(root);
    let names = missing.join(" ");
    match (missing.is_empty(), lockdown(root)) {
        (true, None) => vec![CardCheck::ok("module", "vfio-pci is loaded")],
        (true, Some(mode)) => vec![
            CardCheck::ok("module", "vfio-pci is loaded"),
            CardCheck::ok("lockdown", format!("{mode}: allows VFIO, which the IOMMU confines")),
        ],
        (false, None) => vec![CardCheck::bad(
            "module",
            Verdict::Machine,
            format!("the kernel has no {} loaded", missing.join(" and no ")),
            format!("modprobe -a {names}"),
        )],
        (false, Some(mode)) => vec![CardCheck::bad(
            "lockdown",
            Verdict::Machine,
            format!(
                "the kernel has no {} loaded, and loads only signed modules (lockdown: {mode})",
                missing.join(" and no ")
            ),
            format!(
                "modprobe -a {names}; the modules of a distribution's own kernel are signed, and those of \
                 another kernel need a key that `mokutil --list-enrolled` shows"
            ),
        )],
    }
}

/// Returns the modules of VFIO that the kernel has not loaded.
fn missing_modules(root: &Path) -> Vec<&'static str> {
    [
        ("vfio-pci", sysfs::driver_dir(root, VFIO_DRIVER).exists()),
        ("vfio_iommu_type1", root.join("sys/module/vfio_iommu_type1").exists()),
    ]
    .into_iter()
    .filter_map(|(module, is_there)| (!is_there).then_some(module))
    .collect()
}

/// Returns the kernel's lockdown mode, `integrity` or `confidentiality`; `None` if it is off.
fn lockdown(root: &Path) -> Option<String> {
    let text = sysfs::read(&root.join("sys/kernel/security/lockdown"))?;
    let mode =
        text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
    (mode != "none").then(|| mode.to_owned())
}

fn virtual_functions(nic: &PciNic) -> CardCheck {
    const CHECK: &str = "functions";
    match nic.virtual_functions {
        0 => CardCheck::ok(CHECK, "no virtual functions in use"),
        count => CardCheck::bad(
            CHECK,
            Verdict::Machine,
            format!("{count} virtual function(s) of the card are in use"),
            format!("echo 0 > /sys/bus/pci/devices/{}/sriov_numvfs", nic.bdf),
        ),
    }
}

fn holders(root: &Path, nic: &PciNic) -> CardCheck {
    const CHECK: &str = "holder";
    let holders = nic.group.map(|group| group_holders(root, group)).unwrap_or_default();
    match holders.first() {
        Some(GroupHolder { pid, process }) if nic.is_bound() => {
            CardCheck::ok(CHECK, format!("the program {process} (process {pid}) has it open"))
        }
        None => CardCheck::ok(CHECK, "no program has the group open"),
        Some(GroupHolder { pid, process }) => CardCheck::bad(
            CHECK,
            Verdict::Machine,
            format!("the program {process} (process {pid}) has its group open"),
            format!("end it: kill {pid}"),
        ),
    }
}

/// Checks whether programs of a user may lock the memory of a port in RAM. Returns `None` for root,
/// who may. If no user is named, too low a limit is only a warning, because root can open the card.
fn memory_lock(host: &dyn NicHost, uid: Option<u32>) -> Option<CardCheck> {
    const CHECK: &str = "memlock";
    let (verdict, user) = match uid {
        Some(0) => return None,
        Some(uid) => (Verdict::InUse, uid.to_string()),
        None => (Verdict::Warn, "USER".to_owned()),
    };
    // Under sudo, this process has inherited the limit of the user's session, so its own limit is
    // the user's.
    Some(match host.memory_lock() {
        Some(limit) if limit < PORT_LOCKED_BYTES => CardCheck::bad(
            CHECK,
            verdict,
            format!(
                "programs may lock {} KiB of memory here, and a port needs {} KiB",
                limit >> 10,
                PORT_LOCKED_BYTES >> 10
            ),
            format!(
                "add `{user} - memlock 65536` to /etc/security/limits.conf and log in again, or LimitMEMLOCK=64M to a systemd unit"
            ),
        ),
        _ => CardCheck::ok(CHECK, "enough for a port"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_of_interrupts_say_whether_these_are_remapped() {
        assert_eq!(remaps_interrupts(" 1: 9 IR-IO-APIC 1-edge i8042"), Some(true));
        assert_eq!(remaps_interrupts(" 24: 0 IR-PCI-MSI-0000:00:02.0 0-edge eth0"), Some(true));
        assert_eq!(remaps_interrupts(" 1: 9 IO-APIC 1-edge i8042"), Some(false));
        assert_eq!(remaps_interrupts(" 11: 3 GICv3 27 Level arch_timer"), None);
    }
}
