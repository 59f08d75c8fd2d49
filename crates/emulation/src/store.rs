//! Storage of frames in emulated links. Frames are packed into chunks of memory, and the chunk that
//! became empty last is filled first.
//!
//! ```text
//!   lane 0 --> chunk 3   |h|frame|h|frame  |h|frame|...|  (open: filled from the front)
//!              chunk 1   |h|frame|.........|h|frame|...|  (full: until its last frame is freed)
//!   lane 1 --> chunk 4   |h|frame|.....................|
//!   spare  --> chunk 2, chunk 0      the last one freed is the next one filled
//! ```
//!
//! The header `h` of a frame holds its length and time, so a loop over frames reads memory
//! sequentially. New frames are written to the memory that was read last, so the caches of the CPU
//! need to hold little more than the frames in flight. A chunk is freed with its last frame. One
//! frame that stays long would keep the memory of many frames that have left. So frames that stay
//! for different times go to different [lanes](LifetimeClass).
//!
//! # Invariants
//! 1. A chunk is in one of five states: open (a lane fills it), full, spare (it has no frames),
//!    vacant (it has no memory) or given to another thread ([`ChunkTransfer`]).
//! 2. A handle consists of the chunk number and the offset of the header; it is valid until the
//!    frame is freed, which happens once.
//! 3. The number of chunks with memory never exceeds the limit.
//! 4. The last `HEADER_ALIGN` bytes of a chunk stay unused. So the handle [`after`] a frame is in
//!    the same chunk, and frames with consecutive handles always share a chunk.
//!
//! Not for: sharing between threads.

use rustix::system::sysinfo;
use slipring_link::{Burst, FrameHandle};

mod chunk_transfer;
mod frames;
mod loader;
#[cfg(test)]
mod tests;

pub(crate) use chunk_transfer::{ChunkTransfer, share_chunk};
pub(crate) use frames::StoredFrames;
pub(crate) use loader::BatchLoader;

/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = 1 << 18;
/// The longest frame, in bytes.
pub(crate) const MAX_FRAME_BYTES: usize = 1 << 16;
/// Alignment and size of headers, in bytes.
const HEADER_ALIGN: usize = 8;
/// Bytes of a chunk for frames and their headers: all bytes except the last `HEADER_ALIGN`.
const USABLE_BYTES: usize = CHUNK_BYTES - HEADER_ALIGN;
/// Bits of a handle for the header's offset in its chunk; the other bits are the chunk number.
const OFFSET_BITS: u32 = (CHUNK_BYTES / HEADER_ALIGN).trailing_zeros();
/// Maximum number of chunks; together they hold 32 GiB.
const MAX_CHUNKS: usize = 1 << (u32::BITS - OFFSET_BITS);
/// Number of spare chunks that are kept although they were unused for a while; the memory of
/// further chunks is freed.
const MAX_SPARE_CHUNKS: usize = 128;
/// Interval of trims, in ns. A chunk must be unused for a whole interval before its memory is
/// freed: the number of frames in a link goes up and down with its delay, and allocating memory
/// just as often would cost more than the frames do.
const TRIM_AFTER_NS: u64 = 500_000_000;
/// The limit for frames is the machine's memory divided by this number. The rest is left to other
/// programs.
const STORAGE_MEMORY_DIVISOR: u64 = 2;
/// A chunk number that no chunk has.
const NO_CHUNK: u32 = u32::MAX;

/// A group of frames that stay in the store for about the same time. Each class has a lane: chunks
/// that hold only frames of that class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LifetimeClass(u8);

impl LifetimeClass {
    /// Number of lanes.
    pub(crate) const COUNT: usize = 32;

    /// Returns the class of lane `number` modulo [`Self::COUNT`].
    pub(crate) fn number(number: usize) -> Self {
        Self((number % Self::COUNT) as u8)
    }

    #[inline(always)]
    fn index(self) -> usize {
        usize::from(self.0) % Self::COUNT
    }
}

/// Stores the frames of one thread.
#[derive(Debug)]
pub struct EmulationStore {
    chunks: Vec<StoreChunk>,
    /// The chunk that each lane currently fills, or [`NO_CHUNK`].
    open_chunks: [u32; LifetimeClass::COUNT],
    /// Numbers of the empty chunks that still have memory, in the order in which they became empty.
    spare: Vec<u32>,
    /// Number of chunks at the front of `spare` that were not used since the last trim.
    unused: usize,
    /// Time of the next trim, in ns.
    trim_ns: u64,
    /// Numbers of the vacant chunks: they have no memory, and are not given to another thread.
    vacant: Vec<u32>,
    /// Maximum number of chunks with memory.
    limit: usize,
    /// The latest time set with `set_time`, in ns: no stored frame arrived later.
    latest_ns: u64,
    /// Buffer for making copies.
    scratch: Vec<u8>,
    /// Handle at which the last prefetch by [`Self::prefetch_ahead`] began.
    prefetched: FrameHandle,
}

