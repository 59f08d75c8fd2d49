//! The network chips for which native drivers exist, and those that are refused by name.
//!
//! ```text
//!   identifier --> CHIPS: refused by name, or several chips with one identifier
//!              '-> the drivers' own lists (`slipring_drivers`): all other chips with a driver
//! ```
//! So a new driver needs no entry here. The identifiers are from the PCI ID database.
//! `docs/hardware.md` has the same lists for users.

use slipring_drivers::{NicDriver, PciId, driver_of, drivers};

/// The identity of a PCI device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PciIdentity {
    pub(crate) vendor: u16,
    pub(crate) device: u16,
    /// Base class, subclass and programming interface.
    pub(crate) class: u32,
    pub(crate) revision: u8,
}

/// How a kind of chip is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChipSupport {
    /// The native driver of this name drives it. Chips of [`CHIPS`] never have this.
    Native(&'static str),
    /// The native driver of this name drives those chips with this identifier whose version (XID)
    /// is in the list.
    ByXid(&'static str, &'static [Xid]),
    /// The chip cannot be driven, for this reason.
    Refused(&'static str),
}

/// A version of Realtek's chips: bits 20 to 23 and 26 to 31 of the register TxConfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Xid {
    pub(crate) number: u16,
    pub(crate) name: &'static str,
}

/// A kind of chip.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChipEntry {
    /// The common name of the chip.
    pub(crate) name: &'static str,
    vendor: u16,
    devices: &'static [u16],
    pub(crate) support: ChipSupport,
}

/// What is known of the chip of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownChip {
    /// The common name of the chip.
    pub(crate) name: &'static str,
    pub(crate) support: ChipSupport,
}

const INTEL: u16 = 0x8086;
const REALTEK: u16 = 0x10ec;
const VIRTIO: u16 = 0x1af4;

const fn chip(
    name: &'static str,
    vendor: u16,
    support: ChipSupport,
    devices: &'static [u16],
) -> ChipEntry {
    ChipEntry { name, vendor, devices, support }
}

const XIDS_8168: &[Xid] =
    &[Xid { number: 0x4c0, name: "RTL8168g" }, Xid { number: 0x541, name: "RTL8168h" }];
const XIDS_8125: &[Xid] =
    &[Xid { number: 0x609, name: "RTL8125A" }, Xid { number: 0x641, name: "RTL8125B" }];

const PCH: ChipSupport = ChipSupport::Refused(
    "the PHY is shared with the chipset's management engine, and needs workarounds that only the kernel's driver has",
);
const ZERO_COPY: ChipSupport = ChipSupport::Refused(
    "the kernel's driver has AF_XDP zero-copy, which is as fast, and the card stays the kernel's: open netmap:IF",
);
const OTHER_REALTEK: ChipSupport =
    ChipSupport::Refused("the native driver knows the RTL8168g and h and the RTL8125A and B only");

/// The kinds of chips that the list of a driver cannot describe, or that no driver supports.
pub(crate) const CHIPS: &[ChipEntry] = &[
    chip("RTL8111/8168", REALTEK, ChipSupport::ByXid("rtl", XIDS_8168), &[0x8168, 0x8161]),
    chip("RTL8125", REALTEK, ChipSupport::ByXid("rtl", XIDS_8125), &[0x8125, 0x8162]),
    chip(
        "virtio-net, transitional",
        VIRTIO,
        ChipSupport::Refused(
            "it is a transitional device, which VFIO cannot isolate; in QEMU: disable-legacy=on,iommu_platform=on",
        ),
        &[0x1000],
    ),
    chip("82577/82578/82579", INTEL, PCH, &[0x10ea, 0x10eb, 0x10ef, 0x10f0, 0x1502, 0x1503]),
    chip("I217", INTEL, PCH, &[0x153a, 0x153b]),
    chip("I218", INTEL, PCH, &[0x155a, 0x1559, 0x15a0, 0x15a1, 0x15a2, 0x15a3]),
    chip(
        "I219",
        INTEL,
        PCH,
        &[
            0x156f, 0x1570, 0x15b7, 0x15b8, 0x15b9, 0x15bb, 0x15bc, 0x15bd, 0x15be, 0x15d6, 0x15d7,
            0x15d8, 0x15df, 0x15e0, 0x15e1, 0x15e2, 0x15e3, 0x15f4, 0x15f5, 0x15f9, 0x15fa, 0x15fb,
            0x15fc, 0x0d4c, 0x0d4d, 0x0d4e, 0x0d4f, 0x0d53, 0x0d55, 0x0dc5, 0x0dc6, 0x0dc7, 0x0dc8,
            0x1a1c, 0x1a1d, 0x1a1e, 0x1a1f, 0x550a, 0x550b, 0x550c, 0x550d, 0x550e, 0x550f, 0x5510,
            0x5511, 0x57a0, 0x57a1, 0x57b3, 0x57b4, 0x57b5, 0x57b6, 0x57b7, 0x57b8, 0x57b9, 0x57ba,
        ],
    ),
    chip(
        "I225/I226",
        INTEL,
        ZERO_COPY,
        &[
            0x15f2, 0x15f3, 0x15f8, 0x0d9f, 0x3100, 0x3101, 0x3102, 0x5502, 0x125b, 0x125c, 0x125d,
            0x125e, 0x125f,
        ],
    ),
    chip("RTL8139", REALTEK, OTHER_REALTEK, &[0x8138, 0x8139]),
    chip("RTL8101/8136", REALTEK, OTHER_REALTEK, &[0x8136]),
    chip("RTL8169", REALTEK, OTHER_REALTEK, &[0x8167, 0x8169]),
    chip("RTL8126", REALTEK, OTHER_REALTEK, &[0x8126]),
    chip("RTL8127", REALTEK, OTHER_REALTEK, &[0x8127]),
    chip("Killer E2600/E3000", REALTEK, OTHER_REALTEK, &[0x2502, 0x2600, 0x3000, 0x5000]),
];

