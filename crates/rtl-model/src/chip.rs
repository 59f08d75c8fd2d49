//! The chips that the model can emulate.

use std::str::FromStr;

/// A chip. Chips differ in a few points, such as identity, the addresses of the interrupt registers
/// and of the doorbell, and a link of 2.5 Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chip {
    /// RTL8168g, also sold as 8111g.
    Rtl8168g,
    /// RTL8168h, also sold as 8111h.
    Rtl8168h,
    /// The first RTL8125.
    Rtl8125a,
    /// RTL8125B, the second RTL8125.
    Rtl8125b,
}

impl Chip {
    /// All chips.
    pub const ALL: [Self; 4] = [Self::Rtl8168g, Self::Rtl8168h, Self::Rtl8125a, Self::Rtl8125b];

    /// Returns the name that the model's command line uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rtl8168g => "8168g",
            Self::Rtl8168h => "8168h",
            Self::Rtl8125a => "8125a",
            Self::Rtl8125b => "8125b",
        }
    }

    /// The chip's identity, in bits 20 to 23 and 26 to 31 of TxConfig.
    #[must_use]
    pub fn xid(self) -> u32 {
        match self {
            Self::Rtl8168g => 0x4c0,
            Self::Rtl8168h => 0x541,
            Self::Rtl8125a => 0x609,
            Self::Rtl8125b => 0x641,
        }
    }

    /// Device ID in the configuration space.
    #[must_use]
    pub fn device_id(self) -> u16 {
        if self.is_8125() { 0x8125 } else { 0x8168 }
    }

    /// Revision in the configuration space.
    #[must_use]
    pub fn revision(self) -> u8 {
        match self {
            Self::Rtl8168g => 0x0c,
            Self::Rtl8168h => 0x15,
            Self::Rtl8125a => 0x04,
            Self::Rtl8125b => 0x05,
        }
    }

    /// Whether the chip is of the 2.5 Gbit/s family.
    #[must_use]
    pub fn is_8125(self) -> bool {
        matches!(self, Self::Rtl8125a | Self::Rtl8125b)
    }

    /// Number of bytes of the register window.
    #[must_use]
    pub fn window(self) -> u64 {
        if self.is_8125() { 0x1_0000 } else { 0x1000 }
    }

    /// Whether the chip stops at messages of PTP that are shorter than it expects.
    #[must_use]
    pub fn stops_at_short_ptp(self) -> bool {
        self.is_8125()
    }

    /// Whether the chip sends frames below 60 bytes as they are, instead of padding them.
    #[must_use]
    pub fn sends_runts(self) -> bool {
        self.is_8125()
    }
}

impl FromStr for Chip {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|chip| chip.name() == name)
            .ok_or_else(|| format!("no chip {name}: the model knows {}", known()))
    }
}