/// A block of memory and the frames in it.
#[derive(Debug, Default)]
struct StoreChunk {
    bytes: Box<[u8]>,
    /// Bytes used, from the front.
    bytes_used: usize,
    /// Frames not yet freed.
    live_frames: u32,
    /// The lane of these frames.
    class: LifetimeClass,
    /// Whether a lane is filling the chunk.
    open: bool,
}

/// The header of a frame, from the lowest bit: arrival time, whether it is a copy that a link made,
/// and its length in bytes minus 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoreHeader(u64);

/// Number of bits of the arrival time in a header. The time is unambiguous for 39 hours, so a
/// frame must leave within that time.
const TIME_BITS: u32 = 47;

/// A stored frame.
#[derive(Debug)]
pub struct StoredFrame<'s> {
    /// The frame's bytes.
    pub bytes: &'s mut [u8],
    /// When the frame arrived, in ns.
    pub arrival_ns: u64,
    /// Whether the frame is a copy that a link made.
    pub is_copy: bool,
}

/// Returns the distance between the header of a frame of `len` bytes and the next header.
#[inline(always)]
fn next_header_offset(len: usize) -> usize {
    (HEADER_ALIGN + len + HEADER_ALIGN - 1) & !(HEADER_ALIGN - 1)
}

impl EmulationStore {
    /// Creates a store with a limit of about `limit_bytes`. Allocates no memory for frames yet.
    pub fn new(limit_bytes: u64) -> Self {
        let limit = usize::try_from(limit_bytes.div_ceil(CHUNK_BYTES as u64)).unwrap_or(MAX_CHUNKS);
        Self {
            chunks: Vec::new(),
            open_chunks: [NO_CHUNK; LifetimeClass::COUNT],
            spare: Vec::new(),
            unused: 0,
            trim_ns: 0,
            vacant: Vec::new(),
            limit: limit.clamp(1, MAX_CHUNKS),
            latest_ns: 0,
            scratch: Vec::new(),
            prefetched: FrameHandle(u32::MAX),
        }
    }

    /// Allocates about `bytes` now, but at most `MAX_SPARE_CHUNKS` chunks and within the limit, so
    /// that the first frames do not wait for page faults.
    pub fn prepare(&mut self, bytes: u64) {
        let count = (bytes / CHUNK_BYTES as u64).min(MAX_SPARE_CHUNKS as u64);
        while (self.spare.len() as u64) < count {
            let Some(number) = self.new_chunk() else { return };
            // The kernel backs memory with pages only when it is first written.
            self.chunks[number as usize].bytes.fill(1);
            self.spare.push(number);
        }
    }

    /// Sets the current time. The arrival time of a frame that is stored must not be later.
    #[inline]
    pub fn set_time(&mut self, now_ns: u64) {
        self.latest_ns = self.latest_ns.max(now_ns);
        if now_ns >= self.trim_ns {
            self.trim(now_ns);
        }
    }

    /// Frees memory that was unused for a while.
    #[cold]
    fn trim(&mut self, now_ns: u64) {
        for number in self.spare.drain(..self.unused.saturating_sub(MAX_SPARE_CHUNKS)) {
            self.chunks[number as usize] = StoreChunk::default();
            self.vacant.push(number);
        }
        (self.unused, self.trim_ns) = (self.spare.len(), now_ns + TRIM_AFTER_NS);
    }

    /// Takes the empty chunk that was freed last, and returns its number; `None` if there is none.
    #[inline]
    fn pop_spare(&mut self) -> Option<u32> {
        let number = self.spare.pop()?;
        self.unused = self.unused.min(self.spare.len());
        Some(number)
    }

