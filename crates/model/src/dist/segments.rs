//! A distribution function given by points, with straight lines between them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::law_table::MAX_NS;
use crate::ParameterError;

/// A point of a cumulative distribution: the probability `p` of a value of at most `ns`. Two points
/// with the same value are a step; `p` of the first is then the probability of a smaller value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CdfPoint {
    /// The value, in nanoseconds.
    pub ns: f64,
    /// The probability, 0 to 1.
    pub p: f64,
}

/// A cumulative distribution function given by points, with an index for fast lookup.
///
/// # Invariants
/// 1. Values and probabilities never decrease; the first probability is 0, the last 1.
/// 2. `guide[b]` is the index of the first segment that contains a draw whose top byte is `b` or
///    greater.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CdfSegments {
    pub(super) points: Box<[CdfPoint]>,
    /// For each segment, the last draw that falls into it, of 2⁶⁴ draws.
    ends: Box<[u64]>,
    /// Nanoseconds per unit of probability in each segment; 0 in a segment over which the
    /// probability does not rise.
    slopes: Box<[f64]>,
    guide: Box<[u32]>,
}

impl CdfSegments {
    pub(super) fn new(points: &[CdfPoint]) -> Result<Self, ParameterError> {
        check(points)?;
        // If the first point has a probability above 0, the function rises to it from 0 in a step.
        let step = points.first().filter(|first| first.p > 0.0);
        let step = step.map(|first| CdfPoint { p: 0.0, ..*first });
        Ok(Self::tabulate(step.into_iter().chain(points.iter().copied()).collect()))
    }

    fn tabulate(points: Vec<CdfPoint>) -> Self {
        // Points that no draw can reach are left out, because they would only widen the range of
        // values.
        let first = points.iter().rposition(|point| point.p == 0.0).unwrap_or(0);
        let last = points.iter().position(|point| point.p == 1.0).unwrap_or(points.len() - 1);
        let points: Box<[CdfPoint]> = points[first..=last].into();
        // Where p is 1, the cast saturates, and the result is the last draw.
        let ends: Box<[u64]> = points[1..].iter().map(|point| (point.p * TWO_64) as u64).collect();
        let slopes = points.windows(2).map(|pair| slope(pair[0], pair[1])).collect();
        let reaches = |byte: u64| ends.partition_point(|&end| end < byte << 56) as u32;
        let guide = (0..256).map(reaches).chain([ends.len() as u32 - 1]).collect();
        Self { points, ends, slopes, guide }
    }

    /// Returns the value in whole ns for `draw`, which is one of 2⁶⁴ equally likely numbers.
    #[inline]
    pub(super) fn at(&self, draw: u64) -> u64 {
        let byte = (draw >> 56) as usize;
        let (from, to) = (self.guide[byte] as usize, self.guide[byte + 1] as usize);
        let segment = from + self.ends[from..to].partition_point(|&end| end < draw);
        (self.inside(segment, draw as f64 / TWO_64) + 0.5) as u64
    }

    /// Returns the quantile in ns: the share `p` of all values is below it.
    pub(super) fn quantile_ns(&self, p: f64) -> f64 {
        let segment = self.points[1..].partition_point(|point| point.p < p);
        self.inside(segment.min(self.ends.len() - 1), p)
    }

    #[inline]
    fn inside(&self, segment: usize, p: f64) -> f64 {
        let (from, to) = (self.points[segment], self.points[segment + 1]);
        (from.ns + self.slopes[segment] * (p - from.p)).clamp(from.ns, to.ns)
    }

    /// Returns the probability of a value below `ns`. If `with` is true, the value `ns` itself is
    /// included.
    fn below(&self, ns: f64, with: bool) -> f64 {
        let next = self.points.partition_point(|point| point.ns < ns || (with && point.ns == ns));
        match (next.checked_sub(1), self.points.get(next)) {
            (None, _) => 0.0,
            (Some(last), None) => self.points[last].p,
            (Some(last), Some(to)) => {
                let from = self.points[last];
                from.p + (to.p - from.p) * (ns - from.ns) / (to.ns - from.ns)
            }
        }
    }

    /// The same distribution under the condition that the value is in `min_ns..=max_ns`.
    pub(super) fn within(&self, min_ns: f64, max_ns: f64) -> Result<Self, ParameterError> {
        let (low, high) = (self.below(min_ns, false), self.below(max_ns, true));
        let must_be = "at least a billionth of the distribution";
        let mass = high - low;
        ParameterError::unless(mass >= 1e-9, "what min and max keep", must_be, mass)?;
        let first = CdfPoint { ns: min_ns, p: low };
        let last = CdfPoint { ns: max_ns.min(MAX_NS as f64), p: high };
        let inside = |point: &CdfPoint| (min_ns..=max_ns).contains(&point.ns);
        let between = self.points.iter().copied().filter(inside);
        let cut = [first].into_iter().chain(between).chain([last]);
        let scaled = cut.map(|point| CdfPoint { p: ((point.p - low) / mass).min(1.0), ..point });
        Ok(Self::tabulate(scaled.collect()))
    }

    /// The same distribution with every value raised by `offset_ns`.
    pub(super) fn plus(&self, offset_ns: f64) -> Self {
        let mut moved = self.clone();
        for point in &mut moved.points {
            point.ns = (point.ns + offset_ns).min(MAX_NS as f64);
        }
        moved
    }

    /// Mean in ns and variance in ns².
    pub(super) fn moments(&self) -> (f64, f64) {
        let pairs = || self.points.windows(2).map(|pair| (pair[1].p - pair[0].p, pair));
        let mean = pairs().map(|(weight, pair)| weight * (pair[0].ns + pair[1].ns) / 2.0).sum();
        let square = |(weight, pair): (f64, &[CdfPoint])| {
            let (a, b) = (pair[0].ns - mean, pair[1].ns - mean);
            weight * (a * a + a * b + b * b) / 3.0
        };
        (mean, pairs().map(square).sum())
    }
}

const TWO_64: f64 = 18_446_744_073_709_551_616.0;

fn slope(from: CdfPoint, to: CdfPoint) -> f64 {
    let mass = to.p - from.p;
    if mass > 0.0 { (to.ns - from.ns) / mass } else { 0.0 }
}

fn check(points: &[CdfPoint]) -> Result<(), ParameterError> {
    let refuse = ParameterError::unless;
    refuse(points.len() >= 2, "the number of points", "at least 2", points.len() as f64)?;
    refuse(
        points.len() <= 1 << 20,
        "the number of points",
        "at most 1048576",
        points.len() as f64,
    )?;
    for point in points {
        let in_range = (0.0..=MAX_NS as f64).contains(&point.ns);
        refuse(in_range, "a value", "0 or more and below 104 days", point.ns)?;
        refuse((0.0..=1.0).contains(&point.p), "a probability", "0 to 1", point.p)?;
    }
    for pair in points.windows(2) {
        refuse(pair[0].ns <= pair[1].ns, "a value", "no less than the one before it", pair[1].ns)?;
        refuse(pair[0].p <= pair[1].p, "a probability", "no less than the one before", pair[1].p)?;
    }
    let last = points[points.len() - 1].p;
    refuse(last == 1.0, "the last probability", "1", last).map(|_| ())
}
