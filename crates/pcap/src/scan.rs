//! What a format's decoder found at the start of a buffer.

use crate::error::PcapError;
use crate::limits::MAX_PACKET_LEN;
use crate::packet::CapturedPacket;

/// The record or block at the start of a buffer.
pub(crate) enum RecordScan<'b> {
    /// A packet, and the length of its record in bytes.
    Packet(usize, CapturedPacket<'b>),
    /// This many bytes contain no packet and can be skipped.
    Skip(usize),
    /// The record is incomplete. The value says how many bytes the buffer must have to continue.
    NeedMore(MissingBytes),
}

/// A record of which the buffer does not contain all bytes.
pub(crate) struct MissingBytes {
    pub(crate) need: usize,
    pub(crate) what: &'static str,
}

impl MissingBytes {
    pub(crate) fn advance<'b>(need: usize, what: &'static str) -> RecordScan<'b> {
        RecordScan::NeedMore(Self { need, what })
    }
}

/// Checks that the lengths are possible in a valid capture. Without this check, a caller would wait
/// for as many bytes as an invalid length says.
#[inline]
pub(crate) fn check_lengths(captured: u32, original: u32, offset: u64) -> Result<(), PcapError> {
    if captured > MAX_PACKET_LEN {
        return Err(PcapError::PacketLength { offset, found: captured });
    }
    if captured > original {
        return Err(PcapError::CapturedExceedsOriginal { offset, captured, original });
    }
    Ok(())
}
