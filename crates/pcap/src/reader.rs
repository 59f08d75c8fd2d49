//! Packets of a file that lies in memory, mapped or read.

use crate::decode::{Decoder, Step};
use crate::error::PcapError;
use crate::interface::Interface;
use crate::packet::Packet;

/// Iterates over the packets of a whole file; stops after the first error.
///
/// ```
/// use slipring_pcap::{LinkType, PcapWriter, Reader};
/// let mut file = Vec::new();
/// let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
/// writer.packet(&mut file, 1_700_000_000_123_456_789, 1514, &[0xff; 64])?;
/// for packet in Reader::new(&file) {
///     let packet = packet?;
///     assert_eq!((packet.orig_len, packet.data.len()), (1514, 64));
/// }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'b> {
    decoder: Decoder,
    rest: &'b [u8],
    ended: bool,
}

impl<'b> Reader<'b> {
    /// A reader at the start of `file`.
    #[must_use]
    pub fn new(file: &'b [u8]) -> Self {
        Self { decoder: Decoder::new(), rest: file, ended: false }
    }

    /// The interfaces described so far; see [`Decoder::interfaces`].
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        self.decoder.interfaces()
    }

    #[inline]
    fn step(&mut self) -> Result<Option<Packet<'b>>, PcapError> {
        let decoded = self.decoder.decode(self.rest)?;
        self.rest = &self.rest[decoded.consumed..];
        match decoded.step {
            Step::Packet(packet) => Ok(Some(packet)),
            Step::NeedMore(_) => self.decoder.finish(self.rest).map(|()| None),
        }
    }
}

impl<'b> Iterator for Reader<'b> {
    type Item = Result<Packet<'b>, PcapError>;

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
