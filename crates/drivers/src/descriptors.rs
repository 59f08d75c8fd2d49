//! Rings of 16-byte descriptors in memory that is shared with the device.
//!
//! ```text
//!            .---- the device's ----.
//!   index   0   1   2   3   4   5   6   7
//!                   ^ next_read         ^ next_post (the doorbell)
//!   bufs[]  the driver's record: which buffer each descriptor has
//! ```
//! Intel's chips, Realtek's and others have such rings. They differ in the bits of a descriptor and
//! in the doorbell: [`RxFormat`] and [`TxFormat`].
//!
//! # Invariants
//! 1. Only `bufs` says which buffer a descriptor has, never the device. Of the words that the
//!    device writes, only status and length are used. They are read once, and the length is
//!    checked.
//! 2. A descriptor is written only while the device does not own it.
//! 3. Descriptors complete in order.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use slipring_pci::{Bar, BufferAddresses, DescriptorMemory, barrier};
use slipring_port::nic::{RxDescriptor, RxDescriptorRings, TxDescriptorRings};
use slipring_ring::{BufIdx, Region};

/// Maximum number of sent frames for which the device reports completion only once. So slots become
/// free in portions, even if a whole ring is queued in one batch.
const FRAMES_PER_REPORT: u32 = 32;

/// A filled descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilledRx {
    /// Number of bytes of the frame in the buffer.
    pub len: u32,
    /// Whether the frame continues in the next descriptor.
    pub more: bool,
    /// Whether the frame is damaged and must not be passed on. In the last descriptor of a frame,
    /// this applies to the whole frame.
    pub is_bad: bool,
}

/// The receive descriptors of a family of chips.
pub trait RxFormat: Send + 'static {
    /// Which of the two 64-bit words contains the status. The descriptor changes its owner by a
    /// write to this word.
    const STATUS: usize;

    /// Returns the two words of a descriptor that gives a buffer to the device. `is_last` is true
    /// for the last descriptor of the ring's memory.
    fn descriptor(address: u64, len: u32, is_last: bool) -> [u64; 2];

    /// Returns what the device has written; `None` if the device still owns the descriptor.
    fn filled(status: u64) -> Option<FilledRx>;

    /// Tells the device that it owns the descriptors up to index `next`, exclusive.
    fn notify(bar: &Bar, register: u64, next: u32) {
        bar.write32(register, next);
    }
}

/// The transmit descriptors of a family of chips.
pub trait TxFormat: Send + 'static {
    /// Which of the two 64-bit words contains the status. The descriptor changes its owner by a
    /// write to this word.
    const STATUS: usize;
    /// The bits of the status word that ask the device to report completion.
    const REPORT: u64;

    /// Returns the words of a descriptor for the device, without [`Self::REPORT`].
    fn descriptor(part: &TxPart) -> [u64; 2];

    /// Returns the status word of the first of several descriptors, once the length of their frame
    /// is known. The device does not own the descriptor before that.
    fn first_of_chain(status: u64, _frame_len: u32) -> u64 {
        status
    }

    /// Returns whether the device has completed a descriptor for which a report was requested.
    fn is_done(status: u64) -> bool;

    /// Tells the device that it owns the descriptors up to index `next`, exclusive.
    fn notify(bar: &Bar, register: u64, next: u32) {
        bar.write32(register, next);
    }
}

/// A part of a frame to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxPart {
    /// The device's address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub len: u32,
    /// Whether this is the first part of its frame.
    pub is_first: bool,
    /// Whether the frame continues in the next descriptor.
    pub more: bool,
    /// Whether this is the last descriptor of the ring's memory.
    pub is_last_of_ring: bool,
}

/// The parts from which a ring is built.
#[derive(Debug, Clone)]
pub struct RingParts {
    /// The memory of the descriptors.
    pub memory: DescriptorMemory,
    /// The addresses of the buffers.
    pub addresses: BufferAddresses,
    /// Number of descriptors in the ring.
    pub size: u32,
    /// Maximum number of descriptors that the device can own at a time. For chips whose head and
    /// tail are equal in an empty ring, one less than `size`.
    pub usable: u32,
    /// Maximum number of bytes per descriptor.
    pub part: u32,
    /// The registers.
    pub bar: Bar,
    /// The register of the doorbell.
    pub doorbell: u64,
}

