//! Split virtqueues (virtio 1.2, section 2.7), with the headers of frames in separate memory.
//!
//! ```text
//!   slot i:  descriptor 2i    the header of 12 bytes, in memory of its own
//!            descriptor 2i+1  the buffer; a frame in several parts continues with the next buffer
//! ```
//! The header is in separate memory, because a port's buffers have no room before their first byte.
//! So a queue of n descriptors has n/2 slots. The receiving side is in [`rx`].
//!
//! # Invariants
//! 1. The number that the device returns is checked: it must be the head of a chain that the device
//!    has.
//! 2. Each call of `pop` reads the index and the element of the used ring only once.

mod rx;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use slipring_pci::{BufferAddresses, DescriptorMemory, barrier};
use slipring_port::nic::TxDescriptorRings;
use slipring_ring::BufIdx;

use super::handshake::{self, QueueWords};
use super::regs::RegisterWindow;

pub(super) use rx::{VirtioRx, headers_len};

/// Bytes of the header before each frame.
pub(super) const HEADER_BYTES: u32 = 12;
/// Distance between two headers in bytes.
const HEADER_STRIDE: u64 = 16;
/// Descriptor flag: another descriptor follows.
const NEXT: u64 = 1 << 32;
/// Descriptor flag: the device writes to the buffer.
const WRITE: u64 = 2 << 32;
const NEXT_SHIFT: u32 = 48;
/// The value that ends a chain of slots.
const END: u16 = u16::MAX;

/// Offsets of the parts of a queue of `size` descriptors in its memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueLayout {
    pub(super) avail: usize,
    pub(super) used: usize,
    pub(super) len: usize,
}

impl QueueLayout {
    /// Returns the layout of a queue of `size` descriptors. The used ring begins four bytes after a
    /// multiple of eight, so that its elements are aligned.
    pub(super) const fn of(size: u16) -> Self {
        let size = size as usize;
        let avail = 16 * size;
        let used = (avail + 2 * size + 6).next_multiple_of(8) + 4;
        Self { avail, used, len: used + 8 * size + 6 }
    }
}

/// A queue: descriptors and both rings.
#[derive(Debug)]
pub(super) struct Virtqueue {
    pub(super) memory: DescriptorMemory,
    pub(super) layout: QueueLayout,
    pub(super) size: u16,
    pub(super) doorbell: RegisterWindow,
    /// The number of the queue, which is written to the doorbell.
    pub(super) index: u16,
    /// Index of the next element of the available ring. It counts on beyond the ring's size.
    next_avail: u16,
    /// Index of the next element of the used ring. It counts on beyond the ring's size.
    next_used: u16,
    has_unpublished: bool,
}

impl Virtqueue {
    pub(super) fn new(
        memory: DescriptorMemory,
        size: u16,
        doorbell: RegisterWindow,
        index: u16,
    ) -> Self {
        let layout = QueueLayout::of(size);
        assert!(layout.len <= memory.len() && size.is_power_of_two(), "a queue within its memory");
        let mut queue = Self {
            memory,
            layout,
            size,
            doorbell,
            index,
            next_avail: 0,
            next_used: 0,
            has_unpublished: false,
        };
        queue.set_interrupts(false);
        queue
    }

    /// Writes a descriptor.
    #[inline(always)]
    pub(super) fn set(&self, index: u16, address: u64, len: u32, flags: u64, next: u16) {
        let words = self.memory.words64();
        let at = usize::from(index) * 2;
        words[at].store(address, Ordering::Relaxed);
        let word = u64::from(len) | flags | u64::from(next) << NEXT_SHIFT;
        words[at + 1].store(word, Ordering::Relaxed);
    }

    /// Queues the chain that begins with this descriptor.
    #[inline(always)]
    pub(super) fn push(&mut self, head: u16) {
        let at = self.layout.avail / 2 + 2 + usize::from(self.next_avail & (self.size - 1));
        self.memory.words16()[at].store(head, Ordering::Relaxed);
        self.next_avail = self.next_avail.wrapping_add(1);
        self.has_unpublished = true;
    }

