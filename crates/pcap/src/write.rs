//! Writes classic pcap with times in nanoseconds. It is little-endian on every machine.

use alloc::vec::Vec;

use crate::classic::{MAGIC_NANOS, VERSION};
use crate::error::WriteError;
use crate::interface::LinkType;
use crate::limits::MAX_PACKET_LEN;

const NS_PER_S: u64 = 1_000_000_000;

/// Writes by appending to a buffer. At any time, the caller may write the buffer to a file and
/// clear it.
#[derive(Clone, Copy, Debug)]
pub struct PcapWriter {
    snaplen: u32,
}

impl PcapWriter {
    /// Appends the file header, and returns a writer of packets. `snaplen` is the maximum number of
    /// bytes that are kept per packet. 0 means [`MAX_PACKET_LEN`], which is the maximum that
    /// readers accept.
    pub fn begin(out: &mut Vec<u8>, link_type: LinkType, snaplen: u32) -> Self {
        let snaplen = effective_snaplen(snaplen);
        out.extend(MAGIC_NANOS.to_le_bytes());
        out.extend(VERSION.0.to_le_bytes());
        out.extend(VERSION.1.to_le_bytes());
        // The fields for time zone and accuracy, which in practice are always 0.
        out.extend([0; 8]);
        out.extend(snaplen.to_le_bytes());
        out.extend(u32::from(link_type.0).to_le_bytes());
        Self { snaplen }
    }

    /// Appends a packet, which is truncated to the snap length. `ts_ns` is in nanoseconds since
    /// 1970.
    ///
    /// # Errors
    /// [`WriteError`] if the format cannot represent the packet. Nothing is appended then.
    #[inline]
    pub fn packet(
        &self,
        out: &mut Vec<u8>,
        ts_ns: u64,
        orig_len: u32,
        data: &[u8],
    ) -> Result<(), WriteError> {
        let data = cut(data, orig_len, self.snaplen)?;
        let seconds = u32::try_from(ts_ns / NS_PER_S).map_err(|_| WriteError::Time { ts_ns })?;
        let fraction = (ts_ns % NS_PER_S) as u32;
        for word in [seconds, fraction, data.len() as u32, orig_len] {
            out.extend(word.to_le_bytes());
        }
        out.extend_from_slice(data);
        Ok(())
    }
}

/// Returns the snap length to write. 0 ("all bytes") becomes [`MAX_PACKET_LEN`], because classic
/// pcap has no value with this meaning. A greater value is reduced to it, because readers accept no
/// longer packets.
pub(crate) fn effective_snaplen(snaplen: u32) -> u32 {
    if snaplen == 0 { MAX_PACKET_LEN } else { snaplen.min(MAX_PACKET_LEN) }
}

/// Returns the first `snaplen` bytes of `data`, or all if there are fewer. Returns an error if
/// `data` is longer than the `original` length of the packet.
#[inline]
pub(crate) fn cut(data: &[u8], original: u32, snaplen: u32) -> Result<&[u8], WriteError> {
    let captured = data.len();
    if captured > original as usize {
        return Err(WriteError::CapturedExceedsOriginal { captured, original });
    }
    Ok(data.get(..snaplen as usize).unwrap_or(data))
}
