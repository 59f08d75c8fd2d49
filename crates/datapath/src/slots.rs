//! Moves single frames from an rx ring to any tx ring.
//!
//! For programs that decide per frame. [`slipring_ring::forward`] moves whole batches to one ring.

use slipring_port::{Queue, RunError};
use slipring_ring::{RxRing, SlotFlags};

/// Maximum slots of a frame (netmap's limit).
const MAX_FRAGMENTS: u32 = 64;

/// Returns the slots of whole frames among our first `most`; a single frame may have more.
pub fn whole_frames(rx: &mut RxRing, most: u32) -> u32 {
    let count = rx.avail().min(most.max(MAX_FRAGMENTS));
    rx.whole_packets(count)
}

/// Returns the number of slots of the frame that begins at our slot `at`; whole frames end at
/// `end`.
#[inline]
pub fn slots_of(rx: &RxRing, at: u32, end: u32) -> u32 {
    let more = |i: &u32| rx.slot(*i).is_some_and(|slot| slot.flags.has(SlotFlags::MOREFRAG));
    (at..end).take_while(more).count() as u32 + 1
}

/// Returns the bytes of a frame: in place if it has one slot, else gathered in `scratch`.
#[inline]
pub fn bytes<'r>(rx: &'r mut RxRing, at: u32, slots: u32, scratch: &'r mut Vec<u8>) -> &'r [u8] {
    if slots == 1 {
        return rx.frame(at).map_or(&[], |frame| frame.bytes);
    }
    scratch.clear();
    for i in at..at + slots {
        scratch.extend_from_slice(rx.frame(i).map_or(&[], |frame| frame.bytes));
    }
    scratch
}

/// A queue whose tx ring is filled frame by frame and published once per batch.
pub struct BatchedTxQueue {
    /// The queue itself.
    pub queue: Box<dyn Queue>,
    /// Slots filled and not published.
    filled: u32,
    /// Free slots after those, as of the last check.
    free: u32,
}

impl BatchedTxQueue {
    /// Wraps a queue that has no other sender.
    pub fn new(queue: Box<dyn Queue>) -> Self {
        Self { queue, filled: 0, free: 0 }
    }

    /// Whether a frame of this many slots fits.
    #[inline]
    pub fn has_room(&mut self, slots: u32) -> bool {
        if self.free < slots {
            self.free = self.queue.rings().tx.avail() - self.filled;
        }
        slots <= self.free
    }

    /// Returns how many frames of one slot fit, at most `most`.
    #[inline]
    pub fn room(&mut self, most: u32) -> u32 {
        let fits = self.has_room(most);
        if fits { most } else { self.free }
    }

    /// Forwards the frame in slots `at..at + slots` of `rx`: swaps its buffers if both rings are in
    /// one region and `may_swap` is set, else copies. Returns false, and does nothing, if the frame
    /// does not fit.
    #[inline]
    pub fn forward_frame(&mut self, rx: &mut RxRing, at: u32, slots: u32, may_swap: bool) -> bool {
        if !self.has_room(slots) {
            return false;
        }
        let tx = self.queue.rings().tx;
        let may_swap = may_swap && rx.same_region(tx);
        for (i, j) in (at..at + slots).zip(self.filled..) {
            let Some(slot) = rx.slot(i) else { continue };
            let flags = SlotFlags(slot.flags.0 & SlotFlags::MOREFRAG.0);
            if may_swap && rx.swap(i, tx, j) {
                tx.set(j, slot.len.into(), flags | SlotFlags::BUF_CHANGED);
            } else {
                tx.write_copy(j, rx, i, flags);
            }
        }
        self.consume(slots);
        true
    }

    /// Copies a frame. Returns false, and does nothing, if it does not fit.
    pub fn copy_frame(&mut self, frame: &[u8]) -> bool {
        let size = self.queue.rings().tx.buf_size() as usize;
        let slots = frame.len().div_ceil(size).max(1) as u32;
        if !self.has_room(slots) {
            return false;
        }
        let tx = self.queue.rings().tx;
        for (i, part) in (0..slots).zip(frame.chunks(size)) {
            let j = self.filled + i;
            let more = i + 1 < slots;
            tx.write(j, part, if more { SlotFlags::MOREFRAG } else { SlotFlags::default() });
        }
        self.consume(slots);
        true
    }

