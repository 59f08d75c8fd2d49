//! The frames that one source sends by one call of [`crate::Switch::forward`]: their destination
//! rings, and for each ring its frames in order.
//!
//! ```text
//!   entries   0:a   1:b   2:c   3:d(flood)   4:e          every frame once
//!   chains    port 2: 0 -> 2          port 7: 1 -> 4      frames to one port, linked by entry
//!   floods    3                                           frames to several ports, stored once
//!   port 2 gets 0, 2, 3: its chain and the floods, merged by entry number
//! ```
//!
//! A batch is self-contained: frames can be copied with it alone. The switch is needed again only
//! for [`crate::Switch::settle`].

use alloc::vec::Vec;

use crate::counters::SwitchTraffic;
use crate::flood::FloodSets;
use crate::lookup::FrameSlots;
use crate::port::SwitchPortId;
use crate::vlan::{FrameTag, TagAction, VlanEgress};

/// Stands for "no entry" or "no destination" where an index is expected.
const NO_INDEX: u32 = u32::MAX;

/// A frame of the batch. A dropped frame has no entry. A frame that is flooded without a flood set
/// has one entry for each port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchEntry {
    pub(crate) slots: FrameSlots,
    pub(crate) len: u32,
    pub(crate) vlan: u16,
    pub(crate) tagged: FrameTag,
    /// The number of the frame's flood set; used only if the entry's number is in `floods`.
    pub(crate) set: u8,
    /// Number of the next entry in the chain; [`NO_INDEX`] at its end.
    next: u32,
}

impl BatchEntry {
    pub(crate) fn new(slots: FrameSlots, len: u32, vlan: u16, tagged: FrameTag) -> Self {
        Self { slots, len, vlan, tagged, set: 0, next: NO_INDEX }
    }
}

/// The entries that are for one ring only, as a linked list.
#[derive(Debug, Clone, Copy)]
struct RingFrameList {
    head: u32,
    tail: u32,
    /// The number of frames in the list.
    count: u32,
    /// Index of the ring in [`SwitchBatch::destinations`]; [`NO_INDEX`] until the ring gets its
    /// first frame.
    dest: u32,
}

const EMPTY: RingFrameList =
    RingFrameList { head: NO_INDEX, tail: NO_INDEX, count: 0, dest: NO_INDEX };

/// A ring that receives frames of the batch.
#[derive(Debug)]
pub(crate) struct BatchRing {
    pub(crate) target: DeliveryTarget,
    /// Bit mask of the flood sets to which the destination belongs.
    sets: u64,
    pub(crate) delivered: DeliveryCounts,
}

/// The properties of a destination ring that the caller needs to deliver frames to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryTarget {
    pub(crate) port: SwitchPortId,
    pub(crate) ring: u32,
    /// The ring's index among the rings of all ports.
    pub(crate) queue: u32,
    pub(crate) egress: VlanEgress,
}

/// The frames delivered to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryCounts {
    /// The number of frames.
    pub packets: u32,
    /// The sum of the frames' lengths in bytes.
    pub bytes: u64,
}

/// The frames that one source sends by one call of [`crate::Switch::forward`], grouped by
/// destination. A thread creates one batch and reuses it.
#[derive(Debug, Default)]
pub struct SwitchBatch {
    entries: Vec<BatchEntry>,
    /// For each ring, the list of entries that are for this ring only. The index is the ring's
    /// number among the rings of all ports.
    chains: Vec<RingFrameList>,
    floods: Vec<u32>,
    dests: Vec<BatchRing>,
    pub(crate) sets: FloodSets,
}

