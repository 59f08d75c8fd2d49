//! Copies frames from tx slots to the buffers in the guest's receive queue.

use slipring_port::{DropCause, QueueCounters, TrafficCounts};
use slipring_ring::{KernRing, SlotFlags, SlotIdx};

use crate::chain::{GuestSegment, write};
use crate::vring::{AvailChains, QueueViolation, UsedElem, Vring};

/// Maximum number of segments of guest memory for a frame.
const MAX_FRAME_SEGMENTS: usize = 256;
/// Maximum length of the virtio-net header in bytes.
const MAX_HEADER_LEN: usize = 12;

/// The progress of sending a batch of frames.
pub(crate) struct SendProgress {
    /// The slot after the last frame that was sent or dropped.
    pub(crate) end: SlotIdx,
    /// Whether the guest has violated the rules of its queue. The queue must not be used any more
    /// then.
    pub(crate) broken: bool,
}

/// Sends the frames in the slots before `head`, until the guest has too few buffers. Frames that
/// cannot be sent at all are dropped and counted. Returns how far this came.
pub(crate) fn send(
    vring: &mut Vring,
    scratch: &mut SendScratch,
    ring: &mut KernRing,
    head: SlotIdx,
    counters: &QueueCounters,
) -> SendProgress {
    let mut at = ring.hwcur();
    let mut sum = TrafficCounts::default();
    let Ok(chains) = vring.chains() else { return SendProgress { end: at, broken: true } };
    let mut filler = ChainFiller { chains, scratch };
    let mut broken = false;
    while at != head {
        let frame = TxFrame::at(ring, at, head);
        let room =
            frame.fault.map_or_else(|| filler.reserve(frame.len), |_| Ok(GuestBuffers::Enough));
        let sent = match room {
            Ok(GuestBuffers::Enough) => frame.fault.map_or_else(|| filler.fill(ring, &frame), Err),
            Ok(GuestBuffers::Never) => Err(DropCause::TxTooLong),
            Ok(GuestBuffers::Wait) => break,
            Err(QueueViolation) => {
                broken = true;
                break;
            }
        };
        match sent {
            Ok(()) => sum += TrafficCounts { packets: 1, bytes: frame.len as u64 },
            Err(cause) => counters.dropped(cause, 1),
        }
        at = frame.end;
    }
    counters.sent(sum);
    broken |= vring.publish_used().is_err();
    SendProgress { end: at, broken }
}

/// A frame in one or more tx slots.
pub(crate) struct TxFrame {
    start: SlotIdx,
    /// The slot after the frame.
    pub(crate) end: SlotIdx,
    len: usize,
    /// Why the frame cannot be sent; `None` if it can.
    fault: Option<DropCause>,
}

impl TxFrame {
    pub(crate) fn at(ring: &mut KernRing, start: SlotIdx, head: SlotIdx) -> Self {
        let mut frame = Self { start, end: start, len: 0, fault: None };
        loop {
            let slot = ring.slot(frame.end);
            let bytes = ring.payload(frame.end).len();
            if bytes == 0 || bytes != usize::from(slot.len) {
                frame.fault = Some(DropCause::TxBadSlot);
            }
            frame.len += bytes;
            frame.end = ring.next(frame.end);
            if !slot.flags.has(SlotFlags::MOREFRAG) {
                return frame;
            }
            if frame.end == head {
                frame.fault = frame.fault.or(Some(DropCause::TxIncomplete));
                return frame;
            }
        }
    }
}

/// Whether the guest has buffers for a frame.
enum GuestBuffers {
    Enough,
    /// The guest has too few buffers now. The frame must wait until the guest offers more.
    Wait,
    /// The frame does not fit in [`MAX_FRAME_SEGMENTS`] segments, or in as many chains as the queue
    /// has descriptors, or, if frames may not span several chains, in the next chain.
    Never,
}

/// The buffers for a frame. The value is reused, so that nothing has to be allocated per frame.
#[derive(Debug, Default)]
pub(crate) struct SendScratch {
    segments: Vec<GuestSegment>,
    chains: Vec<TakenChain>,
    /// A copy of the bytes in one slot.
    bytes: Vec<u8>,
}

impl SendScratch {
    /// Returns the buffer for a copy of one slot. Both sending and receiving use it.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

/// A chain taken from the guest.
#[derive(Debug, Clone, Copy)]
struct TakenChain {
    head: u16,
    len: usize,
}

struct ChainFiller<'v> {
    chains: AvailChains<'v>,
    scratch: &'v mut SendScratch,
}

