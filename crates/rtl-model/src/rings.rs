//! The descriptor rings, which send and receive frames.
//!
//! A descriptor is 16 bytes: two words of options, and the address of the buffer. An RTL8125 also
//! has a transmit descriptor of 32 bytes, whose second half is not used here. The device owns a
//! descriptor while OWN is set. EOR marks the last one of the ring; FS and LS the first and the
//! last one of a packet.

use std::collections::VecDeque;

use crate::device::Device;
use crate::filter::{Destination, accepts};
use crate::interrupts::Interrupts;
use crate::violations::{Access, Violation};

const OWN: u32 = 1 << 31;
const END_OF_RING: u32 = 1 << 30;
const FIRST: u32 = 1 << 29;
const LAST: u32 = 1 << 28;
/// Bits of the first word by which a driver asks the chip to segment.
const TX_SEGMENT: u32 = 0x0c00_0000;
/// Bits of the second word by which a driver asks for checksums and VLAN tags.
const TX_OFFLOADS: u32 = 0xf002_0000;
const RX_LEN: u32 = 0x3fff;
const DESCRIPTOR_BYTES: u64 = 16;
const LONG_DESCRIPTOR_BYTES: u64 = 32;
/// The MAC-OCP word by which a driver chooses the transmit descriptors of an RTL8125.
const TX_FORMAT: u32 = 0xeb58;
const TX_FORMAT_LONG: u16 = 1;
/// Number of descriptors of the longest ring.
const MAX_RING: u32 = 4096;
/// Number of descriptors of the longest packet.
const MAX_CHAIN: usize = 64;
/// Maximum number of frames per call, so that a call ends, whatever descriptors the driver writes.
const MAX_FRAMES: u32 = 65_536;
/// The value that the chip stores as a frame's checksum. No test needs the correct one.
const FCS: [u8; 4] = [0xfc; 4];

/// An error bit of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RxFault {
    /// The checksum is wrong.
    Crc,
    /// The frame has fewer than 64 bytes.
    Runt,
    /// The frame was longer than the receiver can accept.
    TooLong,
    /// An error without a name (RES alone).
    Other,
}

impl RxFault {
    /// Returns the error bits of a descriptor. RES is set for every error.
    fn bits(self) -> u32 {
        let detail = match self {
            Self::Crc => 1 << 19,
            Self::Runt => 1 << 20,
            Self::TooLong => 1 << 22,
            Self::Other => 0,
        };
        1 << 21 | detail
    }
}

/// Faults that a test has requested, each for a number of future events.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost_doorbells: u32,
    pub(crate) fifo_overflows: u32,
    pub(crate) tx_errors: u32,
    pub(crate) rx: VecDeque<RxFault>,
}

/// A ring, and the device's position in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring {
    pub(crate) base: u64,
    pub(crate) index: u32,
    /// Number of bytes from one descriptor to the next.
    pub(crate) stride: u64,
}

impl Default for Ring {
    fn default() -> Self {
        Self { base: 0, index: 0, stride: DESCRIPTOR_BYTES }
    }
}

impl Ring {
    fn address(self) -> u64 {
        self.base.wrapping_add(u64::from(self.index) * self.stride)
    }
}

/// A descriptor as it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor {
    at: u64,
    index: u32,
    opts1: u32,
    opts2: u32,
    buffer: u64,
}

impl Device {
    /// Sends the frames whose descriptors the driver has handed over.
    pub(crate) fn transmit(&mut self) {
        if !self.is_transmitting() || self.phy.link().is_none() {
            return;
        }
        let (mut events, mut chain) = (0, std::mem::take(&mut self.chain));
        let no_close = self.is_tx_no_close();
        self.tx.stride = self.tx_descriptor_bytes();
        for _ in 0..MAX_FRAMES {
            if no_close && self.tx_closed == self.tx_tail {
                break;
            }
            let mut ring = self.tx;
            let Some(first) = self.fetch(&mut ring).filter(|d| d.opts1 & OWN != 0) else { break };
            if self.gather(first, &mut ring, &mut chain).is_none() {
                break;
            }
            self.tx = ring;
            events |= self.send();
            if no_close {
                self.tx_closed = self.tx_closed.wrapping_add(chain.len() as u16);
            } else if !chain.iter().all(|d| self.write_back(d.at, d.opts1 & !OWN)) {
                break;
            }
        }
        self.chain = chain;
        if events != 0 {
            self.interrupts.raise(events | Interrupts::TX_NO_DESCRIPTOR);
        }
    }