impl SwitchBatch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The rings that receive frames, in the order of their first frame.
    pub fn destinations(&self) -> impl ExactSizeIterator<Item = BatchDestination<'_>> + '_ {
        (0..self.dests.len()).map(|index| self.destination(index))
    }

    /// The number of rings that receive frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dests.len()
    }

    /// Returns whether no ring receives a frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dests.is_empty()
    }

    /// The `index`-th ring that receives frames.
    ///
    /// # Panics
    /// If `index` is not less than [`Self::len`].
    #[must_use]
    pub fn destination(&self, index: usize) -> BatchDestination<'_> {
        BatchDestination { batch: self, dest: &self.dests[index] }
    }

    /// Records how many frames were delivered to the `index`-th destination. The other frames for
    /// this destination count as dropped because the destination was full. If this is not called
    /// for a destination, all its frames count as dropped.
    ///
    /// # Panics
    /// If `index` is not less than [`Self::len`].
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

    /// Empties the batch and prepares it for rings with indexes below `queues`.
    pub(crate) fn begin(&mut self, queues: usize) {
        for dest in &self.dests {
            self.chains[dest.target.queue as usize] = EMPTY;
        }
        self.entries.clear();
        self.floods.clear();
        self.dests.clear();
        self.sets.clear();
        self.chains.resize(queues, EMPTY);
    }

    /// Returns whether a ring is already a destination of this batch.
    #[inline(always)]
    pub(crate) fn is_open(&self, queue: u32) -> bool {
        self.chains[queue as usize].dest != NO_INDEX
    }

    /// Adds a ring to the destinations of this batch.
    pub(crate) fn open(&mut self, target: DeliveryTarget) {
        self.chains[target.queue as usize].dest = self.dests.len() as u32;
        self.dests.push(BatchRing { target, sets: 0, delivered: DeliveryCounts::default() });
    }

    /// Adds a frame for one ring, which must already be a destination.
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

    /// Adds a ring, which must already be a destination, to a flood set.
    pub(crate) fn add_to_flood_set(&mut self, queue: u32, set: usize) {
        let dest = self.chains[queue as usize].dest as usize;
        self.dests[dest].sets |= 1 << set;
    }

    /// Adds a frame for all rings in a flood set.
    pub(crate) fn flood(&mut self, set: usize, entry: BatchEntry) {
        self.floods.push(self.entries.len() as u32);
        self.sets.get_mut(set).packets += 1;
        self.entries.push(BatchEntry { set: set as u8, ..entry });
    }
}

/// A ring that receives frames of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchDestination<'b> {
    batch: &'b SwitchBatch,
    dest: &'b BatchRing,
}

impl<'b> BatchDestination<'b> {
    /// The number of the port to which the ring belongs.
    #[must_use]
    pub fn port(&self) -> SwitchPortId {
        self.dest.target.port
    }

    /// The index of the ring in its port.
    #[must_use]
    pub fn ring(&self) -> u32 {
        self.dest.target.ring
    }

    /// The number of frames for this destination.
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.batch.copies_to(self.dest)
    }

    /// Returns whether all frames are delivered unchanged because the switch is not VLAN-aware.
    #[must_use]
    pub fn is_as_is(&self) -> bool {
        self.dest.target.egress == VlanEgress::AsIs
    }

    /// The frames for this destination, in the order in which the source sent them.
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

/// A frame that the caller must copy to a destination ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameCopy {
    /// The slots of the frame in the source's ring.
    pub slots: FrameSlots,
    /// The frame's length in bytes, before any change to its tag.
    pub len: u32,
    /// How to change the frame's tag.
    pub tag: TagAction,
}

/// Iterator of [`BatchDestination::copies`].
#[derive(Debug, Clone)]
pub struct Copies<'b> {
    entries: &'b [BatchEntry],
    /// Entry number of the next frame for this ring only; [`NO_INDEX`] after the last one.
    next: u32,
    /// Entry numbers of the remaining flooded frames of the batch.
    floods: &'b [u32],
    sets: u64,
    egress: VlanEgress,
}

impl Iterator for Copies<'_> {
    type Item = FrameCopy;

    #[inline(always)]
    fn next(&mut self) -> Option<FrameCopy> {
        // [`NO_INDEX`] is greater than every entry number. So after the end of the chain, only
        // flooded frames are returned.
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
