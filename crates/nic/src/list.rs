//! The list of cards.

use std::io;

use serde::Serialize;

use crate::checks;
use crate::chips::ChipSupport;
use crate::host::NicHost;
use crate::lookup::TakenCards;
use crate::sysfs::PciNic;

/// A card, as the command lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CardRow {
    pub(crate) pci_address: String,
    /// The name of the interface, or its name before the card was bound to vfio-pci. `null`
    /// if the card has no interface.
    pub(crate) interface: Option<String>,
    /// Vendor and device ID.
    pub(crate) id: String,
    /// The name of the chip; `null` if it is unknown.
    pub(crate) chip: Option<&'static str>,
    /// The kernel driver; `null` if there is none.
    pub(crate) driver: Option<String>,
    /// The number of the IOMMU group; `null` without an IOMMU.
    pub(crate) group: Option<u32>,
    /// Whether VFIO has the card.
    pub(crate) bound: bool,
    /// Whether `slipring nic restore` can give the card back.
    pub(crate) saved: bool,
    /// Number of seconds that are left for `slipring nic confirm`; `null` if nothing needs to be
    /// confirmed.
    pub(crate) confirm_within_s: Option<u64>,
    /// The native driver; `null` if there is none.
    pub(crate) native: Option<&'static str>,
    /// Whether the kernel driver supports AF_XDP zero-copy; `null` without an interface, or if the
    /// kernel cannot report it.
    pub(crate) zero_copy: Option<bool>,
    /// How the card can be driven, or why it cannot.
    pub(crate) note: String,
}

/// Returns every network card of the machine.
///
/// # Errors
/// If the saved states cannot be read, or the links cannot be listed.
pub(crate) fn rows(host: &dyn NicHost, cards: &TakenCards<'_>) -> io::Result<Vec<CardRow>> {
    let saved = cards.all()?;
    let damaged = cards.own().unreadable();
    let links = host.links()?;
    let row = |nic: PciNic| {
        let saved = saved.iter().find(|saved| saved.bdf == nic.bdf);
        let bound = nic.is_bound();
        let of_saved = saved.and_then(|saved| Some(saved.interface.as_ref()?.name.clone()));
        let native = nic.known_chip().and_then(|chip| match chip.support {
            ChipSupport::Native(driver) | ChipSupport::ByXid(driver, _) => Some(driver),
            ChipSupport::Refused(_) => None,
        });
        let link = links.iter().find(|link| nic.interfaces.contains(&link.name));
        let zero_copy = link.and_then(|link| host.has_zero_copy(link.index));
        let left = |ms: u64| (ms / 1000).saturating_sub(host.uptime().as_secs());
        CardRow {
            interface: nic.interfaces.first().cloned().or(of_saved),
            id: format!("{:04x}:{:04x}", nic.chip.vendor, nic.chip.device),
            chip: nic.known_chip().map(|chip| chip.name),
            driver: nic.driver.clone(),
            group: nic.group,
            bound,
            saved: saved.is_some(),
            confirm_within_s: saved.and_then(|saved| saved.confirm_by_ms).map(left),
            native,
            zero_copy,
            note: match damaged.iter().find(|damaged| damaged.bdf == nic.bdf) {
                Some(damaged) => format!("its saved state cannot be read: {}", damaged.error),
                None => note(host, &nic, bound, zero_copy),
            },
            pci_address: nic.bdf,
        }
    };
    Ok(PciNic::all(host.root()).into_iter().map(row).collect())
}

fn note(host: &dyn NicHost, nic: &PciNic, bound: bool, zero_copy: Option<bool>) -> String {
    let chip = checks::chip(host, nic);
    if zero_copy == Some(true) {
        return "the kernel driver has AF_XDP zero-copy: open netmap:IF".to_owned();
    }
    if bound {
        return format!("open it as vfio:{}", nic.bdf);
    }
    match nic.group {
        _ if chip.verdict.refuses(false) => chip.finding,
        None => format!("{}, but without an IOMMU", chip.finding),
        Some(_) => chip.finding,
    }
}

/// Formats the table. The last column is not padded.
pub(crate) fn table(rows: &[CardRow]) -> String {
    let none = || "-".to_owned();
    let head = ["PCI ADDRESS", "INTERFACE", "CHIP", "DRIVER", "GROUP", "NOTE"].map(str::to_owned);
    let cells = |row: &CardRow| {
        let seconds = row.confirm_within_s.map(|left| format!("; to be confirmed within {left} s"));
        [
            row.pci_address.clone(),
            row.interface.clone().unwrap_or_else(none),
            row.chip.map_or_else(|| row.id.clone(), str::to_owned),
            row.driver.clone().unwrap_or_else(none),
            row.group.map_or_else(none, |group| group.to_string()),
            format!("{}{}", row.note, seconds.unwrap_or_default()),
        ]
    };
    let lines: Vec<_> = [head].into_iter().chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..6).map(width).collect();
    let line = |cells: &[String; 6]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}
