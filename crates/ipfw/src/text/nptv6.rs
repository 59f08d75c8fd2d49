//! `nptv6 …`: instances that translate IPv6 prefixes.

use alloc::string::String;
use core::fmt;
use core::net::Ipv6Addr;

use slipring_nat::nptv6::Nptv6Prefixes;

use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::number;
use super::words::SourceWord;
use crate::rule::ObjectName;

/// A command about instances of `nptv6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nptv6Command {
    /// The name of the instance; `None` means all.
    pub name: Option<ObjectName>,
    /// The action.
    pub verb: Nptv6Verb,
}

/// An action on instances of `nptv6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nptv6Verb {
    /// Creates an instance.
    Create(Nptv6Options),
    /// Removes the instances.
    Destroy,
    /// Lists the instances.
    List,
    /// Shows the counters of the instances.
    Stats {
        /// Whether to reset the counters.
        reset: bool,
    },
}

/// Two prefixes of the same length. Displayed as ipfw lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nptv6Options {
    /// The internal prefix.
    pub internal: Ipv6Addr,
    /// The external prefix.
    pub external: Nptv6External,
    /// Length of both prefixes in bits.
    pub len: u8,
}

/// The source of the external prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nptv6External {
    /// A fixed prefix.
    Prefix(Ipv6Addr),
    /// The prefix of a port's address.
    Interface(String),
}

const EXPECTED_VERB: &str = "create, destroy, list, show or stats";
const EXPECTED_OPTION: &str = "int_prefix, ext_prefix, ext_if or prefixlen";
const EXPECTED_PREFIX: &str = "an IPv6 prefix";
const EXPECTED_LEN: &str = "8 to 64 bits, the same for both prefixes";

pub(super) fn parse(cursor: &mut WordCursor<'_>) -> Result<Nptv6Command, RuleTextError> {
    let expected = "the name of an instance, or `all`";
    let word = cursor.next(expected)?;
    let name = match word.text.as_str() {
        "all" => None,
        text => Some(text.parse().map_err(|_| RuleTextError::unexpected(word, expected))?),
    };
    let verb = cursor.next(EXPECTED_VERB)?;
    let verb = match verb.text.as_str() {
        "create" if name.is_none() => {
            return Err(RuleTextError::unexpected(word, "a name: `all` means every instance"));
        }
        "create" => Nptv6Verb::Create(options(cursor)?),
        "destroy" => Nptv6Verb::Destroy,
        "list" | "show" => Nptv6Verb::List,
        "stats" => Nptv6Verb::Stats { reset: cursor.eat("reset") },
        _ => return Err(RuleTextError::unexpected(verb, EXPECTED_VERB)),
    };
    Ok(Nptv6Command { name, verb })
}

fn options(cursor: &mut WordCursor<'_>) -> Result<Nptv6Options, RuleTextError> {
    let (mut internal, mut external, mut len) = (None, None, None);
    while let Some(word) = cursor.peek() {
        cursor.skip();
        match word.text.as_str() {
            "int_prefix" => internal = Some(prefix(cursor, &mut len)?),
            "ext_prefix" if external.is_none() => {
                external = Some(Nptv6External::Prefix(prefix(cursor, &mut len)?));
            }
            "ext_if" if external.is_none() => {
                external = Some(Nptv6External::Interface(cursor.next("a port")?.text.clone()));
            }
            "ext_prefix" | "ext_if" => {
                return Err(RuleTextError::unexpected(word, "one of ext_prefix and ext_if"));
            }
            "prefixlen" => same_len(cursor.next(EXPECTED_LEN)?, None, &mut len)?,
            _ => return Err(RuleTextError::unexpected(word, EXPECTED_OPTION)),
        }
    }
    let internal = internal.ok_or_else(|| cursor.too_short("int_prefix and a prefix"))?;
    let external = external.ok_or_else(|| cursor.too_short("ext_prefix and a prefix"))?;
    let len = len.ok_or_else(|| cursor.too_short("prefixlen and the bits of the prefixes"))?;
    Ok(Nptv6Options { internal, external, len })
}

/// Parses a prefix, and its length if that follows after a slash.
fn prefix(cursor: &mut WordCursor<'_>, len: &mut Option<u8>) -> Result<Ipv6Addr, RuleTextError> {
    let word = cursor.next(EXPECTED_PREFIX)?;
    let (address, bits) = match word.text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (word.text.as_str(), None),
    };
    if let Some(bits) = bits {
        same_len(word, Some(bits), len)?;
    }
    address.parse().map_err(|_| RuleTextError::unexpected(word, EXPECTED_PREFIX))
}

fn same_len(
    word: &SourceWord,
    bits: Option<&str>,
    len: &mut Option<u8>,
) -> Result<(), RuleTextError> {
    let wrong = || RuleTextError::unexpected(word, EXPECTED_LEN);
    let bits = number::decimal(bits.unwrap_or(&word.text)).and_then(|bits| bits.try_into().ok());
    let bits = bits.filter(|bits| Nptv6Prefixes::LENGTHS.contains(bits)).ok_or_else(wrong)?;
    if len.replace(bits).is_some_and(|before| before != bits) { Err(wrong()) } else { Ok(()) }
}

impl fmt::Display for Nptv6Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "int_prefix {} ", self.internal)?;
        match &self.external {
            Nptv6External::Prefix(prefix) => write!(f, "ext_prefix {prefix}")?,
            Nptv6External::Interface(name) => write!(f, "ext_if {name}")?,
        }
        write!(f, " prefixlen {}", self.len)
    }
}