    fn tx_descriptor_bytes(&self) -> u64 {
        let is_long = self.chip.is_8125() && self.mac_ocp.get(TX_FORMAT) & TX_FORMAT_LONG != 0;
        if is_long { LONG_DESCRIPTOR_BYTES } else { DESCRIPTOR_BYTES }
    }

    /// Collects the bytes of a packet in `self.frame`, and its descriptors in `chain`. Returns
    /// `None` if the descriptors are invalid, or memory is not mapped.
    fn gather(
        &mut self,
        first: Descriptor,
        ring: &mut Ring,
        chain: &mut Vec<Descriptor>,
    ) -> Option<()> {
        self.frame.clear();
        chain.clear();
        let mut next = first;
        loop {
            let len = (next.opts1 & 0xffff) as usize;
            let starts = (next.opts1 & FIRST != 0) == chain.is_empty();
            if next.opts1 & OWN == 0 || !starts || len == 0 || chain.len() == MAX_CHAIN {
                self.stop_on(Violation::BadTxChain { index: next.index });
                return None;
            }
            if next.opts1 & TX_SEGMENT != 0 || next.opts2 & TX_OFFLOADS != 0 {
                self.violations.add(Violation::UnmodelledOffload { index: next.index });
            }
            let at = self.frame.len();
            self.frame.resize(at + len, 0);
            if !self.dma.read(next.buffer, &mut self.frame[at..]) {
                self.dma_fault(next.buffer, len as u64, Access::Read);
                return None;
            }
            chain.push(next);
            if next.opts1 & LAST != 0 {
                return Some(());
            }
            next = self.fetch(ring)?;
        }
    }

    /// Sends the collected frame; returns the interrupts that this causes.
    fn send(&mut self) -> u32 {
        let len = self.frame.len();
        if len < 60 {
            if self.chip.sends_runts() {
                self.violations.add(Violation::ShortFrame { len });
            }
            self.frame.resize(60, 0);
        }
        if self.chip.stops_at_short_ptp() && is_short_ptp(&self.frame[..len]) {
            self.stop_on(Violation::ShortPtp { len });
        }
        if self.faults.tx_errors > 0 {
            self.faults.tx_errors -= 1;
            self.tally.tx_errors += 1;
            return Interrupts::TX_ERROR;
        }
        if self.wire.send(&self.frame) {
            self.tally.tx_frames += 1;
            self.tally.tx_bytes += self.frame.len() as u64;
            Interrupts::TX_OK
        } else {
            self.tally.tx_errors += 1;
            Interrupts::TX_ERROR
        }
    }

    /// Receives the frames that have arrived over the wire.
    pub(crate) fn receive(&mut self) {
        let mut frame = std::mem::take(&mut self.received);
        let mut events = 0;
        for _ in 0..MAX_FRAMES {
            if self.is_gone || !self.wire.receive(&mut frame) {
                break;
            }
            events |= self.accept(&frame);
        }
        self.received = frame;
        if events != 0 {
            self.interrupts.raise(events);
        }
    }

    /// Delivers or drops a frame; returns the interrupts that this causes.
    fn accept(&mut self, frame: &[u8]) -> u32 {
        if !self.is_receiving() || self.phy.link().is_none() {
            self.tally.rx_stopped += 1;
            return 0;
        }
        if self.faults.fifo_overflows > 0 {
            self.faults.fifo_overflows -= 1;
            self.tally.rx_missed += 1;
            return Interrupts::RX_FIFO_OVERFLOW;
        }
        if !accepts(self.rx_config(), self.own_address(), self.multicast(), frame) {
            self.tally.rx_filtered += 1;
            return 0;
        }
        self.deliver(frame)
    }

    fn deliver(&mut self, frame: &[u8]) -> u32 {
        let total = frame.len() + FCS.len();
        let fault = match self.faults.rx.pop_front() {
            None if total > self.rx_max_size() => Some(RxFault::TooLong),
            fault => fault,
        };
        // A frame that is too long for the chip gets only one buffer.
        let wanted = if fault == Some(RxFault::TooLong) { 1 } else { total };
        let (mut ring, mut chain) = (self.rx, std::mem::take(&mut self.chain));
        let is_reserved = self.reserve(&mut ring, wanted, &mut chain);
        let is_filled = is_reserved && self.fill(&chain, frame, fault);
        self.chain = chain;
        if !is_reserved {
            self.tally.rx_missed += 1;
            return Interrupts::RX_NO_DESCRIPTOR;
        }
        if !is_filled {
            self.tally.rx_missed += 1;
            return 0;
        }
        self.rx = ring;
        if fault.is_some() {
            self.tally.rx_errors = self.tally.rx_errors.wrapping_add(1);
            return Interrupts::RX_ERROR;
        }
        self.tally.rx_frames += 1;
        self.tally.rx_bytes += frame.len() as u64;
        Destination::of(frame).count(&mut self.tally);
        Interrupts::RX_OK
    }

