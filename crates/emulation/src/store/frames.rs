//! Iterates over frames that were stored together and are contiguous, and prefetches them.

use slipring_link::{Burst, BurstItem, FrameArrival, FrameHandle};

use slipring_ring::prefetch;

use super::{
    EmulationStore, HEADER_ALIGN, StoreHeader, after, header_offset, next_header_offset, number,
};

/// Maximum number of bytes that one call of [`EmulationStore::prefetch`] prefetches: less than the
/// L1 cache.
const MAX_PREFETCH_BYTES: usize = 16 << 10;
/// Prefetch distance in bytes: a little more than a loop over frames reads during the latency of
/// one memory access.
const PREFETCH_DISTANCE: usize = 2 << 10;
/// Bytes of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// Iterator over contiguous stored frames. See [`EmulationStore::frames`].
#[derive(Debug, Default)]
pub(crate) struct StoredFrames<'s> {
    /// The memory that begins with the next header.
    pub(super) rest: &'s [u8],
    /// Number of frames that the iterator has not returned.
    pub(super) remaining: u32,
}

impl<'s> Iterator for StoredFrames<'s> {
    type Item = (StoreHeader, &'s [u8]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let head = StoreHeader(u64::from_ne_bytes(*self.rest.first_chunk()?));
        let span = next_header_offset(head.len());
        if let Some(ahead) = self.rest.get(PREFETCH_DISTANCE..PREFETCH_DISTANCE + span) {
            prefetch_lines(ahead);
        }
        let (frame, rest) = self.rest.split_at_checked(span)?;
        self.rest = rest;
        Some((head, frame.get(HEADER_ALIGN..HEADER_ALIGN + head.len())?))
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining as usize, Some(self.remaining as usize))
    }
}

impl EmulationStore {
    /// Returns the frames of a burst.
    #[inline(always)]
    pub(crate) fn frames(&self, burst: &Burst) -> StoredFrames<'_> {
        let (number, offset) = (number(burst.handle), header_offset(burst.handle));
        let rest = self.chunks[number].bytes.get(offset..).unwrap_or_default();
        StoredFrames { rest, remaining: burst.packets }
    }

    /// Prefetches the start of the first bursts. The loop over their frames prefetches the rest.
    /// Returns for how many bursts this was done: at least one, if there are any.
    #[inline]
    pub(crate) fn prefetch<'t>(&self, bursts: impl Iterator<Item = &'t Burst>) -> usize {
        let (mut count, mut sum) = (0, 0);
        for burst in bursts {
            let span = burst.bytes as usize + burst.packets as usize * 2 * HEADER_ALIGN;
            sum += span;
            if count > 0 && (span > PREFETCH_DISTANCE || sum > MAX_PREFETCH_BYTES) {
                break;
            }
            count += 1;
            self.prefetch_at(burst.handle, span.min(PREFETCH_DISTANCE));
            if span > PREFETCH_DISTANCE {
                break;
            }
        }
        count
    }

    /// Prefetches the memory from the frame `handle` on, for a caller that walks through frames by
    /// [`Self::burst_item`]. Does nothing for the frames less than half the prefetch distance after
    /// the previous `handle` that was prefetched.
    #[inline]
    pub(crate) fn prefetch_ahead(&mut self, handle: FrameHandle) {
        if handle.0.wrapping_sub(self.prefetched.0) >= (PREFETCH_DISTANCE / 2 / HEADER_ALIGN) as u32
        {
            self.prefetched = handle;
            self.prefetch_at(handle, PREFETCH_DISTANCE);
        }
    }

    #[inline]
    fn prefetch_at(&self, handle: FrameHandle, span: usize) {
        let (chunk, offset) = (&self.chunks[number(handle)].bytes, header_offset(handle));
        prefetch_lines(&chunk[offset..(offset + span).min(chunk.len())]);
    }

    /// Returns a stored frame, and the handle of the frame after it, which is valid only if both
    /// frames are in the same burst.
    #[inline]
    pub(crate) fn burst_item(&self, handle: FrameHandle) -> BurstItem {
        let bytes = self.chunks[number(handle)].bytes[header_offset(handle)..].first_chunk();
        let head = StoreHeader(u64::from_ne_bytes(*bytes.expect("a handle leads to a head")));
        let arrival_ns = head.arrival_ns(self.latest_ns);
        let frame = FrameArrival { arrival_ns, handle, len: head.len() as u32 };
        BurstItem { frame, next: after(handle, frame.len) }
    }

    /// Appends the frames of a burst to `frames`.
    #[inline]
    pub(crate) fn split(&self, burst: &Burst, frames: &mut Vec<FrameArrival>) {
        let mut handle = burst.handle;
        frames.reserve(burst.packets as usize);
        for (head, _) in self.frames(burst) {
            let (arrival_ns, len) = (head.arrival_ns(self.latest_ns), head.len() as u32);
            frames.push(FrameArrival { arrival_ns, handle, len });
            handle = after(handle, len);
        }
    }

    /// Splits the first `count` frames off a longer burst, and returns them.
    pub(crate) fn take_front(&self, burst: &mut Burst, count: u32) -> Burst {
        let mut front = Burst { packets: count, bytes: 0, ..*burst };
        for _ in 0..count {
            let BurstItem { frame, next } = self.burst_item(burst.handle);
            front.bytes += u64::from(frame.len);
            front.last_ns = frame.arrival_ns;
            burst.handle = next;
        }
        burst.packets -= count;
        burst.bytes -= front.bytes;
        burst.first_ns = self.burst_item(burst.handle).frame.arrival_ns;
        front
    }
}

#[inline(always)]
fn prefetch_lines(bytes: &[u8]) {
    bytes.iter().step_by(CACHE_LINE_BYTES).for_each(prefetch);
}
