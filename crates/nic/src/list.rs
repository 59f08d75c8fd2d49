//! The list of cards.

use std::io;

use serde::Serialize;

use crate::checks;
use crate::chips::ChipSupport;
use crate::host::NicHost;
use crate::lookup::TakenCards;
use crate::state::SavedNic;
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
    /// Whether the card is in the machine. A card that is not is listed only if slipring had taken
    /// it from its driver; what was saved then is kept in case the card is put back.
    pub(crate) present: bool,
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

/// Returns every network card of the machine, and those that were taken and are not there.
///
/// # Errors
/// If the saved states cannot be read, or the links cannot be listed.
pub(crate) fn rows(host: &dyn NicHost, cards: &TakenCards<'_>) -> io::Result<Vec<CardRow>> {
    let saved = cards.all()?;
    let damaged = cards.own().unreadable();
    let links = host.links()?;
    let row = |nic: &PciNic| {
        let saved = saved.iter().find(|saved| saved.bdf == nic.bdf);
        let bound = nic.is_bound();
        let of_saved = saved.and_then(|saved| Some(saved.interface.as_ref()?.name.clone()));
        let native = nic.known_chip().and_then(|chip| match chip.support {
            ChipSupport::Native(driver) | ChipSupport::ByXid(driver, _) => Some(driver),
            ChipSupport::Refused(_) => None,
        });
        let link = links.iter().find(|link| nic.interfaces.contains(&link.name));
        let zero_copy = link.and_then(|link| host.has_zero_copy(link.index));
        CardRow {
            interface: nic.interfaces.first().cloned().or(of_saved),
            id: nic.id(),
            chip: nic.known_chip().map(|chip| chip.name),
            driver: nic.driver.clone(),
            group: nic.group,
            present: true,
            bound,
            saved: saved.is_some(),
            confirm_within_s: saved.and_then(|saved| left(host, saved)),
            native,
            zero_copy,
            note: match (damaged.iter().find(|damaged| damaged.bdf == nic.bdf), saved) {
                (Some(damaged), _) => format!(
                    "its saved state cannot be read: {}; give it back: sudo slipring nic restore {}",
                    damaged.error, nic.bdf
                ),
                (None, Some(saved)) if !saved.is_of(nic) => format!(
                    "not the card that was taken as {}; discard what was saved of that: sudo slipring nic restore {}",
                    saved.display_name(),
                    nic.bdf
                ),
                (None, _) => note(host, nic, bound, zero_copy),
            },
            pci_address: nic.bdf.clone(),
        }
    };
    let present = PciNic::all(host.root());
    let mut rows: Vec<_> = present.iter().map(row).collect();
    let unknown: Vec<_> = damaged.iter().map(|damaged| SavedNic::unknown(&damaged.bdf)).collect();
    let taken = saved.iter().chain(&unknown);
    let gone = taken.filter(|saved| present.iter().all(|nic| nic.bdf != saved.bdf));
    rows.extend(gone.map(|saved| row_of_gone(host, saved)));
    rows.sort_by(|one, other| one.pci_address.cmp(&other.pci_address));
    Ok(rows)
}

/// Returns the row of a card that was taken and is not there.
fn row_of_gone(host: &dyn NicHost, saved: &SavedNic) -> CardRow {
    CardRow {
        pci_address: saved.bdf.clone(),
        interface: saved.interface.as_ref().map(|interface| interface.name.clone()),
        id: saved.id.clone().unwrap_or_else(|| "-".to_owned()),
        chip: None,
        driver: None,
        group: None,
        present: false,
        bound: false,
        saved: true,
        confirm_within_s: left(host, saved),
        native: None,
        zero_copy: None,
        note: format!(
            "not there; what was saved is kept for its return, or discarded by: sudo slipring nic restore {} --forget",
            saved.bdf
        ),
    }
}

/// Returns the number of seconds that are left to confirm that a card stays taken.
fn left(host: &dyn NicHost, saved: &SavedNic) -> Option<u64> {
    let ms = saved.confirm_by_ms?;
    Some((ms / 1000).saturating_sub(host.uptime().as_secs()))
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
        let seconds = row.confirm_within_s.map(|left| match left {
            // The process that gives it back may have been killed.
            0 => format!("; not confirmed in time: sudo slipring nic restore {}", row.pci_address),
            _ => format!("; to be confirmed within {left} s"),
        });
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
