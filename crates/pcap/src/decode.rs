//! The incremental decoder. It gets a buffer, and returns one packet or says how many more bytes it
//! needs.
//!
//! ```text
//!   file  |--- decoded ---|------- caller's buffer -------|--- not read yet ---|
//!                         ^ offset          ^ consumed: drop up to here
//! ```
//!
//! # Invariants
//! 1. `offset` is the position in the file of the first byte that has not been consumed.
//! 2. [`DecodeStep::NeedMore`] asks for at most [`crate::MAX_BLOCK_LEN`] bytes. Longer blocks are
//!    skipped in pieces if their type is not decoded; otherwise they are an error.

use alloc::vec::Vec;

use crate::classic::PcapFileHeader;
use crate::error::PcapError;
use crate::interface::CaptureInterface;
use crate::ng::PcapngSection;
use crate::packet::CapturedPacket;
use crate::scan::{MissingBytes, RecordScan};

/// Decodes a capture file step by step. It detects the file's format.
///
/// The caller has a buffer. It drops the bytes that were consumed, and appends the bytes that it
/// reads:
///
/// ```
/// use slipring_pcap::{Decoder, LinkType, PcapWriter, DecodeStep};
/// let mut file = Vec::new();
/// PcapWriter::begin(&mut file, LinkType::ETHERNET, 0).packet(&mut file, 7, 60, &[0; 60])?;
///
/// let (mut decoder, mut buffer, mut unread) = (Decoder::new(), Vec::new(), &file[..]);
/// let mut packets = 0;
/// loop {
///     let decoded = decoder.decode(&buffer)?;
///     match decoded.step {
///         DecodeStep::Packet(packet) => packets += usize::from(packet.ts_ns == 7),
///         DecodeStep::NeedMore(_) if unread.is_empty() => break,
///         DecodeStep::NeedMore(_) => {}
///     }
///     buffer.drain(..decoded.consumed);
///     let (piece, rest) = unread.split_at(unread.len().min(10));
///     buffer.extend_from_slice(piece);
///     unread = rest;
/// }
/// decoder.finish(&buffer)?;
/// assert_eq!(packets, 1);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    offset: u64,
    format: CaptureFormat,
    pub(crate) interfaces: Vec<CaptureInterface>,
}

/// The format of the file. It is unknown at first.
#[derive(Clone, Debug, Default)]
enum CaptureFormat {
    #[default]
    Unknown,
    Classic(PcapFileHeader),
    Ng(PcapngSection),
}

/// The result of decoding from a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeProgress<'b> {
    /// Number of bytes at the start of the buffer that are no longer needed.
    pub consumed: usize,
    /// A packet, or how many bytes are missing.
    pub step: DecodeStep<'b>,
}

/// The result of a call of [`Decoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeStep<'b> {
    /// The next packet of the file.
    Packet(CapturedPacket<'b>),
    /// There is no whole packet yet. After the consumed bytes are dropped, the buffer must have
    /// this many bytes. If the file has ended, [`Decoder::finish`] checks whether it may end here.
    NeedMore(usize),
}

impl Decoder {
    /// Creates a decoder that is at the start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the interfaces that were described so far. Their order is that of the indexes in
    /// packets. Each section of a pcapng file starts a new list.
    #[must_use]
    pub fn interfaces(&self) -> &[CaptureInterface] {
        &self.interfaces
    }

    /// Returns the original length of a packet, and the number of its bytes that were captured,
    /// both without the frame check sequence, if packets of its interface have one.
    #[must_use]
    pub fn lengths_without_fcs(&self, packet: &CapturedPacket<'_>) -> (u32, usize) {
        let interface = self.interfaces.get(packet.interface as usize);
        let fcs_len = interface.and_then(|interface| interface.fcs_len).unwrap_or(0);
        let len = packet.orig_len.saturating_sub(fcs_len.into());
        (len, packet.data.len().min(len as usize))
    }

    /// Returns the position in the file of the first byte that has not been consumed.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Decodes the next packet in `buffer`. The first byte of `buffer` must be the first byte of
    /// the file that has not been consumed.
    ///
    /// # Errors
    /// [`PcapError`] if the file is invalid at [`Self::offset`]. Nothing after this offset can be
    /// read.
    #[inline]
    pub fn decode<'b>(&mut self, buffer: &'b [u8]) -> Result<DecodeProgress<'b>, PcapError> {
        let mut consumed = 0;
        loop {
            let (len, step) = match self.advance(&buffer[consumed..])? {
                RecordScan::Packet(len, packet) => (len, Some(DecodeStep::Packet(packet))),
                RecordScan::Skip(len) => (len, None),
                RecordScan::NeedMore(missing) => (0, Some(DecodeStep::NeedMore(missing.need))),
            };
            consumed += len;
            self.offset += len as u64;
            if let Some(step) = step {
                return Ok(DecodeProgress { consumed, step });
            }
        }
    }

    /// Checks whether the file may end here. Call this when [`Self::decode`] asks for more bytes,
    /// but the file has none. `rest` contains the bytes that have not been consumed.
    ///
    /// # Errors
    /// [`PcapError::Truncated`] if the file ends in a record, or is empty.
    pub fn finish(&mut self, rest: &[u8]) -> Result<(), PcapError> {
        let RecordScan::NeedMore(missing) = self.advance(rest)? else {
            return Ok(());
        };
        let between_records = match &self.format {
            CaptureFormat::Unknown => false,
            CaptureFormat::Classic(_) => rest.is_empty(),
            CaptureFormat::Ng(section) => rest.is_empty() && !section.is_skipping(),
        };
        if between_records {
            return Ok(());
        }
        let (need, have) = (missing.need as u64, rest.len() as u64);
        Err(PcapError::Truncated { offset: self.offset, what: missing.what, need, have })
    }

    /// Decodes or skips one record. A skipped record has at least one byte, so the decoder always
    /// makes progress.
    #[inline]
    fn advance<'b>(&mut self, rest: &'b [u8]) -> Result<RecordScan<'b>, PcapError> {
        match &mut self.format {
            CaptureFormat::Unknown => self.begin(rest),
            CaptureFormat::Classic(classic) => classic.advance(rest, self.offset),
            CaptureFormat::Ng(section) => section.advance(rest, self.offset, &mut self.interfaces),
        }
    }

    /// Detects the format from the first four bytes, and decodes the file header or section header.
    fn begin<'b>(&mut self, rest: &'b [u8]) -> Result<RecordScan<'b>, PcapError> {
        let Some(magic) = rest.first_chunk::<4>() else {
            return Ok(MissingBytes::advance(4, "file header"));
        };
        if PcapngSection::starts_with(*magic) {
            let mut section = PcapngSection::new();
            let advance = section.advance(rest, 0, &mut self.interfaces)?;
            if matches!(advance, RecordScan::Skip(_)) {
                self.format = CaptureFormat::Ng(section);
            }
            return Ok(advance);
        }
        let Some(unit) = PcapFileHeader::unit(*magic) else {
            return Err(PcapError::NotACapture { found: *magic });
        };
        let Some((classic, interface)) = PcapFileHeader::parse(rest, unit)? else {
            return Ok(MissingBytes::advance(PcapFileHeader::HEADER_LEN, "pcap file header"));
        };
        self.interfaces.push(interface);
        self.format = CaptureFormat::Classic(classic);
        Ok(RecordScan::Skip(PcapFileHeader::HEADER_LEN))
    }
}
