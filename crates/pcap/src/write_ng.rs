//! Writes pcapng. There is one section, which is little-endian and has times in nanoseconds.

use alloc::vec::Vec;

use crate::error::WriteError;
use crate::interface::LinkType;
use crate::ng::{BYTE_ORDER, ENHANCED_PACKET, INTERFACE, SECTION_HEADER, STATISTICS};
use crate::options::{
    COMMENT, END, EPB_DROPCOUNT, EPB_FLAGS, EPB_PACKETID, EPB_QUEUE, EPB_VERDICT, IF_DESCRIPTION,
    IF_HARDWARE, IF_NAME, IF_TSRESOL,
};
use crate::packet::{PcapDirection, TcVerdict};
use crate::write::{cut, effective_snaplen};

const SHB_HARDWARE: u16 = 2;
const SHB_OS: u16 = 3;
const SHB_APPLICATION: u16 = 4;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;
/// The value of the option if_tsresol for timestamps in units of 10^-9 s.
const TSRESOL_NANOSECONDS: u8 = 9;

/// Where a capture comes from. Empty texts are not written.
#[derive(Clone, Copy, Debug, Default)]
pub struct SectionInfo<'a> {
    /// The machine on which the capture was made.
    pub hardware: &'a str,
    /// The operating system of that machine.
    pub os: &'a str,
    /// The program that has made the capture.
    pub application: &'a str,
    /// Any other text, such as the command line.
    pub comment: &'a str,
}

/// The description of an interface. Empty texts are not written.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterfaceInfo<'a> {
    /// The interface's name, such as `netmap:eth0`.
    pub name: &'a str,
    /// A description of the interface.
    pub description: &'a str,
    /// The interface's hardware, such as the model of the card.
    pub hardware: &'a str,
    /// The link type of its packets.
    pub link_type: LinkType,
    /// Maximum number of bytes that are kept per packet. 0 means the maximum that readers accept.
    pub snaplen: u32,
}

/// The index of an interface in this writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InterfaceId(pub u32);

/// A packet to write. `None` and empty texts are not written.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketRecord<'a> {
    /// The interface that captured the packet.
    pub interface: InterfaceId,
    /// When the packet was captured, in nanoseconds since 1970.
    pub ts_ns: u64,
    /// The packet's original length in bytes.
    pub orig_len: u32,
    /// The packet's captured bytes.
    pub data: &'a [u8],
    /// The packet's direction at the interface.
    pub direction: Option<PcapDirection>,
    /// How many packets the capture has lost since the previous packet.
    pub drop_count: Option<u64>,
    /// A number that is the same for captures of this packet at several interfaces.
    pub packet_id: Option<u64>,
    /// Number of the interface's queue on which the packet was received or sent.
    pub queue: Option<u32>,
    /// The action on the packet.
    pub verdict: Option<TcVerdict>,
    /// Text for the user of the capture, such as why the packet was dropped.
    pub comment: &'a str,
}

/// Counters of an interface. Counters that are `None` are not written.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterfaceStats {
    /// The interface to which the counters belong.
    pub interface: InterfaceId,
    /// When the counters were read, in nanoseconds since 1970.
    pub ts_ns: u64,
    /// When the capture began, in nanoseconds since 1970.
    pub start_ns: Option<u64>,
    /// When the capture ended, in nanoseconds since 1970.
    pub end_ns: Option<u64>,
    /// Packets that the interface received.
    pub received: Option<u64>,
    /// Packets that the interface dropped because it had no buffers.
    pub dropped: Option<u64>,
    /// Packets that the operating system dropped.
    pub os_dropped: Option<u64>,
}

