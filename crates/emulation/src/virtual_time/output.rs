//! Writes captures: pcapng if the file name has its suffix, nanosecond pcap otherwise.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_pcap::{
    InterfaceId, InterfaceInfo, LinkType, PacketRecord, PcapDirection, PcapWriter, PcapngWriter,
    SectionInfo, WriteError,
};

/// Bytes per write.
const WRITE_CHUNK_BYTES: usize = 1 << 18;

/// A capture of departing frames, at one or several exits.
#[derive(Debug)]
pub(crate) struct CaptureOutput {
    file: OutputFile,
    format: OutputFormat,
}

#[derive(Debug)]
enum OutputFormat {
    Pcap(PcapWriter),
    /// With the interface of each exit.
    Pcapng(PcapngWriter, Vec<(usize, InterfaceId)>),
}

impl CaptureOutput {
    /// Creates or truncates a capture. Frames leave at `exits`, given by number and name; pcapng
    /// has an interface for each.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(crate) fn create(path: &str, exits: &[(usize, &str)]) -> Result<Self, Failure> {
        let mut file = OutputFile::create(path)?;
        let format = if is_pcapng(path) {
            let (writer, interfaces) =
                begin(&mut file.buffer, exits).map_err(|error| file.refused(&error))?;
            OutputFormat::Pcapng(writer, interfaces)
        } else {
            OutputFormat::Pcap(PcapWriter::begin(&mut file.buffer, LinkType::ETHERNET, 0))
        };
        Ok(Self { file, format })
    }

    /// Appends a frame of `len` bytes that left at `exit`; `bytes` are those that are known.
    ///
    /// # Errors
    /// If the disk is full, or the format cannot hold it.
    ///
    /// # Panics
    /// If the capture was created for other exits.
    #[inline]
    pub(crate) fn frame(
        &mut self,
        exit: usize,
        ts_ns: u64,
        len: u32,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let buffer = &mut self.file.buffer;
        let written = match &self.format {
            OutputFormat::Pcap(writer) => writer.packet(buffer, ts_ns, len, bytes),
            OutputFormat::Pcapng(writer, interfaces) => {
                let here = interfaces.iter().find(|(other, _)| *other == exit);
                let interface = here.expect("frames leave where links lead").1;
                let direction = Some(PcapDirection::Outbound);
                let record = PacketRecord {
                    interface,
                    ts_ns,
                    orig_len: len,
                    data: bytes,
                    direction,
                    ..PacketRecord::default()
                };
                writer.packet(buffer, &record)
            }
        };
        match written {
            Ok(()) => self.file.flush_if_full(),
            Err(error) => Err(self.file.refused(&error)),
        }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// If the disk is full.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.file.flush()
    }
}

fn begin(
    buffer: &mut Vec<u8>,
    exits: &[(usize, &str)],
) -> Result<(PcapngWriter, Vec<(usize, InterfaceId)>), WriteError> {
    let application = concat!("slipring ", env!("CARGO_PKG_VERSION"));
    let section = SectionInfo { application, ..SectionInfo::default() };
    let mut writer = PcapngWriter::begin(buffer, &section)?;
    let mut interfaces = Vec::new();
    for &(exit, name) in exits {
        let link_type = LinkType::ETHERNET;
        let info = InterfaceInfo { name, link_type, ..InterfaceInfo::default() };
        interfaces.push((exit, writer.interface(buffer, &info)?));
    }
    Ok((writer, interfaces))
}

/// Returns whether a file name is one of pcapng.
fn is_pcapng(path: &str) -> bool {
    path.ends_with(".pcapng") || path.ends_with(".ntar")
}

/// A file that is written in large blocks, with errors that name it.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: String,
    file: File,
    /// Bytes that are not written yet; append here.
    pub buffer: Vec<u8>,
}

impl OutputFile {
    /// Creates or truncates a file; `-` is standard output.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn create(path: &str) -> Result<Self, Failure> {
        let place = if path == "-" { "/dev/stdout" } else { path };
        let file =
            File::create(place).map_err(|error| Diagnostic::unwritable(Path::new(path), &error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            buffer: Vec::with_capacity(WRITE_CHUNK_BYTES + (1 << 16)),
        })
    }

    /// Writes the buffer if there is enough in it.
    ///
    /// # Errors
    /// If the disk is full.
    #[inline]
    pub(crate) fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.buffer.len() < WRITE_CHUNK_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes the whole buffer.
    ///
    /// # Errors
    /// If the disk is full.
    #[cold]
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        match written {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderLeft),
            Err(error) => {
                let summary = format!("cannot write `{}`", self.path);
                let error = Diagnostic::new(codes::SR0204, summary).with_cause(error.to_string());
                Err(error.with_help(format!("make room: df -h {}", self.path)).into())
            }
        }
    }

    /// Creates the error for data that the format cannot represent.
    pub(crate) fn refused(&self, error: &WriteError) -> Failure {
        let summary = format!("cannot write `{}`", self.path);
        let error = Diagnostic::new(codes::SR0204, summary).with_cause(error.to_string());
        error.with_help("write pcapng: give the file a name that ends in .pcapng").into()
    }
}