impl RingParts {
    fn index_after(&self, index: u32) -> u32 {
        if index + 1 == self.size { 0 } else { index + 1 }
    }

    fn index_before(&self, index: u32) -> u32 {
        if index == 0 { self.size - 1 } else { index - 1 }
    }

    fn check(&self) {
        assert!(self.size as usize * 16 <= self.memory.len(), "a ring within its memory");
        assert!(0 < self.usable && self.usable <= self.size, "a ring that can be used");
    }

    fn address(&self, buf: BufIdx) -> u64 {
        self.addresses.of(buf).expect("a buffer that the port's rings have checked")
    }

    fn load(&self, index: u32, word: usize) -> u64 {
        self.memory.words64()[index as usize * 2 + word].load(Ordering::Acquire)
    }

    /// Stores a word of a descriptor. The status word must be stored last.
    fn store(&self, index: u32, word: usize, value: u64) {
        self.memory.words64()[index as usize * 2 + word].store(value, Ordering::Release);
    }
}

/// A ring of receive descriptors.
#[derive(Debug)]
pub struct RxDescriptors<F> {
    parts: RingParts,
    bufs: Box<[BufIdx]>,
    next_post: u32,
    next_read: u32,
    /// Number of descriptors that the device owns.
    posted: u32,
    has_unpublished: bool,
    /// Descriptors that were read but not released.
    ready: VecDeque<RxDescriptor>,
    /// How many of the last entries in `ready` belong to a frame whose end has not arrived.
    unfinished: u32,
    /// Whether a part of the unfinished frame is damaged.
    is_damaged: bool,
    /// The greatest number of descriptors that the device has owned at a time. A frame of more
    /// parts is dropped, because it could never be complete.
    most_posted: u32,
    /// Number of damaged frames that were dropped.
    bad_frames: u64,
    format: std::marker::PhantomData<F>,
}

impl<F: RxFormat> RxDescriptors<F> {
    /// Creates an empty ring.
    #[must_use]
    pub fn new(parts: RingParts) -> Self {
        parts.check();
        Self {
            bufs: vec![BufIdx(0); parts.size as usize].into(),
            ready: VecDeque::with_capacity(parts.size as usize),
            parts,
            next_post: 0,
            next_read: 0,
            posted: 0,
            has_unpublished: false,
            unfinished: 0,
            is_damaged: false,
            most_posted: 0,
            bad_frames: 0,
            format: std::marker::PhantomData,
        }
    }

    /// Number of damaged frames that were dropped.
    #[must_use]
    pub fn bad_frames(&self) -> u64 {
        self.bad_frames
    }

    /// Reads the next descriptor, if the device has filled it.
    #[inline(always)]
    fn read_next(&mut self) -> Option<FilledRx> {
        if self.posted == 0 {
            return None;
        }
        let filled = F::filled(self.parts.load(self.next_read, F::STATUS))?;
        let buf = self.bufs[self.next_read as usize];
        self.next_read = self.parts.index_after(self.next_read);
        self.posted -= 1;
        let len = filled.len.min(self.parts.part);
        self.ready.push_back(RxDescriptor { buf, offset: 0, len, more: filled.more });
        self.unfinished += 1;
        // A length of 0, or one greater than the buffer, is a fault of the device, so the frame
        // counts as damaged.
        Some(FilledRx { is_bad: filled.is_bad || len != filled.len || len == 0, ..filled })
    }

    /// Drops the parts of the unfinished frame, and gives their buffers back to the device.
    #[cold]
    fn drop_parts(&mut self) {
        for _ in 0..std::mem::take(&mut self.unfinished) {
            if let Some(descriptor) = self.ready.pop_back() {
                self.post(descriptor.buf);
            }
        }
    }
}

