//! Parses values with units. Flags, files and control messages follow the same rules, except in a
//! program that is called by a classic name, `tlem` or `nmreplay`.
//!
//! Units can be abbreviated to one letter. For times, the abbreviations are `n u m s`: `10m` is
//! 10 ms. For rates (bit/s) and sizes (bytes), they are `k m g`, which are powers of 1000. Other
//! units have their usual meaning: `10min` is ten minutes. A time or a rate without a unit is
//! ambiguous and so an error, unless it is 0; see [`clear_share`] for shares. A size without a unit
//! is in bytes.
//!
//! If the program was called by a classic name, a time or rate without a unit is in seconds or
//! bit/s, and `k m g` of sizes are powers of 1024, as in the original programs.

use std::time::Duration;

use slipring_cli::Diagnose;
use slipring_cli::units::{
    ByteCount, RateUnit, RateWithUnit, TimeSpan, UnitError, UnitErrorReason,
};
use slipring_model::Chance;

use super::error::EmulationConfigError;
use super::tree::{ConfigLocation, ConfigNode, ConfigValue};

/// The dimension of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitKind {
    Time,
    Rate,
    Size,
}

impl UnitKind {
    const fn forms(self) -> &'static str {
        match self {
            Self::Time => "write it as 250us, 2ms, 1.5s, 10min or 1h",
            Self::Rate => "write it as 10Mbit, 9.5Gbit/s or 125MB/s",
            Self::Size => "write it as 1500B, 64KiB (65536) or 64kB (64000)",
        }
    }

    /// Returns the full name of an abbreviated unit. If `classic` is true, the abbreviation has
    /// the meaning that it has in TLEM.
    fn full(self, unit: &str, classic: bool) -> &str {
        match (self, unit) {
            (Self::Size, "k" | "K" | "m" | "M" | "g" | "G") if !classic => unit,
            (Self::Time, "" | "s" | "S") => "s",
            (Self::Time, "m" | "M") => "ms",
            (Self::Time, "u" | "U") => "us",
            (Self::Time, "n" | "N") => "ns",
            (Self::Rate, "") => "bit",
            (Self::Size, "") => "B",
            (Self::Size, "k" | "K") => "KiB",
            (Self::Size, "m" | "M") => "MiB",
            (Self::Size, "g" | "G") => "GiB",
            _ => unit,
        }
    }

    /// Returns the possible meanings of a number without a unit, for the error message; `None` if
    /// the number is unambiguous.
    fn readings(self, number: &str) -> Option<String> {
        match self {
            Self::Time => Some(format!("{number}s or {number}ms")),
            Self::Rate => Some(format!("{number}bit or {number}Mbit")),
            Self::Size => None,
        }
    }

    /// Returns an error for an ambiguous number without a unit.
    fn refuse_bare(
        self,
        setting: &str,
        text: &str,
        location: &ConfigLocation,
    ) -> Result<(), EmulationConfigError> {
        match split(text) {
            Some((number, "")) if is_above_zero(number) => {
                let readings = self.readings(number);
                readings.map_or(Ok(()), |both| Err(ambiguous(setting, text, &both, location)))
            }
            _ => Ok(()),
        }
    }
}

/// Parses a time; returns nanoseconds.
pub(crate) fn time_ns(setting: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    let second = Duration::from_secs(1);
    read(setting, node, UnitKind::Time, |text| TimeSpan::parse(text, second).map(TimeSpan::nanos))
}

/// Like [`time_ns`], for a setting that TLEM did not have: a number without a unit is refused even
/// if the program is called by a classic name.
pub(crate) fn full_time_ns(setting: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    if let ConfigValue::Text(text) | ConfigValue::Number(text) = &node.value {
        UnitKind::Time.refuse_bare(setting, text, &node.location)?;
    }
    time_ns(setting, node)
}

/// Parses a rate; returns bits per second.
pub(crate) fn rate_bps(setting: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    let rate =
        read(setting, node, UnitKind::Rate, |text| RateWithUnit::parse(text, RateUnit::Bits))?;
    match rate {
        RateWithUnit::Bits(bps) => Ok(bps),
        RateWithUnit::Packets(_) => {
            let error = EmulationConfigError::value(setting, &node.shown(), "it counts packets");
            Err(error.at(&node.location).help(UnitKind::Rate.forms()))
        }
    }
}

/// Parses a size; returns bytes.
pub(crate) fn size_bytes(setting: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    read(setting, node, UnitKind::Size, |text| text.parse::<ByteCount>().map(|bytes| bytes.0))
}

