use alloc::string::{String, ToString};
use core::fmt::{self, Display as _};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_wire::MacAddr;

use super::TableKind;
use super::flow::IpfwFlowKey;
use crate::text::{TableOptions, number_value, shortened};

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableKey {
    /// An IPv4 prefix.
    V4(u32, u8),
    /// An IPv6 prefix.
    V6(u128, u8),
    /// The name of a port.
    Iface(String),
    /// A number.
    Number(u32),
    /// The first bits of an Ethernet address.
    Mac(u64, u8),
    /// Fields of a flow.
    Flow(IpfwFlowKey),
}

/// A text that is not a valid table key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {wanted}")]
pub struct TableKeyError {
    text: String,
    wanted: &'static str,
}

impl TableKey {
    /// Parses a key for a table of `kind`.
    ///
    /// # Errors
    /// [`TableKeyError`] names the expected kind of key.
    pub fn parse(text: &str, kind: TableKind) -> Result<Self, TableKeyError> {
        let (found, wanted) = match kind {
            TableKind::Addr => (prefix(text), "address or prefix"),
            TableKind::Iface => (Some(Self::Iface(text.into())), "port name"),
            TableKind::Number => {
                let number = number_value(text).and_then(|number| number.try_into().ok());
                (number.map(Self::Number), "number")
            }
            TableKind::Mac => (mac(text), "Ethernet address or prefix of one"),
            TableKind::Flow(fields) => (
                IpfwFlowKey::parse(text, fields).map(Self::Flow),
                "flow with the fields of the table",
            ),
        };
        found.ok_or_else(|| TableKeyError { text: shortened(text.into()), wanted })
    }

    /// Parses a key that is to be inserted into a table with these options.
    ///
    /// # Errors
    /// [`TableKeyError`], also if a prefix has a length that the table does not allow.
    pub fn for_table(text: &str, options: &TableOptions) -> Result<Self, TableKeyError> {
        let key = Self::parse(text, options.kind)?;
        let fits = match (options.masks, &key) {
            (Some([only, _]), Self::V4(_, len)) | (Some([_, only]), Self::V6(_, len)) => {
                *len == only
            }
            _ => true,
        };
        let wanted = "prefix of the length that `masks=` of addr:hash says (/32,/128 without)";
        if fits { Ok(key) } else { Err(TableKeyError { text: shortened(text.into()), wanted }) }
    }

    /// Guesses the kind of a table that does not exist, from a key.
    #[must_use]
    pub fn guess(text: &str) -> TableKind {
        if prefix(text).is_some() {
            TableKind::Addr
        } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
            TableKind::Number
        } else {
            TableKind::Iface
        }
    }

    /// Formats the key for listings.
    #[must_use]
    pub fn show(&self, kind: TableKind) -> String {
        self.display(kind).to_string()
    }

    pub(super) fn display(&self, kind: TableKind) -> impl fmt::Display {
        fmt::from_fn(move |f| match self {
            Self::V4(bits, len) => write!(f, "{}/{len}", Ipv4Addr::from_bits(*bits)),
            Self::V6(bits, len) => write!(f, "{}/{len}", Ipv6Addr::from_bits(*bits)),
            Self::Iface(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
            Self::Mac(bits, len) => write!(f, "{}/{len}", MacAddr::from_u64(*bits)),
            Self::Flow(key) => match kind {
                TableKind::Flow(fields) => f.write_str(&key.show(fields)),
                _ => f.write_str(&key.show(super::FlowFields::ALL)),
            },
        })
    }
}

fn prefix(text: &str) -> Option<TableKey> {
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len.parse::<u8>().ok()?)),
        None => (text, None),
    };
    match address.parse().ok()? {
        IpAddr::V4(address) => {
            let len = len.unwrap_or(32);
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(len.into())?).unwrap_or(0);
            Some(TableKey::V4(address.to_bits() & mask, len))
        }
        IpAddr::V6(address) => {
            let len = len.unwrap_or(128);
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(len.into())?).unwrap_or(0);
            Some(TableKey::V6(address.to_bits() & mask, len))
        }
    }
}

fn mac(text: &str) -> Option<TableKey> {
    let (address, len) = text.split_once('/').unwrap_or((text, "48"));
    let len: u8 = len.parse().ok().filter(|&len| len <= 48)?;
    let bits = address.parse::<MacAddr>().ok()?.to_u64();
    Some(TableKey::Mac(bits & !((1 << (48 - len)) - 1), len))
}
