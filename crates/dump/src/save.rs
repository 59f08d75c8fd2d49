//! Writes frames to captures: pcap or pcapng, one file or a sequence.

mod names;

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;

use slipring_cli::codes::{SR0201, SR0204};
use slipring_cli::{Diagnostic, Failure};
use slipring_pcap::{
    InterfaceId, InterfaceInfo, InterfaceStats, LinkType, PacketRecord, PcapDirection, PcapWriter,
    PcapngWriter, SectionInfo, WriteError,
};

use crate::source::DumpFrame;

pub use names::FileRotation;

/// Number of buffered bytes after which a capture is written to its file.
const WRITE_CHUNK_BYTES: usize = 64 << 10;

/// How a capture is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaveOptions {
    /// Path of the file, or the pattern of the files' paths if there are several; `-` is stdout.
    pub path: String,
    /// Whether the format is pcapng; otherwise it is pcap.
    pub pcapng: bool,
    /// Maximum bytes captured of a frame.
    pub snaplen: u32,
    /// When the next file begins.
    pub rotation: FileRotation,
    /// Whether to flush after each frame.
    pub flush_each: bool,
}

impl SaveOptions {
    /// Returns whether a file of this name is written as pcapng.
    #[must_use]
    pub fn is_pcapng(path: &str) -> bool {
        path.ends_with(".pcapng") || path.ends_with(".ntar")
    }
}

/// Totals at the end of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureTotals {
    /// Time at which the capture ended, in nanoseconds since 1970.
    pub ts_ns: u64,
    /// Number of frames that reached the filter.
    pub received: u64,
    /// Frames lost before they could be captured.
    pub dropped: u64,
}

/// Writes the files of a capture.
pub struct CaptureSaver {
    saving: SaveOptions,
    port: String,
    current: Option<CurrentFile>,
    /// Number of files opened so far.
    files: u64,
    /// Number of files that were opened in the current period before the current file.
    in_slice: u64,
    buffer: Vec<u8>,
}

/// The file being written.
struct CurrentFile {
    path: String,
    out: Box<dyn Write>,
    format: SaverFormat,
    /// The file's size in bytes, including bytes that are still buffered.
    size: u64,
    /// When the file was opened, in nanoseconds since 1970.
    since_ns: u64,
}

enum SaverFormat {
    Pcap(PcapWriter),
    Pcapng(PcapngWriter, InterfaceId),
}

impl CaptureSaver {
    /// Creates a saver and opens its first file. With a period, the file's name contains the time
    /// `now_ns`. If `now_ns` is `None`, the file is opened when the first frame arrives.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be created, or its name cannot contain a time.
    pub fn create(saving: SaveOptions, port: &str, now_ns: Option<u64>) -> Result<Self, Failure> {
        let (port, buffer) = (port.to_owned(), Vec::with_capacity(2 * WRITE_CHUNK_BYTES));
        let mut saver = Self { saving, port, current: None, files: 0, in_slice: 0, buffer };
        if let Some(now_ns) = now_ns {
            saver.open(now_ns)?;
        }
        Ok(saver)
    }