/// Writes by appending to a buffer. At any time, the caller may write the buffer to a file and
/// clear it.
///
/// ```
/// use slipring_pcap::*;
/// let mut file = Vec::new();
/// let section = SectionInfo { application: "slipring", ..SectionInfo::default() };
/// let mut writer = PcapngWriter::begin(&mut file, &section)?;
/// let eth0 = InterfaceInfo { name: "eth0", link_type: LinkType::ETHERNET, ..Default::default() };
/// let interface = writer.interface(&mut file, &eth0)?;
/// let record = PacketRecord {
///     interface,
///     ts_ns: 1_700_000_000_123_456_789,
///     orig_len: 60,
///     data: &[0; 60],
///     direction: Some(PcapDirection::Inbound),
///     ..PacketRecord::default()
/// };
/// writer.packet(&mut file, &record)?;
///
/// let mut reader = PcapFileReader::new(&file);
/// let packet = reader.next().transpose()?.ok_or("a packet was written")?;
/// assert_eq!(packet.direction(), Some(PcapDirection::Inbound));
/// assert_eq!(reader.interfaces()[0].name, "eth0");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PcapngWriter {
    /// The snap lengths of the interfaces that were described so far. The index is the interface's
    /// id.
    snaplens: Vec<u32>,
}

impl PcapngWriter {
    /// Appends the section header, and returns a writer of the other blocks.
    ///
    /// # Errors
    /// [`WriteError::OptionTooLong`] if a text is longer than 65,535 bytes. No byte is appended
    /// then.
    pub fn begin(out: &mut Vec<u8>, section: &SectionInfo<'_>) -> Result<Self, WriteError> {
        block(out, SECTION_HEADER, |out| {
            words(out, [BYTE_ORDER]);
            // The version of the format: 1.0.
            out.extend([1, 0, 0, 0]);
            // The length of the section is not known.
            out.extend([0xff; 8]);
            let mut options = OptionList::new(out);
            options.text(SHB_HARDWARE, section.hardware)?;
            options.text(SHB_OS, section.os)?;
            options.text(SHB_APPLICATION, section.application)?;
            options.text(COMMENT, section.comment)?;
            options.end();
            Ok(())
        })?;
        Ok(Self { snaplens: Vec::new() })
    }

    /// Appends the description of an interface. Returns the id by which packets refer to it.
    ///
    /// # Errors
    /// [`WriteError::OptionTooLong`] if a text is longer than 65,535 bytes. No byte is appended
    /// then.
    pub fn interface(
        &mut self,
        out: &mut Vec<u8>,
        info: &InterfaceInfo<'_>,
    ) -> Result<InterfaceId, WriteError> {
        let snaplen = effective_snaplen(info.snaplen);
        block(out, INTERFACE, |out| {
            words(out, [u32::from(info.link_type.0), snaplen]);
            let mut options = OptionList::new(out);
            options.text(IF_NAME, info.name)?;
            options.text(IF_DESCRIPTION, info.description)?;
            options.text(IF_HARDWARE, info.hardware)?;
            options.value(IF_TSRESOL, &[TSRESOL_NANOSECONDS])?;
            options.end();
            Ok(())
        })?;
        let id = InterfaceId(self.snaplens.len() as u32);
        self.snaplens.push(snaplen);
        Ok(id)
    }

    /// Appends a packet, which is truncated to the snap length of its interface.
    ///
    /// # Errors
    /// [`WriteError`] if the format cannot represent the packet. Nothing is appended then.
    #[inline]
    pub fn packet(&self, out: &mut Vec<u8>, record: &PacketRecord<'_>) -> Result<(), WriteError> {
        let snaplen = self.snaplen(record.interface)?;
        let data = cut(record.data, record.orig_len, snaplen)?;
        block(out, ENHANCED_PACKET, |out| {
            let [high, low] = halves(record.ts_ns);
            words(out, [record.interface.0, high, low, data.len() as u32, record.orig_len]);
            out.extend_from_slice(data);
            pad(out, data.len());
            record.options(out)
        })
    }

    /// Appends the counters of an interface. Usually this is done at the end.
    ///
    /// # Errors
    /// [`WriteError::UnknownInterface`] if the interface was not described. No byte is appended
    /// then.
    pub fn statistics(&self, out: &mut Vec<u8>, stats: &InterfaceStats) -> Result<(), WriteError> {
        self.snaplen(stats.interface)?;
        block(out, STATISTICS, |out| {
            let [high, low] = halves(stats.ts_ns);
            words(out, [stats.interface.0, high, low]);
            let mut options = OptionList::new(out);
            options.time(ISB_STARTTIME, stats.start_ns)?;
            options.time(ISB_ENDTIME, stats.end_ns)?;
            options.number(ISB_IFRECV, stats.received)?;
            options.number(ISB_IFDROP, stats.dropped)?;
            options.number(ISB_OSDROP, stats.os_dropped)?;
            options.end();
            Ok(())
        })
    }

