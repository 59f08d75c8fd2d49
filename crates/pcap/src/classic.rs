//! Classic pcap. The file header has 24 bytes. Each record consists of a header of 16 bytes and a
//! packet.

use alloc::string::String;

use crate::endian::Endian;
use crate::error::PcapError;
use crate::interface::{CaptureInterface, LinkType};
use crate::options::PcapngOptions;
use crate::packet::CapturedPacket;
use crate::scan::{MissingBytes, RecordScan, check_lengths};
use crate::time::InterfaceClock;

/// The magic numbers, which give the unit of time. They are read as integers in the byte order of
/// the file.
pub(crate) const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
pub(crate) const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
pub(crate) const VERSION: (u16, u16) = (2, 4);
const RECORD_LEN: usize = 16;
/// Flag in the word that contains the link type. If it is set, the top four bits of the word
/// contain the length of the frame check sequence, in units of 16 bits.
const FCS_LEN_PRESENT: u32 = 0x0400_0000;

/// The contents of the file header.
#[derive(Clone, Debug)]
pub(crate) struct PcapFileHeader {
    unit: PcapMagic,
    link_type: LinkType,
}

/// The byte order and the unit of time that the magic number gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PcapMagic {
    endian: Endian,
    per_second: u32,
}

impl PcapFileHeader {
    pub(crate) const HEADER_LEN: usize = 24;

    /// Returns byte order and unit of time; `None` if `magic` is none of the four magic numbers of
    /// classic pcap.
    pub(crate) fn unit(magic: [u8; 4]) -> Option<PcapMagic> {
        [Endian::Little, Endian::Big].into_iter().find_map(|endian| {
            let per_second = match endian.u32(magic) {
                MAGIC_MICROS => 1_000_000,
                MAGIC_NANOS => 1_000_000_000,
                _ => return None,
            };
            Some(PcapMagic { endian, per_second })
        })
    }

    /// Reads the file header; `None` if `rest` is too short.
    pub(crate) fn parse(
        rest: &[u8],
        unit: PcapMagic,
    ) -> Result<Option<(Self, CaptureInterface)>, PcapError> {
        let PcapMagic { endian, .. } = unit;
        let Some([_, _, _, _, snaplen, network]) = endian.words(rest) else {
            return Ok(None);
        };
        let (major, minor) = endian.halves(&rest[4..]).unwrap_or_default();
        if (major, minor) != VERSION {
            return Err(PcapError::Version { offset: 0, major, minor, expected: "2.4" });
        }
        let link_type = LinkType(network as u16);
        let fcs_len = (network & FCS_LEN_PRESENT != 0).then_some((network >> 28) as u8 * 2);
        let (name, clock) = (String::new(), InterfaceClock::default());
        let interface = CaptureInterface { name, link_type, snaplen, fcs_len, clock };
        Ok(Some((Self { unit, link_type }, interface)))
    }

    /// Reads the record at the start of `rest`.
    #[inline]
    pub(crate) fn advance<'b>(
        &self,
        rest: &'b [u8],
        offset: u64,
    ) -> Result<RecordScan<'b>, PcapError> {
        let Some([seconds, fraction, captured, original]) = self.unit.endian.words(rest) else {
            return Ok(MissingBytes::advance(RECORD_LEN, "packet record header"));
        };
        check_lengths(captured, original, offset)?;
        let len = RECORD_LEN + captured as usize;
        let Some(data) = rest.get(RECORD_LEN..len) else {
            return Ok(MissingBytes::advance(len, "packet record"));
        };
        let packet = CapturedPacket {
            ts_ns: self.unit.to_ns(seconds, fraction, offset)?,
            orig_len: original,
            data,
            interface: 0,
            link_type: self.link_type,
            options: PcapngOptions::NONE,
            offset,
        };
        Ok(RecordScan::Packet(len, packet))
    }
}

impl PcapMagic {
    #[inline]
    fn to_ns(self, seconds: u32, fraction: u32, offset: u64) -> Result<u64, PcapError> {
        if fraction >= self.per_second {
            return Err(PcapError::Fraction { offset, found: fraction, limit: self.per_second });
        }
        let ns_per_unit = 1_000_000_000 / self.per_second;
        Ok(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * u64::from(ns_per_unit))
    }
}
