//! `nptv6 …`: instances that exchange prefixes of IPv6.

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
    /// Which one; `None` is all.
    pub name: Option<ObjectName>,
    /// What is done.
    pub verb: Nptv6Verb,
}

/// What is done with instances of `nptv6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nptv6Verb {
    /// Makes one.
    Create(Nptv6Options),
    /// Removes them.
    Destroy,
    /// Lists them.
    List,
    /// Tells what they have done.
    Stats {
        /// And starts over.
        reset: bool,
    },
}

/// Two prefixes of one length. Written as ipfw lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nptv6Options {
    /// The prefix inside.
    pub internal: Ipv6Addr,
    /// The prefix outside.
    pub external: Nptv6External,
    /// Bits of both.
    pub len: u8,
}

/// Where the prefix outside comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nptv6External {
    /// It is this one.
    Prefix(Ipv6Addr),
    /// It is that of a port's address.
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

/// A prefix, and its length where that is written behind a slash.
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
