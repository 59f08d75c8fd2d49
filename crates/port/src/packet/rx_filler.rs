//! Writes received frames into an rx ring: complete, with their VLAN tags, and in as many slots as
//! needed.

use slipring_ring::{KernRing, SlotFlags, SlotIdx};
use slipring_wire::offload::{Gso, Segmenter, VnetForm, VnetHeader, complete_at};

use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// Length of the two MAC addresses in bytes. A VLAN tag is inserted after them.
const MAC_ADDRESSES_LEN: usize = 12;
/// Bytes of a VLAN tag.
const VLAN_TAG_LEN: u32 = 4;
/// Maximum number of header bytes of a segment.
const MAX_HEADERS_LEN: u32 = 192;

/// A frame as the kernel delivers it, possibly with an unfinished checksum, or not segmented.
#[derive(Debug)]
pub(super) struct RawPacket<'f> {
    /// The frame, without the VLAN tag.
    pub(super) bytes: &'f mut [u8],
    /// The offloaded work that the kernel left to hardware, as a virtio-net header of 10 bytes.
    pub(super) vnet: &'f [u8],
    /// The VLAN tag that the kernel took out.
    pub(super) tag: Option<[u8; 4]>,
}

/// Fills the slots that a driver may fill during one sync.
///
/// The frames become visible to the program all at once, when [`Self::publish`] is called.
#[derive(Debug)]
pub(super) struct RxFiller<'q> {
    ring: &'q mut KernRing,
    counters: &'q QueueCounters,
    at: SlotIdx,
    free_slots: u32,
    sum: TrafficCounts,
}

impl<'q> RxFiller<'q> {
    /// Starts to fill the free slots of `ring`.
    pub(super) fn new(ring: &'q mut KernRing, counters: &'q QueueCounters) -> Self {
        let (at, free_slots) = (ring.hwtail(), ring.free_slots());
        Self { ring, counters, at, free_slots, sum: TrafficCounts::default() }
    }

    /// Returns the maximum number of slots that a frame of `len` bytes can take once it is
    /// complete.
    #[inline(always)]
    pub(super) fn slots_for(&self, len: u32, vnet: &[u8]) -> u32 {
        let offset = self.ring.offsets().map_or(0, |offsets| offsets.max);
        let buf_size = self.ring.region().buf_size() - offset;
        match VnetHeader::parse(vnet, VnetForm::Short) {
            Ok(header) if header.gso_type != VnetHeader::GSO_NONE && header.gso_size > 0 => {
                let size = u32::from(header.gso_size);
                (len / size + 1) * (size + MAX_HEADERS_LEN + VLAN_TAG_LEN).div_ceil(buf_size)
            }
            _ if len + VLAN_TAG_LEN <= buf_size => 1,
            _ => (len + VLAN_TAG_LEN).div_ceil(buf_size),
        }
    }

    /// Returns the number of slots that are still free.
    #[inline(always)]
    pub(super) fn room(&self) -> u32 {
        self.free_slots
    }

    /// Returns the maximum number of slots that can be free at the same time.
    pub(super) fn capacity(&self) -> u32 {
        self.ring.num_slots() - 1
    }

    /// Counts a frame that will not be delivered.
    #[cold]
    pub(super) fn drop_one(&self, cause: DropCause) {
        self.counters.dropped(cause, 1);
    }

    /// Finishes a frame and delivers the result.
    #[inline(always)]
    pub(super) fn deliver(&mut self, raw: RawPacket<'_>) {
        match VnetHeader::parse(raw.vnet, VnetForm::Short) {
            Ok(vnet) if vnet.gso_type != VnetHeader::GSO_NONE => self.segment(raw, vnet),
            Ok(vnet) if vnet.needs_checksum() => self.complete(raw, vnet),
            _ => self.push_frame(raw.bytes, raw.tag),
        }
    }

    /// Completes the checksum of a frame and delivers the frame.
    fn complete(&mut self, raw: RawPacket<'_>, vnet: VnetHeader) {
        match complete_at(raw.bytes, vnet.csum_start, vnet.csum_offset) {
            Ok(()) => self.push_frame(raw.bytes, raw.tag),
            Err(_) => self.drop_one(DropCause::RxMalformed),
        }
    }

