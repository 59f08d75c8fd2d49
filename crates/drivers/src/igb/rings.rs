//! Descriptors in the advanced format (82576 datasheet, sections 7.1.5 and 7.2.2).

use crate::descriptors::{FilledRx, RxFormat, TxFormat, TxPart};

/// The advanced receive descriptor. For the device: addresses of packet and header. After the
/// write-back: hash and type; then status, errors, length, VLAN tag.
#[derive(Debug)]
pub(crate) struct AdvancedRx;

/// Status: the device has filled the descriptor.
const RX_DD: u64 = 1 << 0;
/// Status: the frame ends here.
const RX_EOP: u64 = 1 << 1;
/// Error: the MAC has found the frame damaged (RXE). Bits 29 and 30 report wrong checksums of
/// layers 3 and 4, which the receiver of the frame checks.
const RX_ERROR: u64 = 1 << 31;

impl RxFormat for AdvancedRx {
    const STATUS: usize = 1;

    fn descriptor(address: u64, _len: u32, _is_last: bool) -> [u64; 2] {
        [address, 0]
    }

    #[inline(always)]
    fn filled(status: u64) -> Option<FilledRx> {
        (status & RX_DD != 0).then_some(FilledRx {
            len: (status >> 32) as u16 as u32,
            more: status & RX_EOP == 0,
            is_bad: status & RX_ERROR != 0,
        })
    }
}

/// The advanced transmit data descriptor: an address; then length, type, command, status, and the
/// length of the frame.
#[derive(Debug)]
pub(crate) struct AdvancedTx;

/// The type of a data descriptor.
const TX_DATA: u64 = 3 << 20;
/// Command: the frame ends here.
const TX_EOP: u64 = 1 << 24;
/// Command: append the CRC.
const TX_IFCS: u64 = 1 << 25;
/// Command: report completion.
const TX_RS: u64 = 1 << 27;
/// Command: advanced format.
const TX_DEXT: u64 = 1 << 29;
/// Status: completed.
const TX_DD: u64 = 1 << 32;
/// Lowest bit of the field with the frame's length.
const TX_PAYLEN_SHIFT: u32 = 46;

impl TxFormat for AdvancedTx {
    const STATUS: usize = 1;
    const REPORT: u64 = TX_RS;

    #[inline(always)]
    fn descriptor(part: &TxPart) -> [u64; 2] {
        let end = if part.more { 0 } else { TX_EOP };
        // Only the first descriptor of a frame contains the length of the frame. Here the length is
        // only known if the frame has one descriptor.
        let is_whole = part.is_first && !part.more;
        let frame = if is_whole { u64::from(part.len) << TX_PAYLEN_SHIFT } else { 0 };
        [part.address, u64::from(part.len) | TX_DATA | TX_IFCS | TX_DEXT | end | frame]
    }

    fn first_of_chain(status: u64, frame_len: u32) -> u64 {
        status | u64::from(frame_len) << TX_PAYLEN_SHIFT
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
    fn the_first_descriptor_has_the_length_of_the_frame() {
        let whole =
            TxPart { address: 64, len: 60, is_first: true, more: false, is_last_of_ring: false };
        let [address, status] = AdvancedTx::descriptor(&whole);
        assert_eq!((address, status >> TX_PAYLEN_SHIFT, status as u16), (64, 60, 60));
        let [_, status] = AdvancedTx::descriptor(&TxPart { more: true, ..whole });
        assert_eq!((status >> TX_PAYLEN_SHIFT, status & TX_EOP), (0, 0));
        assert_eq!(AdvancedTx::first_of_chain(status, 1000) >> TX_PAYLEN_SHIFT, 1000);
    }

    #[test]
    fn a_descriptor_that_was_written_back_tells_length_and_end() {
        assert_eq!(AdvancedRx::filled(1514 << 32), None);
        let frame = FilledRx { len: 1514, more: false, is_bad: false };
        assert_eq!(AdvancedRx::filled(1514 << 32 | RX_DD | RX_EOP), Some(frame));
    }

    #[test]
    fn a_wrong_checksum_does_not_make_a_frame_damaged_and_a_wrong_crc_does() {
        let is_bad = |error: u32| {
            AdvancedRx::filled(60 << 32 | RX_DD | RX_EOP | 1 << error).map(|frame| frame.is_bad)
        };
        assert_eq!([29, 30, 31].map(is_bad), [Some(false), Some(false), Some(true)]);
    }
}
