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
    /// Whether the device still has the last command, which it has not executed in time.
    is_late: bool,
}

impl VirtioControl {
    pub(super) fn new(queue: Virtqueue, memory: DescriptorMemory) -> Self {
        Self { queue, memory, is_late: false }
    }

    /// Executes a command that selects received frames. If the device still has an earlier command,
    /// first waits until it has executed that one, because both use the same memory.
    ///
    /// # Errors
    /// [`OpenCause`] if the device refuses the command, or does not answer it or the earlier one.
    pub(super) fn set_rx(&mut self, command: u64, is_on: bool) -> Result<(), OpenCause> {
        if self.is_late {
            self.wait_until_used("answer an earlier command")?;
        }
        let bytes = CLASS_RX | command << 8 | u64::from(is_on) << 16;
        self.memory.words64()[0].store(bytes, Ordering::Relaxed);
        // A device that writes no answer has not executed the command, so a value that is no answer
        // is stored first.
        self.answer().store(u64::MAX, Ordering::Relaxed);
        let address = self.memory.address();
        self.queue.set(0, address, COMMAND_BYTES, NEXT, 1);
        self.queue.set(1, address + ANSWER_AT, ANSWER_BYTES, WRITE, 0);
        self.queue.push(0);
        self.queue.publish();
        self.is_late = true;
        self.wait_until_used("execute a command")?;
        match self.answer().load(Ordering::Relaxed).to_le_bytes()[0] {
            ANSWER_OK => Ok(()),
            _ => Err(unresponsive("change which frames it receives")),
        }
    }

    /// Waits until the device gives back the descriptors of the last command.
    fn wait_until_used(&mut self, what: &str) -> Result<(), OpenCause> {
        let queue = std::cell::RefCell::new(&mut self.queue);
        wait_for(what, || queue.borrow_mut().pop().is_some())?;
        self.is_late = false;
        Ok(())
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
    use std::sync::{Arc, Mutex};

    use crate::fake::{memory, region};
    use crate::virtio::regs::RegisterWindow;
    use crate::virtio::rings::QueueLayout;

    const SIZE: u16 = 4;

    /// What the device does when its doorbell rings.
    enum Reaction {
        /// Executes the command, and writes this byte, or nothing.
        Answers(Option<u8>),
        /// Keeps the command.
        Waits,
    }
    use Reaction::{Answers, Waits};

    #[derive(Clone)]
    struct Device {
        queue: DescriptorMemory,
        memory: DescriptorMemory,
        /// What the device does for the next commands, in reverse order: the last element is for
        /// the next one.
        reactions: Arc<Mutex<Vec<Reaction>>>,
    }

    impl RegisterAccess for Device {
        fn read(&self, _at: u64, width: Width) -> u32 {
            width.all_ones()
        }

        fn write(&self, _at: u64, _width: Width, _value: u32) {
            let reaction = self.reactions.lock().unwrap().pop().unwrap();
            if let Answers(answer) = reaction {
                self.execute(answer);
            }
        }
    }

    impl Device {
        fn execute(&self, answer: Option<u8>) {
            if let Some(answer) = answer {
                let word = &self.memory.words64()[ANSWER_AT as usize / 8];
                let unused = word.load(Ordering::Relaxed) & !0xff;
                word.store(unused | u64::from(answer), Ordering::Relaxed);
            }
            // Every element of the used ring already names descriptor 0, so only the index
            // advances.
            let used = &self.queue.words32()[QueueLayout::of(SIZE).used / 4];
            used.store(used.load(Ordering::Relaxed) + (1 << 16), Ordering::Release);
        }
    }

    /// Creates a device with these reactions, in reverse order.
    fn device(reactions: Vec<Reaction>) -> (Device, VirtioControl) {
        let mut memory = memory(&region(64));
        let queue = memory.alloc(QueueLayout::of(SIZE).len).unwrap();
        let memory = memory.alloc(64).unwrap();
        let reactions = Arc::new(reactions.into());
        let device = Device { queue: queue.clone(), memory: memory.clone(), reactions };
        let bar = Bar::new(64, Vec::new(), Box::new(device.clone()));
        let queue = Virtqueue::new(queue, SIZE, RegisterWindow { bar, base: 0 }, 2);
        (device, VirtioControl::new(queue, memory))
    }

    #[test]
    fn a_command_that_the_device_refuses_or_does_not_answer_is_an_error() {
        let reactions = [Some(0), Some(1), None, Some(0)].map(Answers);
        let (_device, mut control) = device(reactions.into());
        for is_done in [true, false, false, true] {
            let done = control.set_rx(RX_PROMISCUOUS, true);
            assert_eq!(done.is_ok(), is_done);
        }
    }

    #[test]
    fn a_late_answer_is_not_taken_for_that_to_the_next_command() {
        let (device, mut control) = device(vec![Answers(Some(0)), Answers(Some(1)), Waits]);
        let on = CLASS_RX | RX_PROMISCUOUS << 8 | 1 << 16;
        let reason = |done: Result<(), OpenCause>| done.unwrap_err().to_string();
        let late = reason(control.set_rx(RX_PROMISCUOUS, true));
        assert!(late.contains("does not execute a command"), "{late}");
        // The device still reads the memory of that command, so a later command must not overwrite
        // it.
        let later = reason(control.set_rx(RX_PROMISCUOUS, false));
        assert!(later.contains("does not answer an earlier command"), "{later}");
        assert_eq!(device.memory.words64()[0].load(Ordering::Relaxed), on);
        assert_eq!(device.reactions.lock().unwrap().len(), 2, "no doorbell");
        device.execute(Some(0));
        let refused = reason(control.set_rx(RX_PROMISCUOUS, false));
        assert!(refused.contains("change which frames"), "{refused}");
        control.set_rx(RX_PROMISCUOUS, false).unwrap();
        assert!(device.reactions.lock().unwrap().is_empty());
    }
}
