//! Frames in the memory into which they were read: parts of a capture that exist until their last
//! frame has left.
//!
//! ```text
//!   chunk | header | frame 0 | header | frame 1 | ... | header | frame n |
//!          records of the file, as read; `frames` has the position of each frame
//! ```
//!
//! Nothing is copied between reading and writing. A [`FrameHandle`] consists of the number of a
//! slot and the index of a frame in its chunk. Copies that links make go into separate chunks.
//!
//! # Invariants
//! 1. A slot is in use until each of its frames was delivered or lost.
//! 2. `live` counts the frames of the slot that were neither delivered nor lost.

use slipring_link::FrameHandle;

use crate::report::hop_times::HopEntry;

/// Bytes of a chunk. A longer record gets a larger chunk.
pub(crate) const CHUNK_BYTES: usize = 1 << 19;
/// Bits of a handle for the index of a frame within its chunk; the other bits are the slot number.
const NUMBER_BITS: u32 = 15;
/// Maximum number of frames in a chunk. Only records without data can reach it.
pub(crate) const MAX_FRAMES: usize = 1 << NUMBER_BITS;
/// Maximum number of chunks; together they hold 64 GiB.
const MAX_CHUNKS: usize = 1 << (u32::BITS - NUMBER_BITS);
/// Bytes of memory that a copy needs in addition to its data: its entries in this table and inside
/// the links.
const COPY_OVERHEAD_BYTES: usize = 64;

/// Consecutive records of a capture, and where their frames are.
#[derive(Debug, Default)]
pub struct CaptureChunk {
    /// Bytes of the file, as they were read; links may then change those of frames.
    pub bytes: Vec<u8>,
    /// The frames in the chunk.
    pub frames: Vec<CaptureFrame>,
    /// How many times the capture had been read completely before this chunk was read.
    pub pass: u64,
    /// How many of the frames have an earlier timestamp than their predecessor.
    pub unordered: u64,
}

/// A frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureFrame {
    /// When the frame was captured, in ns since 1970; in a pass, never before its predecessor.
    pub captured_ns: u64,
    /// The frame's offset in the chunk.
    pub start: u32,
    /// Number of captured bytes.
    pub kept: u32,
    /// Original length in bytes, without FCS.
    pub len: u32,
}

impl CaptureChunk {
    /// Returns the captured bytes of a frame.
    #[inline]
    pub fn bytes_of(&self, frame: &CaptureFrame) -> &[u8] {
        &self.bytes[frame.start as usize..][..frame.kept as usize]
    }
}

/// A view of a stored frame.
#[derive(Debug, Clone, Copy)]
pub struct ChunkFrame<'c> {
    /// The frame's captured bytes.
    pub bytes: &'c [u8],
    /// The frame's capture time and length.
    pub frame: CaptureFrame,
    /// The frame's number among the frames of its input, counted from the start.
    pub sequence: u64,
    /// The index of the frame's input.
    pub input: usize,
    /// Whether the frame is a copy that a link made.
    pub is_copy: bool,
}

impl ChunkFrame<'_> {
    /// Returns how the frame entered its first link, with times relative to `base_ns`.
    pub fn hop_entry(&self, base_ns: u64) -> HopEntry {
        HopEntry { at_ns: self.frame.captured_ns - base_ns, is_copy: self.is_copy }
    }
}

/// The chunks in use.
#[derive(Debug, Default)]
pub struct ChunkTable {
    /// Maximum number of chunks.
    max_chunks: usize,
    slots: Vec<ChunkSlot>,
    /// Slots without a chunk.
    vacant: Vec<u32>,
    /// Number of the slot that receives copies; `None` if there is none.
    open: Option<u32>,
}

#[derive(Debug, Default)]
struct ChunkSlot {
    chunk: CaptureChunk,
    live: u32,
    /// Number of the chunk's first frame among the frames of its input. Unused for copies, whose
    /// numbers are in `origins`.
    first: u64,
    /// For each copy: input and number of the original frame. Empty in a slot without copies.
    origins: Vec<(usize, u64)>,
    input: usize,
}