impl PciIdentity {
    /// Returns what is known of this chip; `None` if neither this table nor a driver has it.
    pub(crate) fn find(self) -> Option<KnownChip> {
        let is_it =
            |chip: &&ChipEntry| chip.vendor == self.vendor && chip.devices.contains(&self.device);
        if let Some(chip) = CHIPS.iter().find(is_it) {
            return Some(KnownChip { name: chip.name, support: chip.support });
        }
        let (driver, chip) = driver_of(PciId { vendor: self.vendor, device: self.device })?;
        Some(KnownChip { name: chip.name, support: ChipSupport::Native(driver.name()) })
    }
}

/// Returns the version of a Realtek chip from its first registers; `None` if they are too few, or
/// the chip does not answer.
pub(crate) fn xid(registers: &[u8]) -> Option<u16> {
    /// Offset of the register TxConfig. It contains the version in bits that have the same meaning
    /// on all chips.
    const TX_CONFIG: usize = 0x40;
    const XID_SHIFT: u32 = 20;
    const XID_MASK: u32 = 0xfcf;
    let word = registers.get(TX_CONFIG..TX_CONFIG + 4)?;
    let word = u32::from_le_bytes(word.try_into().ok()?);
    (word != u32::MAX).then_some((word >> XID_SHIFT & XID_MASK) as u16)
}

/// Returns the names of all chips for which native drivers exist.
pub(crate) fn supported_names() -> String {
    let mut names: Vec<_> = drivers().flat_map(NicDriver::chips).map(|chip| chip.name).collect();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_identifier_belongs_to_two_kinds_of_chips() {
        let mut seen = std::collections::BTreeSet::new();
        for chip in CHIPS {
            for device in chip.devices {
                assert!(seen.insert((chip.vendor, device)), "{}: {device:04x}", chip.name);
            }
        }
    }

    #[test]
    fn every_chip_of_a_driver_can_be_taken_and_no_other() {
        let identity = |id: PciId| PciIdentity {
            vendor: id.vendor,
            device: id.device,
            class: 0x02_0000,
            revision: 0,
        };
        for driver in drivers() {
            for chip in driver.chips() {
                let known = identity(chip.id).find().unwrap();
                let (ChipSupport::Native(name) | ChipSupport::ByXid(name, _)) = known.support
                else {
                    panic!("{chip:?} is refused")
                };
                assert_eq!(name, driver.name(), "{chip:?}");
            }
        }
        for chip in CHIPS {
            for device in chip.devices {
                let has_driver =
                    driver_of(PciId { vendor: chip.vendor, device: *device }).is_some();
                let is_refused = matches!(chip.support, ChipSupport::Refused(_));
                assert_ne!(has_driver, is_refused, "{}: {device:04x}", chip.name);
            }
        }
    }

    #[test]
    fn the_version_of_a_realtek_chip_is_read_from_its_registers() {
        let mut registers = vec![0; 256];
        registers[0x40..0x44].copy_from_slice(&0x5410_0c00u32.to_le_bytes());
        assert_eq!(xid(&registers), Some(0x541));
        registers[0x40..0x44].copy_from_slice(&[0xff; 4]);
        assert_eq!(xid(&registers), None, "a device that is gone reads as all ones");
        assert_eq!(xid(&registers[..0x42]), None);
    }

    #[test]
    fn every_chip_of_the_table_is_on_the_page_about_hardware() {
        let page = include_str!("../../../docs/hardware.md");
        for chip in CHIPS {
            for name in chip.name.split('/') {
                assert!(page.contains(name), "docs/hardware.md does not name {name}");
            }
        }
        for driver in drivers() {
            for chip in driver.chips() {
                let PciId { vendor, device } = chip.id;
                let row = page.lines().find(|row| {
                    row.contains(&format!("{vendor:04x}:"))
                        && row.contains(&format!("{device:04x}"))
                });
                let row = row.unwrap_or_else(|| {
                    panic!("docs/hardware.md has no row with {} ({})", chip.id, chip.name)
                });
                assert!(row.contains(&format!("| {} |", driver.name())), "{row}");
            }
        }
    }
}
