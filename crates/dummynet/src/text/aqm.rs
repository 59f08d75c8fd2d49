//! Parses the parameters of CoDel, PIE and flow queueing. They come last in a command: all words
//! after them are parsed as such parameters.

use alloc::format;

use slipring_model::aqm::{CoDelSpec, DelaySource, FairSpec, PieSpec};

use super::cursor::{ShaperCursor, ShaperWord};
use super::error::ShaperTextError;
use super::number;

/// Maximum value of time parameters, in ns: 10 s. `GAIN_SCALE` is the precision with which PIE's
/// gains are stored.
const MAX_TIME_NS: u64 = 10_000_000_000;
const GAIN_SCALE: f64 = 8192.0;

pub(super) fn codel(cursor: &mut ShaperCursor<'_>) -> Result<CoDelSpec, ShaperTextError> {
    codel_of(cursor, CoDelSpec::default(), None)
}

pub(super) fn codel_of(
    cursor: &mut ShaperCursor<'_>,
    mut spec: CoDelSpec,
    mut fair: Option<&mut FairSpec>,
) -> Result<CoDelSpec, ShaperTextError> {
    let mut target = None;
    while let Some(word) = cursor.take() {
        match word.text {
            "target" => {
                spec.target_ns = time(cursor)?;
                target = Some(word);
            }
            "interval" => spec.interval_ns = time(cursor)?,
            "ecn" => spec.ecn = true,
            "noecn" => spec.ecn = false,
            _ if of_fair(word, cursor, &mut fair)? => {}
            _ => return Err(word.wrong(expected("target, interval, ecn, noecn", fair.is_some()))),
        }
    }
    if spec.target_ns > spec.interval_ns || spec.target_ns == 0 {
        let word = target.unwrap_or(ShaperWord { text: "interval", column: 1 });
        return Err(word.error("the target is not within the interval", "0 < target <= interval"));
    }
    Ok(spec)
}

/// Returns dummynet's defaults for PIE: the delay is measured by timestamps, and packets are not
/// marked.
pub(super) fn default_pie() -> PieSpec {
    let max_ecn_p = fixed(0.1);
    PieSpec { delay_from: DelaySource::Timestamps, max_ecn_p, ..PieSpec::default() }
}

pub(super) fn pie(cursor: &mut ShaperCursor<'_>) -> Result<PieSpec, ShaperTextError> {
    pie_of(cursor, default_pie(), None)
}

pub(super) fn pie_of(
    cursor: &mut ShaperCursor<'_>,
    mut spec: PieSpec,
    mut fair: Option<&mut FairSpec>,
) -> Result<PieSpec, ShaperTextError> {
    const WORDS: &str = "target, tupdate, alpha, beta, max_burst, max_ecnth, ecn, capdrop, drand, \
                         onoff, dre, ts";
    while let Some(word) = cursor.take() {
        match word.text {
            "target" => spec.target_ns = time(cursor)?,
            "tupdate" => spec.update_ns = time(cursor)?,
            "max_burst" => spec.max_burst_ns = number::time(cursor.next("a time")?, MAX_TIME_NS)?,
            "alpha" => spec.alpha = gain(cursor, 7.0)?,
            "beta" => spec.beta = gain(cursor, 7.0)?,
            "max_ecnth" => spec.max_ecn_p = gain(cursor, 1.0)?,
            "ecn" => spec.ecn = true,
            "noecn" => spec.ecn = false,
            "capdrop" => spec.cap = true,
            "nocapdrop" => spec.cap = false,
            "drand" => spec.derandomize = true,
            "nodrand" => spec.derandomize = false,
            "onoff" => spec.wake_bytes = 1,
            "dre" => spec.delay_from = DelaySource::DepartureRate,
            "ts" => spec.delay_from = DelaySource::Timestamps,
            _ if of_fair(word, cursor, &mut fair)? => {}
            _ => return Err(word.wrong(expected(WORDS, fair.is_some()))),
        }
    }
    Ok(spec)
}

fn expected(words: &str, is_fair: bool) -> alloc::string::String {
    let more = if is_fair { ", quantum, limit, flows" } else { "" };
    format!("{words}{more} (these come last)")
}

/// Parses one parameter of flow queueing. Returns whether `word` is such a parameter.
fn of_fair(
    word: ShaperWord<'_>,
    cursor: &mut ShaperCursor<'_>,
    fair: &mut Option<&mut FairSpec>,
) -> Result<bool, ShaperTextError> {
    let Some(fair) = fair else { return Ok(false) };
    let (field, most) = match word.text {
        "quantum" => (&mut fair.quantum, 9000),
        "limit" => (&mut fair.limit_packets, 20_480),
        "flows" => (&mut fair.flows, 65_536),
        _ => return Ok(false),
    };
    *field = number::within(cursor.next("a number")?, 1..=most, word.text)? as u32;
    Ok(true)
}

/// Parses a time of at least 1 µs; returns it in ns, rounded down to whole µs.
fn time(cursor: &mut ShaperCursor<'_>) -> Result<u64, ShaperTextError> {
    let word = cursor.next("a time")?;
    let ns = number::time(word, MAX_TIME_NS)?;
    if ns < 1000 { Err(word.wrong("a time of 1us or more")) } else { Ok(ns / 1000 * 1000) }
}

fn gain(cursor: &mut ShaperCursor<'_>, most: f64) -> Result<f64, ShaperTextError> {
    let word = cursor.next("a number")?;
    let value = number::share(word.text, 0.0..=most);
    value.map(fixed).ok_or_else(|| word.wrong(format!("a number from 0 to {most}")))
}

/// Rounds a gain down to the precision with which it is stored.
pub(super) fn fixed(value: f64) -> f64 {
    libm::floor(value * GAIN_SCALE) / GAIN_SCALE
}