    fn snaplen(&self, interface: InterfaceId) -> Result<u32, WriteError> {
        let count = self.snaplens.len() as u32;
        let unknown = WriteError::UnknownInterface { found: interface.0, count };
        self.snaplens.get(interface.0 as usize).copied().ok_or(unknown)
    }
}

impl PacketRecord<'_> {
    #[inline]
    fn options(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let mut options = OptionList::new(out);
        if let Some(direction) = self.direction {
            let flags = match direction {
                PcapDirection::Inbound => 1u32,
                PcapDirection::Outbound => 2,
            };
            options.value(EPB_FLAGS, &flags.to_le_bytes())?;
        }
        options.number(EPB_DROPCOUNT, self.drop_count)?;
        options.number(EPB_PACKETID, self.packet_id)?;
        if let Some(queue) = self.queue {
            options.value(EPB_QUEUE, &queue.to_le_bytes())?;
        }
        if let Some(verdict) = self.verdict {
            let [a, b, c, d, e, f, g, h] = verdict.number().to_le_bytes();
            options.value(EPB_VERDICT, &[TcVerdict::TC, a, b, c, d, e, f, g, h])?;
        }
        options.text(COMMENT, self.comment)?;
        options.end();
        Ok(())
    }
}

/// Appends a block. `body` appends its contents. If `body` fails, nothing is appended.
#[inline]
fn block(
    out: &mut Vec<u8>,
    kind: u32,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let start = out.len();
    words(out, [kind, 0]);
    if let Err(error) = body(out) {
        out.truncate(start);
        return Err(error);
    }
    let total = ((out.len() - start + 4) as u32).to_le_bytes();
    out.extend(total);
    out[start + 4..start + 8].copy_from_slice(&total);
    Ok(())
}

#[inline]
fn words<const N: usize>(out: &mut Vec<u8>, words: [u32; N]) {
    for word in words {
        out.extend(word.to_le_bytes());
    }
}

/// Splits a time into two 32-bit words. The high word is first, whatever the byte order is.
fn halves(ts_ns: u64) -> [u32; 2] {
    [(ts_ns >> 32) as u32, ts_ns as u32]
}

/// Appends zeros that pad `len` bytes to a multiple of four.
fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&[0; 3][..len.next_multiple_of(4) - len]);
}

/// Appends options. The mark for the end of the options is written only if there is at least one
/// option.
struct OptionList<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> OptionList<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, is_empty: true }
    }

    #[inline]
    fn value(&mut self, code: u16, value: &[u8]) -> Result<(), WriteError> {
        let too_long = WriteError::OptionTooLong { code, len: value.len() };
        let len = u16::try_from(value.len()).map_err(|_| too_long)?;
        self.out.extend(code.to_le_bytes());
        self.out.extend(len.to_le_bytes());
        self.out.extend_from_slice(value);
        pad(self.out, value.len());
        self.is_empty = false;
        Ok(())
    }

    fn text(&mut self, code: u16, text: &str) -> Result<(), WriteError> {
        if text.is_empty() { Ok(()) } else { self.value(code, text.as_bytes()) }
    }

    fn number(&mut self, code: u16, number: Option<u64>) -> Result<(), WriteError> {
        number.map_or(Ok(()), |number| self.value(code, &number.to_le_bytes()))
    }

    fn time(&mut self, code: u16, ts_ns: Option<u64>) -> Result<(), WriteError> {
        ts_ns.map_or(Ok(()), |ts_ns| {
            // The high word comes first, as in the time of a packet.
            self.value(code, &ts_ns.rotate_left(32).to_le_bytes())
        })
    }

    fn end(self) {
        if !self.is_empty {
            words(self.out, [u32::from(END)]);
        }
    }
}
