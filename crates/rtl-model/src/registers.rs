//! The register map: the registers of a chip, and the rules for accesses.

use crate::chip::Chip;

/// Offsets of the registers that do more than store a value.
pub(crate) mod at {
    pub(crate) const MAC: u64 = 0x00;
    pub(crate) const MULTICAST: u64 = 0x08;
    pub(crate) const TALLY_LOW: u64 = 0x10;
    pub(crate) const TALLY_HIGH: u64 = 0x14;
    pub(crate) const TX_RING_LOW: u64 = 0x20;
    pub(crate) const TX_RING_HIGH: u64 = 0x24;
    pub(crate) const COMMAND: u64 = 0x37;
    pub(crate) const DOORBELL: u64 = 0x38;
    pub(crate) const MASK: u64 = 0x3c;
    pub(crate) const STATUS: u64 = 0x3e;
    pub(crate) const MASK_8125: u64 = 0x38;
    pub(crate) const STATUS_8125: u64 = 0x3c;
    pub(crate) const TX_CONFIG: u64 = 0x40;
    pub(crate) const RX_CONFIG: u64 = 0x44;
    pub(crate) const LOCK: u64 = 0x50;
    pub(crate) const CSI_DATA: u64 = 0x64;
    pub(crate) const CSI_COMMAND: u64 = 0x68;
    pub(crate) const PHY_STATUS: u64 = 0x6c;
    pub(crate) const ERI_DATA: u64 = 0x70;
    pub(crate) const ERI_COMMAND: u64 = 0x74;
    pub(crate) const EPHY: u64 = 0x80;
    pub(crate) const DOORBELL_8125: u64 = 0x90;
    pub(crate) const MAC_OCP: u64 = 0xb0;
    pub(crate) const PHY_OCP: u64 = 0xb8;
    /// A register that a driver may read together with MCU.
    pub(crate) const TWI_COMMAND: u64 = 0xd2;
    pub(crate) const MCU: u64 = 0xd3;
    pub(crate) const RX_MAX_SIZE: u64 = 0xda;
    pub(crate) const MITIGATE: u64 = 0xe2;
    pub(crate) const RX_RING_LOW: u64 = 0xe4;
    pub(crate) const RX_RING_HIGH: u64 = 0xe8;
    pub(crate) const MISC: u64 = 0xf0;
    pub(crate) const MAC_COPY_8125: u64 = 0x19e0;
    pub(crate) const TX_TAIL_8125: u64 = 0x2800;
    pub(crate) const TX_CLOSED_8125: u64 = 0x2802;
}

/// A group of registers with the same rules.
#[derive(Debug)]
struct Group {
    first: u64,
    last: u64,
    /// Allowed widths of an access, in bytes, as their sum: 7 allows 1, 2 and 4.
    widths: u8,
    rule: WriteRule,
}

/// When a register may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteRule {
    /// The driver may write at any time.
    Free,
    /// The driver may write while 9346CR does not lock the configuration registers.
    Locked,
    /// The driver may never write.
    ReadOnly,
}

const fn group(first: u64, last: u64, widths: u8, rule: WriteRule) -> Group {
    Group { first, last, widths, rule }
}

/// The registers that all chips have.
const COMMON: &[Group] = &[
    group(at::MAC, 0x07, 7, WriteRule::Locked),
    group(at::MULTICAST, 0x0f, 4, WriteRule::Free),
    group(at::TALLY_LOW, 0x17, 4, WriteRule::Free),
    // LED control and frequency, and the LED of Energy-Efficient Ethernet.
    group(0x18, 0x19, 2, WriteRule::Free),
    group(0x1a, 0x1a, 1, WriteRule::Free),
    group(0x1b, 0x1b, 1, WriteRule::Free),
    group(at::TX_RING_LOW, 0x27, 4, WriteRule::Free),
    group(0x28, 0x2f, 4, WriteRule::Free),
    group(at::COMMAND, at::COMMAND, 1, WriteRule::Free),
    group(at::TX_CONFIG, 0x43, 4, WriteRule::Free),
    group(at::RX_CONFIG, 0x47, 4, WriteRule::Free),
    group(at::LOCK, at::LOCK, 1, WriteRule::Free),
    // Config0 to Config5.
    group(0x51, 0x56, 1, WriteRule::Locked),
    // How many transmit descriptors are fetched together.
    group(0x57, 0x57, 1, WriteRule::Free),
    group(at::CSI_DATA, 0x67, 4, WriteRule::Free),
    group(at::CSI_COMMAND, 0x6b, 4, WriteRule::Free),
    group(at::PHY_STATUS, 0x6d, 3, WriteRule::ReadOnly),
    group(0x6f, 0x6f, 1, WriteRule::Free),
    group(at::ERI_DATA, 0x73, 4, WriteRule::Free),
    group(at::ERI_COMMAND, 0x77, 4, WriteRule::Free),
    group(at::EPHY, 0x83, 4, WriteRule::Free),
    group(at::MAC_OCP, 0xb3, 4, WriteRule::Free),
    group(at::PHY_OCP, 0xbb, 4, WriteRule::Free),
    group(0xd0, 0xd2, 1, WriteRule::Free),
    group(at::MCU, at::MCU, 1, WriteRule::Free),
    group(at::RX_MAX_SIZE, 0xdb, 2, WriteRule::Free),
    group(0xe0, 0xe1, 2, WriteRule::Free),
    group(at::MITIGATE, 0xe3, 2, WriteRule::Free),
    group(at::RX_RING_LOW, 0xeb, 4, WriteRule::Free),
    group(0xec, 0xec, 1, WriteRule::Free),
    group(at::MISC, 0xf3, 5, WriteRule::Free),
];

