//! Parses addresses, networks, sets of hosts, tables and Ethernet addresses.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use slipring_wire::MacAddr;

use super::error::RuleTextError;
use super::number;
use super::words::SourceWord;
use crate::rule::{
    AddressPattern, HostSet, MacMask, ObjectName, TableTest, V4Mask, V6Mask, ValueTest,
};
use crate::table::ValueKind;

const EXPECTED: &str = "`any`, `me`, an address, a network, a list of them, or `table(NAME)`";

/// The address families that are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceptedVersions {
    Both,
    V4,
    V6,
}

pub(super) fn addresses(
    word: &SourceWord,
    versions: AcceptedVersions,
) -> Result<AddressPattern, RuleTextError> {
    match word.text.as_str() {
        "any" => return Ok(AddressPattern::Any),
        "me" if versions != AcceptedVersions::V6 => return Ok(AddressPattern::Me),
        "me" | "me6" if versions != AcceptedVersions::V4 => return Ok(AddressPattern::Me6),
        text if text.starts_with("table(") => return table(word).map(AddressPattern::Table),
        text if text.contains('{') => {
            return hosts(text).map(AddressPattern::Hosts).ok_or_else(|| {
                let expected =
                    "a network of /24 to /32 and some of its last bytes, as in 10.0.0.0/24{1,5-9}";
                RuleTextError::at(word, format!("`{text}` is no set of hosts"), expected)
            });
        }
        _ => {}
    }
    let first = word.text.split(['/', ',']).next().unwrap_or("");
    let is_v6 = Ipv6Addr::from_str(first).is_ok();
    if is_v6 == (versions == AcceptedVersions::V6) || versions == AcceptedVersions::Both {
        list(word, is_v6)
    } else {
        Err(RuleTextError::unexpected(
            word,
            if is_v6 { "IPv4 addresses" } else { "IPv6 addresses" },
        ))
    }
}

fn list(word: &SourceWord, is_v6: bool) -> Result<AddressPattern, RuleTextError> {
    let wrong = |item: &str| {
        let offset = word.text.find(item).unwrap_or(0);
        let column = word.column + word.text[..offset].chars().count() as u32;
        let at = SourceWord { column, ..word.clone() };
        RuleTextError::at(&at, format!("`{item}` is no address"), EXPECTED)
    };
    let items = word.text.split(',');
    if is_v6 {
        let all: Result<Vec<_>, _> =
            items.map(|item| v6(item).ok_or_else(|| wrong(item))).collect();
        let all = all?;
        let any = all.iter().any(|network| network.mask == 0);
        return Ok(if any { AddressPattern::Any } else { AddressPattern::V6(all) });
    }
    let all: Result<Vec<_>, _> = items.map(|item| v4(item).ok_or_else(|| wrong(item))).collect();
    let all = all?;
    let any = all.iter().any(|network| network.mask == 0);
    Ok(if any { AddressPattern::Any } else { AddressPattern::V4(all) })
}

/// Parses `a`, `a/len` or `a:mask`.
fn v4(item: &str) -> Option<V4Mask> {
    let (address, mask) = if let Some((address, len)) = item.split_once('/') {
        (address, v4_prefix(len)?)
    } else if let Some((address, mask)) = item.split_once(':') {
        (address, Ipv4Addr::from_str(mask).ok()?.to_bits())
    } else {
        (item, u32::MAX)
    };
    Some(V4Mask::new(Ipv4Addr::from_str(address).ok()?.to_bits(), mask))
}

fn v4_prefix(len: &str) -> Option<u32> {
    let len = number::decimal(len).filter(|&len| len <= 32)?;
    Some(u32::MAX.checked_shl(32 - len).unwrap_or(0))
}

