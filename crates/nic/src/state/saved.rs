//! What is saved of a card.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipring_port::netlink::{LinkSnapshot, NetlinkLink, SavedSetting};

use crate::host::NicHost;
use crate::sysctls::{self, SavedSysctl};
use crate::sysfs;

/// The version of the file format.
pub(super) const VERSION: u32 = 3;

/// The state of a card before it was bound to vfio-pci.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedNic {
    pub(super) version: u32,
    /// The PCI address.
    pub(crate) bdf: String,
    /// The kernel driver; `None` if the card had none.
    pub(crate) driver: Option<String>,
    /// The only driver that was allowed to bind the device (`driver_override`); `None` if any
    /// driver was.
    pub(crate) driver_override: Option<String>,
    /// The IOMMU group.
    pub(crate) group: u32,
    /// The `boot_id` of the machine when the card was bound to vfio-pci.
    pub(crate) boot_id: String,
    /// The interface; `None` if the card had none.
    pub(crate) interface: Option<SavedInterface>,
    /// Whether a TAP device has the interface's name and addresses while the card is bound to
    /// vfio-pci.
    pub(crate) tap: bool,
    /// When the kernel driver gets the card back unless the user confirms, in ms since the machine
    /// was started; `None` if nothing needs to be confirmed.
    pub(crate) confirm_by_ms: Option<u64>,
    /// Whether all steps of the bind were done. States of version 1 do not say, and count as if
    /// they were.
    #[serde(default = "yes")]
    pub(crate) complete: bool,
    /// When the card was taken, in ms since the machine was started.
    /// `slipring_drivers::TakenPeriod` reads it: settings from before then do not count.
    #[serde(default)]
    pub(crate) bound_at_ms: u64,
    /// Vendor and device ID of the card. Another card may be in its place when it is given back.
    /// `None` in states before version 3.
    #[serde(default)]
    pub(crate) id: Option<String>,
    /// Why the state that was saved first could not be read, if this one was made in its place;
    /// the card then gets the driver that the kernel chooses.
    #[serde(default)]
    pub(crate) rebuilt: Option<String>,
}

fn yes() -> bool {
    true
}

/// The settings of an interface before its card was bound to vfio-pci.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedInterface {
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    pub(crate) addresses: Vec<SavedMessage>,
    pub(crate) routes: Vec<SavedMessage>,
    /// The bridge, bond or team that the interface is a member of.
    #[serde(default)]
    pub(crate) master: Option<String>,
    /// The settings below `/proc/sys/net` that differ from those of new interfaces.
    #[serde(default)]
    pub(crate) sysctls: Vec<SavedSysctl>,
}

/// An address or a route: its text, and the kernel's message in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedMessage {
    pub(crate) text: String,
    message: String,
}

impl SavedMessage {
    fn of(setting: &SavedSetting) -> Self {
        let message = setting.message.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text: setting.text.clone(), message }
    }

    pub(crate) fn setting(&self) -> io::Result<SavedSetting> {
        let byte = |at| {
            let digits = self.message.get(at..at + 2)?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<_>> = (0..self.message.len()).step_by(2).map(byte).collect();
        let message = bytes.ok_or(io::ErrorKind::InvalidData)?;
        Ok(SavedSetting { text: self.text.clone(), message })
    }
}

impl SavedInterface {
    /// Collects the settings of a link. `links` are all links of its machine.
    pub(crate) fn of(
        host: &dyn NicHost,
        link: &NetlinkLink,
        links: &[NetlinkLink],
        saved: &LinkSnapshot,
    ) -> Self {
        let master = links.iter().find(|other| Some(other.index) == link.master);
        Self {
            name: link.name.clone(),
            mac: <[u8; 6]>::try_from(&link.mac[..]).unwrap_or_default(),
            mtu: link.mtu,
            up: link.up,
            master: master.map(|master| master.name.clone()),
            sysctls: sysctls::of(host.root(), &link.name),
            addresses: saved.addresses.iter().map(SavedMessage::of).collect(),
            routes: saved.routes.iter().map(SavedMessage::of).collect(),
        }
    }
}

impl SavedNic {
    pub(crate) fn new(nic: &sysfs::PciNic, group: u32, boot_id: String) -> Self {
        Self {
            driver: nic.driver.clone(),
            driver_override: nic.driver_override.clone(),
            group,
            boot_id,
            id: Some(nic.id()),
            ..Self::unknown(&nic.bdf)
        }
    }

    /// Returns the state of a card of which nothing but the PCI address is known.
    pub(crate) fn unknown(bdf: &str) -> Self {
        Self {
            version: VERSION,
            bdf: bdf.to_owned(),
            driver: None,
            driver_override: None,
            group: 0,
            boot_id: String::new(),
            interface: None,
            tap: false,
            confirm_by_ms: None,
            complete: false,
            bound_at_ms: 0,
            id: None,
            rebuilt: None,
        }
    }

    /// Returns the same state with another time at which the card is given back.
    pub(crate) fn with_confirm_by(&self, confirm_by: Option<Duration>) -> Self {
        let confirm_by_ms = confirm_by.map(|time| time.as_millis() as u64);
        Self { confirm_by_ms, ..self.clone() }
    }

    /// Returns whether a card is the one that was taken, as far as its IDs say.
    pub(crate) fn is_of(&self, nic: &sysfs::PciNic) -> bool {
        self.id.as_ref().is_none_or(|id| *id == nic.id())
    }

    /// Checks what the file format does not: the kernel's messages.
    pub(super) fn check(&self) -> Result<(), String> {
        let Some(SavedInterface { addresses, routes, .. }) = &self.interface else { return Ok(()) };
        let damaged = addresses.iter().chain(routes).find(|saved| saved.setting().is_err());
        damaged.map_or(Ok(()), |saved| {
            Err(format!("the message of `{}` is not hexadecimal", saved.text))
        })
    }

    /// Returns the name of the card for messages.
    pub(crate) fn display_name(&self) -> &str {
        self.interface.as_ref().map_or(&self.bdf, |interface| &interface.name)
    }
}