impl<F: RxFormat> RxDescriptorRings for RxDescriptors<F> {
    fn max_part(&self) -> u32 {
        self.parts.part
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        self.posted < self.parts.usable
    }

    #[inline(always)]
    fn post(&mut self, buf: BufIdx) {
        let at = self.next_post;
        let next = self.parts.index_after(at);
        let words = F::descriptor(self.parts.address(buf), self.parts.part, next == 0);
        self.parts.store(at, 1 - F::STATUS, words[1 - F::STATUS]);
        self.parts.store(at, F::STATUS, words[F::STATUS]);
        self.bufs[at as usize] = buf;
        self.next_post = next;
        self.posted += 1;
        self.has_unpublished = true;
    }

    #[inline(always)]
    fn publish(&mut self) {
        if std::mem::take(&mut self.has_unpublished) {
            self.most_posted = self.most_posted.max(self.posted);
            barrier::before_doorbell();
            F::notify(&self.parts.bar, self.parts.doorbell, self.next_post);
        }
    }

    #[inline(always)]
    fn refresh(&mut self) -> u32 {
        // Reads at most as many descriptors as the ring has. Otherwise the loop might not end,
        // because the buffers of damaged frames are posted again immediately.
        for _ in 0..self.parts.size {
            let Some(filled) = self.read_next() else { break };
            self.is_damaged |= filled.is_bad;
            if filled.more {
                if self.unfinished >= self.most_posted {
                    // The remaining parts are dropped when the last part of the frame arrives.
                    self.is_damaged = true;
                    self.drop_parts();
                }
                continue;
            }
            if std::mem::take(&mut self.is_damaged) {
                self.bad_frames += 1;
                self.drop_parts();
            }
            self.unfinished = 0;
        }
        barrier::after_status();
        self.ready.len() as u32
    }

    #[inline(always)]
    fn peek(&self, i: u32) -> RxDescriptor {
        self.ready[i as usize]
    }

    /// Does nothing, because frames begin at byte 0 of their buffers.
    fn settle(&self, _region: &Region, _descriptor: RxDescriptor) {}

    #[inline(always)]
    fn release(&mut self, count: u32) {
        self.ready.drain(..count as usize);
    }
}

/// A ring of transmit descriptors.
#[derive(Debug)]
pub struct TxDescriptors<F> {
    parts: RingParts,
    bufs: Box<[BufIdx]>,
    /// The next descriptor to be written.
    next: u32,
    /// The oldest descriptor whose buffer has not been released.
    oldest: u32,
    /// Number of descriptors that the device owns, or that are completed but not released.
    in_use: u32,
    /// Descriptors that were read as completed but are not released.
    completed: u32,
    /// Descriptors that report completion: the index, and how many descriptors the report
    /// completes.
    reports: VecDeque<(u32, u32)>,
    /// Number of descriptors that were queued after the last one that reports completion.
    since_report: u32,
    frames_since_report: u32,
    /// The status word of the descriptor that was queued last.
    last_status: u64,
    /// The first descriptor of a frame that has several parts. The device gets it after the other
    /// descriptors of the frame.
    held_first: Option<(u32, u64)>,
    is_in_frame: bool,
    /// Number of bytes of the unfinished frame so far.
    frame_len: u32,
    has_unpublished: bool,
    format: std::marker::PhantomData<F>,
}

impl<F: TxFormat> TxDescriptors<F> {
    /// Creates an empty ring.
    #[must_use]
    pub fn new(parts: RingParts) -> Self {
        parts.check();
        Self {
            bufs: vec![BufIdx(0); parts.size as usize].into(),
            reports: VecDeque::with_capacity(parts.size as usize),
            parts,
            next: 0,
            oldest: 0,
            in_use: 0,
            completed: 0,
            since_report: 0,
            frames_since_report: 0,
            last_status: 0,
            held_first: None,
            is_in_frame: false,
            frame_len: 0,
            has_unpublished: false,
            format: std::marker::PhantomData,
        }
    }

