//! Selects one output of a group by a hash.

use alloc::vec::Vec;

/// Number of entries in a table. With this many, the shares of a few dozen outputs differ by a few
/// percent.
const TABLE_LEN: usize = 1 << 14;

/// A map from each hash to one of several outputs.
#[derive(Debug, Clone)]
pub enum OutputSpread {
    /// Each of this many outputs gets an equal part of the range of hash values.
    Even(u32),
    /// A table that is indexed by the hash. Each entry is the number of the output that has the
    /// greatest weight for this entry.
    Table(Vec<u16>),
}

impl OutputSpread {
    /// Gives each of `outputs` outputs an equal share. If the number of outputs changes, half of
    /// the flows or more move to other outputs.
    #[must_use]
    pub fn even(outputs: u16) -> Self {
        Self::Even(outputs.max(1).into())
    }

    /// Gives each output a share that depends on the identities of all outputs (for example hashes
    /// of their names). If an output is added or removed, only the flows of this output move. The
    /// mapping is the same in every run. Uses rendezvous hashing (Thaler and Ravishankar, 1998),
    /// once per table entry.
    #[must_use]
    pub fn consistent(identities: &[u64]) -> Self {
        let winner = |slot: usize| {
            let weight = |identity: u64| mixed(identity ^ mixed(slot as u64));
            let best = (0u16..).zip(identities).max_by_key(|(_, identity)| weight(**identity));
            best.map_or(0, |(output, _)| output)
        };
        Self::Table((0..TABLE_LEN).map(winner).collect())
    }

    /// Returns the output for a hash.
    #[must_use]
    #[inline]
    pub fn output(&self, hash: u64) -> usize {
        // Scales the upper half of the hash to `0..count`. This is cheaper than a division and just
        // as even.
        let scaled = |count: u64| (((hash >> 32) * count) >> 32) as usize;
        match self {
            Self::Even(outputs) => scaled(u64::from(*outputs)),
            Self::Table(places) => places[scaled(places.len() as u64)].into(),
        }
    }
}

/// Mixes the bits of `value`, so that each bit of the result depends on every bit of the input.
/// This is the finalizer of SplitMix64.
fn mixed(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn hashes() -> impl Iterator<Item = u64> {
        (1..100_000u64).map(|i| mixed(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    fn shares(spread: &OutputSpread, outputs: usize) -> Vec<u64> {
        let mut shares = vec![0; outputs];
        hashes().for_each(|hash| shares[spread.output(hash)] += 1);
        shares
    }

    fn identities(count: u64) -> Vec<u64> {
        (1..=count).map(|i| mixed(i << 40)).collect()
    }

    #[test]
    fn every_output_gets_its_share() {
        for outputs in [1u16, 2, 3, 7, 16, 64] {
            let mean = 100_000 / u64::from(outputs);
            let table = OutputSpread::consistent(&identities(outputs.into()));
            for (spread, slack) in [(OutputSpread::even(outputs), 10), (table, 5)] {
                for share in shares(&spread, outputs.into()) {
                    assert!(
                        share.abs_diff(mean) < mean / slack + 50,
                        "{outputs}: {share} of {mean}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_output_that_leaves_moves_only_its_own_flows() {
        let all = identities(8);
        let fewer = [&all[..3], &all[4..]].concat();
        let (before, after) = (OutputSpread::consistent(&all), OutputSpread::consistent(&fewer));
        for hash in hashes() {
            let (was, is) = (all[before.output(hash)], fewer[after.output(hash)]);
            assert!(was == is || was == all[3]);
        }
    }

    #[test]
    fn a_group_of_nothing_still_answers() {
        assert_eq!(OutputSpread::even(0).output(u64::MAX), 0);
        assert_eq!(OutputSpread::consistent(&[]).output(u64::MAX), 0);
    }
}
