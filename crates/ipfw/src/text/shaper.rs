//! `pipe …`, `queue …`, `sched …`: read here, carried out by the shaper.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

use super::cursor::Cursor;
use super::error::TextError;
use super::number;
use super::words::Word;

/// A command about the objects of the shaper.
#[derive(Clone, Debug, PartialEq)]
pub struct ShaperCommand {
    /// Which sort of object.
    pub kind: ShaperKind,
    /// What is done.
    pub verb: ShaperVerb,
}

/// Sorts of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShaperKind {
    /// A link with a queue.
    Pipe,
    /// Flows of one weight.
    Queue,
    /// A scheduler.
    Sched,
}

/// What is done with them.
#[derive(Clone, Debug, PartialEq)]
pub enum ShaperVerb {
    /// Makes or changes one.
    Config {
        /// Its number.
        number: u32,
        /// Its parameters, in order.
        parameters: Vec<Parameter>,
    },
    /// Removes some.
    Delete(Vec<Delete>),
    /// Tells about some, or all.
    Show(Vec<Delete>),
    /// Removes all.
    Flush,
}

/// Numbers of objects, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The lowest.
    pub first: u32,
    /// The highest.
    pub last: u32,
}

/// One parameter. Keywords stand for themselves; which object takes which, the shaper knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// `bw`, in bits a second; 0 is no limit.
    Bandwidth(u64),
    /// `delay`, in nanoseconds.
    DelayNs(u64),
    /// `burst`, in bytes.
    BurstBytes(u64),
    /// `queue N`: most packets.
    QueueSlots(u32),
    /// `queue NBytes`: most bytes.
    QueueBytes(u64),
    /// `plr`: one probability, or the four numbers of Gilbert and Elliott.
    Loss(Vec<f64>),
    /// `mask`, `flow_mask`, `sched_mask`: keyword, then field and mask.
    Mask(String, Vec<(String, Option<String>)>),
    /// A keyword with a number: `buckets`, `weight`, `lmax`, `pri`, `quantum`, `limit`, `flows`.
    Number(String, u64),
    /// A keyword with a fraction or time: `alpha`, `target`, …, as written.
    Text(String, String),
    /// `red` and `gred`: keyword, then w_q, min_th, max_th, max_p as written.
    Red(String, [String; 4]),
    /// A keyword alone: `ecn`, `droptail`, `noerror`, `codel`, `pie`, …
    Flag(String),
    /// `type`: the scheduler.
    Type(String),
    /// `pipe N` or `sched N` of a queue.
    Parent(ShaperKind, u32),
    /// `profile`: name of a file.
    Profile(String),
}

const NUMBERS: &[&str] = &["buckets", "weight", "lmax", "pri", "quantum", "limit", "flows"];
const TEXTS: &[&str] =
    &["target", "interval", "tupdate", "alpha", "beta", "max_burst", "max_ecnth"];
const FLAGS: &[&str] = &[
    "ecn",
    "noecn",
    "droptail",
    "noerror",
    "codel",
    "pie",
    "capdrop",
    "nocapdrop",
    "drand",
    "nodrand",
    "onoff",
    "dre",
    "ts",
];
const FIELDS: &[&str] =
    &["dst-ip", "src-ip", "dst-port", "src-port", "proto", "dst-ip6", "src-ip6", "flow-id"];
const EXPECTED: &str = "a parameter: bw, delay, queue, plr, mask, buckets, red, gred, weight, \
                        type, burst, profile, codel, pie, …";

pub(super) fn parse(cursor: &mut Cursor<'_>, kind: ShaperKind) -> Result<ShaperCommand, TextError> {
    let expected = "a number and `config`, or `delete`, `show`, `list` or `flush`";
    let word = cursor.next(expected)?;
    let verb = match word.text.as_str() {
        "delete" => ShaperVerb::Delete(ranges(cursor, true)?),
        "show" | "list" => ShaperVerb::Show(ranges(cursor, false)?),
        "flush" => ShaperVerb::Flush,
        "config" => config(cursor, cursor.clone().next(expected)?, true)?,
        _ => match cursor.next(expected)?.text.as_str() {
            "config" => config(cursor, word, false)?,
            "delete" => ShaperVerb::Delete(alloc::vec![range(word)?]),
            "show" | "list" => ShaperVerb::Show(alloc::vec![range(word)?]),
            _ => return Err(TextError::unexpected(word, expected)),
        },
    };
    Ok(ShaperCommand { kind, verb })
}

