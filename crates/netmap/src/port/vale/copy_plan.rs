//! How frames get into slots: as they are, with a tag or a header changed, or made anew because of
//! what a virtio-net header asks for.

use slipring_ring::{RingView, Slot, SlotFlags, SlotIdx};
use slipring_switch::{DeliveryCounts, FrameCopy};

use crate::port::slot_snapshot::SlotSnapshot;
use crate::port::vale::frame_edit::FrameEdit;
use crate::port::vale::frames::SyncFrames;
use crate::port::vale::offload_fixup::apply_offloads;

/// Where frames come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameSource<'s> {
    pub(crate) ring: &'s RingView,
    pub(crate) frames: &'s SyncFrames,
    /// Bytes of the virtio-net header before each.
    pub(crate) vnet: usize,
}

/// Slots ahead of the one that is filled whose buffers are brought near.
const PREFETCH_DISTANCE: u32 = 8;

/// The slot that is filled so much later than `at`, or, in a very short ring, one that is not.
#[inline(always)]
fn prefetch_slot(at: SlotIdx, n: u32) -> SlotIdx {
    // Not by a remainder: a division takes as long as the rest of a short frame.
    let to = at + PREFETCH_DISTANCE;
    if to < n { to } else { (to - n).min(at) }
}

/// A run of slots to be filled.
pub(super) struct LeasedSlots {
    pub(super) start: SlotIdx,
    /// Its lease.
    pub(super) number: u64,
    pub(super) count: u32,
}

/// How frames get from one ring to another.
#[derive(Clone, Copy)]
pub(super) struct CopyPlan<'p> {
    pub(super) view: &'p RingView,
    /// Whether a program is there, which is told how many slots a frame takes.
    pub(super) tells_count: bool,
    pub(super) source: FrameSource<'p>,
    /// Bytes of the virtio-net header that each frame gets.
    pub(super) vnet: usize,
}

