//! Transmit descriptors.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use slipring_pci::{BufferAddresses, DescriptorMemory, barrier};
use slipring_port::nic::TxDescriptorRings;
use slipring_ring::BufIdx;

use super::{END_OF_RING, FIRST, LAST, OWN, after};
use crate::rtl::regs::Registers;
use crate::rtl::short_udp::{LONG_ENOUGH, safe_len};

/// Shortest frame, without its checksum.
const MIN_FRAME: u32 = 60;
/// Stands for a buffer in [`RtlTx::bufs`]: the descriptor contains padding.
const PADDING: BufIdx = BufIdx(u32::MAX);

/// The transmit ring.
///
/// ```text
///   head                  shown             tail
///   | the chip's, or sent | not yet shown   | free ... |
/// ```
/// `publish` shows queued descriptors to the chip, a batch at a time. The first descriptor that is
/// not yet shown lacks OWN, so the chip stops there although the later descriptors have OWN. A
/// store of this one OWN bit makes the whole batch visible.
///
/// A frame below 60 bytes takes one more descriptor, which points to zeros: some of the chips do
/// not pad such a frame, and the bytes after it in its buffer do not belong to it. A short UDP
/// packet at which the chip could stop also takes one more descriptor. So a ring has twice as many
/// descriptors as its port has slots.
#[derive(Debug)]
pub(in crate::rtl) struct RtlTx {
    registers: Registers,
    memory: DescriptorMemory,
    addresses: BufferAddresses,
    /// The device's address of an area of zeros, which is long enough for any padding.
    zeros: u64,
    /// The buffer of each descriptor, or [`PADDING`].
    bufs: Box<[BufIdx]>,
    /// Number of descriptors.
    count: u32,
    head: u32,
    shown: u32,
    tail: u32,
    /// Number of descriptors from `head` to `tail`.
    used: u32,
    /// Number of descriptors from `shown` to `tail`.
    pending: u32,
    /// The first word of the descriptor at `shown`, without OWN. It is stored with OWN when the
    /// batch is published.
    withheld: u32,
    /// Whether the chip may stop at short UDP packets.
    lengthens_udp: bool,
    /// Minimum length of the next frame in bytes; a shorter frame is padded.
    safe_len: u32,
    /// Bytes of the frame whose last part has not been queued.
    frame_bytes: u32,
    completed: VecDeque<BufIdx>,
    /// The first descriptor of the batch shown last. If a doorbell was lost, the chip stops there.
    batch: u32,
    /// Whether a descriptor has completed since the last call of `publish`.
    has_progressed: bool,
}

impl RtlTx {
    /// Creates a ring of `count` descriptors in zeroed memory. `zeros` is the device's address of
    /// zeros.
    pub(in crate::rtl) fn new(
        registers: Registers,
        memory: DescriptorMemory,
        addresses: BufferAddresses,
        zeros: u64,
        count: u32,
    ) -> Self {
        Self {
            memory,
            addresses,
            zeros,
            bufs: vec![PADDING; count as usize].into(),
            count,
            head: 0,
            shown: 0,
            tail: 0,
            used: 0,
            pending: 0,
            withheld: 0,
            lengthens_udp: registers.chip.lengthens_udp(),
            safe_len: MIN_FRAME,
            registers,
            frame_bytes: 0,
            completed: VecDeque::with_capacity(count as usize),
            batch: 0,
            has_progressed: false,
        }
    }

    /// Rings the doorbell again if the chip has descriptors that it has not completed. Doorbells
    /// that come close to the end of a burst are sometimes lost.
    pub(in crate::rtl) fn repeat_doorbell(&mut self) {
        if self.used > self.pending {
            self.registers.ring_doorbell();
        }
    }

    #[inline(always)]
    fn write(&mut self, buf: BufIdx, address: u64, opts1: u32) {
        let i = self.tail as usize;
        let end = if self.tail + 1 == self.count { END_OF_RING } else { 0 };
        let mut opts1 = opts1 | end;
        if self.pending == 0 {
            self.withheld = opts1;
        } else {
            opts1 |= OWN;
        }
        let words = self.memory.words64();
        words[2 * i + 1].store(address, Relaxed);
        // Release: the chip reads the address once it has seen OWN.
        words[2 * i].store(opts1.into(), Release);
        self.bufs[i] = buf;
        self.tail = after(self.tail, self.count);
        self.used += 1;
        self.pending += 1;
    }

