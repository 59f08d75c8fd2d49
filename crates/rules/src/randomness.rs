//! The random values of a run: a seed, which may be shown, and a secret, which must not be shown.

/// The random numbers of a run.
#[derive(Clone, Copy, Debug)]
pub struct Randomness {
    /// The seed of random decisions: for example, which packets `prob` selects and which packets
    /// `plr` drops. The seed is shown, so that a run can be repeated.
    pub seed: u64,
    /// The key of values that no sender must be able to predict: the keys of hashes, the ports that
    /// `nat` chooses, the thread of a flow. The secret is not shown, and cannot be derived from the
    /// seed.
    pub secret: [u64; 2],
}

impl Randomness {
    /// Draws the secret at random, and also the seed if it is not given.
    pub fn draw(seed: Option<u64>) -> Self {
        let word = slipring_ring::secret_word;
        Self { seed: seed.unwrap_or_else(word), secret: [word(), word()] }
    }

    /// Returns the random values of thread `number`. Each thread has its own seed, so that the
    /// threads decide differently.
    pub const fn of_thread(self, number: u16) -> Self {
        Self { seed: self.seed.wrapping_add(number as u64), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_is_given_and_shown_says_nothing_about_the_secret() {
        let [one, other] = [Some(7), Some(7)].map(Randomness::draw);
        assert_eq!((one.seed, other.seed), (7, 7));
        assert_ne!(one.secret, other.secret);
        assert_ne!(Randomness::draw(None).seed, Randomness::draw(None).seed);
        assert_eq!((one.of_thread(2).seed, one.of_thread(2).secret), (9, one.secret));
    }
}