impl ChunkTable {
    /// Creates an empty table for chunks of about `bytes` in total.
    pub fn within(bytes: u64) -> Self {
        let most = usize::try_from(bytes / CHUNK_BYTES as u64).unwrap_or(usize::MAX);
        Self { max_chunks: most.clamp(1, MAX_CHUNKS), ..Self::default() }
    }

    /// Adds a chunk of `input` whose first frame has the number `first`. Returns the number of its
    /// slot, or `None` if there are too many chunks.
    pub fn add(&mut self, chunk: CaptureChunk, input: usize, first: u64) -> Option<u32> {
        let live = chunk.frames.len() as u32;
        let number = self.vacant.pop().or_else(|| self.new_slot())?;
        self.slots[number as usize] = ChunkSlot { chunk, live, first, origins: Vec::new(), input };
        Some(number)
    }

    /// Returns the handle of frame `index` of slot `number`.
    #[inline]
    pub fn handle(number: u32, index: usize) -> FrameHandle {
        FrameHandle(number << NUMBER_BITS | index as u32)
    }

    /// Returns the chunk of a slot.
    pub fn chunk(&self, number: u32) -> &CaptureChunk {
        &self.slots[number as usize].chunk
    }

    /// Returns a stored frame.
    #[inline]
    pub fn get(&self, handle: FrameHandle) -> ChunkFrame<'_> {
        let (number, index) = parts(handle);
        let slot = &self.slots[number as usize];
        let frame = slot.chunk.frames[index];
        let bytes = slot.chunk.bytes_of(&frame);
        match slot.origins.get(index) {
            None => {
                let sequence = slot.first + index as u64;
                ChunkFrame { bytes, frame, sequence, input: slot.input, is_copy: false }
            }
            Some(&(input, sequence)) => ChunkFrame { bytes, frame, sequence, input, is_copy: true },
        }
    }

    /// Returns the bytes of a frame for modification.
    pub fn bytes_mut(&mut self, handle: FrameHandle) -> &mut [u8] {
        let (number, index) = parts(handle);
        let chunk = &mut self.slots[number as usize].chunk;
        let CaptureFrame { start, kept, .. } = chunk.frames[index];
        &mut chunk.bytes[start as usize..][..kept as usize]
    }

    /// Stores a copy of a frame; `None` if there are too many chunks.
    pub fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
        let ChunkFrame { bytes, frame, sequence, input, .. } = self.get(handle);
        let bytes = bytes.to_vec();
        let number = self.slot_for_copy(bytes.len())?;
        let slot = &mut self.slots[number as usize];
        let start = slot.chunk.bytes.len() as u32;
        slot.chunk.bytes.extend_from_slice(&bytes);
        slot.chunk.frames.push(CaptureFrame { start, ..frame });
        slot.origins.push((input, sequence));
        slot.live += 1;
        Some(Self::handle(number, slot.chunk.frames.len() - 1))
    }

    /// Frees a frame. If it was the last live frame of a chunk of an input, returns the index of
    /// the input and the chunk.
    #[inline]
    pub fn free(&mut self, handle: FrameHandle) -> Option<(usize, CaptureChunk)> {
        let number = parts(handle).0;
        let slot = &mut self.slots[number as usize];
        slot.live -= 1;
        if slot.live > 0 { None } else { self.take_empty(number) }
    }

    #[cold]
    fn take_empty(&mut self, number: u32) -> Option<(usize, CaptureChunk)> {
        let slot = std::mem::take(&mut self.slots[number as usize]);
        if self.open == Some(number) {
            self.open = None;
        }
        self.vacant.push(number);
        slot.origins.is_empty().then_some((slot.input, slot.chunk))
    }

    /// Returns the slot for a copy of `len` bytes; `None` if there are too many chunks.
    fn slot_for_copy(&mut self, len: usize) -> Option<u32> {
        let fits = |slot: &ChunkSlot| {
            let cost = slot.chunk.bytes.len() + COPY_OVERHEAD_BYTES * slot.chunk.frames.len();
            cost + COPY_OVERHEAD_BYTES + len <= CHUNK_BYTES && slot.chunk.frames.len() < MAX_FRAMES
        };
        if let Some(open) = self.open.filter(|&open| fits(&self.slots[open as usize])) {
            return Some(open);
        }
        let number = self.vacant.pop().or_else(|| self.new_slot())?;
        self.open = Some(number);
        Some(number)
    }

    fn new_slot(&mut self) -> Option<u32> {
        if self.slots.len() >= self.max_chunks {
            return None;
        }
        self.slots.push(ChunkSlot::default());
        Some(self.slots.len() as u32 - 1)
    }
}

