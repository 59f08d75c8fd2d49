//! Receive descriptors.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use slipring_pci::{BufferAddresses, DescriptorMemory, barrier};
use slipring_port::nic::{RxDescriptor, RxDescriptorRings};
use slipring_ring::{BufIdx, Region};

use super::{END_OF_RING, FIRST, LAST, OWN, after};

/// The chip appends the frame's checksum, and counts it in the length.
const FCS_BYTES: u32 = 4;
/// The bits with the length of a buffer or a frame.
const LEN: u32 = 0x3fff;
/// The chip has found an error in the frame; further bits say which one.
const RES: u32 = 1 << 21;
/// The frame was longer than the chip can receive.
const RWT: u32 = 1 << 22;

/// Counts of frames that arrived with an error and were not delivered.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::rtl) struct RxErrors {
    /// Frames that were too long for the chip.
    pub(in crate::rtl) too_long: u64,
    /// Frames with a wrong checksum, truncated frames, and frames with invalid descriptors.
    pub(in crate::rtl) malformed: u64,
}

/// The receive ring.
///
/// ```text
///   scan_at          shown              post_at
///   | the chip's ... | posted, not shown | free ... |
/// ```
/// `publish` shows the posted descriptors to the chip, by their bit OWN.
///
/// `refresh` gives the buffers of erroneous frames back to the chip, so they never reach a slot.
#[derive(Debug)]
pub(in crate::rtl) struct RtlRx {
    memory: DescriptorMemory,
    addresses: BufferAddresses,
    /// The buffer of each descriptor.
    bufs: Box<[BufIdx]>,
    /// Number of descriptors.
    count: u32,
    /// Number of bytes of a buffer that the chip fills: a multiple of 8.
    size: u32,
    post_at: u32,
    shown: u32,
    scan_at: u32,
    /// Number of descriptors from `shown` to `post_at`.
    pending: u32,
    /// Number of descriptors from `scan_at` to `shown`.
    with_chip: u32,
    /// The greatest number of descriptors that the chip has owned at a time. A frame of more parts
    /// is dropped, because its end could never arrive.
    most_with_chip: u32,
    /// Buffers of a frame whose last part has not arrived.
    chain: Vec<BufIdx>,
    arrived: VecDeque<RxDescriptor>,
    errors: RxErrors,
}

impl RtlRx {
    /// Creates a ring of `count` descriptors in zeroed memory.
    pub(in crate::rtl) fn new(
        memory: DescriptorMemory,
        addresses: BufferAddresses,
        count: u32,
    ) -> Self {
        Self {
            memory,
            addresses,
            bufs: vec![BufIdx(0); count as usize].into(),
            count,
            size: addresses.buf_size().min(LEN) & !7,
            post_at: 0,
            shown: 0,
            scan_at: 0,
            pending: 0,
            with_chip: 0,
            most_with_chip: 0,
            chain: Vec::with_capacity(16),
            arrived: VecDeque::with_capacity(count as usize),
            errors: RxErrors::default(),
        }
    }

    /// Returns the counts of frames that were not delivered.
    pub(in crate::rtl) fn errors(&self) -> RxErrors {
        self.errors
    }

    /// Processes a descriptor that the chip has returned.
    #[inline(always)]
    fn take(&mut self, buf: BufIdx, opts1: u32) {
        let len = opts1 & LEN;
        let is_whole = opts1 & (FIRST | LAST | RES) == FIRST | LAST;
        if is_whole && self.chain.is_empty() && (FCS_BYTES + 1..=self.size).contains(&len) {
            let len = len - FCS_BYTES;
            self.arrived.push_back(RxDescriptor { buf, offset: 0, len, more: false });
        } else {
            self.take_part(buf, opts1);
        }
    }

