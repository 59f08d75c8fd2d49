//! All pipes, queues and schedulers, by number.
//!
//! The numbering is dummynet's. The scheduler for queues of pipe or scheduler N has the number N;
//! the FIFO for `pipe N` rules has the number N + 65536. Queue N is the flowset N. The flowset of a
//! pipe's FIFO is N + 131072.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hashbrown::HashTable;

use super::admission::QueuePolicy;
use super::counters::ShaperCounters;
use super::event::ShaperTarget;
use super::link::PipeLink;
use crate::flow::FlowMask;
use crate::sched::QueueShare;
use crate::spec::{SchedKind, ShareSpec};

/// The difference between the number of a pipe's FIFO scheduler and the number of the pipe.
pub(crate) const FIFO_SCHED: u32 = 1 << 16;
/// The difference between the number of the flowset of a pipe's FIFO and the number of the pipe.
pub(crate) const FIFO_FLOWSET: u32 = 1 << 17;
const NO_FLOWSET: u32 = u32::MAX;

/// A source of packets for a scheduler: a `queue N`, or the FIFO of a pipe.
#[derive(Clone, Debug)]
pub(crate) struct Flowset {
    pub(crate) number: u32,
    /// Number of the scheduler to which the flowset belongs. The scheduler need not exist.
    pub(crate) parent: u32,
    /// Index of the scheduler; `None` if it does not exist.
    pub(crate) sched: Option<u32>,
    pub(crate) policy: QueuePolicy,
    pub(crate) share: ShareSpec,
    pub(crate) mask: FlowMask,
    pub(crate) buckets: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sched {
    pub(crate) number: u32,
    pub(crate) kind: SchedKind,
    pub(crate) link: PipeLink,
    /// The policy that `sched N config` gave to the single queue of a FIFO. `None` if no such
    /// command was given.
    pub(crate) policy: Option<QueuePolicy>,
    pub(crate) mask: FlowMask,
    pub(crate) buckets: Option<u32>,
    /// Index of the only instance that gets packets; `None` if there is a mask, or no such instance
    /// yet.
    pub(crate) single: Option<u32>,
    /// Indexes of the instances, by the hash of their masked flow.
    pub(crate) index: HashTable<u32>,
    /// Index at which the search for idle instances continues.
    pub(crate) sweep_position: u32,
    /// Counters of the packets that arrived at this scheduler.
    pub(crate) counters: ShaperCounters,
}

/// All flowsets and schedulers. The index of a deleted object may be reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShaperObjectTable {
    flowsets: Vec<Option<Flowset>>,
    scheds: Vec<Option<Sched>>,
    /// `pipes[N]` is the index of the flowset for `pipe N` rules. `queues[N]` is the index of the
    /// flowset for `queue N` rules.
    pipes: Vec<u32>,
    queues: Vec<u32>,
    pub(crate) sched_indices: BTreeMap<u32, u32>,
    pub(crate) flowset_indices: BTreeMap<u32, u32>,
}

impl Flowset {
    /// Returns the flowset's share of the link under a scheduler of this kind.
    pub(crate) fn share_in(&self, kind: &SchedKind) -> QueueShare {
        QueueShare::new(kind, &self.share)
    }
}

impl ShaperObjectTable {
    /// Returns the index of the flowset for the pipe or queue that a rule names; `None` if the pipe
    /// or queue does not exist.
    #[inline]
    pub(crate) fn find(&self, object: ShaperTarget) -> Option<u32> {
        let (indices, number) = match object {
            ShaperTarget::Pipe(number) => (&self.pipes, number),
            ShaperTarget::Queue(number) => (&self.queues, number),
        };
        indices.get(usize::from(number)).copied().filter(|&index| index != NO_FLOWSET)
    }

    #[inline]
    pub(crate) fn sched(&self, index: u32) -> &Sched {
        let sched = &self.scheds[index as usize];
        sched.as_ref().expect("instances and flowsets name schedulers that exist")
    }

    #[inline]
    pub(crate) fn sched_mut(&mut self, index: u32) -> &mut Sched {
        let sched = &mut self.scheds[index as usize];
        sched.as_mut().expect("instances and flowsets name schedulers that exist")
    }