fn read<T>(
    setting: &str,
    node: &ConfigNode,
    kind: UnitKind,
    parse: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<T, EmulationConfigError> {
    let (ConfigValue::Text(text) | ConfigValue::Number(text)) = &node.value else {
        return Err(wrong_kind(setting, &node.value, &node.location).help(kind.forms()));
    };
    let bad = |what: &str, at: usize| {
        let location = node.location.advanced_by(at);
        EmulationConfigError::value(setting, text, what).at(&location).help(kind.forms())
    };
    let (number, unit) = split(text).ok_or_else(|| bad(no_number(text), 0))?;
    let unit_at = text.chars().count() - unit.chars().count();
    if !node.location.is_classic() {
        kind.refuse_bare(setting, text, &node.location)?;
    }
    let unit = kind.full(unit, node.location.is_classic());
    // Without this check, `1 2` would be read as `12`.
    if unit.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(bad(&format!("unknown unit `{unit}`"), unit_at));
    }
    let number = plain(number).ok_or_else(|| bad("too large", 0))?;
    parse(&format!("{number}{unit}")).map_err(|error| match &error.reason {
        UnitErrorReason::UnknownUnit(_) => bad(&format!("unknown unit `{unit}`"), unit_at),
        UnitErrorReason::NoNumber => bad(no_number(text), 0),
        UnitErrorReason::NotWhole | UnitErrorReason::TooLarge | UnitErrorReason::TwoReadings => {
            let text = Diagnose::cause(&error).unwrap_or_default();
            bad(text.split(" at column").next().unwrap_or_default(), 0)
        }
    })
}

/// Creates the error for a number without a unit; `readings` are its possible meanings.
pub(super) fn ambiguous(
    setting: &str,
    text: &str,
    readings: &str,
    location: &ConfigLocation,
) -> EmulationConfigError {
    let error =
        EmulationConfigError::value(setting, text, format!("it could be {readings}")).at(location);
    error.help(format!("write {readings}"))
}

/// Returns an error for a share of at most 1 without a unit or exponent, because other programs
/// take `1` for 1 %. A share of 0 is accepted, and so is any share in a flag of a program that is
/// called by a classic name.
pub(super) fn clear_share(
    setting: &str,
    text: &str,
    location: &ConfigLocation,
) -> Result<(), EmulationConfigError> {
    let Some((number, "")) = split(text) else { return Ok(()) };
    let is_share = matches!(number.parse::<f64>(), Ok(value) if value <= 1.0);
    if location.is_classic() || number.contains(['e', 'E']) || !is_above_zero(number) || !is_share {
        return Ok(());
    }
    let Some((whole, percent)) = plain(number).zip(plain(&format!("{number}e2"))) else {
        return Ok(());
    };
    Err(ambiguous(setting, text, &format!("{whole}% or {}%", shortest(&percent)), location))
}

/// Removes redundant zeros from a number without an exponent.
fn shortest(number: &str) -> &str {
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    match number.trim_start_matches('0') {
        rest if rest.is_empty() || rest.starts_with('.') => {
            &number[number.len() - rest.len() - 1..]
        }
        rest => rest,
    }
}

/// Returns why a text does not begin with a number.
fn no_number(text: &str) -> &'static str {
    match text.strip_prefix(['-', '−']) {
        Some(rest) if split(rest).is_some() => "it is negative",
        _ if is_no_number(text) && text.contains(['f', 'F']) => "it is not finite",
        _ if is_no_number(text) => "it is not a number",
        _ if text.starts_with('+') => "a number has no sign",
        _ => "expected a number",
    }
}

/// Returns whether a text is `NaN` or infinity in any spelling, with or without a unit.
pub(crate) fn is_no_number(text: &str) -> bool {
    let text = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    let units = ["", "s", "ms", "us", "ns", "bit", "kbit", "mbit", "gbit", "b", "%"];
    let words = ["nan", "infinity", "inf"].into_iter();
    words.filter_map(|word| text.strip_prefix(word)).any(|unit| units.contains(&unit))
}

pub(crate) fn wrong_kind(
    setting: &str,
    value: &ConfigValue,
    location: &ConfigLocation,
) -> EmulationConfigError {
    EmulationConfigError::key(format!("{setting} cannot be {}", value.kind()), "").at(location)
}

/// Splits a text into a number and its unit, which one space may separate; `None` if it does not
/// begin with a number.
fn split(text: &str) -> Option<(&str, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(text);
    let fraction = match text[whole..].strip_prefix('.') {
        Some(rest) => 1 + digits(rest),
        None => 0,
    };
    let mantissa = whole + fraction;
    if mantissa == usize::from(fraction > 0) {
        return None;
    }
    let end = mantissa + exponent(&text[mantissa..]);
    let (number, unit) = text.split_at(end);
    Some((number, unit.strip_prefix(' ').unwrap_or(unit)))
}

