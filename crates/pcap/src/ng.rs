//! pcapng: sections that consist of blocks. A block has a type, its length (twice), and options.
//!
//! ```text
//!   type | length | body … | options … | length
//! ```
//!
//! The section header, the descriptions of interfaces and the three kinds of packet blocks are
//! decoded. All other blocks are skipped.

use alloc::string::String;
use alloc::vec::Vec;

use crate::endian::Endian;
use crate::error::PcapError;
use crate::interface::{CaptureInterface, LinkType};
use crate::limits::{MAX_BLOCK_LEN, MAX_PACKET_LEN};
use crate::options::{IF_FCSLEN, IF_NAME, IF_TSOFFSET, IF_TSRESOL, PcapngOptions};
use crate::packet::CapturedPacket;
use crate::scan::{MissingBytes, RecordScan, check_lengths};
use crate::time::InterfaceClock;

/// The block type of a section header. It is the same in both byte orders.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE: u32 = 1;
/// The block type of the obsolete packet block.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const STATISTICS: u32 = 5;
pub(crate) const ENHANCED_PACKET: u32 = 6;
pub(crate) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Number of bytes in front of a block's body: type and length.
const HEAD_LEN: usize = 8;
/// Number of bytes of a block without a body: type, length, and the length at the end.
const MIN_LEN: usize = 12;
const MAX_INTERFACES: usize = 4096;

/// The section that is being read.
#[derive(Clone, Debug)]
pub(crate) struct PcapngSection {
    endian: Endian,
    skip: Option<SkippedBlock>,
}

/// A block that is not decoded and is being skipped. Its type and length were already consumed.
#[derive(Clone, Copy, Debug)]
struct SkippedBlock {
    /// How many bytes of the body remain.
    body_left: usize,
    total: u32,
    offset: u64,
}

/// A block that is completely in the buffer.
struct PcapngBlock<'b> {
    endian: Endian,
    kind: u32,
    body: &'b [u8],
    total: u32,
    offset: u64,
}

impl PcapngSection {
    /// Creates a section of which nothing has been read yet.
    pub(crate) fn new() -> Self {
        Self { endian: Endian::Little, skip: None }
    }

    pub(crate) fn starts_with(magic: [u8; 4]) -> bool {
        u32::from_be_bytes(magic) == SECTION_HEADER
    }

    pub(crate) fn is_skipping(&self) -> bool {
        self.skip.is_some()
    }

    /// Reads the block at the start of `rest`.
    pub(crate) fn advance<'b>(
        &mut self,
        rest: &'b [u8],
        offset: u64,
        interfaces: &mut Vec<CaptureInterface>,
    ) -> Result<RecordScan<'b>, PcapError> {
        if let Some(skip) = self.skip {
            return self.skip_on(skip, rest);
        }
        if let Some(missing) = self.begin_section(rest, offset)? {
            return Ok(missing);
        }
        let Some([kind, total]) = self.endian.words(rest) else {
            return Ok(MissingBytes::advance(HEAD_LEN, "block header"));
        };
        check_total(total, offset)?;
        if !is_looked_into(kind) {
            self.skip = Some(SkippedBlock { body_left: total as usize - MIN_LEN, total, offset });
            return Ok(RecordScan::Skip(HEAD_LEN));
        }
        let len = total as usize;
        if len > MAX_BLOCK_LEN {
            let expected = "at most 1048576 for this type";
            return Err(PcapError::BlockLength { offset, found: total, expected });
        }
        let Some(block) = rest.get(..len) else {
            return Ok(MissingBytes::advance(len, "block"));
        };
        let (block, trailer) = block.split_at(len - 4);
        check_trailer(self.endian, trailer, total, offset)?;
        let body = &block[HEAD_LEN..];
        PcapngBlock { endian: self.endian, kind, body, total, offset }.read(interfaces)
    }

    /// If a section header starts here, sets the byte order of the section, which is needed to read
    /// the length of any block. Returns a result only if the header is incomplete.
    fn begin_section<'b>(
        &mut self,
        rest: &'b [u8],
        offset: u64,
    ) -> Result<Option<RecordScan<'b>>, PcapError> {
        if !rest.first_chunk().is_some_and(|magic| Self::starts_with(*magic)) {
            return Ok(None);
        }
        let Some([_, _, mark]) = rest.as_chunks::<4>().0.first_chunk::<3>() else {
            return Ok(Some(MissingBytes::advance(12, "section header")));
        };
        self.endian = [Endian::Little, Endian::Big]
            .into_iter()
            .find(|endian| endian.u32(*mark) == BYTE_ORDER)
            .ok_or(PcapError::ByteOrder { offset, found: *mark })?;
        Ok(None)
    }

    fn skip_on<'b>(
        &mut self,
        skip: SkippedBlock,
        rest: &'b [u8],
    ) -> Result<RecordScan<'b>, PcapError> {
        if skip.body_left > 0 && !rest.is_empty() {
            let len = skip.body_left.min(rest.len());
            self.skip = Some(SkippedBlock { body_left: skip.body_left - len, ..skip });
            return Ok(RecordScan::Skip(len));
        }
        let trailer = rest.get(..4).filter(|_| skip.body_left == 0);
        let Some(trailer) = trailer else {
            // Even if the rest of the body is long, one byte is enough to continue skipping.
            let need = if skip.body_left > 0 { 1 } else { 4 };
            return Ok(MissingBytes::advance(need, "block"));
        };
        check_trailer(self.endian, trailer, skip.total, skip.offset)?;
        self.skip = None;
        Ok(RecordScan::Skip(4))
    }
}

