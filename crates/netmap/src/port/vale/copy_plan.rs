//! Copies frames into slots: unchanged, with a changed tag or header, or rebuilt as a virtio-net
//! header requests.

use slipring_ring::{RingView, SharedBuf, Slot, SlotFlags, SlotIdx};
use slipring_switch::{DeliveryCounts, FrameCopy};

use crate::port::slot_snapshot::SlotSnapshot;
use crate::port::vale::frame_edit::FrameEdit;
use crate::port::vale::frames::{LINE_BYTES, SyncFrames};
use crate::port::vale::offload_fixup::apply_offloads;

/// The ring and the frames from which a sync copies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameSource<'s> {
    pub(crate) ring: &'s RingView,
    pub(crate) frames: &'s SyncFrames,
    /// Bytes of the virtio-net header before each frame.
    pub(crate) vnet: usize,
}

/// How many slots ahead of the current one buffers are prefetched.
const PREFETCH_DISTANCE: u32 = 8;

/// Returns the slot that is [`PREFETCH_DISTANCE`] slots after `at`. In a ring with fewer slots, it
/// may be another slot: a wrong prefetch does no harm.
#[inline(always)]
fn prefetch_slot(at: SlotIdx, n: u32) -> SlotIdx {
    // Computed without a division, which would take as long as all other work for a short frame.
    let to = at + PREFETCH_DISTANCE;
    if to < n { to } else { (to - n).min(at) }
}

/// Copies the first `len` bytes of a frame from `line` to `to`, at most one cache line; returns the
/// number of bytes of the frame that were copied. The copy is rounded up to whole words. So a frame
/// of 60 bytes, the shortest on Ethernet, is copied as a whole line of constant length.
#[inline(always)]
fn copy_line(to: SharedBuf<'_>, line: &[u8; LINE_BYTES], len: usize) -> usize {
    let short = len.min(LINE_BYTES);
    let words = short.next_multiple_of(8);
    if words < LINE_BYTES || !to.write(0, *line) {
        to.copy_in(&line[..words]);
    }
    short
}

/// A range of free slots that one sender may fill.
pub(super) struct LeasedSlots {
    pub(super) start: SlotIdx,
    /// Number of the lease.
    pub(super) number: u64,
    pub(super) count: u32,
}

/// How frames are copied from one ring to another.
#[derive(Clone, Copy)]
pub(super) struct CopyPlan<'p> {
    pub(super) view: &'p RingView,
    /// Whether the receiver is a program. If so, and if a frame takes several slots, the flags of
    /// each slot also hold the number of these slots.
    pub(super) tells_count: bool,
    pub(super) source: FrameSource<'p>,
    /// Bytes of the virtio-net header that the receiver expects before each frame.
    pub(super) vnet: usize,
}

impl CopyPlan<'_> {
    /// Returns how many bytes of a frame fit into a buffer at the largest payload offset.
    fn buf_size(&self) -> usize {
        let before = self.view.offsets().map_or(0, |offsets| offsets.max);
        // The result is above 0, even for the largest offset: after it, a buffer has more bytes
        // than the headers before a frame can take.
        (self.view.region().buf_size() - before) as usize
    }

    /// Writes `bytes` at the place in the buffer of slot `i` where a frame's data begin.
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

    /// Returns how many slots the first frames of `copies` take: as many frames as fit into `room`
    /// slots.
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

    /// Copies frames of one slot each, unchanged, into the slots of `run`, until these are full.
    /// Returns the numbers of copied frames and bytes.
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
            let short = copy_line(view.shared_buf(buf), line, len);
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

    /// Copies frames of any kind into the slots of `run`, up to the first frame that does not fit.
    /// Returns the numbers of copied frames and bytes.
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

    /// Copies one frame into `count` slots from `at` on; returns the slot after them.
    fn copy_frame(
        &self,
        at: SlotIdx,
        count: u32,
        edit: &FrameEdit,
        slots: &[SlotSnapshot],
    ) -> SlotIdx {
        let (view, n) = (self.view, self.view.num_slots());
        let index = |i: u32| if at + i >= n { at + i - n } else { at + i };
        if let Some(head) = edit.head() {
            self.write_in(at, head);
        }
        edit.each_part(slots, self.buf_size(), |part| {
            let slot = index(part.slot);
            let to = (view.slot(slot).buf, view.payload_offset(slot) + part.at);
            let from = (part.from.buf, usize::from(part.from.offset) + part.from_at);
            view.copy(to, self.source.ring, from, part.len);
        });
        // The flags of a program's slot hold the number of fragments if there are several.
        let shown = if self.tells_count && count > 1 { count << 8 } else { 0 };
        let more = |i: u32| if i + 1 < count { SlotFlags::MOREFRAG.0 } else { 0 };
        edit.each_len(slots, self.buf_size(), |i, len| {
            let buf = view.slot(index(i)).buf;
            let flags = SlotFlags(shown as u16 | more(i));
            view.set_slot(index(i), Slot { buf, len: len as u16, flags });
        });
        index(count)
    }

    /// Returns whether a frame has to be rebuilt with [`Self::apply_offloads`]: the receiver
    /// expects a virtio-net header too, the frame's own header may request offloads, or it cannot
    /// be read.
    pub(super) fn needs_fixup(&self, copy: FrameCopy) -> bool {
        let mut flags = [0; 2];
        let first = self.source.frames.slots(copy.slots).first();
        let whole = first.filter(|slot| usize::from(slot.len) >= flags.len());
        let Some(slot) = whole else { return true };
        slot.copy_out(self.source.ring, &mut flags);
        self.vnet > 0 || flags != [0; 2]
    }

    /// Returns the frames that the receiver gets for one frame; none if they cannot be built.
    pub(super) fn apply_offloads(&self, copy: FrameCopy) -> Vec<Vec<u8>> {
        let slots = self.source.frames.slots(copy.slots);
        let vnet = (self.source.vnet, self.vnet);
        apply_offloads(self.source.ring, slots, copy.tag, vnet).unwrap_or_default()
    }

    pub(super) fn slots_of(&self, frames: &[Vec<u8>]) -> u32 {
        frames.iter().map(|frame| frame.len().div_ceil(self.buf_size()) as u32).sum()
    }

    /// Writes rebuilt frames into the slots of `run`. Each entry of `frames` has the length of an
    /// original frame, and the frames that were built from it. Returns the numbers of original
    /// frames that were delivered and of their bytes.
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
            // A frame whose offloads failed has no parts; it is lost and not counted as delivered.
            delivered.packets += u32::from(!parts.is_empty());
            delivered.bytes += if parts.is_empty() { 0 } else { u64::from(*len) };
        }
        delivered
    }

    /// Writes a frame into slots from `at` on; returns the slot after them.
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