    /// Returns a stored frame.
    #[inline]
    pub fn get(&mut self, handle: FrameHandle) -> StoredFrame<'_> {
        self.chunks[number(handle)].get(header_offset(handle), self.latest_ns)
    }

    /// Starts to store a batch of frames; `bursts` receives the stored frames, grouped into bursts.
    #[inline]
    pub(crate) fn load<'s>(
        &'s mut self,
        class: LifetimeClass,
        bursts: &'s mut Vec<Burst>,
    ) -> BatchLoader<'s> {
        BatchLoader::begin(self, class, bursts)
    }

    /// Returns the latest time that was set with [`Self::set_time`], in ns.
    #[inline]
    pub(crate) fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// Frees all frames of a burst.
    #[inline]
    pub(crate) fn free_burst(&mut self, burst: &Burst) {
        let chunk = &mut self.chunks[number(burst.handle)];
        debug_assert!(chunk.live_frames >= burst.packets, "a handle is freed once");
        chunk.live_frames -= burst.packets;
        if chunk.live_frames == 0 {
            self.recycle_chunk(number(burst.handle));
        }
    }

    /// Stores a copy of a frame, with the same arrival time; `None` if there is no memory for it.
    pub fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let class = self.chunks[number(handle)].class;
        let StoredFrame { bytes, arrival_ns, .. } = self.get(handle);
        scratch.clear();
        scratch.extend_from_slice(bytes);
        let copy = self.put_as(class, StoreHeader::new(arrival_ns, scratch.len(), true), &scratch);
        self.scratch = scratch;
        copy
    }

    /// Stores one frame, as a burst of one; `None` if there is no memory for it, or if it is empty
    /// or longer than [`MAX_FRAME_BYTES`]. For a batch, [`Self::load`] is faster.
    #[inline]
    pub(crate) fn put(
        &mut self,
        class: LifetimeClass,
        arrival_ns: u64,
        frame: &[u8],
    ) -> Option<Burst> {
        if frame.len().wrapping_sub(1) >= MAX_FRAME_BYTES {
            return None;
        }
        let handle = self.put_as(class, StoreHeader::new(arrival_ns, frame.len(), false), frame)?;
        let (bytes, first_ns, last_ns) = (frame.len() as u64, arrival_ns, arrival_ns);
        Some(Burst { handle, packets: 1, bytes, first_ns, last_ns })
    }

    #[inline]
    fn put_as(
        &mut self,
        class: LifetimeClass,
        head: StoreHeader,
        frame: &[u8],
    ) -> Option<FrameHandle> {
        let mut number = self.open_chunks[class.index()];
        let mut offset =
            self.chunks.get_mut(number as usize).and_then(|chunk| chunk.add(head, frame));
        if offset.is_none() {
            number = self.next_chunk(class)?;
            offset = self.chunks[number as usize].add(head, frame);
        }
        offset.map(|offset| FrameHandle(number << OFFSET_BITS | offset))
    }

    /// Sets the arrival time of a frame, which no longer counts as a copy.
    pub fn restamp(&mut self, handle: FrameHandle, arrival_ns: u64) {
        self.set_time(arrival_ns);
        self.chunks[number(handle)].restamp(header_offset(handle), arrival_ns);
    }

    /// Frees a frame.
    #[inline]
    pub fn free(&mut self, handle: FrameHandle) {
        if self.chunks[number(handle)].release_frame() {
            self.recycle_chunk(number(handle));
        }
    }

    /// Returns the bytes of memory of all chunks, spare ones included.
    pub fn memory_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum()
    }

    /// Closes the chunk that the lane of `class` fills, and opens another one. Returns the number
    /// of the new chunk; `None` if the limit is reached.
    #[cold]
    fn next_chunk(&mut self, class: LifetimeClass) -> Option<u32> {
        let next = self.pop_spare().or_else(|| self.new_chunk())?;
        let last = std::mem::replace(&mut self.open_chunks[class.index()], next);
        if let Some(chunk) = self.chunks.get_mut(last as usize) {
            chunk.open = false;
            if chunk.live_frames == 0 {
                self.recycle_chunk(last as usize);
            }
        }
        let chunk = &mut self.chunks[next as usize];
        (chunk.open, chunk.class) = (true, class);
        Some(next)
    }

    /// Allocates a chunk and returns its number; `None` if the limit is reached.
    fn new_chunk(&mut self) -> Option<u32> {
        if self.chunks.len() - self.vacant.len() >= self.limit {
            return None;
        }
        let number = self.new_number();
        self.chunks[number as usize].bytes = vec![0; CHUNK_BYTES].into_boxed_slice();
        Some(number)
    }

    /// Returns an unused chunk number, whose chunk has no memory yet.
    fn new_number(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.chunks.push(StoreChunk::default());
            self.chunks.len() as u32 - 1
        })
    }

    /// Makes a chunk without frames available again. An open chunk stays open and is filled from
    /// the front again, so the frames of a link without delay stay within the L1 cache.
    #[cold]
    fn recycle_chunk(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        chunk.bytes_used = 0;
        if chunk.open {
            return;
        }
        self.spare.push(number as u32);
    }
}