    /// Returns the counters of the scheduler with this index; `none` if the scheduler no longer
    /// exists.
    #[inline]
    pub(crate) fn counters<'c>(
        &'c mut self,
        index: u32,
        none: &'c mut ShaperCounters,
    ) -> &'c mut ShaperCounters {
        match self.scheds.get_mut(index as usize) {
            Some(Some(sched)) => &mut sched.counters,
            _ => none,
        }
    }

    #[inline]
    pub(crate) fn flowset(&self, index: u32) -> &Flowset {
        let flowset = &self.flowsets[index as usize];
        flowset.as_ref().expect("places are those of flowsets that exist")
    }

    #[inline]
    pub(crate) fn flowset_mut(&mut self, index: u32) -> &mut Flowset {
        let flowset = &mut self.flowsets[index as usize];
        flowset.as_mut().expect("places are those of flowsets that exist")
    }

    /// Returns the flowset with this index, its scheduler, and the index of the scheduler; `None`
    /// if the flowset or its scheduler does not exist.
    #[inline]
    pub(crate) fn pair_mut(&mut self, index: u32) -> Option<(&mut Flowset, &mut Sched, u32)> {
        let flowset = self.flowsets[index as usize].as_mut()?;
        let sched_place = flowset.sched?;
        Some((flowset, self.scheds[sched_place as usize].as_mut()?, sched_place))
    }

    /// Adds a scheduler, and attaches the flowsets that name its number as their parent. Returns
    /// its index.
    ///
    /// `is_clear` must return whether an index may be reused. An index may be reused if no packet
    /// in the delay refers to it.
    pub(crate) fn add_sched(&mut self, sched: Sched, is_clear: impl Fn(u32) -> bool) -> u32 {
        let number = sched.number;
        let index = put(&mut self.scheds, self.sched_indices.len(), sched, is_clear);
        self.sched_indices.insert(number, index);
        for flowset in self.flowsets.iter_mut().flatten() {
            if flowset.parent == number {
                flowset.sched = Some(index);
            }
        }
        index
    }

    pub(crate) fn remove_sched(&mut self, number: u32) -> Option<Sched> {
        let index = self.sched_indices.remove(&number)?;
        for flowset in self.flowsets.iter_mut().flatten() {
            if flowset.sched == Some(index) {
                flowset.sched = None;
            }
        }
        self.scheds[index as usize].take()
    }

    pub(crate) fn add_flowset(&mut self, flowset: Flowset) -> u32 {
        let number = flowset.number;
        let index = put(&mut self.flowsets, self.flowset_indices.len(), flowset, |_| true);
        self.flowset_indices.insert(number, index);
        self.bind_number(number, index);
        index
    }

    pub(crate) fn remove_flowset(&mut self, number: u32) -> Option<Flowset> {
        let index = self.flowset_indices.remove(&number)?;
        self.bind_number(number, NO_FLOWSET);
        self.flowsets[index as usize].take()
    }

    /// Makes the flowset with this number, stored at `index`, available to rules. With
    /// [`NO_FLOWSET`], makes it unavailable.
    fn bind_number(&mut self, number: u32, index: u32) {
        let indices = if number > FIFO_FLOWSET { &mut self.pipes } else { &mut self.queues };
        let at = (number % FIFO_SCHED) as usize;
        if indices.len() <= at {
            indices.resize(at + 1, NO_FLOWSET);
        }
        indices[at] = index;
    }

    /// Returns the indexes of the flowsets of a scheduler.
    pub(crate) fn children(&self, sched: u32) -> Vec<u32> {
        let is_child = |&&index: &&u32| self.flowset(index).sched == Some(sched);
        self.flowset_indices.values().filter(is_child).copied().collect()
    }
}

/// Stores an item in a free slot of `all`, or in a new slot; returns the index of the slot. `used`
/// is the number of slots in use. `is_clear` must return whether a free slot may be reused.
fn put<T>(all: &mut Vec<Option<T>>, used: usize, item: T, is_clear: impl Fn(u32) -> bool) -> u32 {
    // The list is searched only if it contains a free slot, which `used` shows.
    let mut holes = (0..all.len()).filter(|&at| all[at].is_none() && is_clear(at as u32));
    let at = if used < all.len() { holes.next() } else { None }.unwrap_or(all.len());
    if at == all.len() {
        all.push(None);
    }
    all[at] = Some(item);
    at as u32
}