    /// Returns whether the device owns descriptors that it has not completed.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.in_use > self.completed
    }

    /// Writes to the doorbell again, for chips that sometimes lose a write.
    pub fn notify_again(&self) {
        F::notify(&self.parts.bar, self.parts.doorbell, self.next);
    }

    /// Makes the last descriptor report completion. In formats with a report bit, the device does
    /// not own it yet: the doorbell has not been written, or the frame's first descriptor is still
    /// held back.
    #[inline(always)]
    fn report(&mut self) {
        let at = self.parts.index_before(self.next);
        self.reports.push_back((at, self.since_report));
        (self.since_report, self.frames_since_report) = (0, 0);
    }
}

impl<F: TxFormat> TxDescriptorRings for TxDescriptors<F> {
    fn max_part(&self) -> u32 {
        self.parts.part
    }

    /// Always true: a second descriptor covers the part of a buffer that the first one cannot
    /// cover, because that part may be on another page.
    fn has_tail(&self, _buf: BufIdx) -> bool {
        true
    }

    #[inline(always)]
    fn has_room(&mut self, count: u32) -> bool {
        self.in_use + count <= self.parts.usable
    }

    #[inline(always)]
    fn push(&mut self, buf: BufIdx, at: u32, len: u32, more: bool) {
        let index = self.next;
        self.next = self.parts.index_after(index);
        let is_first = !self.is_in_frame;
        self.frame_len = if is_first { len } else { self.frame_len + len };
        self.is_in_frame = more;
        let address = self.parts.address(buf) + u64::from(at);
        let is_last_of_ring = self.next == 0;
        let mut words = F::descriptor(&TxPart { address, len, is_first, more, is_last_of_ring });
        self.bufs[index as usize] = buf;
        self.in_use += 1;
        self.since_report += 1;
        self.has_unpublished = true;
        self.frames_since_report += u32::from(!more);
        if !more && self.frames_since_report >= FRAMES_PER_REPORT {
            words[F::STATUS] |= F::REPORT;
            self.report();
        }
        self.parts.store(index, 1 - F::STATUS, words[1 - F::STATUS]);
        self.last_status = words[F::STATUS];
        if is_first && more {
            self.held_first = Some((index, words[F::STATUS]));
            return;
        }
        self.parts.store(index, F::STATUS, words[F::STATUS]);
        if !more && let Some((first, status)) = self.held_first.take() {
            self.parts.store(first, F::STATUS, F::first_of_chain(status, self.frame_len));
        }
    }

    fn push_tail(&mut self, buf: BufIdx, len: u32, more: bool) {
        self.push(buf, self.parts.part, len, more);
    }

    #[inline(always)]
    fn publish(&mut self) {
        if !std::mem::take(&mut self.has_unpublished) {
            return;
        }
        if self.since_report > 0 {
            self.report();
            // In formats without a report bit, the device may already have completed and
            // overwritten the descriptor.
            if F::REPORT != 0 {
                let at = self.parts.index_before(self.next);
                self.parts.store(at, F::STATUS, self.last_status | F::REPORT);
            }
        }
        barrier::before_doorbell();
        F::notify(&self.parts.bar, self.parts.doorbell, self.next);
    }

    #[inline(always)]
    fn refresh_completed(&mut self) -> u32 {
        while let Some(&(at, count)) = self.reports.front() {
            if !F::is_done(self.parts.load(at, F::STATUS)) {
                break;
            }
            self.reports.pop_front();
            self.completed += count;
        }
        self.completed
    }

    #[inline(always)]
    fn peek_completed(&self, i: u32) -> BufIdx {
        let at = self.oldest + i;
        let size = self.parts.size;
        self.bufs[if at >= size { at - size } else { at } as usize]
    }

    #[inline(always)]
    fn release_completed(&mut self, count: u32) {
        let at = self.oldest + count;
        let size = self.parts.size;
        self.oldest = if at >= size { at - size } else { at };
        self.completed -= count;
        self.in_use -= count;
    }
}

#[cfg(test)]
mod tests;
