//! Frames that were loaded together, found again one behind the other.

use slipring_link::{Arrival, Coupled, Handle, Train};

use slipring_ring::prefetch;

use super::{Head, Store, UNIT, after, number, place, place_after};

/// Bytes fetched together at most: less than the nearest cache holds.
const FETCHED: usize = 16 << 10;
/// How far ahead of what is read the processor fetches, in bytes: what is read while memory
/// answers, and a little more.
const AHEAD: usize = 2 << 10;
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
        let span = place_after(head.len());
        if let Some(ahead) = self.rest.get(AHEAD..AHEAD + span) {
            fetch_lines(ahead);
        }
        let (frame, rest) = self.rest.split_at_checked(span)?;
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

    /// Has the processor fetch what the first of these trains begin with: going from frame to frame
    /// fetches what follows. Returns how many trains need no more thought.
    #[inline]
    pub(crate) fn fetch<'t>(&self, trains: impl Iterator<Item = &'t Train>) -> usize {
        let (mut count, mut sum) = (0, 0);
        for train in trains {
            let span = train.bytes as usize + train.packets as usize * 2 * UNIT;
            sum += span;
            if count > 0 && (span > AHEAD || sum > FETCHED) {
                break;
            }
            count += 1;
            self.fetch_at(train.handle, span.min(AHEAD));
            if span > AHEAD {
                break;
            }
        }
        count
    }

    /// The same for who goes from frame to frame by [`Self::coupled`].
    #[inline]
    pub(crate) fn fetch_ahead(&mut self, handle: Handle) {
        if handle.0.wrapping_sub(self.fetched.0) >= (AHEAD / 2 / UNIT) as u32 {
            self.fetched = handle;
            self.fetch_at(handle, AHEAD);
        }
    }

    #[inline]
    fn fetch_at(&self, handle: Handle, span: usize) {
        let (chunk, place) = (&self.chunks[number(handle)].bytes, place(handle));
        fetch_lines(&chunk[place..(place + span).min(chunk.len())]);
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

#[inline(always)]
fn fetch_lines(bytes: &[u8]) {
    bytes.iter().step_by(LINE).for_each(prefetch);
}
