//! Chooses IPv6 destinations that are left to the kernel because a tree of limited size has no
//! space for them: prefixes of one length, as few as possible, those that contain the most starts
//! of ranges.
//!
//! ```text
//!   starts     | | ||||||||||||||||||| | |  |  ||||||||||||  |
//!              v                              v
//!   blocks     . |======== kernel ========| . |== kernel ==| .
//! ```
//! The XDP programs search a copy of the tree, in a map whose size cannot change later.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::prefix::{AddressBits, RoutePrefix};
use crate::tables::TargetIndex;

/// The first address of each range, and the number of the target for the range.
type Numbers = Vec<(u128, u32)>;

/// Lengths of blocks, the smallest blocks first. The last block contains all addresses.
const BLOCK_LENGTHS: [u8; 9] = [64, 56, 48, 40, 32, 24, 16, 8, 0];
/// Average number of starts per node of a new tree; inner nodes also count as nodes.
const STARTS_PER_NODE: usize = 13;
/// Fewer starts are not worth a block, because the block itself has two.
const MIN_STARTS: usize = 4;
/// If the number of routes falls to this share of the number for which there was not enough space,
/// all ranges may fit again.
const RETRY_SHARE: (usize, usize) = (7, 8);

/// The prefixes whose ranges do not fit into the map of the XDP programs. The kernel forwards
/// packets to them.
#[derive(Debug, Default)]
pub(crate) struct CrowdedPrefixes {
    len: u8,
    starts: BTreeSet<u128>,
    /// Number of IPv6 routes when the prefixes were chosen.
    routes: usize,
}

impl CrowdedPrefixes {
    /// Chooses prefixes such that the remaining ranges fit into about `nodes` nodes.
    pub(crate) fn choose(numbers: &[(u128, u32)], nodes: usize, routes: usize) -> Self {
        let space = nodes * STARTS_PER_NODE;
        let excess = costs(numbers).map(|(_, cost)| cost).sum::<usize>().saturating_sub(space);
        let found = BLOCK_LENGTHS.into_iter().find_map(|len| blocks(numbers, len, excess));
        let (len, starts) = found.unwrap_or_else(|| (0, BTreeSet::from([0])));
        Self { len, starts, routes }
    }

    /// The number of prefixes.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Whether there may be space for all ranges, since many routes were removed.
    pub(crate) fn may_fit(&self, routes: usize) -> bool {
        !self.starts.is_empty() && routes * RETRY_SHARE.1 <= self.routes * RETRY_SHARE.0
    }

    /// Returns `numbers`, the ranges within the prefix `within`, except that in each chosen prefix
    /// a single range that is left to the kernel replaces all ranges.
    pub(crate) fn cover(&self, numbers: Numbers, within: RoutePrefix<u128>) -> Numbers {
        if self.starts.is_empty() {
            return numbers;
        }
        let (mut out, mut current) = (Numbers::new(), 0);
        let mut rest = numbers.into_iter().peekable();
        for start in self.starts.range(within.start.masked(self.len)..=within.last()) {
            let (first, last) =
                (start.max(&within.start), start.filled(self.len).min(within.last()));
            while let Some(range) = rest.next_if(|range| range.0 < *first) {
                current = range.1;
                out.push(range);
            }
            while let Some(range) = rest.next_if(|range| range.0 <= last) {
                current = range.1;
            }
            out.push((*first, TargetIndex::KERNEL.0.into()));
            let next = last.checked_add(1).filter(|next| *next <= within.last());
            let is_open = |next: &u128| rest.peek().is_none_or(|range| range.0 > *next);
            out.extend(next.filter(is_open).map(|next| (next, current)));
        }
        out.extend(rest);
        out.dedup_by_key(|range| range.1);
        out
    }
}

/// Returns prefixes of length `len`, those that save the most space first, until together they save
/// `excess`; `None` if all together save less.
fn blocks(numbers: &[(u128, u32)], len: u8, excess: usize) -> Option<(u8, BTreeSet<u128>)> {
    let mut found: Vec<(usize, u128)> = Vec::new();
    for (start, cost) in costs(numbers) {
        match found.last_mut().filter(|last| last.1 == start.masked(len)) {
            Some(last) => last.0 += cost,
            None => found.push((cost, start.masked(len))),
        }
    }
    found.retain(|block| block.0 >= MIN_STARTS);
    found.sort_unstable_by(|a, b| b.cmp(a));
    let (mut left, mut starts) = (excess, BTreeSet::new());
    for (cost, start) in found {
        if left == 0 {
            break;
        }
        // The range of the block itself has a start and an end, which need space.
        left = left.saturating_sub(cost - 2);
        starts.insert(start);
    }
    (left == 0).then_some((len, starts))
}

