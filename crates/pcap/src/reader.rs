//! Reads the packets of a file that is in memory, either mapped or loaded.

use crate::decode::{DecodeStep, Decoder};
use crate::error::PcapError;
use crate::interface::CaptureInterface;
use crate::packet::CapturedPacket;

/// Iterates over the packets of a whole file. Stops after the first error.
///
/// ```
/// use slipring_pcap::{LinkType, PcapWriter, PcapFileReader};
/// let mut file = Vec::new();
/// let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
/// writer.packet(&mut file, 1_700_000_000_123_456_789, 1514, &[0xff; 64])?;
/// for packet in PcapFileReader::new(&file) {
///     let packet = packet?;
///     assert_eq!((packet.orig_len, packet.data.len()), (1514, 64));
/// }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PcapFileReader<'b> {
    decoder: Decoder,
    rest: &'b [u8],
    ended: bool,
}

impl<'b> PcapFileReader<'b> {
    /// Creates a reader that is at the start of `file`.
    #[must_use]
    pub fn new(file: &'b [u8]) -> Self {
        Self { decoder: Decoder::new(), rest: file, ended: false }
    }

    /// Returns the interfaces that were described so far; see [`Decoder::interfaces`].
    #[must_use]
    pub fn interfaces(&self) -> &[CaptureInterface] {
        self.decoder.interfaces()
    }

    #[inline]
    fn step(&mut self) -> Result<Option<CapturedPacket<'b>>, PcapError> {
        let decoded = self.decoder.decode(self.rest)?;
        self.rest = &self.rest[decoded.consumed..];
        match decoded.step {
            DecodeStep::Packet(packet) => Ok(Some(packet)),
            DecodeStep::NeedMore(_) => self.decoder.finish(self.rest).map(|()| None),
        }
    }
}

impl<'b> Iterator for PcapFileReader<'b> {
    type Item = Result<CapturedPacket<'b>, PcapError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.step().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}
