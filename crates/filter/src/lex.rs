//! Splits a filter expression into words, numbers, addresses and operators.
//!
//! The longest possible token is taken. So `len-4` is a single word (a name), and `6000-6008` is a
//! range of ports.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::ast::{BinaryOp, RelationOp};
use crate::error::FilterError;
use crate::names::{self, FilterProtocol};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FilterToken<'t> {
    Protocol(FilterProtocol),
    Keyword(FilterKeyword),
    /// A keyword of the language that this compiler does not support. The text is the reason.
    Refused(&'static str),
    Number(u32),
    /// Two to four decimal numbers with dots. They give the leading bits of an address.
    Ipv4 {
        leading: u32,
        bits: u32,
    },
    Ipv6(Ipv6Addr),
    Mac([u8; 6]),
    Name(&'t str),
    Not,
    And,
    Or,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    Colon,
    Binary(BinaryOp),
    Relation(RelationOp),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterKeyword {
    Src,
    Dst,
    Host,
    Net,
    Mask,
    Port,
    PortRange,
    Proto,
    Less,
    Greater,
    Broadcast,
    Multicast,
    Len,
    Vlan,
    Mpls,
    Pppoed,
    Pppoes,
}

const KEYWORDS: &[(&str, FilterKeyword)] = &[
    ("src", FilterKeyword::Src),
    ("dst", FilterKeyword::Dst),
    ("host", FilterKeyword::Host),
    ("net", FilterKeyword::Net),
    ("mask", FilterKeyword::Mask),
    ("port", FilterKeyword::Port),
    ("portrange", FilterKeyword::PortRange),
    ("proto", FilterKeyword::Proto),
    ("less", FilterKeyword::Less),
    ("greater", FilterKeyword::Greater),
    ("broadcast", FilterKeyword::Broadcast),
    ("multicast", FilterKeyword::Multicast),
    ("len", FilterKeyword::Len),
    ("length", FilterKeyword::Len),
    ("vlan", FilterKeyword::Vlan),
    ("mpls", FilterKeyword::Mpls),
    ("pppoed", FilterKeyword::Pppoed),
    ("pppoes", FilterKeyword::Pppoes),
];

/// The operators. Longer operators come before their own prefixes, so that the longest one matches.
const OPERATORS: &[(&str, FilterToken<'static>)] = &[
    ("&&", FilterToken::And),
    ("||", FilterToken::Or),
    ("!=", FilterToken::Relation(RelationOp::Ne)),
    ("==", FilterToken::Relation(RelationOp::Eq)),
    (">=", FilterToken::Relation(RelationOp::Ge)),
    ("<=", FilterToken::Relation(RelationOp::Le)),
    ("<<", FilterToken::Binary(BinaryOp::Shl)),
    (">>", FilterToken::Binary(BinaryOp::Shr)),
    ("!", FilterToken::Not),
    ("=", FilterToken::Relation(RelationOp::Eq)),
    (">", FilterToken::Relation(RelationOp::Gt)),
    ("<", FilterToken::Relation(RelationOp::Lt)),
    ("+", FilterToken::Binary(BinaryOp::Add)),
    ("-", FilterToken::Binary(BinaryOp::Sub)),
    ("*", FilterToken::Binary(BinaryOp::Mul)),
    ("/", FilterToken::Binary(BinaryOp::Div)),
    ("%", FilterToken::Binary(BinaryOp::Mod)),
    ("&", FilterToken::Binary(BinaryOp::And)),
    ("|", FilterToken::Binary(BinaryOp::Or)),
    ("^", FilterToken::Binary(BinaryOp::Xor)),
    ("(", FilterToken::OpenParen),
    (")", FilterToken::CloseParen),
    ("[", FilterToken::OpenBracket),
    ("]", FilterToken::CloseBracket),
    (":", FilterToken::Colon),
];

/// A token and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lexeme<'t> {
    pub(crate) token: FilterToken<'t>,
    pub(crate) text: &'t str,
    /// Column of the first character, counted in characters from 1.
    pub(crate) column: usize,
}

/// Splits the whole text. The last lexeme is [`FilterToken::End`].
pub(crate) fn lex(text: &str) -> Result<Vec<Lexeme<'_>>, FilterError> {
    let mut lexemes = Vec::new();
    let (mut rest, mut column) = (text, 1);
    loop {
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        column += rest.len() - trimmed.len();
        let (token, len) = next(trimmed, column)?;
        let (text, after) = trimmed.split_at(len);
        lexemes.push(Lexeme { token, text, column });
        if token == FilterToken::End {
            return Ok(lexemes);
        }
        column += text.chars().count();
        rest = after;
    }
}

/// Returns the first token of `rest` and its length in bytes.
fn next(rest: &str, column: usize) -> Result<(FilterToken<'_>, usize), FilterError> {
    let Some(first) = rest.chars().next() else {
        return Ok((FilterToken::End, 0));
    };
    if let Some(address) = colon_address(rest, column)? {
        return Ok(address);
    }
    if first.is_ascii_alphanumeric() {
        let text = leading_word(rest);
        return Ok((word(text, column)?, text.len()));
    }
    if first == '\\' {
        return escaped_name(rest, column);
    }
    let sign = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
    sign.map(|(sign, token)| (*token, sign.len())).ok_or_else(|| FilterError::Syntax {
        column,
        expected: "a word, a number or a sign of the filter language",
        found: format!("`{first}`"),
    })
}

/// Returns the longest start of `rest` that consists of letters, digits, `-`, `_` and `.`, and does
/// not end in `-` or `_`.
fn leading_word(rest: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    rest[..end].trim_end_matches(['-', '_'])
}

/// Parses a backslash and a word. The backslash makes the word a name, even if it is also a
/// keyword.
fn escaped_name(rest: &str, column: usize) -> Result<(FilterToken<'_>, usize), FilterError> {
    let end = rest.find([' ', '!', '(', ')', '\n', '\t']).unwrap_or(rest.len());
    match &rest[1..end] {
        "" => Err(FilterError::Syntax {
            column,
            expected: "a name after the backslash",
            found: "`\\`".to_owned(),
        }),
        name => Ok((FilterToken::Name(name), end)),
    }
}

/// Parses an IPv6 or Ethernet address with colons. Text with a single colon is not an address,
/// because `ip[0:2]` contains one too.
fn colon_address(
    rest: &str,
    column: usize,
) -> Result<Option<(FilterToken<'_>, usize)>, FilterError> {
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let text = &rest[..end];
    if text.matches(':').count() < 2 {
        return Ok(None);
    }
    let token = match (mac(text), text.parse()) {
        (Some(address), _) => FilterToken::Mac(address),
        (None, Ok(address)) => FilterToken::Ipv6(address),
        (None, Err(_)) => return Err(bad(text, column, "is no IPv6 or Ethernet address")),
    };
    Ok(Some((token, end)))
}

fn word(text: &str, column: usize) -> Result<FilterToken<'_>, FilterError> {
    if let Some(address) = mac(text) {
        return Ok(FilterToken::Mac(address));
    }
    if text.as_bytes()[0].is_ascii_digit() {
        if let Some(number) = number(text, column)? {
            return Ok(FilterToken::Number(number));
        }
        if let Some((leading, bits)) = ipv4(text, column)? {
            return Ok(FilterToken::Ipv4 { leading, bits });
        }
    }
    Ok(match text {
        "and" => FilterToken::And,
        "or" => FilterToken::Or,
        "not" => FilterToken::Not,
        _ => keyword(text),
    })
}

