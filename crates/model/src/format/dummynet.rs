//! Profiles of extra transmission time, in the format of dummynet's `pipe … profile FILE`.
//!
//! ```text
//! name        bad_wireless       keywords, each at most once, in any order
//! bw          1Mbit/s
//! loss-level  0.86               draws from 0.86 to 1 lose the packet after its extra time
//! samples     100
//! prob delay                     or `delay prob`, before the points of the distribution
//! 0    200                       delays in ms
//! 0.5  300
//! 1    1300
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::number::ParsedDecimal;
use super::{FormatError, FormatWord, words_of};

/// The contents of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct DummynetProfile {
    /// The profile's name; `None` if it has none.
    pub name: Option<String>,
    /// The link's bandwidth in bit/s; `None` if the profile does not set it.
    pub bits_per_sec: Option<u64>,
    /// The share of draws, 0 to 1, with which the packet is not lost.
    pub loss_level: f64,
    /// Extra time on the link in ms: samples in the order of the cumulative probability, at equal
    /// steps of it. A sample at a probability that no two points enclose is 0.
    pub extra_ms: Vec<u32>,
}

const MAX_SAMPLES: usize = 1024;
const ALLOWED_KEYWORDS: &str = "name, bw, loss-level, samples, the heading `prob delay` or `delay prob`, then pairs of numbers";
const ALLOWED_PAIR: &str = "a probability from 0 to 1 and a delay in ms up to 4294967295";

/// A point of the distribution function.
#[derive(Clone, Copy, Debug)]
struct ProfilePoint {
    probability: f64,
    delay_ms: f64,
}

/// Which of the two numbers of a point comes first in a line.
#[derive(Clone, Copy, PartialEq)]
enum PairOrder {
    ProbabilityFirst,
    DelayFirst,
}

struct ProfileParser {
    profile: DummynetProfile,
    samples: usize,
    order: Option<PairOrder>,
    points: Vec<ProfilePoint>,
    seen_keywords: Vec<&'static str>,
}

impl DummynetProfile {
    /// Reads a profile.
    ///
    /// # Errors
    /// Returns an error if a line is neither a keyword with its value nor a point, a keyword is
    /// repeated, or there are fewer than two points.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut reading = ProfileParser {
            profile: Self { name: None, bits_per_sec: None, loss_level: 1.0, extra_ms: Vec::new() },
            samples: 100,
            order: None,
            points: Vec::new(),
            seen_keywords: Vec::new(),
        };
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<_> = words_of(line, number).collect();
            match words[..] {
                [] => {}
                [first, second] => reading.line(first, second)?,
                [first] => return Err(first.error("a word without its value", ALLOWED_KEYWORDS)),
                [_, _, third, ..] => return Err(third.error("one word too many", ALLOWED_KEYWORDS)),
            }
        }
        reading.finish(text.lines().count())
    }

    /// Returns the index in `extra_ms` of the first sample with which the packet is lost, or the
    /// length of `extra_ms` if there is none. With all later samples, the packet is lost, too.
    #[must_use]
    pub fn first_lost(&self) -> usize {
        // With sample `n` the packet is lost if `n >= loss_level * len`, so the number of samples
        // with which it is kept is rounded up.
        let kept = self.loss_level * self.extra_ms.len() as f64;
        let whole = kept as usize;
        whole + usize::from((whole as f64) < kept)
    }

    /// Returns the mean extra time in ms, including lost packets.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        let sum: f64 = self.extra_ms.iter().map(|ms| f64::from(*ms)).sum();
        sum / self.extra_ms.len() as f64
    }
}

impl ProfileParser {
    fn line(&mut self, first: FormatWord<'_>, second: FormatWord<'_>) -> Result<(), FormatError> {
        match (first.text, second.text) {
            ("prob", "delay") => self.heading(first, PairOrder::ProbabilityFirst),
            ("delay", "prob") => self.heading(first, PairOrder::DelayFirst),
            ("name", name) => {
                self.profile.name = Some(name.to_string());
                self.once("name", first)
            }
            ("bw", _) => {
                self.profile.bits_per_sec = Some(bandwidth(second)?);
                self.once("bw", first)
            }
            ("loss-level", _) => {
                self.profile.loss_level = plain(second)?.probability()?;
                self.once("loss-level", first)
            }
            ("samples", _) => {
                let samples = second.text.parse().ok();
                self.samples =
                    samples.filter(|n| (1..=MAX_SAMPLES).contains(n)).ok_or_else(|| {
                        second.error(format!("`{}` does not fit", second.text), "1 to 1024")
                    })?;
                self.once("samples", first)
            }
            _ => self.pair(first, second),
        }
    }

