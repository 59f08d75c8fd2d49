//! Capture files: [`slipring_pcap`] on top of a file, a pipe or a device.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use slipring_pcap::{
    DecodeStep, Decoder, InterfaceId, InterfaceInfo, LinkType, PacketRecord, PcapDirection,
    PcapError, PcapWriter, PcapngWriter, SectionInfo,
};

use crate::error::{OpenCause, RunCause};

/// Each read asks for at least this many bytes. The buffer is written to the file when it has at
/// least this many.
const CHUNK_BYTES: usize = 1 << 18;

/// One packet of a file.
#[derive(Debug, Clone, Copy)]
pub struct FilePacket<'f> {
    /// Time in nanoseconds since 1970; 0 if the file does not record it.
    pub ts_ns: u64,
    /// Length on the wire, in bytes. If the file says that its frames end with a CRC, neither this
    /// length nor `data` includes the CRC.
    pub orig_len: u32,
    /// The bytes captured.
    pub data: &'f [u8],
    /// The packet's direction, if the file records it.
    pub direction: Option<PcapDirection>,
}

/// Reads packets of Ethernet captures, in order.
#[derive(Debug)]
pub struct FileReader {
    path: String,
    file: File,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// Bytes at the start of `buffer` that were decoded.
    used: usize,
    ended: bool,
}

/// Position of a packet in the buffer.
struct PacketSpan {
    ts_ns: u64,
    orig_len: u32,
    start: usize,
    len: usize,
    direction: Option<PcapDirection>,
}

/// Why the next packet cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureReadError {
    /// The file is broken.
    #[error(transparent)]
    Format(#[from] PcapError),
    /// The capture's packets are not Ethernet frames.
    #[error("its packets have link type {0}, not Ethernet (1)")]
    LinkType(u16),
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl CaptureReadError {
    /// Converts the error to the cause of a failed open of `path`.
    #[must_use]
    pub fn into_open_cause(self, path: &str) -> OpenCause {
        let path = path.to_owned();
        match self {
            Self::Io(source) => OpenCause::File { path, source },
            Self::Format(PcapError::Truncated { .. }) => {
                OpenCause::Truncated { path, reason: self.to_string() }
            }
            _ => OpenCause::NotACapture { path, reason: self.to_string() },
        }
    }

    /// Converts the error to the cause of a failure while `path` is in use.
    #[must_use]
    pub fn to_run_cause(&self, path: &str) -> RunCause {
        RunCause::Capture { path: path.to_owned(), reason: self.to_string() }
    }
}

impl FileReader {
    /// Opens a file and reads all of it once, so that a malformed file is refused before anything
    /// starts. Pipes and devices cannot be read twice, so their errors only show while they are
    /// read.
    ///
    /// # Errors
    /// [`OpenCause::File`] if the file cannot be read, [`OpenCause::NotACapture`] or
    /// [`OpenCause::Truncated`] for its contents.
    pub fn open(path: &str) -> Result<Self, OpenCause> {
        let failed = |source| OpenCause::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if metadata.is_file() {
            let mut check = Self::from_file(path, file);
            while check.next().map_err(|error| error.into_open_cause(path))?.is_some() {}
            return Ok(Self::from_file(path, File::open(path).map_err(failed)?));
        }
        Ok(Self::from_file(path, file))
    }

    fn from_file(path: &str, file: File) -> Self {
        let (path, buffer) = (path.to_owned(), Vec::with_capacity(CHUNK_BYTES));
        Self { path, file, decoder: Decoder::new(), buffer, used: 0, ended: false }
    }

    /// The path by which the file was opened.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// [`CaptureReadError`] if the file cannot be read or is malformed.
    #[allow(clippy::should_implement_trait, reason = "packets borrow from the reader")]
    pub fn next(&mut self) -> Result<Option<FilePacket<'_>>, CaptureReadError> {
        let file = loop {
            match self.decode()? {
                Ok(file) => break file,
                Err(need) if !self.read_more(need)? => {
                    self.decoder.finish(&self.buffer[self.used..])?;
                    return Ok(None);
                }
                Err(_) => {}
            }
        };
        let PacketSpan { ts_ns, orig_len, start, len, direction } = file;
        Ok(Some(FilePacket { ts_ns, orig_len, data: &self.buffer[start..start + len], direction }))
    }

    /// Returns the position of the next packet in the buffer, or the number of bytes that are
    /// needed before more can be decoded.
    fn decode(&mut self) -> Result<Result<PacketSpan, usize>, CaptureReadError> {
        let rest = &self.buffer[self.used..];
        let decoded = self.decoder.decode(rest)?;
        let base = self.used;
        self.used += decoded.consumed;
        match decoded.step {
            DecodeStep::NeedMore(need) => Ok(Err(need)),
            DecodeStep::Packet(packet) if packet.link_type != LinkType::ETHERNET => {
                Err(CaptureReadError::LinkType(packet.link_type.0))
            }
            DecodeStep::Packet(packet) => {
                // The frames of a port have no CRC.
                let (orig_len, len) = self.decoder.lengths_without_fcs(&packet);
                let start = base + (packet.data.as_ptr().addr() - rest.as_ptr().addr());
                Ok(Ok(PacketSpan {
                    ts_ns: packet.ts_ns,
                    orig_len,
                    start,
                    len,
                    direction: packet.direction(),
                }))
            }
        }
    }

    /// Reads once. The goal is a buffer of `need` bytes, but it may then have fewer or more.
    /// Returns false at the end of the file. The read is not repeated: the writer of a pipe may
    /// wait until the packets that it has already written have been processed.
    fn read_more(&mut self, need: usize) -> io::Result<bool> {
        self.buffer.drain(..self.used);
        self.used = 0;
        if self.ended {
            return Ok(false);
        }
        self.buffer.reserve(need.saturating_sub(self.buffer.len()).max(CHUNK_BYTES));
        let read = || rustix::io::read(&self.file, spare_capacity(&mut self.buffer));
        self.ended = retry_on_intr(read)? == 0;
        Ok(!self.ended)
    }
}

