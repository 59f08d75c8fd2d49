//! Frames on their way through emulated links: packed copies in chunks that are recycled
//! last-freed-first.
//!
//! ```text
//!   lane 0 --> chunk 3   | frame | frame | frame ....|  (open: filled from the front)
//!              chunk 1   | frame |.......| frame |...|  (full: waits for its last frame)
//!   lane 1 --> chunk 4   | frame | ..................|
//!   spare  --> chunk 2, chunk 0      the last one freed is the next one filled
//! ```
//!
//! The memory that is written next is thus the memory that was read last, and the window that
//! the processor's caches must hold is hardly longer than what is in flight. A chunk is freed
//! when its last frame is: frames that stay long would hold the memory of many that left, so
//! frames that will stay for different times go to different [lanes](Lane).
//!
//! # Invariants
//! 1. A chunk is open in one lane, or full, or spare, or vacant (its memory given back).
//! 2. A handle names its chunk and its frame's number there; it is good until it is freed, once.
//! 3. Chunks with memory never exceed the limit.
//!
//! Not for: sharing between threads.

use bytes::BytesMut;
use slipring_link::Handle;

#[cfg(test)]
mod tests;

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 1 << 20;
/// The longest frame, in bytes.
pub(crate) const MAX_FRAME: usize = 1 << 16;
/// Frames begin at multiples of this many bytes.
const UNIT: usize = 16;
/// Bits of a handle that number a frame within its chunk; the others number the chunk.
const NUMBER_BITS: u32 = 14;
/// Frames in a chunk at most.
const MAX_FRAMES: usize = 1 << NUMBER_BITS;
/// Chunks at most: 256 GiB.
const MAX_CHUNKS: usize = 1 << (32 - NUMBER_BITS);
/// Chunks that are kept though nothing is in them; the memory of further ones is given back.
const MAX_SPARE: usize = 16;
/// No chunk.
const NONE: u32 = u32::MAX;

/// Which frames share chunks: those that will stay about equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lane(u8);

impl Lane {
    /// Lanes in all.
    pub(crate) const COUNT: usize = 24;

    /// The lane of that number; beyond [`Self::COUNT`] they are shared.
    pub(crate) fn number(number: usize) -> Self {
        Self((number % Self::COUNT) as u8)
    }
}

/// The storage. See the module.
#[derive(Debug)]
pub(crate) struct Store {
    chunks: Vec<Chunk>,
    /// Chunk that each lane fills, or [`NONE`].
    open: [u32; Lane::COUNT],
    /// Empty chunks with memory, last freed last.
    spare: Vec<u32>,
    /// Chunks without memory.
    vacant: Vec<u32>,
    /// Chunks with memory at most.
    limit: usize,
    /// Copies are made through here.
    scratch: Vec<u8>,
}

/// A stretch of memory and where the frames in it lie.
#[derive(Debug, Default)]
struct Chunk {
    bytes: BytesMut,
    places: Vec<Place>,
    /// Units taken from the front.
    taken: u32,
    /// Frames not yet freed.
    live: u32,
    /// Arrival times count from here.
    base_ns: u64,
    /// Whose frames these are.
    lane: Lane,
    /// A lane fills it.
    open: bool,
}

/// Where a frame lies in its chunk, and when it arrived.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// In units.
    start: u16,
    /// One less than its bytes.
    len_less_one: u16,
    /// Nanoseconds since the chunk's base.
    arrival: u32,
}

/// A stored frame.
#[derive(Debug)]
pub(crate) struct Stored<'s> {
    /// Its bytes.
    pub(crate) bytes: &'s mut [u8],
    /// When it arrived.
    pub(crate) arrival_ns: u64,
}

