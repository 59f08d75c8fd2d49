//! Seeded random streams.
//!
//! Each kind of random decision of an engine draws from a separate stream, named by a seed and a
//! label. A new kind with a new label therefore leaves all other decisions unchanged, and a run is
//! repeated by using its seed.
//!
//! The generator of a [`Stream`] is xoshiro256++: fast, well tested statistically, and not
//! cryptographically secure.

use core::num::NonZeroU64;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A reproducible sequence of random numbers.
///
/// ```
/// use slipring_model::Stream;
///
/// let mut loss = Stream::new(7, "link/loss");
/// let mut same = Stream::new(7, "link/loss");
/// let mut other = Stream::new(7, "link/jitter");
/// let first = loss.next_u64();
/// assert_eq!(first, same.next_u64());
/// assert_ne!(first, other.next_u64());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    rng: Xoshiro256PlusPlus,
}

impl Stream {
    /// Opens the stream that `label` names under `seed`.
    #[must_use]
    pub fn new(seed: u64, label: &str) -> Self {
        Self::from_key(absorb(seed, label))
    }

    /// Opens stream number `number` of a family of streams with the same label, such as one per
    /// thread or per link.
    #[must_use]
    pub fn numbered(seed: u64, label: &str, number: u64) -> Self {
        Self::from_key(mix(absorb(seed, label) ^ mix(number)))
    }

    fn from_key(key: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(key) }
    }

    /// Draws 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Draws a number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * STEP
    }

    /// Draws once; returns whether an event of probability `chance` happens.
    ///
    /// The number of draws does not depend on `chance`, so another probability does not shift later
    /// decisions of the same stream.
    #[inline]
    pub fn chance(&mut self, chance: Chance) -> bool {
        chance.covers(self.next_u64())
    }

    /// Returns which of two mutually exclusive events with these chances happens for `draw`, a
    /// number from [`Self::next_u64`]: the index of the event, or `None` if neither happens. The
    /// sum of the two chances must not exceed 1 ([`Chance::or_else`]).
    #[inline]
    pub(crate) fn choose(draw: u64, [first, second]: [Chance; 2]) -> Option<usize> {
        let draw = draw >> 1;
        if draw < first.threshold {
            return Some(0);
        }
        (draw - first.threshold < second.threshold).then_some(1)
    }

    /// Draws from `0..bound`, every value equally likely.
    ///
    /// # Panics
    /// If `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let bound = NonZeroU64::new(bound).expect("the range must not be empty");
        // Lemire's multiplication: the high word is the result. A draw whose low word would favour
        // some results is repeated.
        let mut wide = u128::from(self.next_u64()) * u128::from(bound.get());
        if (wide as u64) < bound.get() {
            let unfair_below = bound.get().wrapping_neg() % bound;
            while (wide as u64) < unfair_below {
                wide = u128::from(self.next_u64()) * u128::from(bound.get());
            }
        }
        (wide >> 64) as u64
    }

    /// Draws from `low..=high`, every value equally likely.
    ///
    /// # Panics
    /// If `low > high`.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "the range must not be empty");
        match (high - low).checked_add(1) {
            Some(bound) => low + self.below(bound),
            None => self.next_u64(),
        }
    }
}

/// Random numbers by index: a frame's numbers depend only on the seed, the label and the frame's
/// index, not on the draws for other frames or their order.
///
/// This is SplitMix64 with random access to its sequence, which costs one multiplication more than
/// going through the sequence in order.
///
/// ```
/// use slipring_model::Draws;
///
/// let loss = Draws::new(7, "link/loss");
/// let late = loss.at(1_000_000);
/// (0..10).for_each(|number| _ = loss.at(number));
/// assert_eq!(loss.at(1_000_000), late);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    key: u64,
}

impl Draws {
    /// Opens the sequence of numbers that `label` names under `seed`.
    #[must_use]
    pub fn new(seed: u64, label: &str) -> Self {
        // Without the `!`, the key would be the first word of the initial state of the `Stream`
        // with the same seed and label.
        Self { key: mix(!absorb(seed, label)) }
    }

    /// Returns 64 random bits for `number`.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, number: u64) -> u64 {
        mix(self.key.wrapping_add(number.wrapping_mul(GOLDEN_GAMMA)))
    }

    /// Returns whether an event of probability `chance` happens for `number`.
    #[inline(always)]
    #[must_use]
    pub const fn chance(self, number: u64, chance: Chance) -> bool {
        chance.covers(self.at(number))
    }

    /// Returns one of `0..bound` for `number`, each with the same probability up to a relative
    /// error of `bound` / 2⁶⁴; 0 if `bound` is 0.
    #[inline]
    #[must_use]
    pub const fn below(self, number: u64, bound: u64) -> u64 {
        ((self.at(number) as u128 * bound as u128) >> 64) as u64
    }

    /// Opens a separate stream of random numbers for index `number`.
    #[inline]
    #[must_use]
    pub fn stream(self, number: u64) -> Stream {
        Stream::from_key(self.at(number))
    }
}

