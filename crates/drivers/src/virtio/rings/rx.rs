//! Frames to be received.
//!
//! Without mergeable buffers (virtio 1.2, 5.1.6.3.2) a frame takes one slot. With them, the device
//! fills as many slots as it needs, each from its first byte on, and writes their number to the
//! header of the first slot. It does not know that our headers are in separate memory:
//!
//! ```text
//!               memory of headers, 12 bytes       buffer, without its last 12 bytes
//!   1st slot  | header, number of slots: 3      | frame, bytes 0 ...                 |
//!   2nd slot  | 12 bytes of the frame           | the frame goes on ...              |
//!   3rd slot  | 12 bytes of the frame           | its end |
//! ```
//! So the 12 bytes in place of a header are moved in front of the rest: a copy within the buffer,
//! for frames of several slots only.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use slipring_pci::{BufferAddresses, DescriptorMemory};
use slipring_port::nic::{RxDescriptor, RxDescriptorRings};
use slipring_ring::{BufIdx, Region};

use super::{HEADER_BYTES, HEADER_STRIDE, NEXT, SlotTable, Virtqueue, WRITE};

/// Where the header has the number of slots, in words of 16 bits.
const NUM_SLOTS_WORD: usize = 5;
/// Words of 16 bits from one header to the next.
const HEADER_STRIDE_WORDS: usize = HEADER_STRIDE as usize / 2;

/// The receiving side of a queue.
#[derive(Debug)]
pub(in crate::virtio) struct VirtioRx {
    pub(in crate::virtio) queue: Virtqueue,
    headers: DescriptorMemory,
    addresses: BufferAddresses,
    slots: SlotTable,
    ready: VecDeque<RxDescriptor>,
    /// Whether a frame may take several slots.
    merges: bool,
    /// For each buffer, the bytes of the frame that the device has written to the slot's header
    /// memory. They are copied here, because the slot may get another buffer before the frame is
    /// taken.
    stray_heads: Box<[[u8; HEADER_BYTES as usize]]>,
    /// The most slots that the device has ever had at a time: no frame can have more parts.
    most_posted: u32,
    /// Number of slots that have not arrived yet, of the frame whose first part has arrived.
    missing: u32,
    /// Number of entries at the end of `ready` that belong to the unfinished frame.
    unfinished: u32,
    /// Whether a part of the unfinished frame is invalid.
    is_damaged: bool,
    /// Number of invalid frames, and of invalid chains that the device has returned.
    pub(in crate::virtio) bad_frames: u64,
}

/// Bytes of headers for all slots of a queue.
pub(in crate::virtio) fn headers_len(size: u16) -> usize {
    usize::from(size / 2) * HEADER_STRIDE as usize
}

impl VirtioRx {
    pub(in crate::virtio) fn new(
        queue: Virtqueue,
        headers: DescriptorMemory,
        addresses: BufferAddresses,
        merges: bool,
    ) -> Self {
        let bufs = if merges { addresses.bufs() as usize } else { 0 };
        Self {
            slots: SlotTable::new(queue.size / 2),
            ready: VecDeque::with_capacity(usize::from(queue.size / 2)),
            queue,
            headers,
            addresses,
            merges,
            stray_heads: vec![[0; HEADER_BYTES as usize]; bufs].into(),
            most_posted: 0,
            missing: 0,
            unfinished: 0,
            is_damaged: false,
            bad_frames: 0,
        }
    }

    /// Number of bytes of a buffer that the device fills.
    fn data_len(&self) -> u32 {
        let spared = if self.merges { HEADER_BYTES } else { 0 };
        self.addresses.buf_size() - spared
    }

    /// Takes a slot that the device has filled with `written` bytes, header included.
    fn take(&mut self, slot: usize, buf: BufIdx, written: u32) {
        if self.missing == 0 {
            self.take_first(slot, buf, written);
        } else {
            self.take_next(slot, buf, written);
        }
        if self.missing == 0 {
            self.finish();
        }
    }

    /// Takes an element of the used ring that names no slot of the device. If parts of a frame are
    /// missing, it counts as one of them.
    #[cold]
    fn take_invalid(&mut self) {
        self.bad_frames += 1;
        if self.missing > 0 {
            self.is_damaged = true;
            self.missing -= 1;
            if self.missing == 0 {
                self.finish();
            }
        }
    }

    /// Drops the unfinished frame if the device has no slots left for the missing parts.
    #[inline(always)]
    fn drop_without_end(&mut self) {
        if self.missing > 0 && self.slots.are_all_free() {
            self.missing = 0;
            self.is_damaged = true;
            self.finish();
        }
    }