impl Store {
    /// Room for about `limit_bytes`, of which nothing is taken yet.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let limit = usize::try_from(limit_bytes.div_ceil(CHUNK as u64)).unwrap_or(MAX_CHUNKS);
        Self {
            chunks: Vec::new(),
            open: [NONE; Lane::COUNT],
            spare: Vec::new(),
            vacant: Vec::new(),
            limit: limit.clamp(1, MAX_CHUNKS),
            scratch: Vec::new(),
        }
    }

    /// Takes memory for about `bytes` now, within the limit, so that the first frames do not wait
    /// for the kernel to find it.
    pub(crate) fn prepare(&mut self, bytes: u64) {
        let count = (bytes / CHUNK as u64).min(MAX_SPARE as u64);
        while (self.spare.len() as u64) < count {
            let Some(number) = self.new_chunk() else { return };
            // Written to, or it would only be promised.
            self.chunks[number as usize].bytes.fill(1);
            self.spare.push(number);
        }
    }

    /// Stores a frame of `len` bytes that `write` puts down; `None` when there is no room, or
    /// for a frame of no bytes or more than [`MAX_FRAME`].
    #[inline]
    pub(crate) fn put(
        &mut self,
        lane: Lane,
        arrival_ns: u64,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Option<Handle> {
        if len == 0 || len > MAX_FRAME {
            return None;
        }
        let mut number = self.open[usize::from(lane.0)];
        if !self.chunks.get(number as usize).is_some_and(|chunk| chunk.fits(len, arrival_ns)) {
            number = self.turn_over(lane, arrival_ns)?;
        }
        let chunk = &mut self.chunks[number as usize];
        let handle = Handle(number << NUMBER_BITS | chunk.places.len() as u32);
        write(chunk.add(len, arrival_ns));
        Some(handle)
    }

    /// A stored frame.
    #[inline]
    pub(crate) fn get(&mut self, handle: Handle) -> Stored<'_> {
        let chunk = &mut self.chunks[(handle.0 >> NUMBER_BITS) as usize];
        let place = chunk.places[handle.0 as usize % MAX_FRAMES];
        let start = usize::from(place.start) * UNIT;
        let len = usize::from(place.len_less_one) + 1;
        Stored {
            bytes: &mut chunk.bytes[start..][..len],
            arrival_ns: chunk.base_ns + u64::from(place.arrival),
        }
    }

    /// Stores a second copy of a frame, as having arrived with it; `None` when there is no room.
    pub(crate) fn copy(&mut self, handle: Handle) -> Option<Handle> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let lane = self.chunks[(handle.0 >> NUMBER_BITS) as usize].lane;
        let Stored { bytes, arrival_ns } = self.get(handle);
        scratch.clear();
        scratch.extend_from_slice(bytes);
        let copy = self.put(lane, arrival_ns, scratch.len(), |room| room.copy_from_slice(&scratch));
        self.scratch = scratch;
        copy
    }

    /// Forgets a frame.
    #[inline]
    pub(crate) fn free(&mut self, handle: Handle) {
        let number = handle.0 >> NUMBER_BITS;
        let chunk = &mut self.chunks[number as usize];
        debug_assert!(chunk.live > 0, "a handle is freed once");
        chunk.live -= 1;
        if chunk.live == 0 {
            self.emptied(number);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn held_bytes(&self) -> u64 {
        ((self.chunks.len() - self.vacant.len()) * CHUNK) as u64
    }

    /// Closes the lane's chunk and opens another.
    #[cold]
    fn turn_over(&mut self, lane: Lane, arrival_ns: u64) -> Option<u32> {
        let next = self.spare.pop().or_else(|| self.new_chunk())?;
        let last = std::mem::replace(&mut self.open[usize::from(lane.0)], next);
        if let Some(chunk) = self.chunks.get_mut(last as usize) {
            chunk.open = false;
            if chunk.live == 0 {
                self.emptied(last);
            }
        }
        let chunk = &mut self.chunks[next as usize];
        (chunk.open, chunk.base_ns, chunk.lane) = (true, arrival_ns, lane);
        Some(next)
    }

    /// A chunk with new memory, within the limit.
    fn new_chunk(&mut self) -> Option<u32> {
        if self.chunks.len() - self.vacant.len() >= self.limit {
            return None;
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            self.chunks.len() as u32 - 1
        });
        self.chunks[number as usize].bytes = BytesMut::zeroed(CHUNK);
        Some(number)
    }

    /// A chunk's last frame is gone. An open one begins again at its front, which is what keeps
    /// a link without delay within the first-level cache.
    #[cold]
    fn emptied(&mut self, number: u32) {
        let chunk = &mut self.chunks[number as usize];
        chunk.places.clear();
        chunk.taken = 0;
        if chunk.open {
            return;
        }
        self.spare.push(number);
        if self.spare.len() > MAX_SPARE {
            let coldest = self.spare.remove(0);
            self.chunks[coldest as usize] = Chunk::default();
            self.vacant.push(coldest);
        }
    }
}

impl Chunk {
    /// Whether a frame of `len` bytes finds room.
    #[inline(always)]
    fn fits(&self, len: usize, arrival_ns: u64) -> bool {
        self.taken as usize * UNIT + len <= CHUNK
            && self.places.len() < MAX_FRAMES
            && (arrival_ns.wrapping_sub(self.base_ns) <= u64::from(u32::MAX))
    }

    /// Takes room for a frame that fits.
    #[inline(always)]
    fn add(&mut self, len: usize, arrival_ns: u64) -> &mut [u8] {
        let start = self.taken;
        self.places.push(Place {
            start: start as u16,
            len_less_one: (len - 1) as u16,
            arrival: (arrival_ns - self.base_ns) as u32,
        });
        self.taken = start + len.div_ceil(UNIT) as u32;
        self.live += 1;
        &mut self.bytes[start as usize * UNIT..][..len]
    }
}
