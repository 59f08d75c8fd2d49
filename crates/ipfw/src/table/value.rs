use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display as _};
use core::net::{Ipv4Addr, Ipv6Addr};

use super::value_kind::{KINDS, ValueKind};
use crate::text::{dscp_value, shortened};

/// The set of kinds of numbers that the values of a table contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueKinds(u16);

impl ValueKinds {
    /// The kinds of a legacy table: one number for all purposes.
    pub const LEGACY: Self = Self(u16::MAX);

    /// Iterates over the kinds, in the order in which their names are printed.
    pub fn iter(self) -> impl Iterator<Item = ValueKind> {
        KINDS.iter().map(|&(kind, _)| kind).filter(move |&kind| self.0 >> kind as u16 & 1 == 1)
    }
}

impl FromIterator<ValueKind> for ValueKinds {
    fn from_iter<I: IntoIterator<Item = ValueKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |set, kind| set | 1 << kind as u16))
    }
}

impl core::fmt::Display for ValueKinds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if *self == Self::LEGACY {
            return f.write_str("legacy");
        }
        let names: Vec<_> = self.iter().map(ValueKind::name).collect();
        f.write_str(&names.join(","))
    }
}

/// The value of a table entry. Kinds that the table does not have are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableValue {
    numbers: [u32; KINDS.len()],
    ipv6: u128,
}

/// A text that is not a valid value for its table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {wanted}")]
pub struct TableValueError {
    text: String,
    wanted: &'static str,
}

impl TableValue {
    /// A value with one number for all purposes.
    #[must_use]
    pub const fn legacy(number: u32) -> Self {
        Self { numbers: [number; KINDS.len()], ipv6: 0 }
    }

    /// Returns the number for one purpose.
    #[must_use]
    pub const fn number(&self, kind: ValueKind) -> u32 {
        self.numbers[kind as usize]
    }

    /// The IPv6 next hop.
    #[must_use]
    pub const fn ipv6(&self) -> u128 {
        self.ipv6
    }

    /// Parses the text after a key in `table add`: one number or address for a legacy table,
    /// otherwise one item for each of `kinds`, or fewer items, of which the last is repeated.
    ///
    /// # Errors
    /// [`TableValueError`] names the item that is wrong or missing.
    pub fn parse(text: &str, kinds: ValueKinds) -> Result<Self, TableValueError> {
        if kinds == ValueKinds::LEGACY {
            let wanted = "number or IPv4 address";
            let found = number(text).or_else(|| text.parse().ok().map(Ipv4Addr::to_bits));
            return found
                .map(Self::legacy)
                .ok_or_else(|| TableValueError { text: shortened(text.into()), wanted });
        }
        let mut value = Self::default();
        let mut items = text.split(',');
        let mut last = None;
        for kind in kinds.iter() {
            // If there are fewer items than kinds, the last item also applies to the remaining
            // kinds, for which it must be valid.
            let item = items.next().or(last).unwrap_or("");
            last = Some(item);
            value.set(kind, item).ok_or_else(|| TableValueError {
                text: shortened(item.into()),
                wanted: kind.name(),
            })?;
        }
        match items.next() {
            None => Ok(value),
            Some(extra) => Err(TableValueError { text: extra.into(), wanted: "part of the value" }),
        }
    }

    fn set(&mut self, kind: ValueKind, item: &str) -> Option<()> {
        self.numbers[kind as usize] = match kind {
            ValueKind::Ipv4 => item.parse::<Ipv4Addr>().ok()?.to_bits(),
            ValueKind::Dscp => dscp_value(item)?.into(),
            ValueKind::Ipv6 => {
                self.ipv6 = item.parse::<Ipv6Addr>().ok()?.to_bits();
                0
            }
            _ => number(item)?,
        };
        Some(())
    }

    /// Formats the value for listings; a legacy value is formatted as an address if `as_ip` is
    /// true.
    #[must_use]
    pub fn show(&self, kinds: ValueKinds, as_ip: bool) -> String {
        self.display(kinds, as_ip).to_string()
    }

    pub(super) fn display(&self, kinds: ValueKinds, as_ip: bool) -> impl fmt::Display {
        let legacy = self.numbers[0];
        fmt::from_fn(move |f| {
            if kinds != ValueKinds::LEGACY {
                let items: Vec<_> = kinds.iter().map(|kind| self.item(kind)).collect();
                return f.write_str(&items.join(","));
            }
            if as_ip { Ipv4Addr::from_bits(legacy).fmt(f) } else { legacy.fmt(f) }
        })
    }

    fn item(&self, kind: ValueKind) -> String {
        match kind {
            ValueKind::Ipv4 => Ipv4Addr::from_bits(self.number(kind)).to_string(),
            ValueKind::Ipv6 => Ipv6Addr::from_bits(self.ipv6).to_string(),
            _ => self.number(kind).to_string(),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    crate::text::number_value(text).and_then(|number| u32::try_from(number).ok())
}