/// Returns the length of an exponent such as `e-3` at the start.
fn exponent(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(['e', 'E']) else { return 0 };
    let sign = usize::from(rest.starts_with(['+', '-']));
    let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

/// Returns the number written without an exponent; `None` if it would have too many digits.
fn plain(number: &str) -> Option<String> {
    let (mantissa, power) = match number.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if power == 0 {
        let whole = if whole.is_empty() { "0" } else { whole };
        return Some(if fraction.is_empty() {
            whole.into()
        } else {
            format!("{whole}.{fraction}")
        });
    }
    const MAX_EXPONENT: i32 = 60;
    let point = i32::try_from(whole.len()).ok()?.checked_add(power)?;
    if point.abs() > MAX_EXPONENT {
        return None;
    }
    let mut digits = format!("{whole}{fraction}");
    let at = usize::try_from(point).unwrap_or_else(|_| {
        digits.insert_str(0, &"0".repeat(point.unsigned_abs() as usize));
        0
    });
    while digits.len() < at {
        digits.push('0');
    }
    let (whole, fraction) = digits.split_at(at);
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { whole.into() } else { format!("{whole}.{fraction}") })
}

/// Parses a probability: `0.1%`, `0.001`, `250ppm`, `1e-15`.
pub(crate) fn probability(setting: &str, node: &ConfigNode) -> Result<f64, EmulationConfigError> {
    let value = number(setting, node, &[("", 1.0), ("%", 1e-2), ("ppm", 1e-6), ("ppb", 1e-9)])
        .map_err(|error| error.help(PROBABILITY_SYNTAX))?;
    if value > 1.0 {
        let error = EmulationConfigError::value(setting, &node.shown(), "more than 1");
        return Err(error.at(&node.location).help(PROBABILITY_SYNTAX));
    }
    // A number that is not zero but whose value rounds to 0 is too small to be represented.
    let is_some = || split(&node.shown()).is_some_and(|(number, _)| is_above_zero(number));
    if Chance::from_f64(value) == Some(Chance::NEVER) && is_some() {
        let error =
            EmulationConfigError::value(setting, &node.shown(), "too small: it would never happen");
        return Err(error.at(&node.location).help("write 0, or 1.1e-19 (2^-63) or more"));
    }
    Ok(value)
}

fn is_above_zero(number: &str) -> bool {
    let mantissa = number.split(['e', 'E']).next().unwrap_or(number);
    mantissa.contains(|c: char| matches!(c, '1'..='9'))
}

const PROBABILITY_SYNTAX: &str = "write it as 0.1%, 250ppm or 1e-15; from 0 to 100%";

/// Parses a dimensionless number, 0 or more.
pub(crate) fn real(setting: &str, node: &ConfigNode) -> Result<f64, EmulationConfigError> {
    number(setting, node, &[("", 1.0)]).map_err(|error| error.help("write a number, 0 or more"))
}

fn number(
    setting: &str,
    node: &ConfigNode,
    units: &[(&str, f64)],
) -> Result<f64, EmulationConfigError> {
    let text = match &node.value {
        ConfigValue::Text(text) | ConfigValue::Number(text) => text,
        other => return Err(wrong_kind(setting, other, &node.location).help("write a number")),
    };
    let bad = |what: String, at| {
        EmulationConfigError::value(setting, text, what).at(&node.location.advanced_by(at))
    };
    let (number, unit) = split(text).ok_or_else(|| bad(no_number(text).into(), 0))?;
    let at = text.chars().count() - unit.chars().count();
    let scale = units.iter().find(|(name, _)| *name == unit);
    let (_, scale) = scale.ok_or_else(|| bad(format!("unknown unit `{unit}`"), at))?;
    // A division by a power of ten is rounded once. A multiplication by its inverse would be
    // rounded twice.
    let value = number.parse::<f64>().map(|value| value / (1.0 / scale).round());
    value.ok().filter(|value| value.is_finite()).ok_or_else(|| bad("too large".into(), 0))
}

/// Parses a whole number, 0 or more.
pub(crate) fn count(setting: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    signed(setting, node).and_then(|value| {
        u64::try_from(value).map_err(|_| {
            let error = EmulationConfigError::value(setting, &node.shown(), "it is negative");
            error.at(&node.location).help("write a whole number, 0 or more")
        })
    })
}

/// Parses a whole number, which may be negative.
pub(crate) fn signed(setting: &str, node: &ConfigNode) -> Result<i128, EmulationConfigError> {
    let text = match &node.value {
        ConfigValue::Text(text) | ConfigValue::Number(text) => text,
        other => {
            return Err(wrong_kind(setting, other, &node.location).help("write a whole number"));
        }
    };
    // All values of i64 and of u64 are accepted.
    let value = text.parse::<i128>().ok().filter(|value| value.unsigned_abs() <= u64::MAX.into());
    value.ok_or_else(|| {
        let error = EmulationConfigError::value(setting, text, "it is no whole number");
        error.at(&node.location).help("write a whole number")
    })
}
