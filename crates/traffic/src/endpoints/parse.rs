//! Parses lists of endpoints. Every error contains its column, counted from 1.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use slipring_wire::view::IpVersion;

use super::{EndpointBlock, Endpoints};

/// What is wrong in a list of endpoints, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at column {column}")]
pub struct EndpointError {
    /// Column of the mistake, counted from 1.
    pub column: usize,
    /// What is wrong at that column.
    pub fault: EndpointFault,
}

/// Why a text is not a list of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointFault {
    /// The text at this column is neither an IPv4 nor an IPv6 address.
    #[error("not an IP address")]
    Address,
    /// There is a `[` without a closing `]`.
    #[error("this bracket is never closed")]
    Bracket,
    /// After `]`, there is text other than `:PORT`.
    #[error("only `:PORT` may follow the bracket")]
    AfterBracket,
    /// The port is not a number from 0 to 65535.
    #[error("a port is a number from 0 to 65535")]
    Port,
    /// The prefix length is greater than the length of the address, or is not a number.
    #[error("a prefix length is a number from 0 to 32 (IPv4) or 128 (IPv6)")]
    Prefix,
    /// There are both a prefix and `-ADDRESS`.
    #[error("a prefix is a range already")]
    PrefixInRange,
    /// The group is not a number from 0 to 7, or it is before an IPv4 address.
    #[error("a group is a number from 0 to 7, before an IPv6 address")]
    Group,
    /// The list contains both IPv4 and IPv6 addresses.
    #[error("IPv4 and IPv6 addresses cannot be mixed")]
    MixedFamilies,
}

impl FromStr for Endpoints {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let mut blocks = Vec::new();
        let mut family = None;
        for item in TextSpan::whole(text).split(',') {
            let (version, block) = block(item)?;
            if *family.get_or_insert(version) != version {
                return Err(item.fault(EndpointFault::MixedFamilies));
            }
            blocks.push(block);
        }
        // Splitting a text returns at least one item. So `family` was set.
        let family = family.unwrap_or(IpVersion::V4);
        Ok(Self { blocks, family })
    }
}

/// A part of the text with its position.
#[derive(Clone, Copy)]
struct TextSpan<'t> {
    text: &'t str,
    column: usize,
}

impl<'t> TextSpan<'t> {
    fn whole(text: &'t str) -> Self {
        Self { text, column: 1 }
    }

    fn fault(self, fault: EndpointFault) -> EndpointError {
        let column = self.column;
        EndpointError { column, fault }
    }

    /// Splits the text at byte `at`, and drops the `skip` bytes that begin there.
    fn around(self, at: usize, skip: usize) -> (Self, Self) {
        let left = Self { text: &self.text[..at], ..self };
        let right = Self { text: &self.text[at + skip..], column: self.column + at + skip };
        (left, right)
    }

    fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let at = self.text.find(separator)?;
        Some(self.around(at, separator.len_utf8()))
    }

    fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        core::iter::from_fn(move || {
            let span = rest.take()?;
            let Some((item, tail)) = span.split_once(separator) else {
                return Some(span);
            };
            rest = Some(tail);
            Some(item)
        })
    }

    fn number<N: FromStr>(self, fault: EndpointFault) -> Result<N, EndpointError> {
        // Only digits are accepted. `parse` alone would also accept a sign.
        let digits = self.text.bytes().all(|byte| byte.is_ascii_digit());
        let number = self.text.parse().ok().filter(|_| digits);
        number.ok_or_else(|| self.fault(fault))
    }
}

/// The start or the end of a range of endpoints, as the user has written it.
struct RangeEndpoint {
    address: IpAddr,
    group: Option<u32>,
    prefix: Option<u32>,
    port: Option<u16>,
}

fn block(item: TextSpan<'_>) -> Result<(IpVersion, EndpointBlock), EndpointError> {
    let Some((left, right)) = item.split_once('-') else {
        return Ok(point(item)?.single());
    };
    let from = point(left)?;
    if is_port(right) && from.port.is_some() {
        let last_port = right.number(EndpointFault::Port)?;
        let (version, block) = from.single();
        return Ok((version, block.with_last_port(last_port)));
    }
    let to = point(right)?;
    if from.prefix.is_some() || to.prefix.is_some() {
        return Err(right.fault(EndpointFault::PrefixInRange));
    }
    if from.address.is_ipv4() != to.address.is_ipv4() {
        return Err(right.fault(EndpointFault::MixedFamilies));
    }
    let (version, block) = from.to(to.address);
    Ok((version, block.with_last_port(to.port.unwrap_or(from.first_port()))))
}