/// Writes packets: as pcapng if the file's name ends in `.pcapng` or `.ntar`, otherwise as pcap
/// with nanoseconds.
///
/// ```text
///   file                     buffer
///   | header | p | p | p |   | p | p | p |
///                        ^ written
///              `---v---'       ends: ^   ^
///              completed
/// ```
#[derive(Debug)]
pub struct FileWriter {
    path: String,
    file: File,
    /// Bytes that were written to the file.
    written: u64,
    buffer: Vec<u8>,
    /// Number of bytes at the start of the buffer that belong to the file's header.
    header_len: usize,
    /// For each packet in the buffer, the offset of its end.
    ends: Vec<usize>,
    /// Number of packets that are completely in the file.
    completed: u64,
    /// Number of packets that could not be written.
    lost: u64,
    format: CaptureFileFormat,
}

#[derive(Debug)]
enum CaptureFileFormat {
    Pcap(PcapWriter),
    Pcapng(PcapngWriter, Vec<InterfaceId>),
}

impl FileWriter {
    /// Creates a file, or truncates an existing one; `interfaces` are the interface names that
    /// pcapng records.
    ///
    /// # Errors
    /// [`OpenCause::File`] if the file cannot be created.
    pub fn create(path: &str, interfaces: &[&str]) -> Result<Self, OpenCause> {
        let failed = |source| OpenCause::File { path: path.to_owned(), source };
        let file = File::create(path).map_err(failed)?;
        let mut buffer = Vec::with_capacity(2 * CHUNK_BYTES);
        let format = if path.ends_with(".pcapng") || path.ends_with(".ntar") {
            begin_ng(&mut buffer, interfaces).map_err(|error| failed(io::Error::other(error)))?
        } else {
            CaptureFileFormat::Pcap(PcapWriter::begin(&mut buffer, LinkType::ETHERNET, 0))
        };
        let path = path.to_owned();
        let header_len = buffer.len();
        let ends = Vec::new();
        Ok(Self { path, file, written: 0, buffer, header_len, ends, completed: 0, lost: 0, format })
    }