/// Parses `a`, `a/len` or `a/mask`.
fn v6(item: &str) -> Option<V6Mask> {
    let (address, mask) = match item.split_once('/') {
        None => (item, u128::MAX),
        Some((address, mask)) if mask.contains(':') => {
            (address, Ipv6Addr::from_str(mask).ok()?.to_bits())
        }
        Some((address, len)) => {
            let len = number::decimal(len).filter(|&len| len <= 128)?;
            (address, u128::MAX.checked_shl(128 - len).unwrap_or(0))
        }
    };
    Some(V6Mask::new(Ipv6Addr::from_str(address).ok()?.to_bits(), mask))
}

/// Parses `a/24{1,5-9}`: a network of at most 256 hosts, and the last bytes of the selected hosts.
fn hosts(text: &str) -> Option<Box<HostSet>> {
    let (network, bytes) = text.strip_suffix('}')?.split_once('{')?;
    let (address, len) = network.split_once('/').unwrap_or((network, "24"));
    let len = number::decimal(len).filter(|len| (24..=32).contains(len))?;
    let base = Ipv4Addr::from_str(address).ok()?.to_bits() & v4_prefix_mask(len);
    let mut set = HostSet { base, len: len as u8, last_bytes: [0; 4] };
    let (first, last) = set.bounds();
    for item in bytes.split(',') {
        let (low, high) = item.split_once('-').unwrap_or((item, item));
        let (low, high) = (number::decimal(low)?, number::decimal(high)?);
        if low > high || low < first.into() || high > last.into() {
            return None;
        }
        (low..=high).for_each(|byte| set.last_bytes[(byte >> 6) as usize] |= 1 << (byte & 63));
    }
    Some(Box::new(set))
}

fn v4_prefix_mask(len: u32) -> u32 {
    u32::MAX << (32 - len)
}

/// Parses `table(NAME)`, `table(NAME,value)` or `table(NAME,kind=value)`.
pub(super) fn table(word: &SourceWord) -> Result<TableTest, RuleTextError> {
    let expected = "`table(NAME)`, `table(NAME,VALUE)` or `table(NAME,VALTYPE=VALUE)`";
    let inner = word.text.strip_prefix("table(").and_then(|rest| rest.strip_suffix(')'));
    let read = |inner: &str| {
        let (name, value) = match inner.split_once(',') {
            Some((name, value)) => (name, Some(value_test(value)?)),
            None => (inner, None),
        };
        Some(TableTest { table: table_name(name)?, value })
    };
    inner.and_then(read).ok_or_else(|| RuleTextError::unexpected(word, expected))
}

fn value_test(text: &str) -> Option<ValueTest> {
    let (kind, value) = match text.split_once('=') {
        Some((kind, value)) => (Some(ValueKind::from_name(kind)?), value),
        None => (None, text),
    };
    let number = number::parse(value).and_then(|number| u32::try_from(number).ok());
    let address = || Ipv4Addr::from_str(value).ok().map(Ipv4Addr::to_bits);
    let value = number.or_else(address)?;
    Some(ValueTest { kind, value })
}

/// Parses a table name; `all` is reserved.
pub(super) fn table_name(text: &str) -> Option<ObjectName> {
    text.parse().ok().filter(|_| text != "all")
}

/// Parses `any`, `m`, `m/bits` or `m&mask`.
pub(super) fn mac(word: &SourceWord) -> Result<MacMask, RuleTextError> {
    let read = |text: &str| {
        let (address, mask) = if let Some((address, bits)) = text.split_once('/') {
            let bits = number::decimal(bits).filter(|&bits| bits <= 48)?;
            (address, MacAddr::from_u64(((1_u64 << bits) - 1) << (48 - bits)))
        } else if let Some((address, mask)) = text.split_once('&') {
            (address, mask.parse().ok()?)
        } else {
            (text, MacAddr::BROADCAST)
        };
        Some(MacMask::new(address.parse().ok()?, mask))
    };
    let found = if word.text == "any" { Some(MacMask::ANY) } else { read(&word.text) };
    let expected = "`any`, an Ethernet address, `ADDRESS/BITS` or `ADDRESS&MASK`";
    found.ok_or_else(|| RuleTextError::unexpected(word, expected))
}