/// Splits a handle into the slot number and the index of the frame in the slot.
#[inline]
fn parts(handle: FrameHandle) -> (u32, usize) {
    (handle.0 >> NUMBER_BITS, handle.0 as usize % MAX_FRAMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(frames: &[&[u8]]) -> CaptureChunk {
        let mut chunk = CaptureChunk::default();
        for bytes in frames {
            let (start, kept) = (chunk.bytes.len() as u32, bytes.len() as u32);
            chunk.frames.push(CaptureFrame { captured_ns: 7, start, kept, len: 100 });
            chunk.bytes.extend_from_slice(bytes);
        }
        chunk
    }

    #[test]
    fn a_chunk_comes_back_with_its_last_frame() {
        let mut chunks = ChunkTable::within(1 << 30);
        let number = chunks.add(chunk(&[b"abc", b"de"]), 1, 40).unwrap();
        let [first, second] = [0, 1].map(|index| ChunkTable::handle(number, index));
        assert_eq!(chunks.get(second).bytes, b"de");
        assert_eq!((chunks.get(second).sequence, chunks.get(second).input), (41, 1));
        assert!(chunks.free(second).is_none());
        assert_eq!(chunks.free(first).unwrap().1.bytes, b"abcde");
        assert_eq!(chunks.add(chunk(&[b"f"]), 0, 42), Some(number));
    }

    #[test]
    fn a_copy_outlives_its_original_and_is_changed_alone() {
        let mut chunks = ChunkTable::within(1 << 30);
        let number = chunks.add(chunk(&[b"abc"]), 0, 5).unwrap();
        let original = ChunkTable::handle(number, 0);
        let copy = chunks.copy(original).unwrap();
        chunks.bytes_mut(copy)[0] = b'X';
        assert_eq!(chunks.get(original).bytes, b"abc");
        assert!(chunks.free(original).is_some());
        let stored = chunks.get(copy);
        assert_eq!((stored.bytes, stored.sequence, stored.is_copy), (&b"Xbc"[..], 5, true));
        assert_eq!(stored.frame.len, 100);
        assert!(chunks.free(copy).is_none());
        assert_eq!(chunks.slots.len(), chunks.vacant.len());
    }

    #[test]
    fn copies_take_no_more_memory_than_there_is_for_all_frames() {
        let mut chunks = ChunkTable::within(3 * CHUNK_BYTES as u64);
        let number = chunks.add(chunk(&[&[9; 1000]]), 0, 0).unwrap();
        let original = ChunkTable::handle(number, 0);
        let copies: Vec<_> = std::iter::from_fn(|| chunks.copy(original)).take(10_000).collect();
        assert_eq!(copies.len(), 2 * (CHUNK_BYTES / (1000 + COPY_OVERHEAD_BYTES)));
        assert!(chunks.add(chunk(&[b"next"]), 0, 1).is_none());
        chunks.free(copies[0]);
        assert!(chunks.copy(original).is_none(), "room is given back by the chunk");
        copies[1..].iter().for_each(|copy| assert!(chunks.free(*copy).is_none()));
        assert!(chunks.copy(original).is_some());
    }

    #[test]
    fn copies_fill_one_chunk_after_the_other() {
        let mut chunks = ChunkTable::within(1 << 30);
        let number = chunks.add(chunk(&[&[9; 60_000]]), 0, 0).unwrap();
        let copies: Vec<_> =
            (0..40).map(|_| chunks.copy(ChunkTable::handle(number, 0)).unwrap()).collect();
        assert!(copies.iter().all(|&copy| chunks.get(copy).bytes == [9; 60_000]));
        copies.into_iter().for_each(|copy| assert!(chunks.free(copy).is_none()));
        assert_eq!(chunks.slots.len() - chunks.vacant.len(), 1);
    }
}