    /// The path by which the file was opened.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Number of packets that were written to the file so far. Packets that wait in the buffer do
    /// not count.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Number of packets that could not be written, for example because the disk was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Appends a packet of interface number `interface`. pcap stores neither the interface nor a
    /// direction.
    ///
    /// # Errors
    /// The system's error if the buffer had to be written and could not, for example because the
    /// disk is full. Also an error if the format cannot represent the packet, which then does not
    /// count as lost.
    pub fn packet(
        &mut self,
        interface: usize,
        ts_ns: u64,
        data: &[u8],
        direction: Option<PcapDirection>,
    ) -> io::Result<()> {
        let orig_len = data.len() as u32;
        let written = match &self.format {
            CaptureFileFormat::Pcap(writer) => {
                writer.packet(&mut self.buffer, ts_ns, orig_len, data)
            }
            CaptureFileFormat::Pcapng(writer, ids) => {
                let interface = ids.get(interface).copied().unwrap_or_default();
                let record = PacketRecord {
                    interface,
                    ts_ns,
                    orig_len,
                    data,
                    direction,
                    ..PacketRecord::default()
                };
                writer.packet(&mut self.buffer, &record)
            }
        };
        written.map_err(io::Error::other)?;
        self.ends.push(self.buffer.len());
        if self.buffer.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the buffer to the file. Bytes that the system refuses are discarded, and a partially
    /// written packet is cut off again, so that the file stays readable.
    ///
    /// # Errors
    /// The system's error if the buffer could not be written.
    pub fn flush(&mut self) -> io::Result<()> {
        let (taken, result) = write_partially(&mut self.file, &self.buffer);
        let whole = self.ends.partition_point(|&end| end <= taken);
        self.completed += whole as u64;
        self.lost += (self.ends.len() - whole) as u64;
        self.written += taken as u64;
        // The rest of the header is kept for the next flush: without it no packet can be read.
        let mut header = taken.min(self.header_len)..self.header_len;
        if result.is_err() {
            let start = if header.is_empty() { self.header_len } else { 0 };
            let end = whole.checked_sub(1).map_or(start, |last| self.ends[last]);
            if self.truncate_to(self.written - (taken - end) as u64) {
                header.start = header.start.min(end);
            }
        }
        self.buffer.truncate(header.end);
        self.buffer.drain(..header.start);
        self.header_len = self.buffer.len();
        self.ends.clear();
        result
    }

    /// Truncates the file to `len` bytes. Returns whether that worked: pipes and devices cannot be
    /// truncated.
    fn truncate_to(&mut self, len: u64) -> bool {
        let cut = self.file.set_len(len).and_then(|()| self.file.seek(SeekFrom::Start(len)));
        self.written = *cut.as_ref().unwrap_or(&self.written);
        cut.is_ok()
    }
}

/// Writes until all bytes are written or the system refuses. Returns the number of bytes written,
/// and the error, if any.
fn write_partially(file: &mut File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while taken < bytes.len() {
        match file.write(&bytes[taken..]) {
            Ok(0) => return (taken, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => taken += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, Ok(()))
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        // The error is ignored, because `drop` cannot report it. A caller that needs it calls
        // `flush` first.
        let _ = self.flush();
    }
}

fn begin_ng(
    buffer: &mut Vec<u8>,
    interfaces: &[&str],
) -> Result<CaptureFileFormat, slipring_pcap::WriteError> {
    let application = concat!("slipring ", env!("CARGO_PKG_VERSION"));
    let section = SectionInfo { os: "Linux", application, ..SectionInfo::default() };
    let mut writer = PcapngWriter::begin(buffer, &section)?;
    let mut ids = Vec::with_capacity(interfaces.len());
    for &name in interfaces {
        let described =
            InterfaceInfo { name, link_type: LinkType::ETHERNET, ..InterfaceInfo::default() };
        ids.push(writer.interface(buffer, &described)?);
    }
    Ok(CaptureFileFormat::Pcapng(writer, ids))
}

/// The wall clock in nanoseconds since 1970, for capture timestamps.
#[must_use]
pub fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, frames: u64) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name).to_str().unwrap().to_owned();
        let mut writer = FileWriter::create(&path, &["netmap:x"]).unwrap();
        for i in 0..frames {
            let frame = vec![i as u8; 60 + (i as usize % 1400)];
            writer
                .packet(0, 1_700_000_000_000_000_000 + i, &frame, Some(PcapDirection::Inbound))
                .unwrap();
        }
        drop(writer);
        (dir, path)
    }

    #[test]
    fn both_formats_read_back_what_was_written_across_chunks() {
        for name in ["a.pcap", "a.pcapng"] {
            let (_dir, path) = written(name, 2000);
            let mut reader = FileReader::open(&path).unwrap();
            for i in 0..2000u64 {
                let packet = reader.next().unwrap().unwrap();
                assert_eq!(packet.ts_ns, 1_700_000_000_000_000_000 + i);
                assert!(packet.data.iter().all(|&byte| byte == i as u8));
                assert_eq!(packet.data.len(), 60 + (i as usize % 1400));
            }
            assert!(reader.next().unwrap().is_none());
        }
    }

    #[test]
    fn a_file_whose_first_flush_fails_still_begins_with_its_header() {
        for name in ["a.pcap", "a.pcapng"] {
            let (_dir, path) = written(name, 0);
            let mut writer = FileWriter::create(&path, &["netmap:x"]).unwrap();
            let file = std::mem::replace(&mut writer.file, File::open(&path).unwrap());
            writer.packet(0, 1, &[1; 60], None).unwrap();
            assert!(writer.flush().is_err(), "the descriptor is only open for reading");
            writer.file = file;
            writer.packet(0, 2, &[2; 60], None).unwrap();
            writer.flush().unwrap();
            assert_eq!((writer.completed(), writer.lost()), (1, 1));
            drop(writer);
            let mut reader = FileReader::open(&path).unwrap();
            assert_eq!(reader.next().unwrap().unwrap().data, [2; 60]);
            assert!(reader.next().unwrap().is_none());
        }
    }

    #[test]
    fn the_crc_of_a_capture_whose_frames_have_one_is_left_out() {
        let (_dir, path) = written("a.pcap", 1);
        let mut bytes = std::fs::read(&path).unwrap();
        // The link type is 1, and the frames end with an FCS of two times two bytes.
        bytes[20..24].copy_from_slice(&0x2400_0001_u32.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = FileReader::open(&path).unwrap();
        let packet = reader.next().unwrap().unwrap();
        assert_eq!((packet.data.len(), packet.orig_len), (56, 56));
    }

    #[test]
    fn a_file_cut_short_is_refused_at_open() {
        let (_dir, path) = written("a.pcap", 100);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let refused = FileReader::open(&path).unwrap_err();
        assert!(matches!(refused, OpenCause::Truncated { .. }), "{refused}");
    }

    #[test]
    fn a_directory_is_refused_at_open() {
        let dir = tempfile::tempdir().unwrap();
        let refused = FileReader::open(dir.path().to_str().unwrap()).unwrap_err();
        assert!(matches!(refused, OpenCause::File { .. }), "{refused}");
    }

    #[test]
    fn a_text_file_is_no_capture() {
        let (_dir, path) = written("a.pcap", 0);
        std::fs::write(&path, "hello, world, this is no capture").unwrap();
        assert!(matches!(FileReader::open(&path).unwrap_err(), OpenCause::NotACapture { .. }));
    }
}
