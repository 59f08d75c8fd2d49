//! The target indices of route specs, and of resolved hosts on connected subnets.
//!
//! A host's target follows that of its subnet: while packets for the subnet are sent directly on
//! the link, the host's packets go to its MAC address; otherwise the host's target has the same
//! action as the subnet's.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::adjacencies::AdjacencyKey;
use crate::indices::IndexPool;
use crate::tables::{AdjacencyIndex, Target, TargetAction, TargetIndex};

const COUNT: usize = TargetIndex::MAX as usize + 1;
/// The value of unused indices.
const KERNEL: Target = Target { action: TargetAction::Kernel, mtu: 0 };

/// The key of a host: the target of its subnet, and its adjacency.
pub(crate) type HostKey = (TargetIndex, AdjacencyKey);

#[derive(Debug)]
struct HostTarget {
    index: TargetIndex,
    adjacency: AdjacencyIndex,
    uses: u32,
}

/// All targets.
#[derive(Debug)]
pub(crate) struct TargetTable {
    values: Vec<Target>,
    /// By target, the kernel's index of the interface to whose hosts it sends packets; 0 for all
    /// other targets.
    links: Vec<u32>,
    pool: IndexPool,
    hosts: BTreeMap<HostKey, HostTarget>,
    has_changed: bool,
    /// Whether indices were freed that are not [`KERNEL`] yet in `published`. This alone is no
    /// reason for a new snapshot.
    has_freed: bool,
    published: Arc<[Target]>,
}

impl TargetTable {
    pub(crate) fn new() -> Self {
        let mut values = alloc::vec![KERNEL; COUNT];
        values[usize::from(TargetIndex::NO_ROUTE.0)].action = TargetAction::NoRoute;
        Self {
            values,
            links: alloc::vec![0; COUNT],
            pool: IndexPool::new(u32::from(TargetIndex::KERNEL.0) + 1, COUNT as u32),
            hosts: BTreeMap::new(),
            has_changed: true,
            has_freed: false,
            published: Arc::new([]),
        }
    }

    pub(crate) fn take(&mut self) -> Option<TargetIndex> {
        self.pool.take().map(TargetIndex)
    }

    /// Frees an index that no lookup returns any more. `generation` is the generation of the first
    /// snapshot without it.
    pub(crate) fn give_back(&mut self, index: TargetIndex, generation: u64) {
        self.values[usize::from(index.0)] = KERNEL;
        self.links[usize::from(index.0)] = 0;
        self.has_freed = true;
        self.pool.give_back(index.0, generation);
    }

    pub(crate) fn settle(&mut self, oldest: u64) {
        self.pool.settle(oldest);
    }

    pub(crate) fn available(&self) -> usize {
        self.pool.available()
    }

    pub(crate) fn get(&self, index: TargetIndex) -> Target {
        self.values[usize::from(index.0)]
    }

    /// Returns the kernel's index of the interface to whose hosts a target sends packets; 0 for all
    /// other targets.
    pub(crate) fn link(&self, index: TargetIndex) -> u32 {
        self.links[usize::from(index.0)]
    }

    /// Sets the target of an index. Returns whether the interface to whose hosts it sends packets
    /// has changed.
    pub(crate) fn set(&mut self, index: TargetIndex, target: Target, link: u32) -> bool {
        let at = usize::from(index.0);
        if self.values[at] != target {
            self.values[at] = target;
            self.has_changed = true;
        }
        core::mem::replace(&mut self.links[at], link) != link
    }

    /// Returns the target of a host, and adds a use; `None` if the host has no target yet.
    pub(crate) fn retain_host(&mut self, key: HostKey) -> Option<TargetIndex> {
        let host = self.hosts.get_mut(&key)?;
        host.uses += 1;
        Some(host.index)
    }

    /// Creates a target for a host, with one use. Returns its index; `None` if no index is free.
    pub(crate) fn add_host(
        &mut self,
        key: HostKey,
        adjacency: AdjacencyIndex,
    ) -> Option<TargetIndex> {
        let index = self.take()?;
        self.hosts.insert(key, HostTarget { index, adjacency, uses: 1 });
        self.follow(key);
        Some(index)
    }

    /// Removes a use of a host's target. If it was the last use, returns the target's index, which
    /// the caller must give back.
    pub(crate) fn release_host(&mut self, key: HostKey) -> Option<TargetIndex> {
        let host = self.hosts.get_mut(&key)?;
        host.uses -= 1;
        if host.uses > 0 {
            return None;
        }
        self.hosts.remove(&key).map(|host| host.index)
    }

    /// Updates the targets of all hosts to those of their subnets.
    pub(crate) fn follow_all(&mut self) {
        let keys: Vec<HostKey> = self.hosts.keys().copied().collect();
        keys.into_iter().for_each(|key| self.follow(key));
    }

    fn follow(&mut self, key: HostKey) {
        let Some(host) = self.hosts.get(&key) else { return };
        let (index, adjacency) = (host.index, host.adjacency);
        let mut target = self.get(key.0);
        if self.link(key.0) != 0 {
            target.action = TargetAction::Forward(adjacency);
        }
        self.set(index, target, 0);
    }

    /// Whether indices were freed that the last published targets still contain.
    pub(crate) const fn has_freed(&self) -> bool {
        self.has_freed
    }

    /// Returns whether the targets have changed since the last call, and all targets by index.
    pub(crate) fn publish(&mut self) -> (bool, Arc<[Target]>) {
        let has_changed = core::mem::take(&mut self.has_changed);
        if has_changed | core::mem::take(&mut self.has_freed) {
            self.published = self.values.as_slice().into();
        }
        (has_changed, self.published.clone())
    }
}