/// Returns each start with the space that it takes, in starts. A /64 in which ranges begin after
/// its first address has its own tree of at least one node.
fn costs(numbers: &[(u128, u32)]) -> impl Iterator<Item = (u128, usize)> + '_ {
    let mut tree = None;
    numbers.iter().map(move |&(start, _)| {
        let upper = start >> 64;
        let is_new_tree = start as u64 != 0 && tree.replace(upper) != Some(upper);
        (start, if is_new_tree { 1 + STARTS_PER_NODE } else { 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u32 = TargetIndex::KERNEL.0 as u32;

    fn net(first: u16, second: u16, third: u16) -> u128 {
        u128::from(first) << 112 | u128::from(second) << 96 | u128::from(third) << 80
    }

    /// A table with a prefix of 48 bits in each of `sparse` larger prefixes, and many prefixes in
    /// 2001:db8::/32.
    fn table(sparse: u16, dense: u16) -> Numbers {
        let mut numbers = alloc::vec![(0, 0)];
        for third in 0..dense {
            numbers.push((net(0x2001, 0xdb8, third), 2 + u32::from(third % 2)));
        }
        numbers.push((net(0x2001, 0xdb9, 0), 0));
        for second in 0..sparse {
            numbers.push((net(0x2a00, second, 0), 2));
            numbers.push((net(0x2a00, second, 1), 0));
        }
        numbers
    }

    fn number_of(numbers: &[(u128, u32)], address: u128) -> u32 {
        numbers[numbers.partition_point(|range| range.0 <= address) - 1].1
    }

    #[test]
    fn the_densest_prefixes_make_space_and_others_keep_their_routes() {
        let numbers = table(300, 5000);
        let crowded = CrowdedPrefixes::choose(&numbers, 100, 5300);
        let covered = crowded.cover(numbers.clone(), RoutePrefix::ALL);
        assert!(covered.len() <= 100 * STARTS_PER_NODE, "{}", covered.len());
        for second in 0..300 {
            assert_eq!(number_of(&covered, net(0x2a00, second, 0)), 2);
        }
        assert!(covered.is_sorted_by(|a, b| a.0 < b.0));
        // Ranges that are not left to the kernel do not change.
        for &(start, number) in &numbers {
            let now = number_of(&covered, start);
            assert!(now == number || now == KERNEL, "{start:x}");
        }
        assert!(!crowded.may_fit(5300) && crowded.may_fit(4000));
    }

    #[test]
    fn a_part_of_a_prefix_is_covered_as_the_whole() {
        let numbers = table(3, 5000);
        let crowded = CrowdedPrefixes::choose(&numbers, 10, 0);
        let all = crowded.cover(numbers.clone(), RoutePrefix::ALL);
        for (start, len) in
            [(net(0x2001, 0xdb8, 77), 48), (net(0x2001, 0, 0), 16), (net(0x2a00, 1, 0), 32)]
        {
            let within = RoutePrefix::around(start, len);
            let mut part: Numbers =
                numbers.iter().copied().filter(|range| within.contains(range.0)).collect();
            if part.first().is_none_or(|range| range.0 != within.start) {
                part.insert(0, (within.start, number_of(&numbers, within.start)));
            }
            let part = crowded.cover(part, within);
            assert_eq!(part[0].0, within.start);
            for &(address, _) in numbers.iter().filter(|range| within.contains(range.0)) {
                assert_eq!(
                    number_of(&part, address),
                    number_of(&all, address),
                    "{address:x}/{len}"
                );
            }
        }
    }

    #[test]
    fn hosts_that_are_alone_in_their_64_bits_take_a_node_each() {
        let mut numbers = alloc::vec![(0, 0)];
        for third in 0..100 {
            numbers.push((net(0xfd00, 1, third) | 5, 2));
            numbers.push((net(0xfd00, 1, third) | 6, 0));
        }
        let crowded = CrowdedPrefixes::choose(&numbers, 50, 100);
        let covered = crowded.cover(numbers, RoutePrefix::ALL);
        let hosts = covered.iter().filter(|range| range.0 as u64 == 5).count();
        assert!((10..50).contains(&hosts), "{hosts}");
    }

    #[test]
    fn without_any_space_everything_is_the_kernels() {
        let crowded = CrowdedPrefixes::choose(&table(300, 5000), 0, 0);
        assert_eq!(crowded.cover(table(300, 5000), RoutePrefix::ALL), [(0, KERNEL)]);
    }
}