impl<'b> PcapngBlock<'b> {
    fn read(&self, interfaces: &mut Vec<CaptureInterface>) -> Result<RecordScan<'b>, PcapError> {
        match self.kind {
            SECTION_HEADER => {
                self.check_version()?;
                interfaces.clear();
            }
            INTERFACE => {
                if interfaces.len() == MAX_INTERFACES {
                    let (offset, limit) = (self.offset, MAX_INTERFACES);
                    return Err(PcapError::TooManyInterfaces { offset, limit });
                }
                interfaces.push(self.interface()?);
            }
            ENHANCED_PACKET => return self.enhanced(interfaces),
            PACKET => return self.obsolete(interfaces),
            _ => return self.simple(interfaces),
        }
        Ok(RecordScan::Skip(self.total as usize))
    }

    fn check_version(&self) -> Result<(), PcapError> {
        // The body starts with the byte-order mark, the two version numbers, and the 64-bit length
        // of the section, which is not needed.
        let version = self.body.get(4..16).and_then(|bytes| self.endian.halves(bytes));
        let (major, minor) = version.ok_or(self.too_short("at least 28 for a section header"))?;
        // Some programs write the version 1.2 although the file has the format of version 1.0, so
        // both are accepted.
        if major != 1 || !matches!(minor, 0 | 2) {
            let expected = "1.0";
            return Err(PcapError::Version { offset: self.offset, major, minor, expected });
        }
        self.options(16).map(|_| ())
    }

    fn interface(&self) -> Result<CaptureInterface, PcapError> {
        let too_short = self.too_short("at least 20 for an interface description");
        let Some([_, snaplen]) = self.endian.words(self.body) else {
            return Err(too_short);
        };
        let (link_type, _) = self.endian.halves(self.body).ok_or(too_short)?;
        let options = self.options(8)?;
        let mut clock = InterfaceClock::default();
        if let Some([resolution]) = options.fixed(IF_TSRESOL, self.offset)? {
            clock.set_resolution(resolution);
        }
        if let Some(offset_s) = options.fixed(IF_TSOFFSET, self.offset)? {
            clock.set_offset(self.endian.u64(offset_s).cast_signed());
        }
        let fcs_len = options.fixed(IF_FCSLEN, self.offset)?.map(|[len]| len);
        let name = options.get(IF_NAME).map(String::from_utf8_lossy).unwrap_or_default();
        let link_type = LinkType(link_type);
        Ok(CaptureInterface { name: name.into_owned(), link_type, snaplen, fcs_len, clock })
    }

    #[inline]
    fn enhanced(&self, interfaces: &[CaptureInterface]) -> Result<RecordScan<'b>, PcapError> {
        let Some([interface, high, low, captured, original]) = self.endian.words(self.body) else {
            return Err(self.too_short("at least 32 for a packet"));
        };
        self.timed(interfaces, interface, [high, low, captured, original])
    }

    /// Reads an obsolete packet block. It is like the enhanced packet block, but its first word
    /// contains 16 bits for the interface and 16 bits for drops.
    fn obsolete(&self, interfaces: &[CaptureInterface]) -> Result<RecordScan<'b>, PcapError> {
        let Some([_, high, low, captured, original]) = self.endian.words(self.body) else {
            return Err(self.too_short("at least 32 for a packet"));
        };
        let (interface, _drops) = self.endian.halves(self.body).unwrap_or_default();
        self.timed(interfaces, u32::from(interface), [high, low, captured, original])
    }

    #[inline]
    fn timed(
        &self,
        interfaces: &[CaptureInterface],
        interface: u32,
        [high, low, captured, original]: [u32; 4],
    ) -> Result<RecordScan<'b>, PcapError> {
        let from = self.interface_of(interfaces, interface)?;
        check_lengths(captured, original, self.offset)?;
        let ticks = u64::from(high) << 32 | u64::from(low);
        let time = PcapError::Time { offset: self.offset, ticks };
        let data = self.data(20, captured)?;
        let packet = CapturedPacket {
            ts_ns: from.clock.to_ns(ticks).ok_or(time)?,
            orig_len: original,
            data,
            interface,
            link_type: from.link_type,
            options: self.options(20 + data.len().next_multiple_of(4))?,
            offset: self.offset,
        };
        Ok(RecordScan::Packet(self.total as usize, packet))
    }

    /// Reads a simple packet block. It has no time, interface or captured length, so the snap
    /// length of interface 0 applies.
    fn simple(&self, interfaces: &[CaptureInterface]) -> Result<RecordScan<'b>, PcapError> {
        let Some([original]) = self.endian.words(self.body) else {
            return Err(self.too_short("at least 16 for a simple packet"));
        };
        let from = self.interface_of(interfaces, 0)?;
        let captured = match from.snaplen {
            0 => original,
            snaplen => original.min(snaplen),
        };
        check_lengths(captured, original, self.offset)?;
        let packet = CapturedPacket {
            ts_ns: 0,
            orig_len: original,
            data: self.data(4, captured)?,
            interface: 0,
            link_type: from.link_type,
            options: PcapngOptions::NONE,
            offset: self.offset,
        };
        Ok(RecordScan::Packet(self.total as usize, packet))
    }

    #[inline]
    fn interface_of<'i>(
        &self,
        interfaces: &'i [CaptureInterface],
        found: u32,
    ) -> Result<&'i CaptureInterface, PcapError> {
        let unknown =
            PcapError::UnknownInterface { offset: self.offset, found, count: interfaces.len() };
        interfaces.get(found as usize).ok_or(unknown)
    }

    /// Returns the `captured` bytes of the body from `start` on. `captured` is at most
    /// [`MAX_PACKET_LEN`], so the sum cannot overflow.
    #[inline]
    fn data(&self, start: usize, captured: u32) -> Result<&'b [u8], PcapError> {
        debug_assert!(captured <= MAX_PACKET_LEN);
        let too_short = self.too_short("room for the packet's captured bytes");
        self.body.get(start..start + captured as usize).ok_or(too_short)
    }

    #[inline]
    fn options(&self, start: usize) -> Result<PcapngOptions<'b>, PcapError> {
        let bytes = self.body.get(start..).unwrap_or_default();
        PcapngOptions::check(self.endian, bytes, self.offset)
    }

    fn too_short(&self, expected: &'static str) -> PcapError {
        PcapError::BlockLength { offset: self.offset, found: self.total, expected }
    }
}

fn is_looked_into(kind: u32) -> bool {
    matches!(kind, SECTION_HEADER | INTERFACE | ENHANCED_PACKET | PACKET | SIMPLE_PACKET)
}

#[inline]
fn check_total(total: u32, offset: u64) -> Result<(), PcapError> {
    if (total as usize) < MIN_LEN || !total.is_multiple_of(4) {
        let expected = "a multiple of 4, at least 12";
        return Err(PcapError::BlockLength { offset, found: total, expected });
    }
    Ok(())
}

#[inline]
fn check_trailer(endian: Endian, trailer: &[u8], start: u32, offset: u64) -> Result<(), PcapError> {
    match endian.words(trailer) {
        Some([end]) if end == start => Ok(()),
        other => {
            let [end] = other.unwrap_or_default();
            Err(PcapError::BlockTrailer { offset, start, end })
        }
    }
}
