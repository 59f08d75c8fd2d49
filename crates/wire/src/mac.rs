//! Ethernet (MAC) addresses.

use core::fmt;
use core::str::FromStr;

/// A 48-bit Ethernet address, with its bytes in the order in which they are on the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address, `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// The address `00:00:00:00:00:00`, which no Ethernet interface has.
    pub const ZERO: Self = Self([0; 6]);

    /// Returns whether this is a group address, which means multicast or broadcast.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether this is the broadcast address.
    #[must_use]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// Returns the address as a number, with which ranges of addresses can be computed:
    /// `00:00:00:00:01:00` is 256.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        self.0.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    /// Returns the address with this number. Only the lower 48 bits are used.
    #[must_use]
    pub const fn from_u64(value: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Self([a, b, c, d, e, f])
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacParseError {
    /// The text does not have six groups.
    #[error("an Ethernet address has 6 groups of two hex digits, not {found}")]
    Groups {
        /// How many groups the text has.
        found: usize,
    },
    /// A group does not consist of one or two hex digits.
    #[error("group {group} of the Ethernet address is not one or two hex digits")]
    Digits {
        /// The index of the group, counted from 1.
        group: usize,
    },
}

impl FromStr for MacAddr {
    type Err = MacParseError;

    /// Parses an address such as `02:0:5e:10:0:1`. A group may have one or two digits. The
    /// separator may also be `-`.
    fn from_str(text: &str) -> Result<Self, MacParseError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let found = text.split(separator).count();
        if found != 6 {
            return Err(MacParseError::Groups { found });
        }
        let mut mac = Self::ZERO;
        for (index, (group, byte)) in text.split(separator).zip(&mut mac.0).enumerate() {
            *byte = hex_byte(group).ok_or(MacParseError::Digits { group: index + 1 })?;
        }
        Ok(mac)
    }
}

/// Parses one or two hex digits. `from_str_radix` alone would also accept a sign.
fn hex_byte(group: &str) -> Option<u8> {
    if group.len() > 2 || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(group, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_and_number_forms_round_trip() {
        let mac = MacAddr([0x02, 0, 0x5e, 0x10, 0xff, 1]);
        assert_eq!(mac.to_string(), "02:00:5e:10:ff:01");
        assert_eq!("02:00:5E:10:ff:01".parse(), Ok(mac));
        assert_eq!("2-0-5e-10-ff-1".parse(), Ok(mac));
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
        assert_eq!(mac.to_u64(), 0x0200_5e10_ff01);
    }

    #[test]
    fn bad_text_names_the_group() {
        let parse = |text: &str| text.parse::<MacAddr>().unwrap_err();
        assert_eq!(parse("02:00"), MacParseError::Groups { found: 2 });
        assert_eq!(parse("02:00:00:00:00:00:00"), MacParseError::Groups { found: 7 });
        assert_eq!(parse("02:00:zz:00:00:00"), MacParseError::Digits { group: 3 });
        assert_eq!(parse("02:00:00:+1:00:00"), MacParseError::Digits { group: 4 });
        assert_eq!(parse("02:00:00:00::00"), MacParseError::Digits { group: 5 });
        assert_eq!(parse("02:00:00:00:00:001"), MacParseError::Digits { group: 6 });
    }

    #[test]
    fn multicast_is_the_low_bit_of_the_first_byte() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(MacAddr([0x33, 0x33, 0, 0, 0, 1]).is_multicast());
        assert!(!MacAddr([2, 1, 1, 1, 1, 1]).is_multicast());
    }
}