    /// Collects in `chain` the next descriptors whose buffers hold `wanted` bytes. Returns false if
    /// the driver has not handed over enough descriptors, or has handed over invalid ones.
    fn reserve(&mut self, ring: &mut Ring, wanted: usize, chain: &mut Vec<Descriptor>) -> bool {
        let mut room = 0;
        chain.clear();
        while room < wanted && chain.len() < MAX_CHAIN {
            let next = self.fetch(ring).filter(|next| next.opts1 & OWN != 0);
            let Some(next) = next else { return false };
            let size = (next.opts1 & RX_LEN) as usize;
            if size == 0 || !next.buffer.is_multiple_of(8) {
                self.stop_on(Violation::BadRxBuffer { index: next.index });
                return false;
            }
            room += size;
            chain.push(next);
        }
        room >= wanted
    }

    /// Writes a frame and its checksum to buffers, and hands the descriptors to the driver. Returns
    /// false if memory is not mapped.
    fn fill(&mut self, chain: &[Descriptor], frame: &[u8], fault: Option<RxFault>) -> bool {
        let total = frame.len() + FCS.len();
        let mut at = 0;
        for (i, descriptor) in chain.iter().enumerate() {
            let size = (descriptor.opts1 & RX_LEN) as usize;
            let end = total.min(at + size);
            let payload = &frame[at.min(frame.len())..end.min(frame.len())];
            let fcs = &FCS[at.saturating_sub(frame.len())..end.saturating_sub(frame.len())];
            let beyond = descriptor.buffer.wrapping_add(payload.len() as u64);
            if !self.dma.write(descriptor.buffer, payload) || !self.dma.write(beyond, fcs) {
                self.dma_fault(descriptor.buffer, (end - at) as u64, Access::Write);
                return false;
            }
            let is_last = i + 1 == chain.len();
            // The last descriptor contains the length of the whole frame, the others the length of
            // their part.
            let len = if is_last { total.min(RX_LEN as usize) } else { size };
            let mut opts1 = (descriptor.opts1 & END_OF_RING) | len as u32;
            opts1 |= if i == 0 { FIRST } else { 0 };
            opts1 |= if is_last { LAST | fault.map_or(0, RxFault::bits) } else { 0 };
            if !self.dma.store_descriptor(descriptor.at, opts1, 0) {
                self.dma_fault(descriptor.at, 8, Access::Write);
                return false;
            }
            at = end;
        }
        true
    }

    /// Reads the descriptor at the ring's index, and advances the index.
    fn fetch(&mut self, ring: &mut Ring) -> Option<Descriptor> {
        let (at, index) = (ring.address(), ring.index);
        if !self.config.is_bus_master() {
            return None;
        }
        let Some((opts1, opts2, buffer)) = self.dma.load_descriptor(at) else {
            self.dma_fault(at, DESCRIPTOR_BYTES, Access::Read);
            return None;
        };
        ring.index = if opts1 & END_OF_RING != 0 { 0 } else { index + 1 };
        if ring.index >= MAX_RING {
            self.stop_on(Violation::RingWithoutEnd { address: ring.base });
            return None;
        }
        Some(Descriptor { at, index, opts1, opts2, buffer })
    }

    fn write_back(&mut self, at: u64, opts1: u32) -> bool {
        let done = self.dma.store(at, opts1);
        if !done {
            self.dma_fault(at, 4, Access::Write);
        }
        done
    }

    fn dma_fault(&mut self, address: u64, len: u64, access: Access) {
        self.stop_on(Violation::DmaOutsideMappings { address, len, access });
    }

    /// Records a violation after which the engines cannot continue, and stops them.
    fn stop_on(&mut self, violation: Violation) {
        self.violations.add(violation);
        self.halt();
    }
}

/// Returns whether a frame is a UDP packet over IPv4 without options, to a port of PTP, and has
/// fewer than 47 bytes from the UDP header on. The chip reads 47 bytes there.
fn is_short_ptp(frame: &[u8]) -> bool {
    let is_udp = frame.get(12..15) == Some(&[8, 0, 0x45]) && frame.get(23) == Some(&17);
    let is_ptp = matches!(frame.get(36..38), Some([1, 63 | 64]));
    is_udp && is_ptp && frame.len() < 34 + 47
}
