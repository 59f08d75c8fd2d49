//! Identifies the chip. The PCI device ID shows only the family of a chip; TxConfig contains the
//! chip's identity, called XID.

use crate::settings::LinkAbilities;

/// A chip that the driver knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RtlChipId {
    /// RTL8168g/8111g, XID 4c0.
    Rtl8168g,
    /// RTL8168h/8111h, XID 541.
    Rtl8168h,
    /// RTL8125A, XID 609.
    Rtl8125a,
    /// RTL8125B, XID 641.
    Rtl8125b,
}

/// The bits of a shifted TxConfig that contain the XID.
const XID_MASK: u32 = 0xfcf;

/// XIDs that the driver does not support: mask, value, name.
const OTHERS: &[(u32, u32, &str)] = &[
    (0x7cf, 0x6c9, "RTL8127A"),
    (0x7cf, 0x64a, "RTL8126A"),
    (0x7cf, 0x649, "RTL8126A"),
    (0x7cf, 0x681, "RTL8125BP"),
    (0x7cf, 0x68a, "RTL8125K"),
    (0x7cf, 0x689, "RTL8125D"),
    (0x7cf, 0x688, "RTL8125D"),
    (0x7cf, 0x54b, "RTL8168fp/RTL8117"),
    (0x7cf, 0x54a, "RTL8168fp/RTL8117"),
    (0x7cf, 0x502, "RTL8168ep/8111ep"),
    (0x7cf, 0x6c0, "RTL8168M"),
    (0x7cf, 0x5c8, "RTL8411b"),
    (0x7cf, 0x509, "RTL8168gu/8111gu"),
    (0x7c8, 0x488, "RTL8411"),
    (0x7cf, 0x481, "RTL8168f/8111f"),
    (0x7cf, 0x480, "RTL8168f/8111f"),
    (0x7c8, 0x2c8, "RTL8168evl/8111evl"),
    (0x7c8, 0x2c0, "RTL8168e/8111e"),
    (0x7c8, 0x280, "RTL8168d/8111d"),
    (0x7c8, 0x3c8, "RTL8168cp/8111cp"),
    (0x7c8, 0x3c0, "RTL8168c/8111c"),
    (0x7c8, 0x380, "RTL8168b/8111b"),
    (0x7c8, 0x448, "RTL8106e"),
    (0x7c8, 0x440, "RTL8402"),
    (0x7c8, 0x408, "RTL8105e"),
    (0x7c8, 0x348, "RTL8102e/RTL8103e"),
    (0x7c8, 0x248, "RTL8102e/RTL8103e"),
    (0x7c8, 0x340, "RTL8101e/RTL8100e"),
    (0xfc8, 0x980, "RTL8169sc/8110sc"),
    (0xfc8, 0x180, "RTL8169sc/8110sc"),
    (0xfc8, 0x100, "RTL8169sb/8110sb"),
    (0xfc8, 0x040, "RTL8110s"),
    (0xfc8, 0x008, "RTL8169s"),
];

impl RtlChipId {
    /// Returns the XID in TxConfig.
    pub(super) fn xid_of(tx_config: u32) -> u32 {
        (tx_config >> 20) & XID_MASK
    }

    /// Returns the chip with this XID; `None` if the driver does not support it.
    pub(super) fn from_xid(xid: u32) -> Option<Self> {
        match xid {
            0x4c0 => Some(Self::Rtl8168g),
            0x541 => Some(Self::Rtl8168h),
            0x609 => Some(Self::Rtl8125a),
            0x641 => Some(Self::Rtl8125b),
            _ => None,
        }
    }

    /// Returns the name of the chip with this XID, if it is known.
    pub(super) fn name_of(xid: u32) -> Option<&'static str> {
        if let Some(chip) = Self::from_xid(xid) {
            return Some(chip.name());
        }
        OTHERS.iter().find(|(mask, value, _)| xid & mask == *value).map(|(.., name)| *name)
    }

    /// The chip's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rtl8168g => "RTL8168g/8111g",
            Self::Rtl8168h => "RTL8168h/8111h",
            Self::Rtl8125a => "RTL8125A",
            Self::Rtl8125b => "RTL8125B",
        }
    }

    /// Whether the chip is of the 2.5 Gbit/s family.
    pub(super) fn is_8125(self) -> bool {
        matches!(self, Self::Rtl8125a | Self::Rtl8125b)
    }

    /// Whether the chip may stop at short UDP packets.
    pub(super) fn lengthens_udp(self) -> bool {
        self.is_8125()
    }

    /// Returns the link settings that the chip supports. Its MAC uses pause frames only if the PHY
    /// has negotiated them.
    pub(super) fn abilities(self) -> LinkAbilities {
        let speeds: &'static [u32] =
            if self.is_8125() { &[10, 100, 1000, 2500] } else { &[10, 100, 1000] };
        let all = LinkAbilities::copper(self.name(), speeds, self.max_frame());
        LinkAbilities { negotiates_pause: true, ..all }
    }

    /// Maximum number of bytes of a frame without its checksum. With its checksum, a frame may have
    /// 9 KiB, or one byte less than 16 KiB on an RTL8125.
    pub(super) fn max_frame(self) -> u32 {
        if self.is_8125() { 16_383 - 4 } else { 9 * 1024 - 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_chips_are_driven_and_others_are_refused_by_name() {
        for (xid, name) in [(0x4c0, "RTL8168g/8111g"), (0x641, "RTL8125B")] {
            assert_eq!(RtlChipId::from_xid(xid).map(RtlChipId::name), Some(name));
        }
        for (xid, name) in [(0x480, "RTL8168f/8111f"), (0x2cf, "RTL8168evl/8111evl")] {
            assert_eq!((RtlChipId::from_xid(xid), RtlChipId::name_of(xid)), (None, Some(name)));
        }
        assert_eq!(RtlChipId::name_of(0xfcf), None);
        assert_eq!(RtlChipId::xid_of(0x5410_0800), 0x541);
    }
}