impl ChainFiller<'_> {
    /// Takes as many chains as a frame of `len` bytes needs. If the guest has too few, takes none.
    /// Returns whether the guest has enough.
    fn reserve(&mut self, len: usize) -> Result<GuestBuffers, QueueViolation> {
        let (wanted, mut have) = (self.chains.negotiated.header + len, 0);
        self.scratch.segments.clear();
        self.scratch.chains.clear();
        while have < wanted {
            let full = self.scratch.segments.len() >= MAX_FRAME_SEGMENTS;
            if full || !(self.chains.negotiated.mergeable || self.scratch.chains.is_empty()) {
                self.unpop_chains();
                return Ok(GuestBuffers::Never);
            }
            let Some(len) = self.pop_chain()? else {
                // Each chain has at least one of the queue's descriptors, so the guest cannot offer
                // more chains than the queue has descriptors.
                let is_all = self.scratch.chains.len() >= self.chains.size();
                self.unpop_chains();
                return Ok(if is_all { GuestBuffers::Never } else { GuestBuffers::Wait });
            };
            have += len;
        }
        Ok(GuestBuffers::Enough)
    }

    /// Takes one chain. Returns how many bytes fit in it; `None` if the guest offers no chain.
    fn pop_chain(&mut self) -> Result<Option<usize>, QueueViolation> {
        let Some(mut chain) = self.chains.pop()? else { return Ok(None) };
        let before = self.scratch.segments.len();
        self.scratch.segments.extend(chain.by_ref());
        let parts = &self.scratch.segments[before..];
        let len = parts.iter().map(|part| part.len).sum();
        // A chain is no usable buffer if the device may not write to it, if the header does not fit
        // in it, or if its end was not found.
        let writable = parts.iter().all(|part| part.is_writable);
        if !(writable && chain.is_whole() && len >= self.chains.negotiated.header) {
            return Err(QueueViolation);
        }
        self.scratch.chains.push(TakenChain { head: chain.head, len });
        Ok(Some(len))
    }

    fn unpop_chains(&mut self) {
        // This number fits in 16 bits, because it is at most the number of the queue's descriptors.
        self.chains.unpop(self.scratch.chains.len() as u16);
        self.scratch.chains.clear();
    }

    /// Writes a frame to the chains that were taken for it.
    fn fill(&mut self, ring: &mut KernRing, frame: &TxFrame) -> Result<(), DropCause> {
        let header = self.chains.negotiated.header;
        let mut head = [0; MAX_HEADER_LEN];
        // Sets `num_buffers`, if the header has this field.
        head[10..].copy_from_slice(&(self.scratch.chains.len() as u16).to_le_bytes());
        let mut cursor = SegmentCursor::default();
        let mut written = self.write(&mut cursor, &head[..header]);
        let mut at = frame.start;
        while written && at != frame.end {
            let mut bytes = std::mem::take(&mut self.scratch.bytes);
            bytes.clear();
            ring.payload(at).append_to(&mut bytes);
            written = self.write(&mut cursor, &bytes);
            self.scratch.bytes = bytes;
            at = ring.next(at);
        }
        self.push_used(if written { header + frame.len } else { 0 });
        if written { Ok(()) } else { Err(DropCause::TxRefused) }
    }

    /// Writes `bytes` at the cursor and advances it. Returns false if the guest's memory at this
    /// place is not mapped.
    fn write(&self, cursor: &mut SegmentCursor, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some(part) = self.scratch.segments.get(cursor.segment) else { return false };
            let len = bytes.len().min(part.len - cursor.offset);
            let (now, rest) = bytes.split_at(len);
            let at = part.at.checked_add(cursor.offset as u64);
            if at.and_then(|at| write(self.chains.memory, at, now)).is_none() {
                return false;
            }
            cursor.offset += len;
            if cursor.offset == part.len {
                *cursor = SegmentCursor { segment: cursor.segment + 1, offset: 0 };
            }
            bytes = rest;
        }
        true
    }

    /// Returns to the guest the chains that were taken for a frame of `len` bytes (including the
    /// header). Each is returned with the number of bytes that were written to it.
    fn push_used(&mut self, mut len: usize) {
        for chain in self.scratch.chains.drain(..) {
            let filled = len.min(chain.len);
            self.chains.used.push(UsedElem { head: chain.head, len: filled as u32 });
            len -= filled;
        }
    }
}

/// A position in the segments of a frame.
#[derive(Debug, Default)]
struct SegmentCursor {
    segment: usize,
    offset: usize,
}
