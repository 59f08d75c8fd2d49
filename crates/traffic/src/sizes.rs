//! The lengths of frames.
//!
//! As everywhere in this crate, lengths do not include the CRC. So the smallest Ethernet frame has
//! 60 bytes.

use alloc::vec::Vec;
use core::str::FromStr;

/// A distribution of frame lengths.
///
/// ```
/// use slipring_traffic::Sizes;
///
/// let fixed: Sizes = "60".parse()?;
/// let random: Sizes = "60-1514".parse()?;
/// let mix: Sizes = "60:7,590:4,1514:1".parse()?;
/// assert_eq!("imix".parse(), Ok(mix));
/// assert_eq!((random.min(), random.max()), (60, 1514));
/// # Ok::<(), slipring_traffic::SizeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub(crate) SizeKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SizeKind {
    Random {
        min: u16,
        max: u16,
    },
    /// One round of lengths. It is repeated without end and is not empty.
    Cycle(Vec<u16>),
}

/// Why a distribution was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The length is not a number from 1 to 65535.
    #[error("a frame length is a number from 1 to 65535, at column {column}")]
    Length {
        /// Column of the length, counted from 1.
        column: usize,
    },
    /// The weight is not a number from 1 to 65535.
    #[error("a weight is a number from 1 to 65535, at column {column}")]
    Weight {
        /// Column of the weight, counted from 1.
        column: usize,
    },
    /// After division by their common factor, the sum of the weights is greater than
    /// [`Sizes::MAX_ROUND`].
    #[error("weights sum to {sum}, at most {max} can be kept exactly", max = Sizes::MAX_ROUND)]
    Round {
        /// The sum of the weights after division by their common factor.
        sum: u32,
    },
    /// The mix contains no length, or all weights are 0.
    #[error("a mix needs at least one length")]
    Empty,
}

impl Sizes {
    /// Maximum number of frames in one round of a mix.
    pub const MAX_ROUND: u32 = 4096;

    /// Returns the distribution in which all frames have the length `len`, in bytes.
    ///
    /// # Errors
    /// [`SizeError::Length`] if `len` is 0.
    pub fn fixed(len: u16) -> Result<Self, SizeError> {
        Self::mix(&[(len, 1)])
    }

    /// Returns the distribution in which all frames have the minimum length on Ethernet, which is
    /// 60 bytes.
    #[must_use]
    pub fn smallest() -> Self {
        Self(SizeKind::Cycle(Vec::from([60])))
    }

    /// Returns the distribution in which each length from `a` to `b` (or from `b` to `a`) is
    /// equally likely.
    ///
    /// # Errors
    /// [`SizeError::Length`] if `a` or `b` is 0.
    pub fn random(a: u16, b: u16) -> Result<Self, SizeError> {
        let (min, max) = (a.min(b), a.max(b));
        if min == 0 {
            return Err(SizeError::Length { column: 1 });
        }
        Ok(Self(SizeKind::Random { min, max }))
    }

    /// Returns the classic Internet mix. Of 12 frames, 7 have 60 bytes, 4 have 590 and 1 has 1514
    /// (with CRC: 64, 594 and 1518).
    #[must_use]
    pub fn imix() -> Self {
        let round = smooth_round(&[(60, 7), (590, 4), (1514, 1)]);
        Self(SizeKind::Cycle(round))
    }

    /// Returns a mix of lengths, each given with its weight. In every round, the number of frames
    /// with a length is exactly in proportion to its weight, and they are spread evenly.
    ///
    /// # Errors
    /// [`SizeError`] if there is no length, if a length or a weight is 0, or if a round would be
    /// longer than [`Self::MAX_ROUND`].
    pub fn mix(weighted: &[(u16, u16)]) -> Result<Self, SizeError> {
        let common = weighted.iter().fold(0, |common, &(_, weight)| gcd(common, weight));
        if common == 0 {
            return Err(SizeError::Empty);
        }
        if weighted.iter().any(|&(len, _)| len == 0) {
            return Err(SizeError::Length { column: 1 });
        }
        if weighted.iter().any(|&(_, weight)| weight == 0) {
            return Err(SizeError::Weight { column: 1 });
        }
        let reduced: Vec<(u16, u16)> =
            weighted.iter().map(|&(len, weight)| (len, weight / common)).collect();
        let sum = reduced.iter().map(|&(_, weight)| u32::from(weight)).sum();
        if sum > Self::MAX_ROUND {
            return Err(SizeError::Round { sum });
        }
        Ok(Self(SizeKind::Cycle(smooth_round(&reduced))))
    }

    /// The shortest length, in bytes.
    #[must_use]
    pub fn min(&self) -> u16 {
        match &self.0 {
            SizeKind::Random { min, .. } => *min,
            SizeKind::Cycle(round) => round.iter().copied().min().unwrap_or(0),
        }
    }

