//! What one source sends in one go: the destinations, and for each the frames in order.
//!
//! ```text
//!   entries   0:a   1:b   2:c   3:d(flood)   4:e          every frame once
//!   chains    port 2: 0 -> 2          port 7: 1 -> 4      frames to one port, linked by entry
//!   floods    3                                           frames to several, once for all
//!   port 2 gets 0, 2, 3: its chain and the floods, merged by entry number
//! ```
//!
//! A batch is self-contained: the switch is not needed again until [`crate::Switch::settle`].

use alloc::vec::Vec;

use crate::counters::SwitchTraffic;
use crate::flood::FloodSets;
use crate::lookup::FrameSlots;
use crate::port::SwitchPortId;
use crate::vlan::{FrameTag, TagAction, VlanEgress};

/// No entry, or no destination.
const NO_INDEX: u32 = u32::MAX;

/// A frame that goes somewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchEntry {
    pub(crate) slots: FrameSlots,
    pub(crate) len: u32,
    pub(crate) vlan: u16,
    pub(crate) tagged: FrameTag,
    /// Its flood set, for a frame to several ports.
    pub(crate) set: u8,
    /// The next entry of its chain.
    next: u32,
}

impl BatchEntry {
    pub(crate) fn new(slots: FrameSlots, len: u32, vlan: u16, tagged: FrameTag) -> Self {
        Self { slots, len, vlan, tagged, set: 0, next: NO_INDEX }
    }
}

/// The frames for one ring only.
#[derive(Debug, Clone, Copy)]
struct RingFrameList {
    head: u32,
    tail: u32,
    /// Frames in it.
    count: u32,
    /// Index of its destination; [`NO_INDEX`] while nothing goes there.
    dest: u32,
}

const EMPTY: RingFrameList =
    RingFrameList { head: NO_INDEX, tail: NO_INDEX, count: 0, dest: NO_INDEX };

/// A ring that gets frames.
#[derive(Debug)]
pub(crate) struct BatchRing {
    pub(crate) target: DeliveryTarget,
    /// The flood sets that it is in.
    sets: u64,
    pub(crate) delivered: DeliveryCounts,
}

/// Facts of a ring that the switch knows and delivery needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryTarget {
    pub(crate) port: SwitchPortId,
    pub(crate) ring: u32,
    /// The ring's number among those of all ports.
    pub(crate) queue: u32,
    pub(crate) egress: VlanEgress,
}

/// What really went to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryCounts {
    /// Frames, and their bytes.
    pub packets: u32,
    /// Bytes of them.
    pub bytes: u64,
}

/// The frames of one source by destination. Made once per thread and used again and again.
#[derive(Debug, Default)]
pub struct SwitchBatch {
    entries: Vec<BatchEntry>,
    /// By ring, over all ports.
    chains: Vec<RingFrameList>,
    floods: Vec<u32>,
    dests: Vec<BatchRing>,
    pub(crate) sets: FloodSets,
}

impl SwitchBatch {
    /// A batch without frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The rings that get frames, those first that were first sent to.
    pub fn destinations(&self) -> impl ExactSizeIterator<Item = BatchDestination<'_>> + '_ {
        (0..self.dests.len()).map(|index| self.destination(index))
    }

