//! A report about a card: facts that this command finds out, and gaps for measurements that a
//! person at the machine must make.

use serde::Serialize;

use crate::checks::{self, CardCheck, REACHED_BY, Verdict};
use crate::chips::xid;
use crate::host::NicHost;
use crate::request::BindRequest;
use crate::sysfs::{self, PciNic, device_dir};

/// The facts about a card and the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CardReport {
    version: &'static str,
    kernel: String,
    cpu: String,
    pci_address: String,
    id: String,
    subsystem: String,
    revision: String,
    /// The version of a Realtek chip (XID); `None` for other chips, or if it cannot be read.
    xid: Option<String>,
    chip: Option<&'static str>,
    driver: Option<String>,
    link_speed: Option<String>,
    pcie_speed: Option<String>,
    pcie_width: Option<String>,
    checks: Vec<CardCheck>,
}

/// Describes a card and the machine.
pub(crate) fn of(host: &dyn NicHost, nic: &PciNic) -> CardReport {
    let root = host.root();
    let dir = device_dir(root, &nic.bdf);
    let fact = |file: &str| sysfs::read(&dir.join(file));
    let hex = |file: &str| fact(file).unwrap_or_default().trim_start_matches("0x").to_owned();
    let interface = nic.interfaces.first();
    let registers = interface.and_then(|name| host.registers(name).ok());
    let cpuinfo = sysfs::read(&root.join("proc/cpuinfo")).unwrap_or_default();
    let cpu = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let is_realtek = nic.chip.vendor == 0x10ec;
    CardReport {
        version: env!("CARGO_PKG_VERSION"),
        kernel: sysfs::read(&root.join("proc/sys/kernel/osrelease")).unwrap_or_default(),
        cpu: cpu.map_or_else(String::new, |(_, model)| model.to_owned()),
        id: nic.id(),
        subsystem: format!("{}:{}", hex("subsystem_vendor"), hex("subsystem_device")),
        revision: format!("{:02x}", nic.chip.revision),
        xid: registers
            .filter(|_| is_realtek)
            .and_then(|bytes| xid(&bytes))
            .map(|xid| format!("{xid:03x}")),
        chip: nic.known_chip().map(|chip| chip.name),
        driver: nic.driver.clone(),
        link_speed: interface
            .and_then(|name| sysfs::read(&root.join(format!("sys/class/net/{name}/speed")))),
        pcie_speed: fact("current_link_speed"),
        pcie_width: fact("current_link_width"),
        checks: checks::examine(host, nic, &BindRequest::default()),
        pci_address: nic.bdf.clone(),
    }
}

impl CardReport {
    /// Formats the report as Markdown, with gaps for the measurements.
    pub(crate) fn text(&self) -> String {
        let some = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
        let mut text = format!(
            "## {} ({})\n\n| | |\n|---|---|\n",
            self.chip.unwrap_or("unknown chip"),
            self.id
        );
        for (name, value) in [
            ("slipring", self.version.to_owned()),
            ("kernel", self.kernel.clone()),
            ("processor", self.cpu.clone()),
            ("subsystem, revision", format!("{}, {}", self.subsystem, self.revision)),
            ("XID", some(&self.xid)),
            ("kernel driver", some(&self.driver)),
            ("link (Mbit/s)", some(&self.link_speed)),
            ("PCIe", format!("{} x{}", some(&self.pcie_speed), some(&self.pcie_width))),
        ] {
            text += &format!("| {name} | {value} |\n");
        }
        text += "\n";
        for CardCheck { check, finding, verdict, .. } in &self.checks {
            text += &format!("- {check} ({verdict:?}): {finding}\n");
        }
        text += "\nTo be measured, with a second machine at the other end of the cable:\n\n```\n";
        text += &measurements(&self.pci_address, bind_flags(&self.checks));
        text + "```"
    }
}

/// Returns the commands of the measurements that a person makes for a report about the card at a
/// PCI address: one a line, some with a remark. `flags` are those that `bind` needs for this card.
#[must_use]
pub fn measurements(pci_address: &str, flags: &str) -> String {
    let port = format!("vfio:{pci_address}");
    let lines = [
        (format!("sudo slipring nic bind {pci_address}{flags}"), ""),
        (
            format!("sudo slipring gen -i {port} -f tx --duration 10s"),
            "packets/s, and CPU by `top`:",
        ),
        (
            format!("sudo slipring gen -i {port} -f rx --duration 10s"),
            "packets/s, and CPU by `top`:",
        ),
        // The kernel shows the interrupt only while a program has the card open.
        (
            "sleep 5; grep vfio /proc/interrupts".to_owned(),
            "in another terminal, while each of those two runs:",
        ),
        (format!("sudo slipring nic restore {pci_address}"), "does the network come back?"),
    ];
    let line = |(command, remark): &(String, &str)| match remark.is_empty() {
        true => format!("{command}\n"),
        false => format!("{command:62}  # {remark}\n"),
    };
    lines.iter().map(line).collect()
}

/// Returns the flags without which `bind` refuses a card.
fn bind_flags(checks: &[CardCheck]) -> &'static str {
    let is_used = checks.iter().any(|check| check.verdict == Verdict::InUse);
    let is_way = checks.iter().any(|check| REACHED_BY.contains(&check.check));
    match (is_used, is_way) {
        (false, _) => "",
        (true, false) => " --force",
        // The measurements take less than 600 seconds.
        (true, true) => " --force --confirm-within 600",
    }
}