    #[inline(always)]
    fn show(&mut self) {
        barrier::before_doorbell();
        let word = u64::from(self.withheld | OWN);
        // Release: all descriptors of the batch are written before the chip sees the first one.
        self.memory.words64()[2 * self.shown as usize].store(word, Release);
        barrier::before_doorbell();
        self.batch = self.shown;
        self.shown = self.tail;
        self.pending = 0;
    }
}

impl TxDescriptorRings for RtlTx {
    fn max_part(&self) -> u32 {
        self.addresses.buf_size()
    }

    fn has_tail(&self, _buf: BufIdx) -> bool {
        false
    }

    /// Requires one more free descriptor than requested, because padding may need it.
    #[inline(always)]
    fn has_room(&mut self, count: u32) -> bool {
        self.used + count < self.count
    }

    #[inline(always)]
    fn inspects_below(&self) -> u32 {
        if self.lengthens_udp { LONG_ENOUGH } else { 0 }
    }

    fn inspect(&mut self, frame: &[u8]) {
        self.safe_len = MIN_FRAME.max(safe_len(frame) as u32);
    }

    #[inline(always)]
    fn push(&mut self, buf: BufIdx, at: u32, len: u32, more: bool) {
        // The caller has checked that the buffer belongs to the port, so it has an address.
        let Some(address) = self.addresses.of(buf) else { return };
        let first = if self.frame_bytes == 0 { FIRST } else { 0 };
        let bytes = self.frame_bytes + len;
        let is_short = !more && bytes < self.safe_len;
        let last = if more || is_short { 0 } else { LAST };
        self.write(buf, address + u64::from(at), first | last | len);
        if is_short {
            self.write(PADDING, self.zeros, LAST | (self.safe_len - bytes));
        }
        if !more {
            self.safe_len = MIN_FRAME;
        }
        self.frame_bytes = if more { bytes } else { 0 };
    }

    /// Does nothing: [`Self::has_tail`] is false for all buffers.
    fn push_tail(&mut self, _buf: BufIdx, _len: u32, _more: bool) {}

    /// Rings the doorbell for new descriptors. Otherwise, rings it again if the chip has completed,
    /// since the last call, the last descriptor before the batch shown last. There it may have
    /// stopped, because the doorbell of the batch came at that moment and was lost. A chip that
    /// does not stop there completes all that was shown. So a batch gets at most two doorbells.
    #[inline(always)]
    fn publish(&mut self) {
        let is_new = self.pending > 0;
        if is_new {
            self.show();
        }
        let may_have_stopped = self.has_progressed && self.used > 0 && self.head == self.batch;
        if is_new || may_have_stopped {
            self.registers.ring_doorbell();
        }
        self.has_progressed = false;
    }

    #[inline(always)]
    fn refresh_completed(&mut self) -> u32 {
        while self.used > self.pending {
            let i = self.head as usize;
            // Acquire: pairs with the chip's write. Afterwards, the driver owns the buffer again.
            if self.memory.words64()[2 * i].load(Acquire) as u32 & OWN != 0 {
                break;
            }
            let buf = self.bufs[i];
            if buf != PADDING {
                self.completed.push_back(buf);
            }
            self.head = after(self.head, self.count);
            self.used -= 1;
            self.has_progressed = true;
        }
        self.completed.len() as u32
    }

    #[inline(always)]
    fn peek_completed(&self, i: u32) -> BufIdx {
        self.completed[i as usize]
    }