fn is_port(span: TextSpan<'_>) -> bool {
    !span.text.is_empty() && span.text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses `[GROUP@]ADDRESS[/PREFIX][:PORT]`. An IPv6 address with a port must be in brackets.
fn point(span: TextSpan<'_>) -> Result<RangeEndpoint, EndpointError> {
    let (group, span) = match span.split_once('@') {
        Some((group, rest)) => (Some(group), rest),
        None => (None, span),
    };
    let (address, port) = address_and_port(span)?;
    let port = port.map(|port| port.number(EndpointFault::Port));
    let (address, prefix) = address_and_prefix(address)?;
    let group = group.map(|group| group_number(group, address));
    Ok(RangeEndpoint { address, group: group.transpose()?, prefix, port: port.transpose()? })
}

fn address_and_port(
    span: TextSpan<'_>,
) -> Result<(TextSpan<'_>, Option<TextSpan<'_>>), EndpointError> {
    if !span.text.starts_with('[') {
        // If there are two colons, the text is an IPv6 address without brackets. It cannot have a
        // port.
        return Ok(match span.split_once(':') {
            Some((address, port)) if !port.text.contains(':') => (address, Some(port)),
            _ => (span, None),
        });
    }
    let (_, inside) = span.around(0, 1);
    let Some((address, after)) = inside.split_once(']') else {
        return Err(span.fault(EndpointFault::Bracket));
    };
    if after.text.is_empty() {
        return Ok((address, None));
    }
    if !after.text.starts_with(':') {
        return Err(after.fault(EndpointFault::AfterBracket));
    }
    Ok((address, Some(after.around(0, 1).1)))
}

fn address_and_prefix(span: TextSpan<'_>) -> Result<(IpAddr, Option<u32>), EndpointError> {
    let (address, prefix) = match span.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (span, None),
    };
    let address: IpAddr =
        address.text.parse().map_err(|_| address.fault(EndpointFault::Address))?;
    let Some(prefix) = prefix else {
        return Ok((address, None));
    };
    let length = prefix.number(EndpointFault::Prefix)?;
    if length > address_bits(address) {
        return Err(prefix.fault(EndpointFault::Prefix));
    }
    Ok((address, Some(length)))
}

fn group_number(span: TextSpan<'_>, address: IpAddr) -> Result<u32, EndpointError> {
    let group = span.number(EndpointFault::Group)?;
    if group > 7 || address.is_ipv4() {
        return Err(span.fault(EndpointFault::Group));
    }
    Ok(group)
}

const fn address_bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

fn number(address: IpAddr) -> (IpVersion, u128) {
    match address {
        IpAddr::V4(v4) => (IpVersion::V4, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (IpVersion::V6, v6.to_bits()),
    }
}

impl RangeEndpoint {
    fn first_port(&self) -> u16 {
        self.port.unwrap_or(Endpoints::DEFAULT_PORT)
    }

    fn block(&self, first: u128, last_index: u128, step: u128) -> EndpointBlock {
        EndpointBlock {
            first,
            step,
            last_index,
            first_port: self.first_port(),
            last_port: self.first_port(),
        }
    }

    /// Returns the block of only this endpoint. It has one address, or all addresses of its prefix.
    fn single(&self) -> (IpVersion, EndpointBlock) {
        let (version, address) = number(self.address);
        let width = address_bits(self.address);
        let host_bits = match width - self.prefix.unwrap_or(width) {
            u128::BITS => u128::MAX,
            bits => (1 << bits) - 1,
        };
        (version, self.block(address & !host_bits, host_bits, 1))
    }

    /// Returns the block of all addresses between this endpoint and `end`, which may also be lower.
    /// If this endpoint has a group, only that 16-bit group of the address counts up.
    fn to(&self, end: IpAddr) -> (IpVersion, EndpointBlock) {
        let (version, from) = number(self.address);
        let (_, to) = number(end);
        let Some(group) = self.group else {
            return (version, self.block(from.min(to), from.abs_diff(to), 1));
        };
        let shift = 16 * (7 - group);
        let part = |address: u128| (address >> shift) & 0xffff;
        let low = part(from).min(part(to));
        let first = from & !(0xffff << shift) | low << shift;
        let count = part(from).abs_diff(part(to));
        (version, self.block(first, count, 1 << shift))
    }
}

impl EndpointBlock {
    /// Extends the ports of the block, up or down, to include `port`.
    fn with_last_port(self, port: u16) -> Self {
        Self { first_port: self.first_port.min(port), last_port: self.first_port.max(port), ..self }
    }
}

#[cfg(test)]
mod tests;
