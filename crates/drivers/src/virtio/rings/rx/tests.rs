//! Tests of received frames over a queue that a test fills as a device would.

use slipring_pci::Bar;

use super::*;
use crate::fake::{Doorbell, memory, region};
use crate::virtio::regs::RegisterWindow;
use crate::virtio::rings::QueueLayout;

/// Descriptors of the queue, which has half as many slots.
const SIZE: u16 = 2048;
/// Number of buffers of the region, fewer than the queue has slots.
const BUFS: u32 = 1000;

/// A receiving side, and the device's side of its memory.
struct Rig {
    rx: VirtioRx,
    queue: DescriptorMemory,
    headers: DescriptorMemory,
    /// Number of elements that the device has read from the available ring.
    taken: u16,
    /// Number of elements that the device has written to the used ring.
    used: u16,
}

impl Rig {
    /// A device that has `posted` buffers.
    fn new(posted: u32) -> Self {
        let mut memory = memory(&region(BUFS));
        let queue = memory.alloc(QueueLayout::of(SIZE).len).unwrap();
        let headers = memory.alloc(headers_len(SIZE)).unwrap();
        let bar = Bar::new(64, Vec::new(), Box::<Doorbell>::default());
        let virtqueue = Virtqueue::new(queue.clone(), SIZE, RegisterWindow { bar, base: 0 }, 0);
        let mut rx = VirtioRx::new(virtqueue, headers.clone(), memory.addresses(), true);
        (0..posted).for_each(|buf| rx.post(BufIdx(buf)));
        rx.publish();
        Self { rx, queue, headers, taken: 0, used: 0 }
    }

    /// Number of buffers that are published to the device, and that it has not used.
    fn posted(&self) -> u16 {
        let index = &self.queue.words16()[QueueLayout::of(SIZE).avail / 2 + 1];
        index.load(Ordering::Relaxed).wrapping_sub(self.taken)
    }

    /// The device's next slot.
    fn next(&mut self) -> u16 {
        assert!(self.posted() > 0);
        let at = QueueLayout::of(SIZE).avail / 2 + 2 + usize::from(self.taken % SIZE);
        self.taken = self.taken.wrapping_add(1);
        self.queue.words16()[at].load(Ordering::Relaxed)
    }

    /// Writes an element of the used ring.
    fn put_used(&mut self, id: u32, written: u32) {
        let used = QueueLayout::of(SIZE).used;
        let at = (used + 4) / 8 + usize::from(self.used % SIZE);
        let element = u64::from(id) | u64::from(written) << 32;
        self.queue.words64()[at].store(element, Ordering::Relaxed);
        self.used = self.used.wrapping_add(1);
        self.queue.words32()[used / 4].store(u32::from(self.used) << 16, Ordering::Release);
    }

    /// Fills the device's next slot as the first one of a frame of `parts` parts.
    fn begin(&mut self, parts: u16) {
        let id = self.next();
        let word = usize::from(id) / 2 * HEADER_STRIDE_WORDS + NUM_SLOTS_WORD;
        self.headers.words16()[word].store(parts.to_le(), Ordering::Relaxed);
        self.put_used(id.into(), HEADER_BYTES + 100);
    }

    /// Fills the device's next slot as a further part of a frame.
    fn continue_frame(&mut self) {
        let id = self.next();
        self.put_used(id.into(), 100);
    }

    /// Takes what has arrived; returns the number of parts of each frame.
    fn frames(&mut self) -> Vec<u32> {
        let mut frames = vec![0];
        let count = self.rx.refresh();
        for i in 0..count {
            *frames.last_mut().unwrap() += 1;
            if !self.rx.peek(i).more {
                frames.push(0);
            }
        }
        assert_eq!(frames.pop(), Some(0), "no frame is unfinished");
        self.rx.release(count);
        frames
    }
}

#[test]
fn a_number_of_parts_that_the_device_cannot_have_damages_one_frame_only() {
    for impossible in [0, 1001, 1024, u16::MAX] {
        let mut rig = Rig::new(1000);
        rig.begin(impossible);
        rig.begin(2);
        rig.continue_frame();
        assert_eq!(rig.frames(), [2], "{impossible}");
        assert_eq!((rig.rx.bad_frames, rig.posted()), (1, 998), "its buffer is posted again");
    }
}

#[test]
fn an_invalid_slot_in_mid_frame_damages_the_frame() {
    for (parts, is_last) in [(3, false), (2, true)] {
        let mut rig = Rig::new(10);
        rig.begin(parts);
        rig.put_used(1, 100);
        if !is_last {
            rig.continue_frame();
        }
        rig.begin(1);
        assert_eq!(rig.frames(), [1]);
        // The invalid slot and the damaged frame count as two bad frames.
        assert_eq!((rig.rx.bad_frames, rig.posted()), (2, 9));
    }
}

#[test]
fn a_frame_whose_end_cannot_come_is_dropped_and_its_buffers_are_posted() {
    let mut rig = Rig::new(3);
    rig.begin(1);
    rig.begin(3);
    rig.continue_frame();
    assert_eq!(rig.posted(), 0);
    assert_eq!(rig.frames(), [1]);
    assert_eq!((rig.rx.bad_frames, rig.posted()), (1, 2));
    rig.begin(2);
    rig.continue_frame();
    assert_eq!((rig.frames(), rig.rx.bad_frames), (vec![2], 1));
}
