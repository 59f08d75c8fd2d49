//! Pipes, queues and schedulers by number.
//!
//! dummynet's numbers: the scheduler of queues is N, the one that `pipe N` rules send to is
//! N + 65536; queue N is flowset N, the flowset of a pipe's FIFO is N + 131072.

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

/// Added to the number of a pipe: its FIFO scheduler.
pub(crate) const FIFO_SCHED: u32 = 1 << 16;
/// Added to the number of a pipe: the flowset of its FIFO.
pub(crate) const FIFO_FLOWSET: u32 = 1 << 17;
const NO_FLOWSET: u32 = u32::MAX;

/// What sends packets to a scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Flowset {
    pub(crate) number: u32,
    /// Number of its scheduler, which need not exist.
    pub(crate) parent: u32,
    /// Place of its scheduler.
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
    /// Of the one queue of a FIFO that is no pipe's.
    pub(crate) policy: Option<QueuePolicy>,
    pub(crate) mask: FlowMask,
    pub(crate) buckets: Option<u32>,
    /// The instance without a mask.
    pub(crate) single: Option<u32>,
    /// The instances by mask.
    pub(crate) index: HashTable<u32>,
    /// Where the search for idle instances goes on.
    pub(crate) sweep_position: u32,
    /// What happened to its packets.
    pub(crate) counters: ShaperCounters,
}

/// All objects. Places are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShaperObjectTable {
    flowsets: Vec<Option<Flowset>>,
    scheds: Vec<Option<Sched>>,
    /// Places of the flowsets that rules name, by number.
    pipes: Vec<u32>,
    queues: Vec<u32>,
    pub(crate) sched_places: BTreeMap<u32, u32>,
    pub(crate) flowset_places: BTreeMap<u32, u32>,
}

impl Flowset {
    /// Its share under a scheduler.
    pub(crate) fn share_in(&self, kind: &SchedKind) -> QueueShare {
        QueueShare::new(kind, &self.share)
    }
}

impl ShaperObjectTable {
    /// The place of what a rule names.
    #[inline]
    pub(crate) fn find(&self, object: ShaperTarget) -> Option<u32> {
        let (places, number) = match object {
            ShaperTarget::Pipe(number) => (&self.pipes, number),
            ShaperTarget::Queue(number) => (&self.queues, number),
        };
        places.get(usize::from(number)).copied().filter(|&place| place != NO_FLOWSET)
    }

    #[inline]
    pub(crate) fn sched(&self, place: u32) -> &Sched {
        let sched = &self.scheds[place as usize];
        sched.as_ref().expect("instances and flowsets name schedulers that exist")
    }

    #[inline]
    pub(crate) fn sched_mut(&mut self, place: u32) -> &mut Sched {
        let sched = &mut self.scheds[place as usize];
        sched.as_mut().expect("instances and flowsets name schedulers that exist")
    }

    /// The counters of a scheduler; nobody's, if it is gone.
    #[inline]
    pub(crate) fn counters<'c>(
        &'c mut self,
        place: u32,
        none: &'c mut ShaperCounters,
    ) -> &'c mut ShaperCounters {
        match self.scheds.get_mut(place as usize) {
            Some(Some(sched)) => &mut sched.counters,
            _ => none,
        }
    }

    #[inline]
    pub(crate) fn flowset(&self, place: u32) -> &Flowset {
        let flowset = &self.flowsets[place as usize];
        flowset.as_ref().expect("places are those of flowsets that exist")
    }

    #[inline]
    pub(crate) fn flowset_mut(&mut self, place: u32) -> &mut Flowset {
        let flowset = &mut self.flowsets[place as usize];
        flowset.as_mut().expect("places are those of flowsets that exist")
    }

    /// A flowset and its scheduler.
    #[inline]
    pub(crate) fn pair_mut(&mut self, place: u32) -> Option<(&mut Flowset, &mut Sched, u32)> {
        let flowset = self.flowsets[place as usize].as_mut()?;
        let sched_place = flowset.sched?;
        Some((flowset, self.scheds[sched_place as usize].as_mut()?, sched_place))
    }

    /// Puts a scheduler in and attaches the flowsets that name it; its place.
    ///
    /// `is_clear` tells whether a place may be used again.
    pub(crate) fn add_sched(&mut self, sched: Sched, is_clear: impl Fn(u32) -> bool) -> u32 {
        let number = sched.number;
        let place = put(&mut self.scheds, self.sched_places.len(), sched, is_clear);
        self.sched_places.insert(number, place);
        for flowset in self.flowsets.iter_mut().flatten() {
            if flowset.parent == number {
                flowset.sched = Some(place);
            }
        }
        place
    }

    pub(crate) fn remove_sched(&mut self, number: u32) -> Option<Sched> {
        let place = self.sched_places.remove(&number)?;
        for flowset in self.flowsets.iter_mut().flatten() {
            if flowset.sched == Some(place) {
                flowset.sched = None;
            }
        }
        self.scheds[place as usize].take()
    }

    pub(crate) fn add_flowset(&mut self, flowset: Flowset) -> u32 {
        let number = flowset.number;
        let place = put(&mut self.flowsets, self.flowset_places.len(), flowset, |_| true);
        self.flowset_places.insert(number, place);
        self.bind_number(number, place);
        place
    }

    pub(crate) fn remove_flowset(&mut self, number: u32) -> Option<Flowset> {
        let place = self.flowset_places.remove(&number)?;
        self.bind_number(number, NO_FLOWSET);
        self.flowsets[place as usize].take()
    }

    /// Lets rules find a flowset.
    fn bind_number(&mut self, number: u32, place: u32) {
        let places = if number > FIFO_FLOWSET { &mut self.pipes } else { &mut self.queues };
        let at = (number % FIFO_SCHED) as usize;
        if places.len() <= at {
            places.resize(at + 1, NO_FLOWSET);
        }
        places[at] = place;
    }

    /// Places of the flowsets of a scheduler.
    pub(crate) fn children(&self, sched: u32) -> Vec<u32> {
        let is_child = |&&place: &&u32| self.flowset(place).sched == Some(sched);
        self.flowset_places.values().filter(is_child).copied().collect()
    }
}

/// Puts an item into a place of `all`, of which `used` are in use.
fn put<T>(all: &mut Vec<Option<T>>, used: usize, item: T, is_clear: impl Fn(u32) -> bool) -> u32 {
    // Holes are rare, so a long list is not searched for nothing.
    let mut holes = (0..all.len()).filter(|&at| all[at].is_none() && is_clear(at as u32));
    let at = if used < all.len() { holes.next() } else { None }.unwrap_or(all.len());
    if at == all.len() {
        all.push(None);
    }
    all[at] = Some(item);
    at as u32
}