fn ranges(cursor: &mut Cursor<'_>, needed: bool) -> Result<Vec<Delete>, TextError> {
    let mut ranges = Vec::new();
    if needed && cursor.peek().is_none() {
        return Err(cursor.too_short("numbers"));
    }
    while let Some(word) = cursor.peek() {
        cursor.skip();
        ranges.push(range(word)?);
    }
    Ok(ranges)
}

fn range(word: &Word) -> Result<Delete, TextError> {
    let (first, last) = word.text.split_once('-').unwrap_or((&word.text, &word.text));
    let found = number::decimal(first).zip(number::decimal(last));
    let found = found.filter(|&(first, last)| first <= last);
    let (first, last) = found.ok_or_else(|| TextError::unexpected(word, "a number or a range"))?;
    Ok(Delete { first, last })
}

fn config(
    cursor: &mut Cursor<'_>,
    word: &Word,
    number_follows: bool,
) -> Result<ShaperVerb, TextError> {
    if number_follows {
        cursor.skip();
    }
    let number = number::within(word, 1, 65535, "number of an object")? as u32;
    let mut parameters = Vec::new();
    while let Some(word) = cursor.peek() {
        cursor.skip();
        parameters.push(parameter(cursor, word)?);
    }
    Ok(ShaperVerb::Config { number, parameters })
}

fn parameter(cursor: &mut Cursor<'_>, word: &Word) -> Result<Parameter, TextError> {
    let text = word.text.as_str();
    let keyword = || String::from(text);
    if FLAGS.contains(&text) {
        return Ok(Parameter::Flag(keyword()));
    }
    if NUMBERS.contains(&text) {
        let value = cursor.next("a number")?;
        return Ok(Parameter::Number(keyword(), number::within(value, 0, u64::MAX, text)?));
    }
    if TEXTS.contains(&text) {
        return Ok(Parameter::Text(keyword(), cursor.next("a value")?.text.clone()));
    }
    match text {
        "bw" | "bandwidth" => bandwidth(cursor).map(Parameter::Bandwidth),
        "delay" => delay(cursor).map(Parameter::DelayNs),
        "burst" => {
            let word = cursor.next("bytes, with k, M or G")?;
            let found = scaled(&word.text).map(|(burst, _)| burst as u64);
            found.map(Parameter::BurstBytes).ok_or_else(|| TextError::unexpected(word, "bytes"))
        }
        "queue" => queue(cursor),
        "plr" => loss(cursor),
        "mask" | "flow_mask" | "sched_mask" => mask(cursor, text),
        "red" | "gred" => red(cursor, text),
        "type" => Ok(Parameter::Type(cursor.next("a scheduler")?.text.to_ascii_lowercase())),
        "pipe" => parent(cursor, ShaperKind::Pipe),
        "sched" => parent(cursor, ShaperKind::Sched),
        "profile" => Ok(Parameter::Profile(cursor.next("a file")?.text.clone())),
        _ => Err(TextError::unexpected(word, EXPECTED)),
    }
}

fn parent(cursor: &mut Cursor<'_>, kind: ShaperKind) -> Result<Parameter, TextError> {
    let word = cursor.next("a number")?;
    Ok(Parameter::Parent(kind, number::within(word, 1, 65535, "number of an object")? as u32))
}

/// A decimal number and what follows it, with k, M and G taken in.
fn scaled(text: &str) -> Option<(f64, &str)> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let value = f64::from_str(&text[..digits]).ok()?;
    let rest = &text[digits..];
    let (factor, rest) = match rest.as_bytes().first() {
        Some(b'k' | b'K') => (1e3, &rest[1..]),
        Some(b'm' | b'M') => (1e6, &rest[1..]),
        Some(b'g' | b'G') => (1e9, &rest[1..]),
        _ => (1.0, rest),
    };
    Some((value * factor, rest))
}