/// The odd increment of SplitMix64, which is 2⁶⁴ divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A probability, exact to 2⁻⁶³.
///
/// Stored as an integer threshold, so that a decision is one comparison and does not depend on a
/// machine's floating-point rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance {
    /// The event happens for this many of 2⁶³ equally likely draws.
    threshold: u64,
}

impl Chance {
    const DRAWS: u64 = 1 << 63;

    /// The probability 0: the event never happens.
    pub const NEVER: Self = Self { threshold: 0 };
    /// The probability 1: the event always happens.
    pub const ALWAYS: Self = Self { threshold: Self::DRAWS };

    /// The probability `yes / of`, rounded to the nearest multiple of 2⁻⁶³; `None` if `of` is zero
    /// or `yes` is greater than `of`.
    ///
    /// ```
    /// use slipring_model::Chance;
    /// assert_eq!(Chance::from_ratio(1, 1), Some(Chance::ALWAYS));
    /// assert_eq!(Chance::from_ratio(3, 2), None);
    /// ```
    #[must_use]
    pub fn from_ratio(yes: u64, of: u64) -> Option<Self> {
        if of == 0 || yes > of {
            return None;
        }
        let scaled = u128::from(yes) * u128::from(Self::DRAWS) + u128::from(of / 2);
        let threshold = (scaled / u128::from(of)) as u64;
        Some(Self { threshold })
    }

    /// The probability `p`; `None` if `p` is not a number from 0 to 1.
    #[must_use]
    pub fn from_f64(p: f64) -> Option<Self> {
        // Multiplying by a power of two is exact, so only the part of `p` below 2⁻⁶³ is rounded
        // away.
        (0.0..=1.0).contains(&p).then_some(Self { threshold: (p * Self::DRAWS as f64) as u64 })
    }

    /// The stored probability, as a float.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.threshold as f64 / Self::DRAWS as f64
    }

    /// Returns whether the event happens for `draw`, a number from [`Stream::next_u64`].
    #[inline(always)]
    pub(crate) const fn covers(self, draw: u64) -> bool {
        draw >> 1 < self.threshold
    }

    /// The probability that either of two mutually exclusive events happens, which is the sum of
    /// their probabilities; `None` if it exceeds 1.
    #[must_use]
    pub fn or_else(self, other: Self) -> Option<Self> {
        let threshold = self.threshold + other.threshold;
        (threshold <= Self::DRAWS).then_some(Self { threshold })
    }
}

/// Mixes a label into a seed, eight bytes at a time. The length is mixed in last, so that padding
/// cannot make two labels equal.
fn absorb(seed: u64, label: &str) -> u64 {
    let words = label.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let folded = words.fold(mix(seed), |key, word| mix(key ^ word));
    mix(folded ^ label.len() as u64)
}