    /// How many rings get frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dests.len()
    }

    /// Whether no ring gets a frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dests.is_empty()
    }

    /// The `index`-th ring that gets frames.
    ///
    /// # Panics
    /// From [`Self::len`] on.
    #[must_use]
    pub fn destination(&self, index: usize) -> BatchDestination<'_> {
        BatchDestination { batch: self, dest: &self.dests[index] }
    }

    /// Notes what went to the `index`-th destination; the rest counts as dropped because the
    /// destination was full. What is never reported was not delivered.
    ///
    /// # Panics
    /// From [`Self::len`] on.
    pub fn report(&mut self, index: usize, delivered: DeliveryCounts) {
        self.dests[index].delivered = delivered;
    }

    pub(crate) fn dests(&self) -> &[BatchRing] {
        &self.dests
    }

    pub(crate) fn copies_to(&self, dest: &BatchRing) -> u32 {
        self.chains[dest.target.queue as usize].count
            + if dest.sets == 0 { 0 } else { self.sets.packets(dest.sets) }
    }

    /// Empties the batch, for rings numbered below `queues`.
    pub(crate) fn begin(&mut self, queues: usize) {
        for dest in &self.dests {
            self.chains[dest.target.queue as usize] = EMPTY;
        }
        self.entries.clear();
        self.floods.clear();
        self.dests.clear();
        self.sets.clear();
        if self.chains.len() < queues {
            self.chains.resize(queues, EMPTY);
        }
    }

    /// Whether a ring gets frames already.
    #[inline(always)]
    pub(crate) fn is_open(&self, queue: u32) -> bool {
        self.chains[queue as usize].dest != NO_INDEX
    }

    /// Makes a ring a destination.
    pub(crate) fn open(&mut self, target: DeliveryTarget) {
        self.chains[target.queue as usize].dest = self.dests.len() as u32;
        self.dests.push(BatchRing { target, sets: 0, delivered: DeliveryCounts::default() });
    }

    /// Adds a frame for one open ring.
    #[inline(always)]
    pub(crate) fn chain(&mut self, queue: u32, entry: BatchEntry) {
        let at = self.entries.len() as u32;
        let chain = &mut self.chains[queue as usize];
        if chain.tail == NO_INDEX {
            chain.head = at;
        } else {
            self.entries[chain.tail as usize].next = at;
        }
        chain.tail = at;
        chain.count += 1;
        self.entries.push(entry);
    }

    /// Puts an open ring into a flood set.
    pub(crate) fn join(&mut self, queue: u32, set: usize) {
        let dest = self.chains[queue as usize].dest as usize;
        self.dests[dest].sets |= 1 << set;
    }

    /// Adds a frame for all rings of a set.
    pub(crate) fn flood(&mut self, set: usize, entry: BatchEntry) {
        self.floods.push(self.entries.len() as u32);
        self.sets.get_mut(set).packets += 1;
        self.entries.push(BatchEntry { set: set as u8, ..entry });
    }
}

/// A ring that gets frames.
#[derive(Debug, Clone, Copy)]
pub struct BatchDestination<'b> {
    batch: &'b SwitchBatch,
    dest: &'b BatchRing,
}

impl<'b> BatchDestination<'b> {
    /// The port.
    #[must_use]
    pub fn port(&self) -> SwitchPortId {
        self.dest.target.port
    }

    /// Its ring.
    #[must_use]
    pub fn ring(&self) -> u32 {
        self.dest.target.ring
    }

    /// Frames for it.
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.batch.copies_to(self.dest)
    }

    /// Whether all frames go there as they are, because the switch knows no VLANs.
    #[must_use]
    pub fn is_as_is(&self) -> bool {
        self.dest.target.egress == VlanEgress::AsIs
    }

    /// The frames, in the order in which they were sent.
    #[must_use]
    pub fn copies(&self) -> Copies<'b> {
        let chain = self.batch.chains[self.dest.target.queue as usize];
        let floods = if self.dest.sets == 0 { &[][..] } else { &self.batch.floods[..] };
        Copies {
            entries: &self.batch.entries,
            next: chain.head,
            floods,
            sets: self.dest.sets,
            egress: self.dest.target.egress,
        }
    }
}

/// A frame to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameCopy {
    /// Where it lies in the source's ring.
    pub slots: FrameSlots,
    /// Its bytes, before anything is done to its tag.
    pub len: u32,
    /// What to do to its tag.
    pub tag: TagAction,
}

/// Iterator of [`BatchDestination::copies`].
#[derive(Debug, Clone)]
pub struct Copies<'b> {
    entries: &'b [BatchEntry],
    /// Next of the ring's own frames.
    next: u32,
    /// Flooded frames that were not looked at.
    floods: &'b [u32],
    sets: u64,
    egress: VlanEgress,
}

impl Iterator for Copies<'_> {
    type Item = FrameCopy;

    #[inline(always)]
    fn next(&mut self) -> Option<FrameCopy> {
        // [`NO_INDEX`] is above all entries, so an ended chain never goes first.
        while let Some((&flood, rest)) = self.floods.split_first() {
            if flood > self.next {
                break;
            }
            self.floods = rest;
            let entry = &self.entries[flood as usize];
            if self.sets >> entry.set & 1 != 0 {
                return Some(self.copy(entry));
            }
        }
        let entry = self.entries.get(self.next as usize)?;
        self.next = entry.next;
        Some(self.copy(entry))
    }
}

impl Copies<'_> {
    #[inline(always)]
    fn copy(&self, entry: &BatchEntry) -> FrameCopy {
        let tag = self.egress.tag(entry.vlan, entry.tagged);
        FrameCopy { slots: entry.slots, len: entry.len, tag }
    }
}

impl From<DeliveryCounts> for SwitchTraffic {
    fn from(delivered: DeliveryCounts) -> Self {
        Self { packets: delivered.packets.into(), bytes: delivered.bytes }
    }
}