const RTL8168: &[Group] = &[
    group(at::DOORBELL, at::DOORBELL, 1, WriteRule::Free),
    group(at::MASK, 0x3d, 2, WriteRule::Free),
    group(at::STATUS, 0x3f, 2, WriteRule::Free),
];

const RTL8125: &[Group] = &[
    // Configuration of interrupts.
    group(0x34, 0x34, 1, WriteRule::Free),
    group(0x7a, 0x7b, 2, WriteRule::Free),
    // Timers, which can raise interrupts.
    group(0x58, 0x5f, 4, WriteRule::Free),
    group(0x8c, 0x8f, 4, WriteRule::Free),
    group(0xf4, 0xf7, 4, WriteRule::Free),
    group(at::MASK_8125, 0x3b, 4, WriteRule::Free),
    group(at::STATUS_8125, 0x3f, 4, WriteRule::Free),
    group(0x84, 0x87, 2, WriteRule::Free),
    group(at::DOORBELL_8125, 0x91, 2, WriteRule::Free),
    group(0x96, 0x97, 2, WriteRule::Free),
    group(0x382, 0x383, 2, WriteRule::Free),
    // Moderation of interrupts.
    group(0xa00, 0xaff, 4, WriteRule::Free),
    group(0x1880, 0x1881, 2, WriteRule::Free),
    group(at::MAC_COPY_8125, 0x19e5, 7, WriteRule::ReadOnly),
    group(at::TWI_COMMAND, at::MCU, 3, WriteRule::Free),
    // Numbers of descriptors queued and sent, while the transmitter writes none of them back.
    group(at::TX_TAIL_8125, 0x2801, 2, WriteRule::Free),
    group(at::TX_CLOSED_8125, 0x2803, 2, WriteRule::ReadOnly),
    // Receive-side scaling, and numbers of queues.
    group(0x4500, 0x4503, 5, WriteRule::Free),
    group(0x4800, 0x4801, 2, WriteRule::Free),
    // Timer of Energy-Efficient Ethernet.
    group(0x6048, 0x6049, 2, WriteRule::Free),
];

/// The register map of a chip.
#[derive(Debug)]
pub(crate) struct RegisterMap {
    groups: Vec<&'static Group>,
    /// For each byte of the window, the number of its group plus 1; 0 if it is in no group.
    index: Vec<u8>,
}

impl RegisterMap {
    pub(crate) fn new(chip: Chip) -> Self {
        let own = if chip.is_8125() { RTL8125 } else { RTL8168 };
        let groups: Vec<_> = COMMON.iter().chain(own).collect();
        let mut index = vec![0; chip.window() as usize];
        for (group, number) in groups.iter().zip(1u8..) {
            index[group.first as usize..=group.last as usize].fill(number);
        }
        Self { groups, index }
    }

    /// Returns the rule of a register; `None` if there is no register of this width.
    pub(crate) fn rule(&self, offset: u64, width: u8) -> Option<WriteRule> {
        let number = *self.index.get(usize::try_from(offset).ok()?)?;
        let group = self.groups.get(usize::from(number).checked_sub(1)?)?;
        let end = offset.checked_add(u64::from(width))?;
        let fits = matches!(width, 1 | 2 | 4)
            && group.widths & width != 0
            && offset.is_multiple_of(u64::from(width))
            && end <= group.last + 1;
        fits.then_some(group.rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_known_by_offset_and_width() {
        let map = RegisterMap::new(Chip::Rtl8168h);
        assert_eq!(map.rule(at::DOORBELL, 1), Some(WriteRule::Free));
        assert_eq!(map.rule(at::DOORBELL, 4), None);
        assert_eq!(map.rule(at::DOORBELL_8125, 2), None, "another chip's");
        assert_eq!(map.rule(0x52, 1), Some(WriteRule::Locked));
        assert_eq!(map.rule(0x46, 4), None, "across two registers");
        assert_eq!(map.rule(u64::MAX, 4), None);
        let map = RegisterMap::new(Chip::Rtl8125b);
        assert_eq!(map.rule(at::DOORBELL_8125, 2), Some(WriteRule::Free));
        assert_eq!(map.rule(at::MAC_COPY_8125 + 5, 1), Some(WriteRule::ReadOnly));
    }
}
