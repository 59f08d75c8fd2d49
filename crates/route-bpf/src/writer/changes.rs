//! Indices whose meaning differs between two snapshots.

use std::collections::BTreeSet;

use slipring_fib::{Adjacency, FibPort, ForwardingTables};

use crate::layout::ActionCode;

/// Indices that exist in both snapshots, but with different meanings.
#[derive(Debug, Default)]
pub(super) struct ChangedIndices {
    pub(super) ports: BTreeSet<u16>,
    adjacencies: BTreeSet<u16>,
    groups: BTreeSet<u16>,
}

impl ChangedIndices {
    pub(super) fn between(old: Option<&ForwardingTables>, new: &ForwardingTables) -> Self {
        let Some(old) = old else { return Self::default() };
        let same_port = |a: &FibPort, b: &FibPort| (a.ifindex, a.tags) == (b.ifindex, b.tags);
        let same_hop = |a: &Adjacency, b: &Adjacency| (a.port, a.next_hop) == (b.port, b.next_hop);
        Self {
            ports: differing(&old.ports, &new.ports, same_port),
            adjacencies: differing(&old.adjacencies, &new.adjacencies, same_hop),
            groups: differing(&old.buckets, &new.buckets, |a, b| a == b),
        }
    }

    pub(super) fn contain_index_of(&self, target: u64) -> bool {
        let index = (target >> 32) as u16;
        match target >> 48 {
            action if action == ActionCode::Forward as u64 => self.adjacencies.contains(&index),
            action if action == ActionCode::Balance as u64 => self.groups.contains(&index),
            _ => false,
        }
    }

    /// Whether `old` and `new`, which are words of four buckets, differ in a bucket whose index in
    /// `old` is that of another adjacency in the new snapshot.
    pub(super) fn contain_adjacency_of(&self, old: u64, new: u64) -> bool {
        let bucket = |word: u64, at: u32| (word >> (16 * at)) as u16;
        (0..4).any(|at| {
            let old = bucket(old, at);
            old != bucket(new, at) && self.adjacencies.contains(&old)
        })
    }
}

fn differing<T>(old: &[T], new: &[T], is_same: impl Fn(&T, &T) -> bool) -> BTreeSet<u16> {
    let pairs = old.iter().zip(new).enumerate();
    pairs.filter(|(_, (old, new))| !is_same(old, new)).map(|(at, _)| at as u16).collect()
}
