//! Frames of a ring, read once. A switch decides by the values read here, even if the program
//! changes the slots afterwards.

use slipring_abi::{NS_INDIRECT, NS_NO_LEARN, NS_PORT_MASK, NS_PORT_SHIFT};
use slipring_ring::{RingView, SlotFlags, SlotIdx};
use slipring_switch::{FrameSlots, SlotMarks, SwitchPacket, SwitchPortId};

use crate::port::slot_snapshot::SlotSnapshot;

/// Bytes kept of each frame: a cache line, whose first bytes the switch examines. Short frames are
/// copied from here, so that a buffer of the source is touched once.
pub(super) const LINE_BYTES: usize = 64;
/// Bytes that the switch examines.
const HEADER_BYTES: usize = 24;
/// The maximum number of slots of a frame; frames with more slots are lost.
const MAX_FRAGMENTS: usize = 64;
/// How many slots ahead the first lines of buffers are prefetched. The processor's hardware
/// prefetcher does not reach that far.
const PREFETCH_DISTANCE: u32 = 8;
/// Length of the longest virtio-net header, in bytes.
pub(crate) const MAX_VNET_HEADER_LEN: usize = 12;

/// The frames of one sync. The value is created once per ring and reused for each sync.
#[derive(Debug, Default)]
pub(crate) struct SyncFrames {
    /// The slots of `frames`, in order.
    slots: Vec<SlotSnapshot>,
    frames: Vec<FrameEntry>,
    /// The first bytes of each frame: a cache line, of which only [`HEADER_BYTES`] are set for a
    /// frame that [`Self::gather_line`] added.
    lines: Vec<CacheLine>,
    /// Whether any frame takes more than one slot or does not begin at its buffer's start.
    fragmented: bool,
    /// Number of frames in this sync that took too many slots.
    too_long: u32,
    /// Whether the following slots, up to the end of their frame, belong to a frame that was
    /// already counted as too long.
    in_discarded: bool,
}

/// A cache line.
#[derive(Debug)]
#[repr(align(64))]
struct CacheLine([u8; LINE_BYTES]);

#[derive(Debug)]
struct FrameEntry {
    len: u32,
    slots: FrameSlots,
    marks: SlotMarks,
}

impl SyncFrames {
    /// Reads the whole frames in the slots `from..to`, each after a virtio-net header of `vnet`
    /// bytes. Returns the first slot that was not consumed: a frame that continues beyond `to`
    /// waits, unless it is too long. A frame whose bytes are in the program's private memory
    /// (`NS_INDIRECT`) waits too, along with all frames after it.
    pub(crate) fn read(
        &mut self,
        ring: &RingView,
        from: SlotIdx,
        to: SlotIdx,
        vnet: usize,
    ) -> SlotIdx {
        self.slots.clear();
        self.frames.clear();
        self.lines.clear();
        (self.fragmented, self.too_long) = (false, 0);
        let (mut at, mut end, mut first) = (from, from, 0);
        let mut ahead = from;
        for _ in 0..PREFETCH_DISTANCE {
            ahead = prefetch(ring, ahead);
        }
        while at != to {
            ahead = prefetch(ring, ahead);
            let slot = SlotSnapshot::read(ring, at);
            if slot.flags.0 & NS_INDIRECT != 0 && !self.in_discarded {
                break;
            }
            self.slots.push(slot);
            at = if at + 1 == ring.num_slots() { 0 } else { at + 1 };
            if slot.flags.has(SlotFlags::MOREFRAG) {
                continue;
            }
            if self.in_discarded || self.slots.len() - first > MAX_FRAGMENTS {
                self.discard(first);
                self.in_discarded = false;
            } else {
                self.add(ring, first, vnet);
            }
            (first, end) = (self.slots.len(), at);
        }
        // A frame that continues is lost if it already has more slots than a frame may have, or as
        // many as the program can own in the ring.
        let (begun, room) = (self.slots.len() - first, ring.num_slots() as usize - 1);
        if begun > 0 && (self.in_discarded || begun > MAX_FRAGMENTS || begun == room) {
            self.discard(first);
            (self.in_discarded, end) = (true, at);
        }
        self.slots.truncate(first);
        end
    }

    /// Drops the slots from `first` on, which belong to a frame that is too long; counts it once.
    #[cold]
    fn discard(&mut self, first: usize) {
        self.slots.truncate(first);
        self.too_long += u32::from(!self.in_discarded);
    }