    /// The longest length, in bytes.
    #[must_use]
    pub fn max(&self) -> u16 {
        match &self.0 {
            SizeKind::Random { max, .. } => *max,
            SizeKind::Cycle(round) => round.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Orders the lengths of a round so that the frames of each length are spread evenly. In every
/// step, each length gets its weight as credit. The length with the largest credit is next, and
/// pays the sum of all weights.
fn smooth_round(weighted: &[(u16, u16)]) -> Vec<u16> {
    let sum: i32 = weighted.iter().map(|&(_, weight)| i32::from(weight)).sum();
    let mut credit: Vec<i32> = weighted.iter().map(|_| 0).collect();
    let turn = |_| {
        let mut best = 0;
        for (index, &(_, weight)) in weighted.iter().enumerate() {
            credit[index] += i32::from(weight);
            if credit[index] > credit[best] {
                best = index;
            }
        }
        credit[best] -= sum;
        weighted[best].0
    };
    (0..sum).map(turn).collect()
}

const fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl FromStr for Sizes {
    type Err = SizeError;

    /// Parses `60`, `60-1514`, `imix` or `60:7,590:4,1514:1`.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Self::imix());
        }
        if let Some((a, b)) = text.split_once('-') {
            let at_b = a.len() + 2;
            return Self::random(length(a, 1)?, length(b, at_b)?);
        }
        let mut column = 1;
        let mut weighted = Vec::new();
        for item in text.split(',') {
            weighted.push(weighted_length(item, column)?);
            column += item.len() + 1;
        }
        Self::mix(&weighted)
    }
}

fn weighted_length(item: &str, column: usize) -> Result<(u16, u16), SizeError> {
    let Some((len, weight)) = item.split_once(':') else {
        return Ok((length(item, column)?, 1));
    };
    let at_weight = column + len.len() + 1;
    let weight = positive(weight).ok_or(SizeError::Weight { column: at_weight })?;
    Ok((length(len, column)?, weight))
}

fn length(text: &str, column: usize) -> Result<u16, SizeError> {
    positive(text).ok_or(SizeError::Length { column })
}

fn positive(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| digits && number > 0)
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn round(sizes: &Sizes) -> &[u16] {
        match &sizes.0 {
            SizeKind::Cycle(round) => round,
            SizeKind::Random { .. } => panic!("not a cycle"),
        }
    }

    #[test]
    fn imix_spreads_its_lengths_over_the_round() {
        let imix = Sizes::imix();
        let expected = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];
        assert_eq!(round(&imix).len(), 12);
        assert_eq!(round(&imix).iter().filter(|&&len| len == 60).count(), 7);
        assert_eq!(round(&imix), expected);
    }

    #[test]
    fn weights_are_divided_by_their_common_factor() {
        assert_eq!("60:7000,590:4000,1514:1000".parse::<Sizes>().unwrap(), Sizes::imix());
    }

    #[test]
    fn lengths_without_weights_take_turns() {
        let sizes: Sizes = "60,128,256".parse().unwrap();
        assert_eq!(round(&sizes), [60, 128, 256]);
    }

    #[test]
    fn faults_name_their_column() {
        let fault = |text: &str| text.parse::<Sizes>().unwrap_err();
        assert_eq!(fault(""), SizeError::Length { column: 1 });
        assert_eq!(fault("0"), SizeError::Length { column: 1 });
        assert_eq!(fault("60-65536"), SizeError::Length { column: 4 });
        assert_eq!(fault("60:7,x:1"), SizeError::Length { column: 6 });
        assert_eq!(fault("60:7,590:0"), SizeError::Weight { column: 10 });
        assert_eq!(fault("60:4097,61:1"), SizeError::Round { sum: 4098 });
        assert_eq!(fault("60:+7").to_string(), "a weight is a number from 1 to 65535, at column 4");
    }

    proptest! {
        #[test]
        fn round_holds_each_length_as_often_as_its_weight(
            weights in prop::collection::vec(1u16..40, 1..6)
        ) {
            let weighted: Vec<(u16, u16)> = (60..).zip(weights).collect();
            let sizes = Sizes::mix(&weighted).unwrap();
            let sum: u32 = weighted.iter().map(|&(_, weight)| u32::from(weight)).sum();
            for (len, weight) in weighted {
                let count = round(&sizes).iter().filter(|&&l| l == len).count() as u32;
                prop_assert_eq!(count * sum, u32::from(weight) * round(&sizes).len() as u32);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9:,imx-]{0,20}|.{0,10}") {
            let _ = text.parse::<Sizes>();
        }
    }
}