    /// Segments a super-frame and delivers the segments.
    fn segment(&mut self, raw: RawPacket<'_>, vnet: VnetHeader) {
        let segmenter = match vnet.gso() {
            Ok(Some(Gso { size: 0, .. })) | Err(_) => None,
            Ok(None) => return self.push_frame(raw.bytes, raw.tag),
            Ok(Some(gso)) => Segmenter::new(raw.bytes, gso).ok(),
        };
        let Some(mut segmenter) = segmenter else {
            return self.drop_one(DropCause::RxTooLong);
        };
        while let Some((header, payload)) = segmenter.next_segment() {
            let (addresses, rest) = header.split_at(MAC_ADDRESSES_LEN);
            self.put(&[addresses, raw.tag.as_ref().map_or(&[], |tag| &tag[..]), rest, payload]);
        }
    }

    #[inline(always)]
    fn push_frame(&mut self, bytes: &[u8], tag: Option<[u8; 4]>) {
        match (tag, bytes.split_at_checked(MAC_ADDRESSES_LEN)) {
            (None, Some(_)) => self.put(&[bytes]),
            (Some(tag), Some((addresses, rest))) => self.put(&[addresses, &tag, rest]),
            (_, None) => self.drop_one(DropCause::RxMalformed),
        }
    }

    /// Writes one frame, given in parts, or drops and counts it.
    #[inline(always)]
    fn put(&mut self, parts: &[&[u8]]) {
        let start = (self.at, self.free_slots);
        match self.write(parts) {
            Ok(bytes) => self.sum += TrafficCounts { packets: 1, bytes },
            Err(cause) => self.abandon(cause, start),
        }
    }

    /// Counts a frame that begins at `start` as dropped. If a slot had no usable buffer, the slots
    /// up to this one are passed on empty, so that later frames go to the slots after it.
    #[cold]
    fn abandon(&mut self, cause: DropCause, start: (SlotIdx, u32)) {
        let slots = 1 + start.1 - self.free_slots;
        (self.at, self.free_slots) = start;
        self.drop_one(cause);
        if cause == DropCause::RxNoBuffer {
            (0..slots).for_each(|_| self.close(0, SlotFlags::default()));
        }
    }

    #[inline(always)]
    fn write(&mut self, parts: &[&[u8]]) -> Result<u64, DropCause> {
        let (mut filled, mut total) = (0, 0);
        for &part in parts {
            let mut rest = part;
            while !rest.is_empty() {
                if filled > 0 && filled == self.ring.buffer(self.at).len() {
                    self.close(filled, SlotFlags::MOREFRAG);
                    total += filled;
                    filled = 0;
                }
                filled += self.append(filled, &mut rest)?;
            }
        }
        self.close(filled, SlotFlags::default());
        Ok((total + filled) as u64)
    }

    /// Copies bytes from `rest` into the slot that is being filled, after the `filled` bytes that
    /// are already there, as many as fit. Removes them from `rest`, and returns their number.
    #[inline(always)]
    fn append(&mut self, filled: usize, rest: &mut &[u8]) -> Result<usize, DropCause> {
        if self.free_slots == 0 {
            return Err(DropCause::RxRingFull);
        }
        // If the program returned the slot with an invalid buffer number, the slot has no space.
        let len = self.ring.buffer(self.at).skip(filled).copy_in(rest);
        if len == 0 {
            return Err(DropCause::RxNoBuffer);
        }
        *rest = &rest[len..];
        Ok(len)
    }

    #[inline(always)]
    fn close(&mut self, len: usize, flags: SlotFlags) {
        self.ring.set(self.at, len as u16, flags);
        self.at = self.ring.next(self.at);
        self.free_slots -= 1;
    }

    /// Publishes the delivered frames to the program; returns their number.
    pub(super) fn publish(self) -> u64 {
        self.ring.set_tail(self.at);
        self.counters.received(self.sum);
        self.sum.packets
    }
}

#[cfg(test)]
mod tests;