    /// Makes queued chains visible. Rings the doorbell unless the device has switched doorbells
    /// off.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        if !std::mem::take(&mut self.has_unpublished) {
            return;
        }
        if handshake::publish(&self.words(), self.next_avail) {
            self.doorbell.write16(0, self.index);
        }
    }

    /// Returns the next chain that the device has used: its first descriptor, and the number of
    /// bytes that the device has written.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(u32, u32)> {
        if handshake::used_index(&self.words()) == self.next_used {
            return None;
        }
        let at = (self.layout.used + 4) / 8 + usize::from(self.next_used & (self.size - 1));
        let element = self.memory.words64()[at].load(Ordering::Relaxed);
        self.next_used = self.next_used.wrapping_add(1);
        Some((element as u32, (element >> 32) as u32))
    }

    /// Switches interrupts on or off, by a word in memory, not a register.
    pub(super) fn set_interrupts(&mut self, wants: bool) {
        handshake::set_interrupts(&self.words(), wants);
    }

    #[inline(always)]
    fn words(&self) -> VirtqueueWords<'_> {
        VirtqueueWords { memory: &self.memory, layout: self.layout }
    }
}

/// The words of a queue that the device accesses, too.
struct VirtqueueWords<'q> {
    memory: &'q DescriptorMemory,
    layout: QueueLayout,
}

impl QueueWords for VirtqueueWords<'_> {
    #[inline(always)]
    fn set_flags(&self, flags: u16) {
        self.memory.words16()[self.layout.avail / 2].store(flags, Ordering::Relaxed);
    }

    #[inline(always)]
    fn set_index(&self, index: u16) {
        self.memory.words16()[self.layout.avail / 2 + 1].store(index, Ordering::Relaxed);
    }

    #[inline(always)]
    fn used(&self) -> u32 {
        self.memory.words32()[self.layout.used / 4].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn before_publishing() {
        barrier::before_doorbell();
    }

    #[inline(always)]
    fn after_reading() {
        barrier::after_status();
    }

    #[inline(always)]
    fn full_barrier() {
        barrier::full();
    }
}

/// The slots of a queue and their buffers.
#[derive(Debug)]
struct SlotTable {
    bufs: Box<[BufIdx]>,
    /// For each slot, the slot of the next part of the frame.
    next: Box<[u16]>,
    /// For each slot, whether the device has a chain that begins with it.
    is_head: Box<[bool]>,
    free: Vec<u16>,
}

impl SlotTable {
    fn new(slots: u16) -> Self {
        let count = usize::from(slots);
        Self {
            bufs: vec![BufIdx(0); count].into(),
            next: vec![END; count].into(),
            is_head: vec![false; count].into(),
            free: (0..slots).rev().collect(),
        }
    }

    /// Number of slots that the device has.
    fn taken(&self) -> u32 {
        (self.bufs.len() - self.free.len()) as u32
    }

    fn are_all_free(&self) -> bool {
        self.free.len() == self.bufs.len()
    }

    fn take(&mut self, buf: BufIdx) -> u16 {
        let slot = self.free.pop().expect("the caller has asked whether there is room");
        self.bufs[usize::from(slot)] = buf;
        self.next[usize::from(slot)] = END;
        slot
    }

    /// Takes back the chain that begins with descriptor `id`, and calls `each` with its buffers.
    /// Returns `None` if the device does not have such a chain.
    fn give_back(&mut self, id: u32, mut each: impl FnMut(BufIdx)) -> Option<()> {
        let head = u16::try_from(id / 2).ok().filter(|_| id.is_multiple_of(2))?;
        let is_head = self.is_head.get_mut(usize::from(head))?;
        if !std::mem::take(is_head) {
            return None;
        }
        let mut slot = head;
        while slot != END {
            each(self.bufs[usize::from(slot)]);
            self.free.push(slot);
            slot = self.next[usize::from(slot)];
        }
        Some(())
    }
}

/// Frames to be sent.
#[derive(Debug)]
pub(super) struct VirtioTx {
    pub(super) queue: Virtqueue,
    /// One header of zeros, used by all frames, because there are no offloads.
    header: DescriptorMemory,
    addresses: BufferAddresses,
    slots: SlotTable,
    completed: VecDeque<BufIdx>,
    /// First and last slot of the frame whose last part has not been queued; `None` if there is no
    /// such frame.
    unfinished: Option<[u16; 2]>,
}

