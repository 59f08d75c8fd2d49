//! Frames that were loaded together, found again one behind the other.

use slipring_link::{Arrival, Coupled, Handle, Train};

use super::{Head, Store, UNIT, after, number, place, place_after};

/// Bytes fetched ahead of being copied at most: less than the nearest cache holds.
const FETCHED: usize = 16 << 10;
/// Bytes that are fetched together.
const LINE: usize = 64;

/// Stored frames one behind the other. See [`Store::frames`].
#[derive(Debug, Default)]
pub(crate) struct Frames<'s> {
    /// From the next one's head on.
    pub(super) rest: &'s [u8],
    /// How many.
    pub(super) left: u32,
}

impl<'s> Iterator for Frames<'s> {
    type Item = (Head, &'s [u8]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let head = Head(u64::from_ne_bytes(*self.rest.first_chunk()?));
        let (frame, rest) = self.rest.split_at_checked(place_after(head.len()))?;
        self.rest = rest;
        Some((head, frame.get(UNIT..UNIT + head.len())?))
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl Store {
    /// The frames of a train.
    #[inline(always)]
    pub(crate) fn frames(&self, train: &Train) -> Frames<'_> {
        let (number, place) = (number(train.handle), place(train.handle));
        let rest = self.chunks[number].bytes.get(place..).unwrap_or_default();
        Frames { rest, left: train.packets }
    }

    /// Has the processor fetch the frames of the first of these trains, all their cache lines at
    /// once: while it copies one short frame after another it looks only a few of them ahead, and
    /// waits for each. Long ones it finds by itself. Returns how many trains need no more thought.
    #[inline]
    pub(crate) fn fetch<'t>(&self, trains: impl Iterator<Item = &'t Train>) -> usize {
        let (mut count, mut sum, mut all) = (0, 0, 0);
        for train in trains {
            let span = train.bytes as usize + train.packets as usize * 2 * UNIT;
            sum += span;
            if sum > FETCHED && count > 0 {
                break;
            }
            count += 1;
            if span <= FETCHED {
                let chunk = &self.chunks[number(train.handle)].bytes;
                let (mut place, end) = (place(train.handle), place(train.handle) + span);
                while place < end.min(chunk.len()) {
                    all ^= chunk[place];
                    place += LINE;
                }
            }
        }
        std::hint::black_box(all);
        count
    }

    /// A stored frame, and where the one behind it is if both were loaded together.
    #[inline]
    pub(crate) fn coupled(&self, handle: Handle) -> Coupled {
        let bytes = self.chunks[number(handle)].bytes[place(handle)..].first_chunk();
        let head = Head(u64::from_ne_bytes(*bytes.expect("a handle leads to a head")));
        let arrival_ns = head.arrival_ns(self.latest_ns);
        let frame = Arrival { arrival_ns, handle, len: head.len() as u32 };
        Coupled { frame, next: after(handle, frame.len) }
    }

    /// Adds the frames of a train to `frames`.
    #[inline]
    pub(crate) fn uncouple(&self, train: &Train, frames: &mut Vec<Arrival>) {
        let mut handle = train.handle;
        frames.reserve(train.packets as usize);
        for (head, _) in self.frames(train) {
            let (arrival_ns, len) = (head.arrival_ns(self.latest_ns), head.len() as u32);
            frames.push(Arrival { arrival_ns, handle, len });
            handle = after(handle, len);
        }
    }

    /// Takes the first `count` frames off a train that has more.
    pub(crate) fn take_front(&self, train: &mut Train, count: u32) -> Train {
        let mut front = Train { packets: count, bytes: 0, ..*train };
        for _ in 0..count {
            let Coupled { frame, next } = self.coupled(train.handle);
            front.bytes += u64::from(frame.len);
            front.last_ns = frame.arrival_ns;
            train.handle = next;
        }
        train.packets -= count;
        train.bytes -= front.bytes;
        train.first_ns = self.coupled(train.handle).frame.arrival_ns;
        front
    }
}