    /// Adds the frame in the slots from `first` to the last one read.
    #[inline(always)]
    fn add(&mut self, ring: &RingView, first: usize, vnet: usize) {
        let slots = &self.slots[first..];
        let mut frame = FrameEntry {
            len: 0,
            slots: FrameSlots { first: first as u32, count: slots.len() as u16 },
            marks: marks(slots),
        };
        if let [slot] = slots
            && vnet == 0
            && slot.offset == 0
            && let Some(line) = ring.shared_buf(slot.buf).read(0)
        {
            frame.len = slot.len.into();
            // The line is still in registers and is stored from there. A line that is first filled
            // in memory and then moved is loaded in wider units than it was stored in, and this
            // stalls the processor.
            self.lines.push(CacheLine(line));
        } else {
            let len: u32 = slots.iter().map(|slot| u32::from(slot.len)).sum();
            frame.len = len.saturating_sub(vnet as u32);
            self.gather_line(ring, first, vnet);
        }
        self.frames.push(frame);
    }

    /// Adds the first [`HEADER_BYTES`] of a frame; they may be spread over several slots.
    #[cold]
    fn gather_line(&mut self, ring: &RingView, first: usize, vnet: usize) {
        let mut line = [0; LINE_BYTES];
        line[..HEADER_BYTES].copy_from_slice(&gather_header(ring, &self.slots[first..], vnet));
        self.lines.push(CacheLine(line));
        self.fragmented = true;
    }

    /// Returns whether there are neither frames to send nor lost frames to count.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.too_long == 0
    }

    /// Returns the number of frames that took too many slots.
    pub(crate) fn too_long(&self) -> u32 {
        self.too_long
    }

    /// Returns the slots of all frames, in order.
    pub(crate) fn all_slots(&self) -> &[SlotSnapshot] {
        &self.slots
    }

    /// Returns whether any frame takes more than one slot or does not begin at its buffer's start.
    pub(crate) fn is_fragmented(&self) -> bool {
        self.fragmented
    }

    /// Returns the parts of each frame that the switch examines.
    #[inline]
    pub(crate) fn packets(&self) -> impl Iterator<Item = SwitchPacket<'_>> {
        self.frames.iter().zip(&self.lines).map(|(frame, line)| SwitchPacket {
            header: &line.0[..HEADER_BYTES],
            len: frame.len,
            slots: frame.slots,
            marks: frame.marks,
        })
    }

    /// Returns a frame's slot and its first bytes. Only for frames of one slot: see
    /// [`Self::is_fragmented`].
    #[inline(always)]
    pub(crate) fn single(&self, range: FrameSlots) -> (SlotSnapshot, &[u8; LINE_BYTES]) {
        let at = range.first as usize;
        (self.slots[at], &self.lines[at].0)
    }

    /// Returns the slots of a frame.
    #[inline(always)]
    pub(crate) fn slots(&self, range: FrameSlots) -> &[SlotSnapshot] {
        &self.slots[range.first as usize..][..range.count.into()]
    }
}

/// Prefetches the first bytes of the buffer of slot `i`; returns the next slot.
#[inline(always)]
fn prefetch(ring: &RingView, i: SlotIdx) -> SlotIdx {
    ring.prefetch(i, LINE_BYTES as u32);
    if i + 1 == ring.num_slots() { 0 } else { i + 1 }
}

/// Returns what the flags of a frame's first slot request: a destination port, or no learning. A
/// frame of several slots cannot name a port, for this reason: in a received frame, the same byte
/// of the flags is the number of fragments, and a program may have copied these flags. If a
/// received frame has one slot, that byte is 0.
#[inline(always)]
fn marks(slots: &[SlotSnapshot]) -> SlotMarks {
    let flags = slots.first().map_or(0, |slot| slot.flags.0);
    let port = (flags & NS_PORT_MASK) >> NS_PORT_SHIFT;
    let named = port != 0 && slots.len() == 1;
    SlotMarks { no_learn: flags & NS_NO_LEARN != 0, to: named.then(|| SwitchPortId(port.into())) }
}

/// Returns the first bytes after a virtio-net header of `vnet` bytes; they may be spread over
/// several slots.
fn gather_header(ring: &RingView, slots: &[SlotSnapshot], vnet: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; MAX_VNET_HEADER_LEN + HEADER_BYTES];
    let mut filled = 0;
    for slot in slots {
        let room = bytes.len() - filled;
        let len = room.min(slot.len.into());
        slot.copy_out(ring, &mut bytes[filled..filled + len]);
        filled += len;
    }
    let mut head = [0; HEADER_BYTES];
    head.copy_from_slice(&bytes[vnet..vnet + HEADER_BYTES]);
    head
}