impl VirtioTx {
    pub(super) fn new(
        queue: Virtqueue,
        header: DescriptorMemory,
        addresses: BufferAddresses,
    ) -> Self {
        let slots = SlotTable::new(queue.size / 2);
        let completed = VecDeque::with_capacity(usize::from(queue.size / 2));
        Self { queue, header, addresses, slots, completed, unfinished: None }
    }
}

impl TxDescriptorRings for VirtioTx {
    fn max_part(&self) -> u32 {
        self.addresses.buf_size()
    }

    fn has_tail(&self, _buf: BufIdx) -> bool {
        false
    }

    fn has_room(&mut self, count: u32) -> bool {
        self.slots.free.len() >= count as usize
    }

    fn push(&mut self, buf: BufIdx, at: u32, len: u32, more: bool) {
        let address = self.addresses.of(buf).expect("a buffer that the port's rings have checked");
        let slot = self.slots.take(buf);
        let [first, last] = self.unfinished.take().unwrap_or([slot; 2]);
        if first == slot {
            self.queue.set(2 * slot, self.header.address(), HEADER_BYTES, NEXT, 2 * slot + 1);
        } else {
            self.slots.next[usize::from(last)] = slot;
        }
        self.queue.set(2 * slot + 1, address + u64::from(at), len, 0, 0);
        if first != slot {
            // Links the previous part to this part, whose slot was not known before.
            self.queue.continue_at(2 * last + 1, 2 * slot + 1);
        }
        if more {
            self.unfinished = Some([first, slot]);
            return;
        }
        self.slots.is_head[usize::from(first)] = true;
        self.queue.push(2 * first);
    }

    fn push_tail(&mut self, _buf: BufIdx, _len: u32, _more: bool) {
        unreachable!("no buffer has a tail");
    }

    fn publish(&mut self) {
        self.queue.publish();
    }

    fn refresh_completed(&mut self) -> u32 {
        for _ in 0..self.queue.size {
            let Some((id, _)) = self.queue.pop() else { break };
            // An invalid chain number completes nothing.
            let _ = self.slots.give_back(id, |buf| self.completed.push_back(buf));
        }
        self.completed.len() as u32
    }

    fn peek_completed(&self, i: u32) -> BufIdx {
        self.completed[i as usize]
    }

    fn release_completed(&mut self, count: u32) {
        self.completed.drain(..count as usize);
    }
}

impl Virtqueue {
    /// Makes a descriptor continue at another descriptor.
    fn continue_at(&self, index: u16, next: u16) {
        let word = &self.memory.words64()[usize::from(index) * 2 + 1];
        let value = word.load(Ordering::Relaxed) | NEXT | u64::from(next) << NEXT_SHIFT;
        word.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_queue_are_aligned_and_do_not_overlap() {
        for size in [2, 4, 256, 1024, 32_768] {
            let layout = QueueLayout::of(size);
            let count = usize::from(size);
            assert_eq!((layout.avail, layout.used % 8), (16 * count, 4), "{size}");
            assert!(layout.avail + 6 + 2 * count <= layout.used);
            assert_eq!(layout.len, layout.used + 6 + 8 * count);
        }
    }

    #[test]
    fn a_chain_that_the_device_does_not_have_gives_nothing_back() {
        let mut table = SlotTable::new(4);
        let [first, second] = [table.take(BufIdx(7)), table.take(BufIdx(8))];
        table.next[usize::from(first)] = second;
        table.is_head[usize::from(first)] = true;
        for id in [1, 2, 4, 8, u32::MAX] {
            assert_eq!(table.give_back(id, |_| panic!("a buffer")), None, "{id}");
        }
        let mut bufs = Vec::new();
        assert_eq!(table.give_back(0, |buf| bufs.push(buf.0)), Some(()));
        assert_eq!((bufs, table.free.len()), (vec![7, 8], 4));
        assert_eq!(table.give_back(0, |_| panic!("given back twice")), None);
    }
}
