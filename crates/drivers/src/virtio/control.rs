//! The control queue (virtio 1.2, section 5.1.6.5), for one command at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use slipring_pci::DescriptorMemory;
use slipring_port::OpenCause;

use super::rings::Virtqueue;
use crate::open::{unresponsive, wait_for};

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
/// The answer to a command that was executed.
const ANSWER_OK: u8 = 0;
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

    /// Executes a command that selects received frames.
    ///
    /// # Errors
    /// [`OpenCause`] if the device refuses the command, or does not answer.
    pub(super) fn set_rx(&mut self, command: u64, is_on: bool) -> Result<(), OpenCause> {
        let bytes = CLASS_RX | command << 8 | u64::from(is_on) << 16;
        self.memory.words64()[0].store(bytes, Ordering::Relaxed);
        // A device that writes no answer has not executed the command.
        self.answer().store(u64::MAX, Ordering::Relaxed);
        let address = self.memory.address();
        self.queue.set(0, address, COMMAND_BYTES, NEXT, 1);
        self.queue.set(1, address + ANSWER_AT, ANSWER_BYTES, WRITE, 0);
        self.queue.push(0);
        self.queue.publish();
        let queue = std::cell::RefCell::new(&mut self.queue);
        wait_for("execute a command", || queue.borrow_mut().pop().is_some())?;
        match self.answer().load(Ordering::Relaxed).to_le_bytes()[0] {
            ANSWER_OK => Ok(()),
            _ => Err(unresponsive("change which frames it receives")),
        }
    }

    /// The word whose first byte is the device's answer.
    fn answer(&self) -> &AtomicU64 {
        &self.memory.words64()[ANSWER_AT as usize / 8]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_pci::{Bar, RegisterAccess, Width};

    use crate::fake::{memory, region};
    use crate::virtio::regs::RegisterWindow;
    use crate::virtio::rings::QueueLayout;

    const SIZE: u16 = 4;

    /// A device that answers each command when its doorbell rings: with this byte, or not at all.
    struct Answers {
        queue: DescriptorMemory,
        memory: DescriptorMemory,
        answers: std::sync::Mutex<Vec<Option<u8>>>,
    }

    impl RegisterAccess for Answers {
        fn read(&self, _at: u64, width: Width) -> u32 {
            width.all_ones()
        }

        fn write(&self, _at: u64, _width: Width, _value: u32) {
            if let Some(answer) = self.answers.lock().unwrap().pop().unwrap() {
                let word = &self.memory.words64()[ANSWER_AT as usize / 8];
                let unused = word.load(Ordering::Relaxed) & !0xff;
                word.store(unused | u64::from(answer), Ordering::Relaxed);
            }
            // Every element of the used ring names descriptor 0.
            let used = &self.queue.words32()[QueueLayout::of(SIZE).used / 4];
            used.store(used.load(Ordering::Relaxed) + (1 << 16), Ordering::Release);
        }
    }

    #[test]
    fn a_command_that_the_device_refuses_or_does_not_answer_is_an_error() {
        let mut memory = memory(&region(64));
        let queue = memory.alloc(QueueLayout::of(SIZE).len).unwrap();
        let memory = memory.alloc(64).unwrap();
        let answers = vec![Some(0), Some(1), None, Some(0)].into();
        let device = Answers { queue: queue.clone(), memory: memory.clone(), answers };
        let bar = Bar::new(64, Vec::new(), Box::new(device));
        let queue = Virtqueue::new(queue, SIZE, RegisterWindow { bar, base: 0 }, 2);
        let mut control = VirtioControl::new(queue, memory);
        for is_done in [true, false, false, true] {
            let done = control.set_rx(RX_PROMISCUOUS, true);
            assert_eq!(done.is_ok(), is_done);
        }
    }
}
