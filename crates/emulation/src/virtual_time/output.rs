//! Writes captures: pcapng if the file name has its suffix, nanosecond pcap otherwise.

use slipring_cli::Failure;
use slipring_pcap::{
    InterfaceId, InterfaceInfo, LinkType, PacketRecord, PcapDirection, PcapWriter, PcapngWriter,
    SectionInfo, WriteError,
};

use crate::output_file::OutputFile;

/// A capture of departing frames, at one or several exits.
#[derive(Debug)]
pub(crate) struct CaptureOutput {
    file: OutputFile,
    format: OutputFormat,
}

#[derive(Debug)]
enum OutputFormat {
    Pcap(PcapWriter),
    /// The writer, and the number of each exit with its interface in the file.
    Pcapng(PcapngWriter, Vec<(usize, InterfaceId)>),
}

impl CaptureOutput {
    /// Creates or truncates a capture. `exits` are the number and the name of each exit whose
    /// frames it receives; a pcapng file has one interface per exit.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be created.
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

    /// Appends a frame of `len` bytes that left at `exit`; `bytes` are the stored bytes of the
    /// frame.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be written, or the format cannot represent the frame.
    ///
    /// # Panics
    /// For pcapng, if `exit` is not one of the exits given to [`Self::create`].
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

    /// Writes the buffered data to the file.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be written.
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

/// Returns whether a file name has a suffix of pcapng files.
fn is_pcapng(path: &str) -> bool {
    path.ends_with(".pcapng") || path.ends_with(".ntar")
}
