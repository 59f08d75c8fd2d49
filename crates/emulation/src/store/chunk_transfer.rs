//! Transfers chunks with their frames from the store of one thread to the store of another thread.
//!
//! ```text
//!   giver:  give_chunk -- chunk 3, full of frames --> adopt  :taker
//!           take_back <-- chunk 3, other memory ----- adopt
//! ```
//!
//! The giver keeps the chunk's number reserved, so it never has more chunks than its limit. In
//! return it gets the memory of an empty chunk of the taker, if the taker has one. If a chunk is
//! not nearly full, the taker copies its frames and returns the chunk's own memory, because a frame
//! that stays long would keep all of this memory.
//!
//! Not for: the queues that pass transfers between the threads.

use slipring_link::{Burst, FrameHandle};

use super::{
    CHUNK_BYTES, EmulationStore, LifetimeClass, NO_CHUNK, OFFSET_BITS, StoreChunk, StoredFrames,
    header_offset, number,
};

/// If a chunk has fewer bytes in use than this, its frames are copied and the chunk is not moved.
const MIN_KEPT_BYTES: usize = CHUNK_BYTES / 8 * 7;

/// A chunk in transit. On its way to the taker, it holds frames; on its way back, it is empty.
#[derive(Debug)]
pub(crate) struct ChunkTransfer {
    /// The chunk's number in the giver's store.
    number: u32,
    chunk: StoreChunk,
    /// All frames in the chunk, in order. Their handles have the chunk number of the giver's store
    /// until the taker has adopted the chunk; afterwards they are valid in the taker's store.
    pub(crate) bursts: Vec<Burst>,
}

/// Returns whether two bursts of a store are in the same chunk.
#[inline(always)]
pub(crate) fn share_chunk(a: &Burst, b: &Burst) -> bool {
    number(a.handle) == number(b.handle)
}

impl EmulationStore {
    /// Returns how many more chunks can be filled: the empty chunks, and the chunks that may still
    /// be allocated within the limit.
    #[inline]
    pub(crate) fn chunks_left(&self) -> usize {
        self.spare.len() + self.numbers_left()
    }

    fn numbers_left(&self) -> usize {
        self.limit - (self.chunks.len() - self.vacant.len())
    }

    /// Removes a chunk from this store, to be given to another thread. `bursts` must be all of its
    /// frames.
    ///
    /// # Panics
    /// If `bursts` is empty.
    pub(crate) fn give_chunk(&mut self, bursts: Vec<Burst>) -> ChunkTransfer {
        let number = number(bursts[0].handle);
        let mut chunk = std::mem::take(&mut self.chunks[number]);
        debug_assert_eq!(chunk.live_frames, bursts.iter().map(|burst| burst.packets).sum::<u32>());
        if std::mem::take(&mut chunk.open) {
            self.open_chunks[chunk.class.index()] = NO_CHUNK;
        }
        ChunkTransfer { number: number as u32, chunk, bursts }
    }

    /// Takes back a chunk number that was given away, and the memory that the taker returned, if
    /// any. Returns the emptied list of bursts, for reuse.
    pub(crate) fn take_back(&mut self, transfer: ChunkTransfer) -> Vec<Burst> {
        let ChunkTransfer { number, chunk, mut bursts } = transfer;
        if chunk.bytes.is_empty() {
            self.vacant.push(number);
        } else {
            self.chunks[number as usize] = chunk;
            self.spare.push(number);
        }
        bursts.clear();
        bursts
    }

    /// Moves the frames of a transfer into this store; the transfer must then be returned. Returns
    /// false, and leaves the transfer unchanged, if there is no space.
    pub(crate) fn adopt(&mut self, class: LifetimeClass, transfer: &mut ChunkTransfer) -> bool {
        let latest = transfer.bursts.last().map_or(0, |burst| burst.last_ns);
        self.set_time(latest);
        if self.chunks_left() == 0 {
            return false;
        }
        if transfer.chunk.bytes_used < MIN_KEPT_BYTES {
            self.copy_from(class, transfer);
        } else {
            self.swap_chunk(class, transfer);
        }
        true
    }

    /// Copies the frames of a transfer into this store. The caller has checked that a free chunk is
    /// available, which has space for all of them.
    fn copy_from(&mut self, class: LifetimeClass, transfer: &mut ChunkTransfer) {
        let ChunkTransfer { chunk, bursts, .. } = transfer;
        let (latest_ns, old) = (self.latest_ns, std::mem::take(bursts));
        let mut loader = self.load(class, bursts);
        for burst in &old {
            let rest = chunk.bytes.get(header_offset(burst.handle)..).unwrap_or_default();
            let frames = StoredFrames { rest, remaining: burst.packets };
            let mut frames = frames.map(|(head, frame)| (head.arrival_ns(latest_ns), frame));
            while let Some((arrival_ns, frame)) = loader.put_all(&mut frames) {
                let stored = loader.put(arrival_ns, frame);
                assert!(stored, "what fits one chunk fits another");
            }
        }
        loader.end();
        (chunk.bytes_used, chunk.live_frames) = (0, 0);
    }

    /// Moves the chunk into this store, and the memory of an empty chunk, if there is one, into the
    /// transfer.
    fn swap_chunk(&mut self, class: LifetimeClass, transfer: &mut ChunkTransfer) {
        let number = self.pop_spare().unwrap_or_else(|| self.new_number());
        let slot = &mut self.chunks[number as usize];
        let empty = StoreChunk { bytes: std::mem::take(&mut slot.bytes), ..StoreChunk::default() };
        *slot = std::mem::replace(&mut transfer.chunk, empty);
        slot.class = class;
        for burst in &mut transfer.bursts {
            let offset = burst.handle.0 & ((1 << OFFSET_BITS) - 1);
            burst.handle = FrameHandle(number << OFFSET_BITS | offset);
        }
    }
}