impl CopyPlan<'_> {
    /// Bytes of a frame that any buffer has room for.
    fn buf_size(&self) -> usize {
        let before = self.view.offsets().map_or(0, |offsets| offsets.max);
        // What asked for offsets left room for more than all that is ever put before a frame.
        (self.view.region().buf_size() - before) as usize
    }

    /// Writes the first bytes of the frame in slot `i`.
    fn write_in(&self, i: SlotIdx, bytes: &[u8]) {
        let (buf, region) = (self.view.slot(i).buf, self.view.region());
        match self.view.payload_offset(i) {
            0 => region.copy_in(buf, bytes),
            at => region.copy_in_at(buf, at, bytes),
        };
    }

    fn edit(&self, copy: FrameCopy) -> FrameEdit {
        let slots = self.source.frames.slots(copy.slots);
        FrameEdit::new(self.source.ring, slots, copy.tag, (self.source.vnet, self.vnet))
    }

    /// Slots of those frames that fit into `room`.
    pub(super) fn slots_within(&self, copies: impl Iterator<Item = FrameCopy>, room: u32) -> u32 {
        let mut taken = 0;
        for copy in copies {
            let slots = self.source.frames.slots(copy.slots);
            let count = self.edit(copy).slots(slots, self.buf_size());
            if taken + count > room {
                break;
            }
            taken += count;
        }
        taken
    }

    /// Frames of one slot each, as they are.
    pub(super) fn copy_simple(
        &self,
        run: &LeasedSlots,
        copies: impl Iterator<Item = FrameCopy>,
    ) -> DeliveryCounts {
        let (view, n) = (self.view, self.view.num_slots());
        let (mut at, mut delivered) = (run.start, DeliveryCounts::default());
        for copy in copies.take(run.count as usize) {
            view.prefetch(prefetch_slot(at, n), copy.len);
            let (from, line) = self.source.frames.single(copy.slots);
            let (buf, len) = (view.slot(at).buf, usize::from(from.len));
            // A whole line where there is one: cheaper than to look how much of it counts.
            let short = len.min(line.len());
            view.region().copy_in(buf, &line[..short.next_multiple_of(8)]);
            let mut len = short;
            if usize::from(from.len) > short {
                let rest = usize::from(from.len) - short;
                len += view.copy((buf, short), self.source.ring, (from.buf, short), rest);
            }
            view.set_slot(at, Slot { buf, len: len as u16, flags: SlotFlags::default() });
            at = if at + 1 == n { 0 } else { at + 1 };
            delivered.packets += 1;
            delivered.bytes += len as u64;
        }
        delivered
    }

    /// Frames of any kind.
    pub(super) fn copy_all(
        &self,
        run: &LeasedSlots,
        copies: impl Iterator<Item = FrameCopy>,
    ) -> DeliveryCounts {
        let (mut at, mut left, mut delivered) = (run.start, run.count, DeliveryCounts::default());
        for copy in copies {
            let (edit, slots) = (self.edit(copy), self.source.frames.slots(copy.slots));
            let count = edit.slots(slots, self.buf_size());
            if count > left {
                break;
            }
            at = self.copy_frame(at, count, &edit, slots);
            left -= count;
            delivered.packets += 1;
            delivered.bytes += u64::from(copy.len);
        }
        delivered
    }

    /// One frame into `count` slots from `at` on; the slot behind them.
    fn copy_frame(
        &self,
        at: SlotIdx,
        count: u32,
        edit: &FrameEdit,
        slots: &[SlotSnapshot],
    ) -> SlotIdx {
        let (view, n) = (self.view, self.view.num_slots());
        let place = |i: u32| if at + i >= n { at + i - n } else { at + i };
        if let Some(head) = edit.head() {
            self.write_in(at, head);
        }
        edit.each_part(slots, self.buf_size(), |part| {
            let slot = place(part.slot);
            let to = (view.slot(slot).buf, view.payload_offset(slot) + part.at);
            let from = (part.from.buf, usize::from(part.from.offset) + part.from_at);
            view.copy(to, self.source.ring, from, part.len);
        });
        // A program is told how many fragments there are.
        let shown = if self.tells_count && count > 1 { count << 8 } else { 0 };
        let more = |i: u32| if i + 1 < count { SlotFlags::MOREFRAG.0 } else { 0 };
        edit.each_len(slots, self.buf_size(), |i, len| {
            let buf = view.slot(place(i)).buf;
            let flags = SlotFlags(shown as u16 | more(i));
            view.set_slot(place(i), Slot { buf, len: len as u16, flags });
        });
        place(count)
    }

    /// Whether a frame's virtio-net header may ask for anything, or has to be kept.
    pub(super) fn needs_fixup(&self, copy: FrameCopy) -> bool {
        let mut flags = [0; 2];
        let first = self.source.frames.slots(copy.slots).first();
        let whole = first.filter(|slot| usize::from(slot.len) >= flags.len());
        let Some(slot) = whole else { return true };
        slot.copy_out(self.source.ring, &mut flags);
        self.vnet > 0 || flags != [0; 2]
    }

    /// What the receiver gets of a frame; nothing if that cannot be made.
    pub(super) fn apply_offloads(&self, copy: FrameCopy) -> Vec<Vec<u8>> {
        let slots = self.source.frames.slots(copy.slots);
        let vnet = (self.source.vnet, self.vnet);
        apply_offloads(self.source.ring, slots, copy.tag, vnet).unwrap_or_default()
    }

    pub(super) fn slots_of(&self, frames: &[Vec<u8>]) -> u32 {
        frames.iter().map(|frame| frame.len().div_ceil(self.buf_size()) as u32).sum()
    }

    /// Writes frames that were made anew, each with the length that it had.
    pub(super) fn write_all(
        &self,
        run: &LeasedSlots,
        frames: &[(u32, Vec<Vec<u8>>)],
    ) -> DeliveryCounts {
        let (mut at, mut left, mut delivered) = (run.start, run.count, DeliveryCounts::default());
        for (len, parts) in frames {
            let Some(rest) = left.checked_sub(self.slots_of(parts)) else { break };
            at = parts.iter().fold(at, |at, part| self.write(at, part));
            left = rest;
            // What could not be finished is lost.
            delivered.packets += u32::from(!parts.is_empty());
            delivered.bytes += if parts.is_empty() { 0 } else { u64::from(*len) };
        }
        delivered
    }

    /// Writes a frame into slots from `at` on; the slot behind them.
    fn write(&self, mut at: SlotIdx, frame: &[u8]) -> SlotIdx {
        let view = self.view;
        let count = frame.len().div_ceil(self.buf_size());
        let shown = if self.tells_count && count > 1 { (count as u16) << 8 } else { 0 };
        for (i, part) in frame.chunks(self.buf_size()).enumerate() {
            let buf = view.slot(at).buf;
            self.write_in(at, part);
            let more = if i + 1 < count { SlotFlags::MOREFRAG.0 } else { 0 };
            let flags = SlotFlags(shown | more);
            view.set_slot(at, Slot { buf, len: part.len() as u16, flags });
            at = if at + 1 == view.num_slots() { 0 } else { at + 1 };
        }
        at
    }
}