    fn heading(&mut self, at: FormatWord<'_>, order: PairOrder) -> Result<(), FormatError> {
        self.order = Some(order);
        self.once("prob", at)
    }

    fn once(&mut self, keyword: &'static str, at: FormatWord<'_>) -> Result<(), FormatError> {
        if self.seen_keywords.contains(&keyword) {
            return Err(at.error(format!("a second `{}`", at.text), "each keyword once"));
        }
        self.seen_keywords.push(keyword);
        Ok(())
    }

    fn pair(&mut self, first: FormatWord<'_>, second: FormatWord<'_>) -> Result<(), FormatError> {
        let (probability, delay) = match self.order {
            Some(PairOrder::ProbabilityFirst) => (first, second),
            Some(PairOrder::DelayFirst) => (second, first),
            None => {
                let what = format!("unknown keyword `{}`", first.text);
                return Err(first.error(what, ALLOWED_KEYWORDS));
            }
        };
        let bad = || delay.error(format!("`{}` is no delay", delay.text), ALLOWED_PAIR);
        plain(probability)?;
        plain(delay)?;
        let (_, rest) = ParsedDecimal::split(delay.text).ok_or_else(bad)?;
        let delay_ms = delay.text.parse::<f64>().ok();
        let delay_ms = delay_ms.filter(|ms| rest.is_empty() && *ms <= f64::from(u32::MAX));
        let point = ProfilePoint {
            probability: probability.probability()?,
            delay_ms: delay_ms.ok_or_else(bad)?,
        };
        self.points.push(point);
        Ok(())
    }

    fn finish(mut self, lines: usize) -> Result<DummynetProfile, FormatError> {
        if self.points.len() < 2 {
            let what = "less than two points";
            return Err(FormatError::new(lines.max(1), 1, what, ALLOWED_KEYWORDS));
        }
        self.points.sort_by(|a, b| {
            let by_probability = a.probability.total_cmp(&b.probability);
            by_probability.then(a.delay_ms.total_cmp(&b.delay_ms))
        });
        self.profile.extra_ms = alloc::vec![0; self.samples];
        for pair in self.points.windows(2) {
            fill(&mut self.profile.extra_ms, pair[0], pair[1]);
        }
        Ok(self.profile)
    }
}

/// Returns an error if a number has an exponent, which dummynet does not read.
fn plain(word: FormatWord<'_>) -> Result<FormatWord<'_>, FormatError> {
    if word.text.starts_with(|c: char| c.is_ascii_digit()) && word.text.contains(['e', 'E']) {
        return Err(word.error(format!("`{}` has an exponent", word.text), ALLOWED_PAIR));
    }
    Ok(word)
}

/// Fills the entries between two points with the values on the line through these points, truncated
/// to whole ms.
fn fill(extra_ms: &mut [u32], from: ProfilePoint, to: ProfilePoint) {
    let number = extra_ms.len() as f64;
    let (first, end) = ((from.probability * number) as usize, (to.probability * number) as usize);
    let (width, rise) = (to.probability - from.probability, to.delay_ms - from.delay_ms);
    for (index, entry) in extra_ms.iter_mut().enumerate().take(end).skip(first) {
        let share = (index as f64 / number - from.probability) / width;
        // Rounding errors may put a value slightly below a whole number. Adding 1e-9 prevents its
        // truncation to the number below.
        *entry = (from.delay_ms + rise * share.max(0.0) + 1e-9) as u32;
    }
}

/// Parses `300Kbit/s`, `10MBit/s`, `100KByte/s`, or a bare number in bit/s.
fn bandwidth(word: FormatWord<'_>) -> Result<u64, FormatError> {
    const ALLOWED: &str = "a number, K, M or G, and Bit/s or Byte/s: 10Mbit/s";
    let bad = || word.error(format!("`{}` is no bandwidth", word.text), ALLOWED);
    let (number, unit) = ParsedDecimal::split(word.text).ok_or_else(bad)?;
    let (scale, unit) = match unit.chars().next() {
        Some('k' | 'K') => (1_000, &unit[1..]),
        Some('m' | 'M') => (1_000_000, &unit[1..]),
        Some('g' | 'G') => (1_000_000_000, &unit[1..]),
        _ => (1, unit),
    };
    let bits = match unit {
        "" | "bit/s" | "Bit/s" | "bit" | "Bit" | "bps" => 1,
        "byte/s" | "Byte/s" | "byte" | "Byte" | "B/s" => 8,
        _ => return Err(bad()),
    };
    number.times(scale * bits).ok_or_else(bad)
}
