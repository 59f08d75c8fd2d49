//! Spreads hash buckets over next hops by weight, moving as few buckets as possible when the next
//! hops change.

use alloc::vec::Vec;

use crate::tables::{AdjacencyIndex, BUCKETS};

/// Assigns the buckets to `hops`, and returns the adjacency of each bucket. `hops` are adjacencies
/// with weights: at least one and at most [`BUCKETS`], without repetitions. `before` is the last
/// assignment.
///
/// A hop gets its exact share of buckets, rounded up or down. Only these buckets move: those of
/// removed hops, those by which a hop exceeds its share rounded up, and, if these are too few for a
/// hop to get its share rounded down, buckets of hops that exceed their exact share.
pub(crate) fn assign(
    before: Option<&[AdjacencyIndex; BUCKETS]>,
    hops: &[(AdjacencyIndex, u16)],
) -> [AdjacencyIndex; BUCKETS] {
    let total: u64 = hops.iter().map(|hop| u64::from(hop.1)).sum::<u64>().max(1);
    let shares: Vec<u64> = hops.iter().map(|hop| u64::from(hop.1) * BUCKETS as u64).collect();
    let mut counts: Vec<u64> = alloc::vec![0; hops.len()];
    let mut owners: [Option<usize>; BUCKETS] = [None; BUCKETS];
    if let Some(before) = before {
        for (owner, adjacency) in owners.iter_mut().zip(before) {
            let Some(at) = hops.iter().position(|hop| hop.0 == *adjacency) else { continue };
            if counts[at] < shares[at].div_ceil(total) {
                *owner = Some(at);
                counts[at] += 1;
            }
        }
    }
    for owner in &mut owners {
        let at = owner.unwrap_or_else(|| {
            let at = neediest(&shares, &counts, total);
            counts[at] += 1;
            at
        });
        *owner = Some(at);
    }
    // If the shares of all other hops are rounded up, a new hop may find too few free buckets. It
    // then takes buckets from the hop that exceeds its share most.
    while let Some(poor) = (0..hops.len()).find(|at| counts[*at] < shares[*at] / total) {
        let rich =
            (0..hops.len()).max_by_key(|at| excess(&shares, &counts, total, *at)).unwrap_or(poor);
        let Some(bucket) = owners.iter_mut().rev().find(|owner| **owner == Some(rich)) else {
            break;
        };
        *bucket = Some(poor);
        counts[rich] -= 1;
        counts[poor] += 1;
    }
    owners.map(|owner| hops[owner.unwrap_or(0)].0)
}

/// Returns by how many buckets a hop exceeds its exact share, multiplied by `total`.
fn excess(shares: &[u64], counts: &[u64], total: u64, at: usize) -> i64 {
    (counts[at] * total) as i64 - shares[at] as i64
}

fn neediest(shares: &[u64], counts: &[u64], total: u64) -> usize {
    (0..shares.len()).min_by_key(|at| excess(shares, counts, total, *at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hops(weights: &[u16]) -> Vec<(AdjacencyIndex, u16)> {
        weights
            .iter()
            .enumerate()
            .map(|(at, weight)| (AdjacencyIndex(at as u16), *weight))
            .collect()
    }

    fn count(buckets: &[AdjacencyIndex; BUCKETS], hop: AdjacencyIndex) -> u64 {
        buckets.iter().filter(|owner| **owner == hop).count() as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_hop_has_its_share_and_a_removed_one_moves_only_its_own_buckets(
            weights in proptest::collection::vec(1..300_u16, 2..9),
            gone in any::<prop::sample::Index>(),
        ) {
            let mut hops = hops(&weights);
            let before = assign(None, &hops);
            let removed = hops.remove(gone.index(weights.len())).0;
            let after = assign(Some(&before), &hops);
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(before == after || *before == removed);
            }
            let restored = assign(Some(&after), &super::tests::hops(&weights));
            for (buckets, hops) in [(before, super::tests::hops(&weights)), (after, hops), (restored, super::tests::hops(&weights))] {
                let total: u64 = hops.iter().map(|hop| u64::from(hop.1)).sum();
                for (hop, weight) in hops {
                    let share = u64::from(weight) * BUCKETS as u64;
                    let count = count(&buckets, hop);
                    prop_assert!(count >= share / total && count <= share.div_ceil(total));
                }
            }
        }
    }
}
