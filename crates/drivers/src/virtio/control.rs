//! The control queue (virtio 1.2, section 5.1.6.5), for one command at a time.

use std::sync::atomic::Ordering;

use slipring_pci::DescriptorMemory;

use super::rings::Virtqueue;
use crate::open::wait_for;

/// Class: which frames are received.
const CLASS_RX: u64 = 0;
/// Command: receive all frames, or not.
pub(super) const RX_PROMISCUOUS: u64 = 0;
/// Command: receive all multicasts, or not.
pub(super) const RX_ALL_MULTICAST: u64 = 1;
/// Bytes of a command: class, command, and its argument.
const COMMAND_BYTES: u32 = 3;
/// Offset at which the device writes its answer.
const ANSWER_AT: u64 = 32;
const ANSWER_BYTES: u32 = 1;
const NEXT: u64 = 1 << 32;
const WRITE: u64 = 2 << 32;

/// The queue and the memory of its command.
#[derive(Debug)]
pub(super) struct VirtioControl {
    queue: Virtqueue,
    memory: DescriptorMemory,
}

impl VirtioControl {
    pub(super) fn new(queue: Virtqueue, memory: DescriptorMemory) -> Self {
        Self { queue, memory }
    }

    /// Executes a command that selects received frames. If the device does not execute it, it
    /// receives additional frames, which programs can recognise by their addresses.
    pub(super) fn set_rx(&mut self, command: u64, is_on: bool) {
        let bytes = CLASS_RX | command << 8 | u64::from(is_on) << 16;
        self.memory.words64()[0].store(bytes, Ordering::Relaxed);
        let address = self.memory.address();
        self.queue.set(0, address, COMMAND_BYTES, NEXT, 1);
        self.queue.set(1, address + ANSWER_AT, ANSWER_BYTES, WRITE, 0);
        self.queue.push(0);
        self.queue.publish();
        let queue = std::cell::RefCell::new(&mut self.queue);
        let _ = wait_for("execute a command", || queue.borrow_mut().pop().is_some());
    }
}
