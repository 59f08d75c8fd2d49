//! Frames for the guest: from tx slots into the buffers that its receive queue offers.

use slipring_port::{Counters, DropCause, Traffic};
use slipring_ring::{KernRing, SlotFlags, SlotIdx};

use crate::chain::{Part, write};
use crate::vring::{Broken, Chains, Done, Vring};

/// Most parts of the guest's memory that one frame is spread over.
const MAX_SPREAD: usize = 256;
/// Bytes of the longest header.
const HEADER: usize = 12;

/// How far a batch came.
pub(crate) struct Sent {
    /// The first slot that stays.
    pub(crate) end: SlotIdx,
    /// The guest's queue cannot be used any more.
    pub(crate) broken: bool,
}

/// Sends the frames up to `head`, as many as the guest has room for.
pub(crate) fn send(
    vring: &mut Vring,
    scratch: &mut Scratch,
    ring: &mut KernRing,
    head: SlotIdx,
    counters: &Counters,
) -> Sent {
    let mut at = ring.hwcur();
    let mut sum = Traffic::default();
    let Ok(chains) = vring.chains() else { return Sent { end: at, broken: true } };
    let mut filler = Filler { chains, scratch };
    let mut broken = false;
    while at != head {
        let frame = Frame::at(ring, at, head);
        let room = frame.fault.map_or_else(|| filler.reserve(frame.len), |_| Ok(Room::Enough));
        let sent = match room {
            Ok(Room::Enough) => frame.fault.map_or_else(|| filler.fill(ring, &frame), Err),
            Ok(Room::Never) => Err(DropCause::TxTooLong),
            Ok(Room::Wait) => break,
            Err(Broken) => {
                broken = true;
                break;
            }
        };
        match sent {
            Ok(()) => sum += Traffic { packets: 1, bytes: frame.len as u64 },
            Err(cause) => counters.dropped(cause, 1),
        }
        at = frame.end;
    }
    counters.sent(sum);
    broken |= vring.settle().is_err();
    Sent { end: at, broken }
}

/// A frame of one or several slots.
pub(crate) struct Frame {
    start: SlotIdx,
    /// The slot behind it.
    pub(crate) end: SlotIdx,
    len: usize,
    /// Why it cannot be sent.
    fault: Option<DropCause>,
}

impl Frame {
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
enum Room {
    Enough,
    /// When it offers more.
    Wait,
    /// It will not fit what the guest offers.
    Never,
}

/// Where one frame goes; kept from frame to frame for its memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    parts: Vec<Part>,
    taken: Vec<Taken>,
}

/// A chain of the guest.
#[derive(Debug, Clone, Copy)]
struct Taken {
    head: u16,
    len: usize,
}

struct Filler<'v> {
    chains: Chains<'v>,
    scratch: &'v mut Scratch,
}

impl Filler<'_> {
    /// Takes chains that hold a frame of `len` bytes, or none.
    fn reserve(&mut self, len: usize) -> Result<Room, Broken> {
        let (wanted, mut have) = (self.chains.agreed.header + len, 0);
        self.scratch.parts.clear();
        self.scratch.taken.clear();
        while have < wanted {
            let full = self.scratch.parts.len() >= MAX_SPREAD;
            if full || !(self.chains.agreed.mergeable || self.scratch.taken.is_empty()) {
                self.put_back();
                return Ok(Room::Never);
            }
            let Some(len) = self.take()? else {
                self.put_back();
                return Ok(Room::Wait);
            };
            have += len;
        }
        Ok(Room::Enough)
    }

    /// Takes one chain; its length.
    fn take(&mut self) -> Result<Option<usize>, Broken> {
        let Some(mut chain) = self.chains.take()? else { return Ok(None) };
        let before = self.scratch.parts.len();
        self.scratch.parts.extend(chain.by_ref());
        let parts = &self.scratch.parts[before..];
        let len = parts.iter().map(|part| part.len).sum();
        // One that we may not write to, or that cannot hold anything, is no buffer; nor one whose
        // end was not found.
        let writable = parts.iter().all(|part| part.is_writable);
        if !(writable && chain.is_whole() && len >= self.chains.agreed.header) {
            return Err(Broken);
        }
        self.scratch.taken.push(Taken { head: chain.head, len });
        Ok(Some(len))
    }

    fn put_back(&mut self) {
        // Fewer than the queue has descriptors.
        self.chains.put_back(self.scratch.taken.len() as u16);
        self.scratch.taken.clear();
    }

    /// Writes a frame into what was taken for it.
    fn fill(&mut self, ring: &mut KernRing, frame: &Frame) -> Result<(), DropCause> {
        let header = self.chains.agreed.header;
        let mut head = [0; HEADER];
        // The number of chains, where the header has that field.
        head[10..].copy_from_slice(&(self.scratch.taken.len() as u16).to_le_bytes());
        let mut cursor = Cursor::default();
        let mut written = self.write(&mut cursor, &head[..header]);
        let mut at = frame.start;
        while written && at != frame.end {
            written = self.write(&mut cursor, ring.payload(at));
            at = ring.next(at);
        }
        self.give_back(if written { header + frame.len } else { 0 });
        if written { Ok(()) } else { Err(DropCause::TxRefused) }
    }

    /// Writes on where the last write ended; whether the memory is there.
    fn write(&self, cursor: &mut Cursor, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some(part) = self.scratch.parts.get(cursor.part) else { return false };
            let len = bytes.len().min(part.len - cursor.offset);
            let (now, rest) = bytes.split_at(len);
            let at = part.at.checked_add(cursor.offset as u64);
            if at.and_then(|at| write(self.chains.memory, at, now)).is_none() {
                return false;
            }
            cursor.offset += len;
            if cursor.offset == part.len {
                *cursor = Cursor { part: cursor.part + 1, offset: 0 };
            }
            bytes = rest;
        }
        true
    }

    /// Gives the chains back, with `len` bytes in them.
    fn give_back(&mut self, mut len: usize) {
        for chain in self.scratch.taken.drain(..) {
            let filled = len.min(chain.len);
            self.chains.done.push(Done { head: chain.head, len: filled as u32 });
            len -= filled;
        }
    }
}

/// The place in the parts of a frame.
#[derive(Debug, Default)]
struct Cursor {
    part: usize,
    offset: usize,
}