fn keyword(text: &str) -> FilterToken<'_> {
    names::find(KEYWORDS, text)
        .map(FilterToken::Keyword)
        .or_else(|| names::find(names::PROTOCOLS, text).map(FilterToken::Protocol))
        .or_else(|| names::find(names::CONSTANTS, text).map(FilterToken::Number))
        .or_else(|| names::find(names::REFUSED, text).map(FilterToken::Refused))
        .unwrap_or(FilterToken::Name(text))
}

/// Parses a number in C notation: hexadecimal after `0x`, octal after `0`, otherwise decimal.
/// Returns `None` if the text is not a number.
fn number(text: &str, column: usize) -> Result<Option<u32>, FilterError> {
    let (digits, radix) = if let Some(hex) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        (hex, 16)
    } else if text.starts_with('0') && text.len() > 1 {
        (&text[1..], 8)
    } else {
        (text, 10)
    };
    // An invalid octal digit makes the number invalid: the text is not taken as a name instead.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix.max(10))) {
        return Ok(None);
    }
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(bad(text, column, "has a leading 0, so it must be octal"));
    }
    match u32::from_str_radix(digits, radix) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(bad(text, column, "does not fit into 32 bits")),
    }
}

/// Parses two to four numbers with dots. Returns the address, and the number of leading bits that
/// the text gives.
fn ipv4(text: &str, column: usize) -> Result<Option<(u32, u32)>, FilterError> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let count = text.split('.').count();
    if !(2..=4).contains(&count) || !text.split('.').all(is_number) {
        return Ok(None);
    }
    let mut leading = 0;
    for part in text.split('.') {
        let Ok(octet) = part.parse::<u8>() else {
            return Err(bad(text, column, "has a number above 255"));
        };
        leading = leading << 8 | u32::from(octet);
    }
    Ok(Some((leading, 8 * count as u32)))
}

/// Parses an Ethernet address in any of its usual spellings.
fn mac(text: &str) -> Option<[u8; 6]> {
    let Some(separator) = text.chars().find(|c| matches!(c, ':' | '-' | '.')) else {
        return mac_of_groups(text, None, 12);
    };
    if separator == '.' && text.split('.').count() == 3 {
        return mac_of_groups(text, Some('.'), 4);
    }
    mac_of_groups(text, Some(separator), 2)
}

/// Reads groups of hexadecimal digits. A group of two digits may omit its leading 0.
fn mac_of_groups(text: &str, separator: Option<char>, digits: usize) -> Option<[u8; 6]> {
    let (mut address, mut bits_read) = (0u64, 0);
    for group in text.split(|c| Some(c) == separator) {
        let exact = digits > 2 && group.len() != digits;
        if exact || group.len() > digits || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        bits_read += 4 * digits;
        if bits_read > 48 {
            return None;
        }
        address = address << (4 * digits) | u64::from_str_radix(group, 16).ok()?;
    }
    let [_, _, mac @ ..] = address.to_be_bytes();
    (bits_read == 48).then_some(mac)
}

fn bad(text: &str, column: usize, reason: &'static str) -> FilterError {
    FilterError::Refused { column, text: text.to_owned(), reason }
}
