//! The frames that are in a network, and those that have left it.

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
    pub(crate) delivered: VecDeque<Delivery>,
    pub(crate) lost: VecDeque<(LostFrame, u64)>,
}

/// A frame in the network, with the tag that the caller has given it.
#[derive(Default)]
pub(crate) struct QueuedLinkFrame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tag: u64,
    pub(crate) arrival_ns: u64,
}

/// About how many bytes of memory a stored frame needs in addition to its own bytes.
const OVERHEAD: u64 = 64;

impl LinkFrameStore {
    pub(crate) fn new(max_bytes: u64, keep_losses: bool) -> Self {
        Self { max_bytes, keep_losses, ..Self::default() }
    }

    /// Stores a frame; `None` if the store is full.
    pub(crate) fn store(&mut self, bytes: &[u8], tag: u64, arrival_ns: u64) -> Option<FrameHandle> {
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
        (frame.tag, frame.arrival_ns) = (tag, arrival_ns);
        Some(FrameHandle(number))
    }

    pub(crate) fn get(&self, FrameHandle(number): FrameHandle) -> &QueuedLinkFrame {
        &self.frames[number as usize]
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
        let QueuedLinkFrame { bytes, tag, arrival_ns } = self.get(handle);
        let (bytes, tag, arrival_ns) = (bytes.clone(), *tag, *arrival_ns);
        self.store(&bytes, tag, arrival_ns)
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.delivered.push_back(delivery);
    }

    fn lose(&mut self, lost: LostFrame) {
        if self.keep_losses {
            let tag = self.get(lost.handle).tag;
            self.lost.push_back((lost, tag));
        }
        self.release(lost.handle);
    }
}
