//! Frames that are stored one behind the other, as they come in a batch.
//!
//! The chunk is in hand while they come, so that a frame costs little more than its copy.

use slipring_link::{Handle, Train};

use super::{Head, Lane, MAX_FRAME, PLACE_BITS, Store, UNIT, copy_frame, place_after};

/// Stores frames of one batch; see [`Store::load`].
///
/// # Invariants
/// 1. `bytes` are those of chunk `number`, which has none as long, or there is no room.
/// 2. Frames of this batch lie from `start` on up to `taken`.
pub(crate) struct Loader<'s> {
    store: &'s mut Store,
    trains: &'s mut Vec<Train>,
    lane: Lane,
    number: u32,
    bytes: Box<[u8]>,
    start: usize,
    taken: usize,
    packets: u32,
    sum: u64,
    last_ns: u64,
}

impl<'s> Loader<'s> {
    #[inline]
    pub(super) fn begin(store: &'s mut Store, lane: Lane, trains: &'s mut Vec<Train>) -> Self {
        let number = store.open[lane.index()];
        let bytes = Box::default();
        let (start, taken, packets, sum, last_ns) = (0, 0, 0, 0, 0);
        let mut loader =
            Self { store, trains, lane, number, bytes, start, taken, packets, sum, last_ns };
        loader.open(number);
        loader
    }

    /// Stores a frame that arrived when those before it had, at a time that was
    /// [told](Store::tick) or before; `false` when there is no room, or for a frame of no bytes or
    /// more than [`MAX_FRAME`].
    pub(crate) fn put(&mut self, arrival_ns: u64, frame: &[u8]) -> bool {
        self.add(arrival_ns, frame) || self.add_elsewhere(arrival_ns, frame)
    }

    /// Stores frames, each with its time as for [`Self::put`], up to one that could not be stored
    /// here, which is given back.
    #[inline(always)]
    pub(crate) fn put_all<'f>(
        &mut self,
        frames: impl Iterator<Item = (u64, &'f [u8])>,
    ) -> Option<(u64, &'f [u8])> {
        let (mut packets, mut sum, mut last_ns) = (0, 0, self.last_ns);
        let mut left = None;
        let whole = self.bytes.len();
        let mut room = self.bytes.get_mut(self.taken..).unwrap_or_default();
        for (arrival_ns, frame) in frames {
            let (len, span) = (frame.len(), place_after(frame.len()));
            if len.wrapping_sub(1) >= MAX_FRAME || span > room.len() {
                left = Some((arrival_ns, frame));
                break;
            }
            let (place, rest) = room.split_at_mut(span);
            room = rest;
            lay(place, Head::new(arrival_ns, len, false), frame);
            packets += 1;
            sum += len as u64;
            last_ns = arrival_ns;
        }
        (self.taken, self.last_ns) = (whole - room.len(), last_ns);
        self.packets += packets;
        self.sum += sum;
        left
    }

    /// All of them are there.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.close();
    }

    #[inline]
    fn add(&mut self, arrival_ns: u64, frame: &[u8]) -> bool {
        self.put_all(std::iter::once((arrival_ns, frame))).is_none()
    }

    /// Goes on in another chunk.
    #[cold]
    fn add_elsewhere(&mut self, arrival_ns: u64, frame: &[u8]) -> bool {
        if frame.len().wrapping_sub(1) >= MAX_FRAME {
            return false;
        }
        self.close();
        let Some(number) = self.store.turn_over(self.lane) else { return false };
        self.open(number);
        self.add(arrival_ns, frame)
    }

    #[inline]
    fn open(&mut self, number: u32) {
        let Some(chunk) = self.store.chunks.get_mut(number as usize) else { return };
        self.bytes = std::mem::take(&mut chunk.bytes);
        (self.number, self.start, self.taken) = (number, chunk.taken, chunk.taken);
        (self.packets, self.sum) = (0, 0);
    }

    /// Gives the chunk back, and notes what is new in it.
    #[inline]
    fn close(&mut self) {
        let Some(chunk) = self.store.chunks.get_mut(self.number as usize) else { return };
        if self.bytes.is_empty() {
            return;
        }
        chunk.bytes = std::mem::take(&mut self.bytes);
        chunk.taken = self.taken;
        chunk.live += self.packets;
        if self.packets > 0 {
            let handle = Handle(self.number << PLACE_BITS | (self.start / UNIT) as u32);
            let first_ns = self.store.coupled(handle).frame.arrival_ns;
            let (packets, bytes, last_ns) = (self.packets, self.sum, self.last_ns);
            self.trains.push(Train { handle, packets, bytes, first_ns, last_ns });
        }
    }
}

/// Puts a frame down behind its head.
#[inline(always)]
fn lay(place: &mut [u8], head: Head, frame: &[u8]) {
    if let Some((first, room)) = place.split_first_chunk_mut() {
        *first = head.0.to_ne_bytes();
        copy_frame(&mut room[..frame.len()], frame);
    }
}