    #[inline(always)]
    fn release_completed(&mut self, count: u32) {
        self.completed.drain(..count as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtl::ids::RtlChipId;
    use slipring_pci::{Bar, DeviceMemory, DmaMapper, MemoryRange, RegisterAccess, Width};
    use slipring_port::nic::dma::DmaMemory as _;
    use slipring_ring::{Geometry, HugePages, Region};
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    /// Counts doorbells.
    struct Doorbells(Arc<AtomicU32>);

    impl RegisterAccess for Doorbells {
        fn read(&self, _at: u64, _width: Width) -> u32 {
            0
        }

        fn write(&self, at: u64, _width: Width, _value: u32) {
            assert_eq!(at, 0x38, "the doorbell");
            self.0.fetch_add(1, Relaxed);
        }
    }

    struct Mapper;

    impl DmaMapper for Mapper {
        fn map(&self, range: &MemoryRange<'_>) -> io::Result<u64> {
            Ok(range.start)
        }

        fn unmap(&self, _at: u64, _len: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn ring(count: u32) -> (RtlTx, Arc<AtomicU32>) {
        let doorbells = Arc::<AtomicU32>::default();
        let bar = Bar::new(256, Vec::new(), Box::new(Doorbells(doorbells.clone())));
        let registers = Registers { bar, chip: RtlChipId::Rtl8168h };
        let geometry = Geometry { ring_bytes: 1 << 16, bufs: 32, buf_size: 2048 };
        let region = Region::create_shared(geometry, HugePages::Never).unwrap();
        let mut memory = DeviceMemory::new(Arc::new(Mapper));
        memory.map_buffers(&region).unwrap();
        let words = memory.alloc(4096).unwrap();
        (RtlTx::new(registers, words, memory.addresses(), 0x5000, count), doorbells)
    }

    fn opts1(ring: &RtlTx, i: usize) -> u32 {
        ring.memory.words64()[2 * i].load(Relaxed) as u32
    }

    #[test]
    fn the_first_descriptor_of_a_batch_is_handed_over_last() {
        let (mut ring, doorbells) = ring(8);
        ring.push(BufIdx(3), 0, 100, true);
        ring.push(BufIdx(4), 0, 50, false);
        ring.push(BufIdx(5), 2, 40, false);
        assert_eq!(opts1(&ring, 0), FIRST | 100, "the chip stops here");
        assert_eq!(opts1(&ring, 1), OWN | LAST | 50);
        assert_eq!([opts1(&ring, 2), opts1(&ring, 3)], [OWN | FIRST | 40, OWN | LAST | 20]);
        assert_eq!(doorbells.load(Relaxed), 0);
        ring.publish();
        assert_eq!((opts1(&ring, 0), doorbells.load(Relaxed)), (OWN | FIRST | 100, 1));
        ring.publish();
        assert_eq!(doorbells.load(Relaxed), 1, "nothing is new");
    }

    #[test]
    fn the_last_descriptor_of_the_ring_has_its_mark_and_padding_completes_no_buffer() {
        let (mut ring, doorbells) = ring(4);
        ring.push(BufIdx(3), 0, 14, false);
        ring.push(BufIdx(4), 0, 60, false);
        assert!(!ring.has_room(1), "padding would not fit");
        ring.publish();
        for i in 0..2 {
            ring.memory.words64()[2 * i].store(0, Relaxed);
        }
        assert_eq!((ring.refresh_completed(), ring.peek_completed(0)), (1, BufIdx(3)));
        ring.release_completed(1);
        ring.push(BufIdx(5), 0, 64, false);
        assert_eq!(ring.withheld, FIRST | LAST | END_OF_RING | 64);
        ring.publish();
        assert_eq!(doorbells.load(Relaxed), 2);
        ring.memory.words64()[2 * 2].store(0, Relaxed);
        assert_eq!(ring.refresh_completed(), 1);
        ring.publish();
        assert_eq!(doorbells.load(Relaxed), 3, "again, for the one that the chip did not reach");
    }

    #[test]
    fn a_batch_gets_two_doorbells_at_most_however_slowly_the_chip_completes_it() {
        let (mut ring, doorbells) = ring(64);
        let complete_one = |ring: &mut RtlTx, i: usize| {
            ring.memory.words64()[2 * i].store(0, Relaxed);
            assert_eq!(ring.refresh_completed(), 1);
            ring.release_completed(1);
            ring.publish();
            doorbells.load(Relaxed)
        };
        for i in 0..8 {
            ring.push(BufIdx(i), 0, 60, false);
        }
        ring.publish();
        let counts: Vec<_> = (0..4).map(|i| complete_one(&mut ring, i)).collect();
        assert_eq!(counts, [1; 4], "the chip has seen the doorbell");
        for i in 8..16 {
            ring.push(BufIdx(i), 0, 60, false);
        }
        ring.publish();
        let counts: Vec<_> = (4..16).map(|i| complete_one(&mut ring, i)).collect();
        assert_eq!(counts[..3], [2; 3]);
        assert_eq!(counts[3..], [3; 9], "the chip may have stopped before descriptor 8");
    }
}