    /// Publishes the filled slots, and syncs if there is anything to sync.
    pub fn flush(&mut self) -> Result<(), RunError> {
        let tx = self.queue.rings().tx;
        if self.filled > 0 {
            tx.advance(self.filled);
            (self.filled, self.free) = (0, 0);
        } else if tx.with_driver() == 0 {
            return Ok(());
        }
        self.queue.tx_sync()
    }

    /// Takes back slots of frames that have left, if room is getting short.
    pub fn reclaim(&mut self) -> Result<(), RunError> {
        let tx = self.queue.rings().tx;
        if tx.avail() >= tx.num_slots() / 2 { Ok(()) } else { self.queue.tx_sync() }
    }

    /// Whether all sent frames have left.
    pub fn is_idle(&mut self) -> bool {
        self.filled == 0 && self.queue.rings().tx.with_driver() == 0
    }

    fn consume(&mut self, slots: u32) {
        self.filled += slots;
        self.free -= slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_core::Host;
    use slipring_port::{OpenOptions, Port};

    /// Two pipes in one region: into the first, out of the second.
    fn pipes(name: &str) -> [Port; 4] {
        let names = ["{0", "}0", "{1", "}1"].map(|end| format!("{name}{end}"));
        let names = names.map(|name| slipring_core::parse(&name).unwrap());
        let options = OpenOptions { slots: 64, ..OpenOptions::default() };
        Host::new().open_all(&names, &options).unwrap().try_into().unwrap()
    }

    fn received(port: &mut Port) -> Vec<Vec<u8>> {
        port.rx_sync().unwrap();
        let mut frames = Vec::new();
        let rx = port.queues[0].rings().rx;
        while rx.packet(&mut Vec::new(), |frame| frames.push(frame.to_vec())).is_some() {}
        frames
    }

    #[test]
    fn frames_of_several_slots_pass_whole_by_exchange_and_by_copy() {
        let [mut source, mut inlet, mut outlet, mut sink] = pipes("slots");
        let sent: Vec<Vec<u8>> =
            [60usize, 5000, 2048, 2049, 9000].iter().map(|&len| vec![len as u8; len]).collect();
        for may_swap in [true, false] {
            for frame in &sent {
                assert!(source.queues[0].rings().tx.push(frame));
            }
            source.tx_sync().unwrap();
            inlet.rx_sync().unwrap();
            let mut outbox = BatchedTxQueue::new(outlet.queues.remove(0));
            let rx = inlet.queues[0].rings().rx;
            let (end, mut at, mut scratch) = (rx.avail(), 0, Vec::new());
            for frame in &sent {
                let slots = slots_of(rx, at, end);
                assert_eq!(bytes(rx, at, slots, &mut scratch), &frame[..]);
                assert!(outbox.forward_frame(rx, at, slots, may_swap));
                at += slots;
            }
            assert_eq!(at, end);
            rx.advance(at);
            outbox.flush().unwrap();
            assert_eq!(received(&mut sink), sent);
            outbox.flush().unwrap();
            outlet.queues.push(outbox.queue);
            inlet.rx_sync().unwrap();
            source.tx_sync().unwrap();
        }
    }

    #[test]
    fn a_frame_that_does_not_fit_whole_is_not_begun() {
        let [_, _, mut outlet, mut sink] = pipes("room");
        let mut outbox = BatchedTxQueue::new(outlet.queues.remove(0));
        assert!((0..62).all(|_| outbox.copy_frame(&[1; 60])));
        assert!(!outbox.copy_frame(&[2; 3000]));
        assert!(outbox.copy_frame(&[3; 60]));
        assert!(!outbox.copy_frame(&[4; 60]));
        outbox.flush().unwrap();
        assert_eq!(received(&mut sink).len(), 63);
        sink.rx_sync().unwrap();
        assert!(!outbox.is_idle());
        outbox.flush().unwrap();
        assert!(outbox.is_idle() && outbox.copy_frame(&[2; 3000]));
    }
}