/// Returns the handle of the frame stored directly after frame `handle` of `len` bytes.
#[inline(always)]
pub(crate) fn after(handle: FrameHandle, len: u32) -> FrameHandle {
    FrameHandle(handle.0 + (next_header_offset(len as usize) / HEADER_ALIGN) as u32)
}

#[inline(always)]
fn number(handle: FrameHandle) -> usize {
    (handle.0 >> OFFSET_BITS) as usize
}

/// Returns the offset of a frame's header in its chunk, in bytes.
#[inline(always)]
fn header_offset(handle: FrameHandle) -> usize {
    (handle.0 as usize & (CHUNK_BYTES / HEADER_ALIGN - 1)) * HEADER_ALIGN
}

impl StoreChunk {
    /// Appends a frame if it fits. Returns the offset of its header, in units of the alignment.
    #[inline]
    fn add(&mut self, head: StoreHeader, frame: &[u8]) -> Option<u32> {
        let (start, end) = (self.bytes_used, self.bytes_used + HEADER_ALIGN + frame.len());
        let usable = self.bytes.get_mut(..USABLE_BYTES)?;
        let (place, room) = usable.get_mut(start..end)?.split_first_chunk_mut()?;
        *place = head.0.to_ne_bytes();
        copy_frame(room, frame);
        self.bytes_used = start + next_header_offset(frame.len());
        self.live_frames += 1;
        Some((start / HEADER_ALIGN) as u32)
    }

    #[inline(always)]
    fn get(&mut self, offset: usize, latest_ns: u64) -> StoredFrame<'_> {
        let (head, room) =
            self.bytes[offset..].split_first_chunk_mut().expect("a head is whole, as it was put");
        let head = StoreHeader(u64::from_ne_bytes(*head));
        let (arrival_ns, is_copy) = (head.arrival_ns(latest_ns), head.is_copy());
        StoredFrame { bytes: &mut room[..head.len()], arrival_ns, is_copy }
    }

    fn restamp(&mut self, offset: usize, arrival_ns: u64) {
        let head = self.bytes[offset..].first_chunk_mut().expect("a head is whole, as it was put");
        let len = StoreHeader(u64::from_ne_bytes(*head)).len();
        *head = StoreHeader::new(arrival_ns, len, false).0.to_ne_bytes();
    }

    /// Releases one frame. Returns whether it was the last live frame of the chunk.
    #[inline(always)]
    fn release_frame(&mut self) -> bool {
        debug_assert!(self.live_frames > 0, "a handle is freed once");
        self.live_frames -= 1;
        self.live_frames == 0
    }
}

impl StoreHeader {
    const ARRIVAL_MASK: u64 = (1 << TIME_BITS) - 1;

    #[inline(always)]
    fn new(arrival_ns: u64, len: usize, is_copy: bool) -> Self {
        let copy = u64::from(is_copy) << TIME_BITS;
        Self(arrival_ns & Self::ARRIVAL_MASK | copy | (len as u64 - 1) << (TIME_BITS + 1))
    }

    /// Returns the arrival time in ns, given the latest time that was set in the store.
    #[inline(always)]
    pub(crate) fn arrival_ns(self, latest_ns: u64) -> u64 {
        latest_ns - (latest_ns.wrapping_sub(self.0) & Self::ARRIVAL_MASK)
    }

    /// Returns how many ns later than `first` this frame arrived; valid for differences below 4 s.
    #[inline(always)]
    pub(crate) fn ns_after(self, first: Self) -> u32 {
        (self.0 as u32).wrapping_sub(first.0 as u32)
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        (self.0 >> (TIME_BITS + 1)) as usize + 1
    }

    #[inline(always)]
    pub(crate) fn is_copy(self) -> bool {
        self.0 & 1 << TIME_BITS != 0
    }
}

/// Copies a frame to a buffer of the same length. About half of all frames are about as long as a
/// cache line, for which a call of `memcpy` costs more than the copy itself: they are copied as one
/// or two parts of a fixed size, which may overlap.
///
/// # Panics
/// If the two lengths differ.
#[inline(always)]
pub(crate) fn copy_frame(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "a frame is copied whole");
    match from.len() {
        64 => copy_ends::<64>(to, from),
        33..64 => copy_ends::<32>(to, from),
        65..=128 => copy_ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first `N` and the last `N` bytes: all bytes if there are `N` to `2 * N`.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if from.len() > N
        && let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>())
    {
        *to = *from;
    }
}

/// Returns the limit of the memory for frames on this machine, in bytes.
pub fn storage_bytes() -> u64 {
    let memory = sysinfo();
    let bytes = memory.totalram.saturating_mul(memory.mem_unit.into());
    bytes / STORAGE_MEMORY_DIVISOR
}