    fn take_first(&mut self, slot: usize, buf: BufIdx, written: u32) {
        let len = written.saturating_sub(HEADER_BYTES);
        // The device is at fault if the header's number of slots is 0, or more than the device has
        // ever had at a time. Then the frame counts as damaged and ends here.
        let parts = if self.merges { u32::from(self.num_slots(slot)) } else { 1 };
        let has_parts = (1..=self.most_posted).contains(&parts);
        self.missing = if has_parts { parts - 1 } else { 0 };
        self.is_damaged = !has_parts || !(1..=self.data_len()).contains(&len);
        let len = len.min(self.data_len());
        self.ready.push_back(RxDescriptor { buf, offset: 0, len, more: self.missing > 0 });
        self.unfinished = 1;
    }

    fn take_next(&mut self, slot: usize, buf: BufIdx, written: u32) {
        self.missing -= 1;
        self.is_damaged |= !(1..=self.data_len() + HEADER_BYTES).contains(&written);
        let len = written.min(self.data_len() + HEADER_BYTES);
        self.keep_head(slot, buf);
        let offset = HEADER_BYTES;
        self.ready.push_back(RxDescriptor { buf, offset, len, more: self.missing > 0 });
        self.unfinished += 1;
    }

    fn finish(&mut self) {
        if std::mem::take(&mut self.is_damaged) {
            self.bad_frames += 1;
            self.drop_parts();
        }
        self.unfinished = 0;
    }

    /// Gives the buffers of the unfinished frame back to the device.
    #[cold]
    fn drop_parts(&mut self) {
        for _ in 0..std::mem::take(&mut self.unfinished) {
            if let Some(descriptor) = self.ready.pop_back() {
                self.post(descriptor.buf);
            }
        }
    }

    fn num_slots(&self, slot: usize) -> u16 {
        let word = &self.headers.words16()[slot * HEADER_STRIDE_WORDS + NUM_SLOTS_WORD];
        u16::from_le(word.load(Ordering::Relaxed))
    }

    /// Saves the bytes of a frame that the device has written to the header memory of a slot.
    fn keep_head(&mut self, slot: usize, BufIdx(buf): BufIdx) {
        let words = &self.headers.words16()[slot * HEADER_STRIDE_WORDS..];
        let Some(head) = self.stray_heads.get_mut(buf as usize) else { return };
        for (bytes, word) in head.chunks_exact_mut(2).zip(words) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }
}

impl RxDescriptorRings for VirtioRx {
    fn max_part(&self) -> u32 {
        self.addresses.buf_size()
    }

    fn has_room(&mut self) -> bool {
        !self.slots.free.is_empty()
    }

    fn post(&mut self, buf: BufIdx) {
        let address = self.addresses.of(buf).expect("a buffer that the port's rings have checked");
        let slot = self.slots.take(buf);
        self.slots.is_head[usize::from(slot)] = true;
        let (head, data) = (2 * slot, 2 * slot + 1);
        let header = self.headers.address() + u64::from(slot) * HEADER_STRIDE;
        self.queue.set(head, header, HEADER_BYTES, NEXT | WRITE, data);
        self.queue.set(data, address, self.data_len(), WRITE, 0);
        self.queue.push(head);
    }

    fn publish(&mut self) {
        self.most_posted = self.most_posted.max(self.slots.taken());
        self.queue.publish();
    }

    fn refresh(&mut self) -> u32 {
        // Reads at most one queue's worth of chains, whatever index the device writes.
        for _ in 0..self.queue.size {
            let Some((id, written)) = self.queue.pop() else { break };
            let mut buffer = None;
            match self.slots.give_back(id, |buf| buffer = Some(buf)).and(buffer) {
                Some(buf) => self.take(id as usize / 2, buf, written),
                None => self.take_invalid(),
            }
        }
        self.drop_without_end();
        // The buffers of dropped frames may be the only ones that the device gets, so they are
        // published here.
        self.queue.publish();
        // This also counts the parts of an unfinished frame. The caller waits until the frame is
        // complete.
        self.ready.len() as u32
    }

    fn peek(&self, i: u32) -> RxDescriptor {
        self.ready[i as usize]
    }

    /// Does nothing: frames begin at byte 0 of their buffers, except for the bytes that
    /// [`Self::head`] returns.
    fn settle(&self, _region: &Region, _descriptor: RxDescriptor) {}

    fn head(&self, RxDescriptor { buf, offset, len, .. }: RxDescriptor) -> &[u8] {
        let head = self.stray_heads.get(buf.0 as usize).filter(|_| offset > 0);
        head.map_or(&[], |head| &head[..head.len().min(len as usize)])
    }

    fn release(&mut self, count: u32) {
        self.ready.drain(..count as usize);
    }
}

#[cfg(test)]
mod tests;
