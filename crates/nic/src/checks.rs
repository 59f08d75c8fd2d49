//! Checks whether a card can be bound to vfio-pci, before anything is changed.

mod machine;
mod usage;

pub(crate) use usage::{LEFT_OVER, REACHED_BY};

use serde::Serialize;

use crate::chips::{ChipSupport, supported_names, xid};
use crate::host::NicHost;
use crate::request::BindRequest;
use crate::sysfs::{NamedDevice, PciNic};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// There is no problem.
    Ok,
    /// A drawback for comfort or safety. The card can still be bound to vfio-pci.
    Warn,
    /// The device is not a card that can be bound to vfio-pci.
    NoCard,
    /// The machine, as it is set up now, does not allow binding this card.
    Machine,
    /// The machine uses the card or may use it, or a limit is too low. With `--force`, the card is
    /// bound to vfio-pci nevertheless.
    InUse,
    /// The machine may be reached by the card. With `--force`, such a card is taken only if
    /// `--confirm-within` provides a way back.
    NoWayBack,
}

impl Verdict {
    /// Returns whether this finding prevents binding the card. `force` is the flag `--force`.
    pub(crate) fn refuses(self, force: bool) -> bool {
        match self {
            Self::Ok | Self::Warn => false,
            Self::NoCard | Self::Machine | Self::NoWayBack => true,
            Self::InUse => !force,
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CardCheck {
    /// The name of the check.
    pub(crate) check: &'static str,
    /// The severity of the result.
    pub(crate) verdict: Verdict,
    /// A description of what was found.
    pub(crate) finding: String,
    /// A command or advice that helps with the problem; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) help: Option<String>,
}

impl CardCheck {
    fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, finding: finding.into(), help: None }
    }

    fn bad(
        check: &'static str,
        verdict: Verdict,
        finding: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { check, verdict, finding: finding.into(), help: Some(help.into()) }
    }
}

/// Explains why a word is not the name of a card; `None` if it is.
pub(crate) fn no_card(name: &str, device: &NamedDevice) -> Option<CardCheck> {
    const LIST: &str = "slipring nic list";
    let no =
        |finding: String, help: &str| Some(CardCheck::bad("card", Verdict::NoCard, finding, help));
    match device {
        NamedDevice::Pci(nic) if nic.is_ethernet() => None,
        NamedDevice::Pci(nic) => no(format!("{} is no Ethernet card", nic.bdf), LIST),
        NamedDevice::OtherBus(bus) if bus == "usb" => no(
            format!("`{name}` is connected by USB, which VFIO cannot give to a program"),
            &format!("use it as packet:{name}"),
        ),
        NamedDevice::OtherBus(bus) => no(
            format!("`{name}` is a device of the bus `{bus}`, and only PCI devices can be taken"),
            &format!("use it as netmap:{name}"),
        ),
        NamedDevice::Virtual => no(
            format!("`{name}` has no hardware of its own"),
            &format!("use it as netmap:{name}, or name the card below it: {LIST}"),
        ),
        NamedDevice::Unknown => no(format!("there is no interface or PCI device `{name}`"), LIST),
    }
}

/// Checks whether the card and the machine allow what the request asks for.
pub(crate) fn examine(host: &dyn NicHost, nic: &PciNic, request: &BindRequest) -> Vec<CardCheck> {
    let mut results = vec![chip(host, nic)];
    results.extend(machine::examine(host, nic, request));
    results.extend(usage::examine(host, nic));
    results
}

/// Checks whether a native driver exists for the chip.
pub(crate) fn chip(host: &dyn NicHost, nic: &PciNic) -> CardCheck {
    const CHECK: &str = "chip";
    let id = format!("{:04x}:{:04x}", nic.chip.vendor, nic.chip.device);
    let Some(chip) = nic.known_chip() else {
        return CardCheck::bad(
            CHECK,
            Verdict::NoCard,
            format!("no native driver knows the chip {id}, only {}", supported_names()),
            "use it as netmap:IF",
        );
    };
    let name = chip.name;
    match chip.support {
        ChipSupport::Native(driver) => {
            CardCheck::ok(CHECK, format!("{name} ({id}): native driver {driver}"))
        }
        ChipSupport::Refused(why) => CardCheck::bad(
            CHECK,
            Verdict::NoCard,
            format!("{name} ({id}) is refused: {why}"),
            "use it as netmap:IF",
        ),
        ChipSupport::ByXid(driver, known) => {
            let registers = nic.interfaces.first().map(|interface| host.registers(interface));
            let version = registers.and_then(Result::ok).and_then(|bytes| xid(&bytes));
            match version.map(|version| (version, known.iter().find(|xid| xid.number == version))) {
                Some((version, Some(xid))) => CardCheck::ok(
                    CHECK,
                    format!(
                        "{} ({id}, XID {version:03x}): native driver {driver}, experimental",
                        xid.name
                    ),
                ),
                Some((version, None)) => {
                    let known: Vec<_> = known
                        .iter()
                        .map(|xid| format!("{:03x} ({})", xid.number, xid.name))
                        .collect();
                    CardCheck::bad(
                        CHECK,
                        Verdict::NoCard,
                        format!(
                            "{name} ({id}) with XID {version:03x} is refused: the native driver knows {}",
                            known.join(" and ")
                        ),
                        "slipring nic report, and send what it prints; until then use it as netmap:IF",
                    )
                }
                // The driver reads the XID again when it starts, and refuses an unknown one. So an
                // XID that cannot be read now is only a warning.
                None => CardCheck {
                    verdict: Verdict::Warn,
                    ..CardCheck::ok(
                        CHECK,
                        format!(
                            "{name} ({id}): native driver {driver} if it knows the XID, which cannot be read now"
                        ),
                    )
                },
            }
        }
    }
}