/// `10Mbit/s`, `30Byte/s`, `5G`: 64 bits wide, so nothing wraps.
fn bandwidth(cursor: &mut Cursor<'_>) -> Result<u64, TextError> {
    let expected = "a rate such as 10Mbit/s, 2.5Gbit/s or 30Byte/s";
    let word = cursor.next(expected)?;
    let mut unit = scaled(&word.text).map(|(_, unit)| unit).unwrap_or("?");
    let value = scaled(&word.text).map_or(0.0, |(value, _)| value);
    if unit.is_empty() {
        unit = separate_unit(cursor);
    }
    let bits = match unit {
        "" => value,
        unit if unit.starts_with("bit") || unit == "b/s" || unit == "bps" => value,
        unit if unit.starts_with('B') || unit.starts_with("byte") => value * 8.0,
        _ => return Err(TextError::unexpected(word, expected)),
    };
    if bits >= 1e18 {
        return Err(TextError::at(word, format!("`{}` is beyond all links", word.text), expected));
    }
    Ok(bits as u64)
}

/// `bw 300 Kbit/s` is not ipfw's, but `bw 300 bit/s` is harmless to read.
fn separate_unit<'w>(cursor: &mut Cursor<'w>) -> &'w str {
    let unit = cursor.peek_text();
    let is_unit = unit.ends_with("/s") && !unit.starts_with(|first: char| first.is_ascii_digit());
    if !is_unit {
        return "";
    }
    cursor.skip();
    unit
}

/// Milliseconds, or with `us`, `ms`, `s`.
fn delay(cursor: &mut Cursor<'_>) -> Result<u64, TextError> {
    let expected = "milliseconds, or a time such as 250ms, 50us, 1s";
    let word = cursor.next(expected)?;
    let digits =
        word.text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let factor = match &word.text[digits..] {
        "" | "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        "s" => 1e9,
        _ => return Err(TextError::unexpected(word, expected)),
    };
    let value = f64::from_str(&word.text[..digits]).ok().map(|value| value * factor);
    let value = value.filter(|&ns| ns <= 1e13);
    value.map(|ns| ns as u64).ok_or_else(|| TextError::unexpected(word, expected))
}

fn queue(cursor: &mut Cursor<'_>) -> Result<Parameter, TextError> {
    let expected = "slots, or a size such as 50KBytes";
    let word = cursor.next(expected)?;
    let wrong = || TextError::unexpected(word, expected);
    let (value, unit) = scaled(&word.text).filter(|(value, _)| *value <= 1e12).ok_or_else(wrong)?;
    match unit {
        "" if value <= f64::from(u32::MAX) => Ok(Parameter::QueueSlots(value as u32)),
        unit if unit.starts_with(['B', 'b']) => Ok(Parameter::QueueBytes(value as u64)),
        _ => Err(wrong()),
    }
}

fn loss(cursor: &mut Cursor<'_>) -> Result<Parameter, TextError> {
    let expected = "a probability 0 to 1, or four of them: K,p,H,r";
    let word = cursor.next(expected)?;
    let read = |item: &str| f64::from_str(item).ok().filter(|p| (0.0..=1.0).contains(p));
    let all: Option<Vec<_>> = word.text.split(',').map(read).collect();
    let all = all.filter(|all| matches!(all.len(), 1 | 4));
    all.map(Parameter::Loss).ok_or_else(|| TextError::unexpected(word, expected))
}

fn mask(cursor: &mut Cursor<'_>, keyword: &str) -> Result<Parameter, TextError> {
    let mut fields = Vec::new();
    loop {
        let text = cursor.peek_text();
        if matches!(text, "all" | "queue") {
            cursor.skip();
            fields.push((text.into(), None));
        } else if FIELDS.contains(&text) {
            cursor.skip();
            fields.push((text.into(), Some(cursor.next("a mask")?.text.clone())));
        } else {
            break;
        }
    }
    if fields.is_empty() {
        return Err(cursor.too_short("all, queue, or a field and a mask, as in src-ip 0x000000ff"));
    }
    Ok(Parameter::Mask(keyword.into(), fields))
}

fn red(cursor: &mut Cursor<'_>, keyword: &str) -> Result<Parameter, TextError> {
    let expected = "w_q/min_th/max_th/max_p";
    let word = cursor.next(expected)?;
    let mut parts = word.text.split('/').map(String::from);
    let mut part = || parts.next();
    let all = (|| Some([part()?, part()?, part()?, part()?]))();
    match (all, parts.next()) {
        (Some(all), None) => Ok(Parameter::Red(keyword.into(), all)),
        _ => Err(TextError::unexpected(word, expected)),
    }
}
