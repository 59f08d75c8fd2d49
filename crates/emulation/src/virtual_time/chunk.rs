//! Frames where they were read: pieces of a capture that live until their last frame has left.
//!
//! ```text
//!   chunk | header | frame 0 | header | frame 1 | ... | header | frame n |
//!          records of the file as it is; `frames` says where each frame lies
//! ```
//!
//! Nothing is copied between reading and writing. A [`Handle`] is the number of a chunk and of a
//! frame in it. Copies that links make are put into chunks of their own.
//!
//! # Invariants
//! 1. A slot is in use as long as one of its frames is live or copies are put into it.
//! 2. `live` counts the frames of the slot that were neither delivered nor lost.

use slipring_link::FrameHandle;

use crate::report::hop_times::HopEntry;

/// Bytes of a chunk. A record that does not fit gets a longer one.
pub(crate) const CHUNK_BYTES: usize = 1 << 19;
/// Bits of a handle that number a frame within its chunk; the others number the chunk.
const NUMBER_BITS: u32 = 15;
/// Frames in a chunk at most: as many as there are records without a byte.
pub(crate) const MAX_FRAMES: usize = 1 << NUMBER_BITS;
/// Chunks at most: 64 GiB.
const MAX_CHUNKS: usize = 1 << (u32::BITS - NUMBER_BITS);
/// Bytes that a copy costs beside its own: its entries here and inside the links.
const COPY_OVERHEAD_BYTES: usize = 64;

/// A piece of a capture.
#[derive(Debug, Default)]
pub struct CaptureChunk {
    /// Bytes as they were read.
    pub bytes: Vec<u8>,
    /// The frames among them.
    pub frames: Vec<CaptureFrame>,
    /// How often the capture was read through before.
    pub pass: u64,
    /// Frames among them that were stamped before their predecessors.
    pub unordered: u64,
}

/// A frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureFrame {
    /// When it was captured, in ns since 1970; never before its predecessor.
    pub captured_ns: u64,
    /// Where it begins.
    pub start: u32,
    /// Bytes that were captured.
    pub kept: u32,
    /// Bytes that it had, without FCS.
    pub len: u32,
}

impl CaptureChunk {
    /// The bytes of a frame, as far as they were captured.
    #[inline]
    pub fn bytes_of(&self, frame: &CaptureFrame) -> &[u8] {
        &self.bytes[frame.start as usize..][..frame.kept as usize]
    }
}

/// What is told of a stored frame.
#[derive(Debug, Clone, Copy)]
pub struct ChunkFrame<'c> {
    /// Its bytes, as far as they were captured.
    pub bytes: &'c [u8],
    /// When it was captured, and how long it was.
    pub frame: CaptureFrame,
    /// Its place among the frames of its input.
    pub sequence: u64,
    /// Which input it came from.
    pub input: usize,
    /// Whether a link made it.
    pub is_copy: bool,
}

impl ChunkFrame<'_> {
    /// How it came to be on its first link, where times count from `base_ns`.
    pub fn hop_entry(&self, base_ns: u64) -> HopEntry {
        HopEntry { at_ns: self.frame.captured_ns - base_ns, is_copy: self.is_copy }
    }
}

/// Chunks in use.
#[derive(Debug, Default)]
pub struct ChunkTable {
    /// How many there may be.
    max_chunks: usize,
    slots: Vec<ChunkSlot>,
    /// Slots without a chunk.
    vacant: Vec<u32>,
    /// The slot that copies are put into.
    open: Option<u32>,
}

#[derive(Debug, Default)]
struct ChunkSlot {
    chunk: CaptureChunk,
    live: u32,
    /// Sequence numbers begin here; copies have their own each.
    first: u64,
    /// Of copies: the frames that they are copies of.
    origins: Vec<(usize, u64)>,
    input: usize,
}

impl ChunkTable {
    /// None yet, and never more than fit into so many bytes.
    pub fn within(bytes: u64) -> Self {
        let most = usize::try_from(bytes / CHUNK_BYTES as u64).unwrap_or(usize::MAX);
        Self { max_chunks: most.clamp(1, MAX_CHUNKS), ..Self::default() }
    }

    /// Takes a chunk of `input` over, whose first frame has the number `first`, and returns the
    /// number of the slot; `None` when there are too many.
    pub fn add(&mut self, chunk: CaptureChunk, input: usize, first: u64) -> Option<u32> {
        let live = chunk.frames.len() as u32;
        let number = self.vacant.pop().or_else(|| self.new_slot())?;
        self.slots[number as usize] = ChunkSlot { chunk, live, first, origins: Vec::new(), input };
        Some(number)
    }

    /// The handle of the `place`-th frame of a slot.
    #[inline]
    pub fn handle(number: u32, place: usize) -> FrameHandle {
        FrameHandle(number << NUMBER_BITS | place as u32)
    }

    /// The chunk of a slot.
    pub fn chunk(&self, number: u32) -> &CaptureChunk {
        &self.slots[number as usize].chunk
    }

    /// A stored frame.
    #[inline]
    pub fn get(&self, handle: FrameHandle) -> ChunkFrame<'_> {
        let (number, place) = parts(handle);
        let slot = &self.slots[number as usize];
        let frame = slot.chunk.frames[place];
        let bytes = slot.chunk.bytes_of(&frame);
        match slot.origins.get(place) {
            None => {
                let sequence = slot.first + place as u64;
                ChunkFrame { bytes, frame, sequence, input: slot.input, is_copy: false }
            }
            Some(&(input, sequence)) => ChunkFrame { bytes, frame, sequence, input, is_copy: true },
        }
    }

    /// The bytes of a frame, to be changed.
    pub fn bytes_mut(&mut self, handle: FrameHandle) -> &mut [u8] {
        let (number, place) = parts(handle);
        let chunk = &mut self.slots[number as usize].chunk;
        let CaptureFrame { start, kept, .. } = chunk.frames[place];
        &mut chunk.bytes[start as usize..][..kept as usize]
    }

    /// Stores a second copy of a frame; `None` when there are too many chunks.
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

    /// Forgets a frame; returns the chunk, and whose it was, if it was the last one.
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

    /// The slot for a copy of `len` bytes.
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

/// Number of the slot and place in it.
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
        let [first, second] = [0, 1].map(|place| ChunkTable::handle(number, place));
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
