//! Descriptors in the legacy format (8254x manual, sections 3.2.3 and 3.3.3; 82574, 7.1.4 and
//! 7.2.10), and the setup of rings.

use slipring_pci::{Bar, DescriptorMemory, DeviceMemory, RingPairMemory};
use slipring_ring::BUF_SIZE_FOR_DEVICES;

use super::regs::{RDBA, RDH, RDLEN, RDT, TDBA, TDH, TDLEN, TDT};
use crate::descriptors::{FilledRx, RingParts, RxFormat, TxFormat, TxPart};

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = 16;
/// The device fetches descriptors in groups of eight, so the ring's size is a multiple of eight.
const GROUP: u32 = 8;
/// Number of bytes of a buffer that the device fills, as set in the receive control register. A
/// longer frame continues in the next buffer.
pub(crate) const RX_PART: u32 = 2048;
const _: () = assert!(RX_PART <= BUF_SIZE_FOR_DEVICES, "every buffer has room for it");

/// Bytes at the end of a buffer that lie in the next chunk, which may be on another page. A
/// transmit descriptor never covers bytes of both chunks, because QEMU's models of the 82574L and
/// 82576 lose a frame, and report it as sent, if a descriptor's bytes lie on two pages behind an
/// IOMMU.
const BYTES_IN_NEXT_CHUNK: u32 = 256;

/// Returns how many descriptors the ring for `slots` slots has. One of them never belongs to the
/// device, because equal head and tail mean an empty ring.
pub(crate) const fn ring_size(slots: u32) -> u32 {
    (slots + 1).next_multiple_of(GROUP)
}

/// Returns the size of the memory of both rings in bytes, for an error message.
pub(crate) fn rings_len(size: u32) -> u64 {
    64 * u64::from(size)
}

/// Gives an empty ring to the device.
pub(crate) fn set_rx_ring(bar: &Bar, memory: &DescriptorMemory, size: u32) {
    set_base(bar, RDBA, memory);
    bar.write32(RDLEN, size * DESCRIPTOR_BYTES);
    bar.write32(RDH, 0);
    bar.write32(RDT, 0);
}

/// Gives an empty ring to the device.
pub(crate) fn set_tx_ring(bar: &Bar, memory: &DescriptorMemory, size: u32) {
    set_base(bar, TDBA, memory);
    bar.write32(TDLEN, size * DESCRIPTOR_BYTES);
    bar.write32(TDH, 0);
    bar.write32(TDT, 0);
}

/// The parts of both rings.
pub(crate) struct RingPairParts {
    pub(crate) rx: RingParts,
    pub(crate) tx: RingParts,
}

/// Returns the parts of rings of `size` descriptors, whose doorbells are the tail registers.
pub(crate) fn ring_parts(
    bar: &Bar,
    memory: &DeviceMemory,
    rings: &RingPairMemory,
    size: u32,
    [rx_tail, tx_tail]: [u64; 2],
) -> RingPairParts {
    let addresses = memory.addresses();
    let parts = |memory: &DescriptorMemory, doorbell, part| RingParts {
        memory: memory.clone(),
        addresses,
        size,
        usable: size - 1,
        part,
        bar: bar.clone(),
        doorbell,
    };
    RingPairParts {
        rx: parts(&rings.rx, rx_tail, RX_PART),
        tx: parts(&rings.tx, tx_tail, addresses.buf_size() - BYTES_IN_NEXT_CHUNK),
    }
}

fn set_base(bar: &Bar, [low, high]: [u64; 2], memory: &DescriptorMemory) {
    bar.write32(low, memory.address() as u32);
    bar.write32(high, (memory.address() >> 32) as u32);
}

/// The legacy receive descriptor: an address; then length, checksum, status, errors, VLAN tag.
#[derive(Debug)]
pub(crate) struct LegacyRx;

/// Status: the device has filled the descriptor.
const RX_DD: u64 = 1 << 32;
/// Status: the frame ends here.
const RX_EOP: u64 = 1 << 33;
/// Errors of the frame itself: CRC, symbol, sequence, carrier extension, data. Wrong checksums of
/// IP and TCP are not errors of the frame.
const RX_ERRORS: u64 = 0x97 << 40;

impl RxFormat for LegacyRx {
    const STATUS: usize = 1;

    fn descriptor(address: u64, _len: u32, _is_last: bool) -> [u64; 2] {
        [address, 0]
    }

    #[inline(always)]
    fn filled(status: u64) -> Option<FilledRx> {
        (status & RX_DD != 0).then_some(FilledRx {
            len: status as u16 as u32,
            more: status & RX_EOP == 0,
            is_bad: status & RX_ERRORS != 0,
        })
    }
}

/// The legacy transmit descriptor: an address; then length, checksum offset, command, status.
#[derive(Debug)]
pub(crate) struct LegacyTx;

/// Command: the frame ends here.
const TX_EOP: u64 = 1 << 24;
/// Command: append the CRC.
const TX_IFCS: u64 = 1 << 25;
/// Command: report completion.
const TX_RS: u64 = 1 << 27;
/// Status: completed.
const TX_DD: u64 = 1 << 32;

impl TxFormat for LegacyTx {
    const STATUS: usize = 1;
    const REPORT: u64 = TX_RS;

    #[inline(always)]
    fn descriptor(part: &TxPart) -> [u64; 2] {
        let end = if part.more { 0 } else { TX_EOP };
        [part.address, u64::from(part.len) | TX_IFCS | end]
    }

    #[inline(always)]
    fn is_done(status: u64) -> bool {
        status & TX_DD != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_whole_groups_and_a_descriptor_to_spare() {
        let sizes = [7, 8, 64, 1024, 4088].map(ring_size);
        assert_eq!(sizes, [8, 16, 72, 1032, 4096]);
    }

    #[test]
    fn a_legacy_descriptor_tells_length_end_and_damage() {
        assert_eq!(LegacyRx::filled(1514), None);
        let frame = FilledRx { len: 1514, more: false, is_bad: false };
        assert_eq!(LegacyRx::filled(1514 | RX_DD | RX_EOP), Some(frame));
        // Wrong checksums of IP (bit 6) and TCP (bit 5) do not damage a frame; a wrong CRC does.
        assert_eq!(LegacyRx::filled(1514 | RX_DD | RX_EOP | 0x60 << 40), Some(frame));
        let damaged = FilledRx { len: 2048, more: true, is_bad: true };
        assert_eq!(LegacyRx::filled(2048 | RX_DD | 1 << 40), Some(damaged));
    }
}