    /// Writes the first `kept` bytes of a frame. Returns `Break` if the capture must end, because
    /// no further file may be opened.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be written.
    pub fn packet(
        &mut self,
        frame: &DumpFrame<'_>,
        kept: usize,
    ) -> Result<ControlFlow<()>, Failure> {
        if self.rotate(frame.ts_ns)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let Some(current) = &mut self.current else { return Ok(ControlFlow::Break(())) };
        let before = self.buffer.len();
        let written = current.format.packet(&mut self.buffer, frame, kept);
        written.map_err(|error| unwritable(&current.path, &io::Error::other(error)))?;
        current.size += (self.buffer.len() - before) as u64;
        if self.saving.flush_each || self.buffer.len() >= WRITE_CHUNK_BYTES {
            self.flush()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Writes buffered bytes.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be written; [`Failure::ReaderLeft`] if it is a pipe whose
    /// reader has closed it.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let written = current.out.write_all(&self.buffer).and_then(|()| current.out.flush());
        self.buffer.clear();
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderLeft),
            written => written.map_err(|error| unwritable(&current.path, &error)),
        }
    }

    /// Ends the capture; a pcapng file gets the totals.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be written.
    pub fn finish(&mut self, totals: &CaptureTotals) -> Result<(), Failure> {
        if self.files == 0 {
            self.open(totals.ts_ns)?;
        }
        if let Some(CurrentFile { format: SaverFormat::Pcapng(writer, interface), path, .. }) =
            &self.current
        {
            let stats = InterfaceStats {
                interface: *interface,
                ts_ns: totals.ts_ns,
                end_ns: Some(totals.ts_ns),
                received: Some(totals.received),
                os_dropped: Some(totals.dropped),
                ..InterfaceStats::default()
            };
            let written = writer.statistics(&mut self.buffer, &stats);
            written.map_err(|error| unwritable(path, &io::Error::other(error)))?;
        }
        self.flush()
    }

    /// Opens the next file if the current file has reached its limit. Returns `Break` if no
    /// further file may be opened.
    fn rotate(&mut self, now_ns: u64) -> Result<ControlFlow<()>, Failure> {
        let rotation = &self.saving.rotation;
        let Some(current) = &self.current else {
            self.open(now_ns)?;
            return Ok(ControlFlow::Continue(()));
        };
        let late = rotation.is_late(now_ns.saturating_sub(current.since_ns));
        if !late && !rotation.is_large(current.size) {
            return Ok(ControlFlow::Continue(()));
        }
        if late && rotation.ends_after(self.files) {
            return Ok(ControlFlow::Break(()));
        }
        self.flush()?;
        self.in_slice = if late { 0 } else { self.in_slice + 1 };
        self.open(now_ns)?;
        Ok(ControlFlow::Continue(()))
    }

    fn open(&mut self, now_ns: u64) -> Result<(), Failure> {
        let path = self.saving.rotation.name(&self.saving.path, self.in_slice, now_ns)?;
        let out: Box<dyn Write> = match path.as_str() {
            "-" => Box::new(io::stdout()),
            _ => Box::new(File::create(&path).map_err(|error| unopened(&path, &error))?),
        };
        self.buffer.clear();
        let format = self.begin().map_err(|error| unwritable(&path, &io::Error::other(error)))?;
        let size = self.buffer.len() as u64;
        self.current = Some(CurrentFile { path, out, format, size, since_ns: now_ns });
        self.files += 1;
        // The file header is written immediately, because programs may wait for it.
        self.flush()
    }

    fn begin(&mut self) -> Result<SaverFormat, WriteError> {
        let SaveOptions { pcapng, snaplen, .. } = self.saving;
        let link_type = LinkType::ETHERNET;
        if !pcapng {
            return Ok(SaverFormat::Pcap(PcapWriter::begin(&mut self.buffer, link_type, snaplen)));
        }
        let application = concat!("slipring ", env!("CARGO_PKG_VERSION"));
        let section = SectionInfo { os: "Linux", application, ..SectionInfo::default() };
        let mut writer = PcapngWriter::begin(&mut self.buffer, &section)?;
        let described =
            InterfaceInfo { name: &self.port, link_type, snaplen, ..InterfaceInfo::default() };
        let interface = writer.interface(&mut self.buffer, &described)?;
        Ok(SaverFormat::Pcapng(writer, interface))
    }
}

impl SaverFormat {
    fn packet(
        &self,
        out: &mut Vec<u8>,
        frame: &DumpFrame<'_>,
        kept: usize,
    ) -> Result<(), WriteError> {
        let data = frame.bytes.get(..kept).unwrap_or(frame.bytes);
        // In a malformed capture, a frame's original length may be less than the number of its
        // captured bytes, so the greater of the two is written.
        let orig_len = frame.wire_len.max(data.len() as u32);
        match self {
            Self::Pcap(writer) => writer.packet(out, frame.ts_ns, orig_len, data),
            Self::Pcapng(writer, interface) => {
                let direction = frame.outgoing.map(|outgoing| match outgoing {
                    true => PcapDirection::Outbound,
                    false => PcapDirection::Inbound,
                });
                let record = PacketRecord {
                    interface: *interface,
                    ts_ns: frame.ts_ns,
                    orig_len,
                    data,
                    direction,
                    ..PacketRecord::default()
                };
                writer.packet(out, &record)
            }
        }
    }
}

fn unopened(path: &str, error: &io::Error) -> Failure {
    Diagnostic::new(SR0201, format!("cannot write {path}"))
        .with_cause(error.to_string())
        .with_help(format!("see whether its directory is there and open to you: ls -ld {path}"))
        .into()
}

fn unwritable(path: &str, error: &io::Error) -> Failure {
    Diagnostic::new(SR0204, format!("cannot write {path}"))
        .with_cause(error.to_string())
        .with_help(format!("make room, or write elsewhere: df -h {path}"))
        .into()
}

#[cfg(test)]
mod tests;
