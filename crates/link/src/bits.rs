//! Locates bit errors.
//!
//! Errors are independent, so the number of correct bits before an error has a geometric
//! distribution. Drawing that number once, instead of drawing per bit, is exact for every length.
//! If errors are rare, one comparison is enough for almost every frame.

use slipring_model::Stream;

#[derive(Clone, Copy, Debug)]
pub(crate) struct BitErrorSampler {
    ber: f64,
    /// Natural logarithm of the probability that a bit is correct; 0 if no bit is ever wrong.
    log_right: f64,
}

impl BitErrorSampler {
    pub(crate) fn new(ber: f64) -> Self {
        Self { ber, log_right: libm::log1p(-ber) }
    }

    /// Returns the position of the first wrong bit among `bits` bits, or `None` if all are right.
    /// `draw` is one of 2⁶⁴ equally likely values.
    #[inline]
    pub(crate) fn first(&self, bits: u64, draw: u64) -> Option<u64> {
        const STEP: f64 = 1.0 / (1u128 << 64) as f64;
        let draw = draw as f64 * STEP;
        // The probability of any error is at most the sum of the error probabilities of all bits.
        // So a draw above this sum means that there is no error.
        if draw >= bits as f64 * self.ber {
            return None;
        }
        // If the quotient is too large, the conversion to an integer saturates.
        let right = libm::floor(libm::log1p(-draw) / self.log_right) as u64;
        (right < bits).then_some(right)
    }

    /// Calls `hit` for each wrong bit: `draw` decides the first one, `stream` the others.
    #[inline]
    pub(crate) fn each(
        &self,
        bits: u64,
        draw: u64,
        stream: impl FnOnce() -> Stream,
        mut hit: impl FnMut(u64),
    ) {
        let Some(first) = self.first(bits, draw) else { return };
        let (mut at, mut stream) = (first, stream());
        hit(at);
        while let Some(gap) = self.first(bits - at - 1, stream.next_u64()) {
            at += gap + 1;
            hit(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_model::Draws;

    use super::*;

    /// With probability 1/2 per bit, the first wrong bit is bit n with probability 2^-(n + 1).
    #[test]
    fn the_first_wrong_bit_is_that_of_the_geometric_law() {
        let half = BitErrorSampler::new(0.5);
        let eighths = |eighths: u64| half.first(10, (eighths << 61) + (1 << 60));
        let found: [_; 8] = core::array::from_fn(|at| eighths(at as u64));
        let expected = [0, 0, 0, 0, 1, 1, 2, 4];
        assert_eq!(found, expected.map(Some));
        assert_eq!(half.first(10, 0), Some(0));
        assert_eq!(half.first(10, u64::MAX), None);
        assert_eq!((half.first(2, 13 << 60), half.first(3, 13 << 60)), (None, Some(2)));
        assert_eq!(BitErrorSampler::new(0.0).first(1_000, 0), None);
    }

    #[test]
    fn bits_are_wrong_as_often_as_asked_wherever_they_are() {
        let draws = Draws::new(7, "test/bits");
        for (ber, bits, frames) in [(0.3, 10, 100_000), (1e-3, 12_000, 10_000), (1.0, 4, 10)] {
            let errors = BitErrorSampler::new(ber);
            let (mut hit, mut frames_hit) = ([0u64; 2], 0u64);
            for number in 0..frames {
                let before = hit;
                errors.each(
                    bits,
                    draws.at(number),
                    || draws.stream(number),
                    |at| {
                        hit[usize::from(at >= bits / 2)] += 1;
                    },
                );
                frames_hit += u64::from(before != hit);
            }
            let half = (frames * bits / 2) as f64;
            let deviation = (half * ber * (1.0 - ber)).sqrt();
            for hit in hit {
                assert!((hit as f64 - half * ber).abs() <= 4.0 * deviation, "{ber}: {hit}");
            }
            let any = 1.0 - (1.0 - ber).powi(bits as i32);
            let deviation = (frames as f64 * any * (1.0 - any)).sqrt();
            let off = (frames_hit as f64 - frames as f64 * any).abs();
            assert!(off <= 4.0 * deviation + 1e-6, "{ber}: {frames_hit}");
        }
        BitErrorSampler::new(0.0).each(
            u64::MAX,
            0,
            || draws.stream(0),
            |_| panic!("none is wrong"),
        );
    }
}
