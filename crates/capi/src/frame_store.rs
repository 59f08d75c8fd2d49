//! The frames in a network, and the frames that have left it.

use std::collections::VecDeque;

use slipring_link::{Carrier, Delivery, FrameHandle, LostFrame};

/// Stores frames by handle. Also has the queues of delivered and of lost frames.
#[derive(Default)]
pub(crate) struct LinkFrameStore {
    frames: Vec<QueuedLinkFrame>,
    /// The indices of unused entries. The one that was freed last is at the end.
    free: Vec<u32>,
    bytes: u64,
    max_bytes: u64,
    keep_losses: bool,
    /// For each push, the number of outcomes (deliveries and losses) that the caller has not taken
    /// yet.
    outcomes: PushOutcomes,
    pub(crate) delivered: VecDeque<Delivery>,
    lost: VecDeque<(LostFrame, PushedTag)>,
}

/// The tag of a push, and the index of its entry in [`PushOutcomes`].
#[derive(Clone, Copy, Default)]
struct PushedTag {
    tag: u64,
    push: u32,
}

/// Counts the frames of each push: the original and its copies.
#[derive(Default)]
struct PushOutcomes {
    remaining: Vec<u32>,
    /// The indices of unused entries.
    free: Vec<u32>,
}

impl PushOutcomes {
    /// Starts to count the frames of a push. The count starts at one, for the original. Returns the
    /// index of the count; `None` if 2^32 pushes are being counted.
    fn begin(&mut self) -> Option<u32> {
        if let Some(push) = self.free.pop() {
            self.remaining[push as usize] = 1;
            return Some(push);
        }
        let push = u32::try_from(self.remaining.len()).ok()?;
        self.remaining.push(1);
        Some(push)
    }

    /// Counts one more frame of a push: a copy of the original.
    fn add(&mut self, push: u32) {
        self.remaining[push as usize] += 1;
    }

    /// Records that the caller has taken an outcome of a push. Returns how many outcomes of this
    /// push the caller has not taken yet.
    fn end(&mut self, push: u32) -> u32 {
        let remaining = &mut self.remaining[push as usize];
        *remaining -= 1;
        if *remaining == 0 {
            self.free.push(push);
        }
        *remaining
    }
}

/// A frame in the network, with the tag that the caller has given it.
#[derive(Default)]
pub(crate) struct QueuedLinkFrame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) arrival_ns: u64,
    pushed: PushedTag,
}

/// About how many bytes of memory a stored frame needs in addition to its own bytes.
const OVERHEAD: u64 = 64;

impl LinkFrameStore {
    pub(crate) fn new(max_bytes: u64, keep_losses: bool) -> Self {
        Self { max_bytes, keep_losses, ..Self::default() }
    }

    /// Stores a frame that was pushed, and returns its handle; `None` if the store is full.
    pub(crate) fn store(&mut self, bytes: &[u8], tag: u64, arrival_ns: u64) -> Option<FrameHandle> {
        let push = self.outcomes.begin()?;
        let stored = self.insert(bytes, PushedTag { tag, push }, arrival_ns);
        if stored.is_none() {
            self.outcomes.end(push);
        }
        stored
    }

    fn insert(&mut self, bytes: &[u8], pushed: PushedTag, arrival_ns: u64) -> Option<FrameHandle> {
        let cost = bytes.len() as u64 + OVERHEAD;
        if self.bytes.saturating_add(cost) > self.max_bytes {
            return None;
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.frames.len()).ok()?;
                self.frames.push(QueuedLinkFrame::default());
                number
            }
        };
        self.bytes += cost;
        let frame = &mut self.frames[number as usize];
        frame.bytes.clear();
        frame.bytes.extend_from_slice(bytes);
        (frame.pushed, frame.arrival_ns) = (pushed, arrival_ns);
        Some(FrameHandle(number))
    }

    pub(crate) fn get(&self, FrameHandle(number): FrameHandle) -> &QueuedLinkFrame {
        &self.frames[number as usize]
    }

    /// Removes the next delivery for the caller. Returns it with the tag of its push, and the
    /// number of outcomes of that push that the caller has not taken yet.
    pub(crate) fn take_delivery(&mut self) -> Option<(Delivery, u64, u32)> {
        let delivery = self.delivered.pop_front()?;
        let PushedTag { tag, push } = self.get(delivery.handle).pushed;
        Some((delivery, tag, self.outcomes.end(push)))
    }

    /// Removes the next loss for the caller, as [`Self::take_delivery`] does.
    pub(crate) fn take_loss(&mut self) -> Option<(LostFrame, u64, u32)> {
        let (lost, PushedTag { tag, push }) = self.lost.pop_front()?;
        Some((lost, tag, self.outcomes.end(push)))
    }

    pub(crate) fn release(&mut self, FrameHandle(number): FrameHandle) {
        self.bytes -= self.frames[number as usize].bytes.len() as u64 + OVERHEAD;
        self.free.push(number);
    }
}

impl Carrier for LinkFrameStore {
    fn frame(&mut self, FrameHandle(number): FrameHandle) -> &mut [u8] {
        &mut self.frames[number as usize].bytes
    }

    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
        let QueuedLinkFrame { bytes, pushed, arrival_ns } = self.get(handle);
        let (bytes, pushed, arrival_ns) = (bytes.clone(), *pushed, *arrival_ns);
        let copy = self.insert(&bytes, pushed, arrival_ns)?;
        self.outcomes.add(pushed.push);
        Some(copy)
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.delivered.push_back(delivery);
    }

    fn lose(&mut self, lost: LostFrame) {
        let pushed = self.get(lost.handle).pushed;
        if self.keep_losses {
            self.lost.push_back((lost, pushed));
        } else {
            self.outcomes.end(pushed.push);
        }
        self.release(lost.handle);
    }
}