/// One step of SplitMix64: a bijection in which every input bit affects every output bit.
const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(GOLDEN_GAMMA);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stream_is_the_same_on_every_machine() {
        let mut stream = Stream::new(1, "golden");
        let drawn = [stream.next_u64(), stream.next_u64(), stream.next_u64()];
        // These values were computed independently of this code, from the published definitions.
        let golden =
            [1_587_428_169_547_992_930, 6_494_835_090_851_581_069, 16_339_539_959_331_733_289];
        assert_eq!(drawn, golden);
    }

    #[test]
    fn streams_of_different_names_differ() {
        let mut firsts = BTreeSet::new();
        for seed in 0..20 {
            for label in ["", "a", "a\0", "b", "longer than eight bytes", "longer than eight byteS"]
            {
                assert!(firsts.insert(Stream::new(seed, label).next_u64()));
            }
            for number in 0..20 {
                assert!(firsts.insert(Stream::numbered(seed, "a", number).next_u64()));
            }
        }
    }

    #[test]
    fn draws_are_the_same_in_any_order_and_as_splitmix64_counts() {
        let draws = Draws::new(1, "golden");
        let forwards: Vec<u64> = (0..1000).map(|number| draws.at(number)).collect();
        let backwards: Vec<u64> = (0..1000).rev().map(|number| draws.at(number)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        assert_eq!(draws.stream(9), draws.stream(9));
        assert_ne!(draws.stream(9), draws.stream(8));
        // The generator was published with these outputs for the state 1234567.
        let published = Draws { key: 1_234_567 };
        assert_eq!(published.at(0), 6_457_827_717_110_365_317);
        assert_eq!(published.at(1), 3_203_168_211_198_807_973);
        assert_eq!(published.at(2), 9_817_491_932_198_370_423);
    }

    #[test]
    fn draws_of_neighbouring_numbers_and_stages_are_independent() {
        let unit = |word: u64| (word >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let (a, b) = (Draws::new(3, "link/up/loss"), Draws::new(3, "link/up/delay"));
        let count = 1_000_000;
        let correlation = |pair: &dyn Fn(u64) -> (u64, u64)| {
            let products = (0..count).map(|number| {
                let (one, other) = pair(number);
                12.0 * unit(one) * unit(other)
            });
            products.sum::<f64>() / count as f64
        };
        // The bound is 4.5 standard deviations of the mean of these products.
        for seen in [
            correlation(&|number| (a.at(number), a.at(number + 1))),
            correlation(&|number| (a.at(number), b.at(number))),
            correlation(&|number| (a.at(number), a.stream(number).next_u64())),
        ] {
            assert!(seen.abs() < 0.0045, "{seen}");
        }
        let ones: u32 = (0..count).map(|number| a.at(number).count_ones()).sum();
        assert!(ones.abs_diff(32 * count as u32) < 20_000, "{ones}");
    }

    #[test]
    fn below_gives_each_value_equally_often() {
        let mut stream = Stream::new(3, "fair");
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[stream.below(6) as usize] += 1;
        }
        // The counts have a binomial(60 000, 1/6) distribution. 548 is six of its standard
        // deviations.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 548), "{seen:?}");
    }

    #[test]
    fn below_draws_again_instead_of_favouring_some_values() {
        // With this bound, a multiplication without repeated draws would favour one residue modulo
        // 3: it would get two of every four draws, and each of the other two residues would get
        // one.
        let bound = (1u64 << 63) + (1 << 62);
        let mut stream = Stream::new(5, "reject");
        let threes = (0..30_000).filter(|_| stream.below(bound).is_multiple_of(3)).count();
        assert!(threes.abs_diff(10_000) < 500, "{threes}");
    }

    #[test]
    fn f64_covers_the_unit_interval_without_reaching_one() {
        let mut stream = Stream::new(9, "unit");
        let drawn: Vec<f64> = (0..10_000).map(|_| stream.next_f64()).collect();
        assert!(drawn.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }

    #[test]
    fn chance_extremes_are_certain() {
        let mut stream = Stream::new(11, "certain");
        assert!((0..1000).all(|_| stream.chance(Chance::ALWAYS)));
        assert!(!(0..1000).any(|_| stream.chance(Chance::NEVER)));
    }

    #[test]
    fn chance_happens_as_often_as_it_says() {
        let mut stream = Stream::new(13, "often");
        let chance = Chance::from_ratio(1, 100).unwrap();
        let hits = (0..1_000_000).filter(|_| stream.chance(chance)).count();
        assert!(hits.abs_diff(10_000) < 600, "{hits}");
    }

    #[test]
    fn chance_refuses_what_is_no_probability() {
        assert_eq!(Chance::from_ratio(0, 0), None);
        assert_eq!(Chance::from_ratio(2, 1), None);
        assert_eq!(Chance::from_f64(f64::NAN), None);
        assert_eq!(Chance::from_f64(-0.1), None);
        assert_eq!(Chance::from_f64(1.5), None);
    }

    #[test]
    fn decisions_by_index_are_those_of_the_bits_at_the_index() {
        let draws = Draws::new(7, "by index");
        let mut happened = 0;
        for number in 0..1000 {
            let share = draws.at(number) as f64 / 2f64.powi(64);
            assert_eq!(draws.below(number, 10), (share * 10.0) as u64);
            assert_eq!((draws.below(number, 1), draws.below(number, 0)), (0, 0));
            let chance = draws.chance(number, Chance::from_f64(0.3).unwrap());
            assert_eq!(chance, share < 0.3);
            happened += u32::from(chance);
        }
        assert!((250..350).contains(&happened), "{happened}");
    }

    proptest! {
        #[test]
        fn between_stays_inside_its_range(seed: u64, a: u64, b: u64) {
            let (low, high) = (a.min(b), a.max(b));
            let drawn = Stream::new(seed, "range").between(low, high);
            prop_assert!((low..=high).contains(&drawn));
        }

        #[test]
        fn chance_from_ratio_is_the_nearest_threshold(of in 1u64.., yes: u64) {
            let yes = yes % of;
            let threshold = Chance::from_ratio(yes, of).unwrap().threshold;
            let error = (u128::from(threshold) * u128::from(of)).abs_diff(u128::from(yes) << 63);
            prop_assert!(error <= u128::from(of / 2 + 1));
        }

        #[test]
        fn chance_draws_once_whatever_the_probability(seed: u64, yes in 0u64..=100) {
            let mut drawn = Stream::new(seed, "step");
            let mut plain = drawn.clone();
            drawn.chance(Chance::from_ratio(yes, 100).unwrap());
            plain.next_u64();
            prop_assert_eq!(drawn, plain);
        }
    }
}
