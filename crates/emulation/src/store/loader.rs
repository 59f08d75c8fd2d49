//! Stores the frames of a batch contiguously.
//!
//! During the batch the loader owns the memory of the open chunk, so storing a frame costs little
//! more than copying it.

use slipring_link::{Burst, FrameHandle};

use super::{
    EmulationStore, HEADER_ALIGN, LifetimeClass, MAX_FRAME_BYTES, OFFSET_BITS, StoreHeader,
    USABLE_BYTES, copy_frame, next_header_offset,
};

/// Stores frames of one batch; see [`EmulationStore::load`].
///
/// # Invariants
/// 1. `bytes` is the memory of chunk `number`, moved out of the chunk during the batch; it is empty
///    if the loader has no chunk.
/// 2. The frames of the burst that is being built are at `start..bytes_used`.
pub(crate) struct BatchLoader<'s> {
    store: &'s mut EmulationStore,
    bursts: &'s mut Vec<Burst>,
    class: LifetimeClass,
    number: u32,
    bytes: Box<[u8]>,
    start: usize,
    bytes_used: usize,
    packets: u32,
    sum: u64,
    last_ns: u64,
}

impl<'s> BatchLoader<'s> {
    #[inline]
    pub(super) fn begin(
        store: &'s mut EmulationStore,
        class: LifetimeClass,
        bursts: &'s mut Vec<Burst>,
    ) -> Self {
        let number = store.open_chunks[class.index()];
        let bytes = Box::default();
        let (start, taken, packets, sum, last_ns) = (0, 0, 0, 0, 0);
        let mut loader = Self {
            store,
            bursts,
            class,
            number,
            bytes,
            start,
            bytes_used: taken,
            packets,
            sum,
            last_ns,
        };
        loader.open(number);
        loader
    }

    /// Stores a frame. It must not have arrived before the previous frames of the batch, nor after
    /// the [time set](EmulationStore::set_time). Returns false if there is no memory, or if the
    /// frame is empty or longer than [`MAX_FRAME_BYTES`].
    pub(crate) fn put(&mut self, arrival_ns: u64, frame: &[u8]) -> bool {
        self.add(arrival_ns, frame) || self.add_elsewhere(arrival_ns, frame)
    }

    /// Stores frames with their times, under the conditions of [`Self::put`], up to the first frame
    /// that does not fit into the current chunk or has an invalid length, and returns that frame.
    #[inline(always)]
    pub(crate) fn put_all<'f>(
        &mut self,
        frames: impl Iterator<Item = (u64, &'f [u8])>,
    ) -> Option<(u64, &'f [u8])> {
        let (mut packets, mut sum, mut last_ns) = (0, 0, self.last_ns);
        let mut left = None;
        let usable = self.bytes.len().min(USABLE_BYTES);
        let mut room = self.bytes.get_mut(self.bytes_used..usable).unwrap_or_default();
        for (arrival_ns, frame) in frames {
            let (len, span) = (frame.len(), next_header_offset(frame.len()));
            if len.wrapping_sub(1) >= MAX_FRAME_BYTES || span > room.len() {
                left = Some((arrival_ns, frame));
                break;
            }
            let (slot, rest) = room.split_at_mut(span);
            room = rest;
            write_frame(slot, StoreHeader::new(arrival_ns, len, false), frame);
            packets += 1;
            sum += len as u64;
            last_ns = arrival_ns;
        }
        (self.bytes_used, self.last_ns) = (usable - room.len(), last_ns);
        self.packets += packets;
        self.sum += sum;
        left
    }

    /// Ends the batch.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.close();
    }

    #[inline]
    fn add(&mut self, arrival_ns: u64, frame: &[u8]) -> bool {
        self.put_all(std::iter::once((arrival_ns, frame))).is_none()
    }

    /// Closes the current chunk and stores the frame in another one. Returns false as [`Self::put`]
    /// does.
    #[cold]
    fn add_elsewhere(&mut self, arrival_ns: u64, frame: &[u8]) -> bool {
        if frame.len().wrapping_sub(1) >= MAX_FRAME_BYTES {
            return false;
        }
        self.close();
        let Some(number) = self.store.next_chunk(self.class) else { return false };
        self.open(number);
        self.add(arrival_ns, frame)
    }

    #[inline]
    fn open(&mut self, number: u32) {
        let Some(chunk) = self.store.chunks.get_mut(number as usize) else { return };
        self.bytes = std::mem::take(&mut chunk.bytes);
        (self.number, self.start, self.bytes_used) = (number, chunk.bytes_used, chunk.bytes_used);
        (self.packets, self.sum) = (0, 0);
    }

    /// Returns the memory to the chunk, and adds the burst of the frames stored in it to `bursts`.
    #[inline]
    fn close(&mut self) {
        let Some(chunk) = self.store.chunks.get_mut(self.number as usize) else { return };
        if self.bytes.is_empty() {
            return;
        }
        chunk.bytes = std::mem::take(&mut self.bytes);
        chunk.bytes_used = self.bytes_used;
        chunk.live_frames += self.packets;
        if self.packets > 0 {
            let handle =
                FrameHandle(self.number << OFFSET_BITS | (self.start / HEADER_ALIGN) as u32);
            let first_ns = self.store.burst_item(handle).frame.arrival_ns;
            let (packets, bytes, last_ns) = (self.packets, self.sum, self.last_ns);
            self.bursts.push(Burst { handle, packets, bytes, first_ns, last_ns });
        }
    }
}

/// Writes the header and then the frame to the start of `slot`.
#[inline(always)]
fn write_frame(slot: &mut [u8], head: StoreHeader, frame: &[u8]) {
    if let Some((first, room)) = slot.split_first_chunk_mut() {
        *first = head.0.to_ne_bytes();
        copy_frame(&mut room[..frame.len()], frame);
    }
}