    /// Processes a part of a frame that has several buffers, or a frame with an error.
    #[cold]
    fn take_part(&mut self, buf: BufIdx, opts1: u32) {
        if opts1 & FIRST != 0 && !self.chain.is_empty() {
            self.discard(0);
        }
        let is_stray = opts1 & FIRST == 0 && self.chain.is_empty();
        self.chain.push(buf);
        if is_stray {
            self.discard(opts1);
        } else if opts1 & LAST != 0 {
            self.finish(opts1);
        } else if self.chain.len() as u32 >= self.most_with_chip {
            self.discard(opts1);
        }
    }

    /// Delivers the frame in `chain`, or counts its error. The last descriptor contains the length
    /// of the whole frame.
    fn finish(&mut self, opts1: u32) {
        let (total, parts) = (opts1 & LEN, self.chain.len() as u32);
        let fits = total > FCS_BYTES && total.div_ceil(self.size) == parts;
        if opts1 & RES != 0 || !fits {
            return self.discard(opts1);
        }
        let bytes = total - FCS_BYTES;
        let chain = std::mem::take(&mut self.chain);
        for (&buf, start) in chain.iter().zip((0..).step_by(self.size as usize)) {
            if start < bytes {
                let len = (bytes - start).min(self.size);
                let more = start + len < bytes;
                self.arrived.push_back(RxDescriptor { buf, offset: 0, len, more });
            } else {
                // This buffer contains nothing but bytes of the checksum, so it goes back to the
                // chip.
                self.post(buf);
            }
        }
        self.chain = chain;
        self.chain.clear();
    }

    /// Counts the frame in `chain` as lost, and gives its buffers back to the chip.
    fn discard(&mut self, opts1: u32) {
        if opts1 & RWT != 0 {
            self.errors.too_long += 1;
        } else {
            self.errors.malformed += 1;
        }
        let chain = std::mem::take(&mut self.chain);
        for &buf in &chain {
            self.post(buf);
        }
        self.chain = chain;
        self.chain.clear();
    }
}

impl RxDescriptorRings for RtlRx {
    fn max_part(&self) -> u32 {
        self.size
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        self.with_chip + self.pending + (self.chain.len() as u32) < self.count
    }

    #[inline(always)]
    fn post(&mut self, buf: BufIdx) {
        let Some(address) = self.addresses.of(buf) else { return };
        let i = self.post_at as usize;
        self.memory.words64()[2 * i + 1].store(address, Relaxed);
        self.bufs[i] = buf;
        self.post_at = after(self.post_at, self.count);
        self.pending += 1;
    }

    /// Hands the posted descriptors to the chip. No register is written, because the chip checks
    /// its next descriptor whenever a frame arrives.
    #[inline(always)]
    fn publish(&mut self) {
        if self.pending == 0 {
            return;
        }
        barrier::before_doorbell();
        for _ in 0..self.pending {
            let end = if self.shown + 1 == self.count { END_OF_RING } else { 0 };
            let opts1 = OWN | end | self.size;
            // Release: the chip reads the address once it has seen OWN.
            self.memory.words64()[2 * self.shown as usize].store(opts1.into(), Release);
            self.shown = after(self.shown, self.count);
        }
        self.with_chip += std::mem::take(&mut self.pending);
        self.most_with_chip = self.most_with_chip.max(self.with_chip);
    }

    #[inline(always)]
    fn refresh(&mut self) -> u32 {
        while self.with_chip > 0 {
            let i = self.scan_at as usize;
            // Acquire: pairs with the chip's write of this word, which is its last write for this
            // buffer.
            let opts1 = self.memory.words64()[2 * i].load(Acquire) as u32;
            if opts1 & OWN != 0 {
                break;
            }
            barrier::after_status();
            self.scan_at = after(self.scan_at, self.count);
            self.with_chip -= 1;
            self.take(self.bufs[i], opts1);
        }
        // Gives buffers of erroneous frames back to the chip.
        self.publish();
        self.arrived.len() as u32
    }

    #[inline(always)]
    fn peek(&self, i: u32) -> RxDescriptor {
        self.arrived[i as usize]
    }

    fn settle(&self, _region: &Region, _descriptor: RxDescriptor) {}

    #[inline(always)]
    fn release(&mut self, count: u32) {
        self.arrived.drain(..count as usize);
    }
}
