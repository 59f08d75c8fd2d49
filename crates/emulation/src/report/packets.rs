//! The packet log: a pcapng file with every frame at its arrival, at its departure, and
//! at its loss.
//!
//! Each port has two interfaces, `NAME in` and `NAME out`. All records of a frame have the same
//! packet id. A lost frame is recorded again at its input interface, with the verdict "dropped" and
//! the cause as a comment. A departing frame has the verdict "passed" and, in real time, a comment
//! with its lateness.

use slipring_cli::Failure;
use slipring_link::LinkDropCause;
use slipring_pcap::{
    InterfaceId, InterfaceInfo, InterfaceStats, LinkType, PacketRecord, PcapDirection,
    PcapngWriter, SectionInfo, TcVerdict, WriteError,
};

use crate::output_file::OutputFile;

/// A log file.
#[derive(Debug)]
pub(crate) struct PacketLog {
    file: OutputFile,
    writer: PcapngWriter,
    /// Buffer for the comment of a record.
    comment: String,
}

/// A frame to be logged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedFrame<'f> {
    /// The packet id, shared by all records of the frame.
    pub id: u64,
    /// Time of the event, in ns since 1970.
    pub ts_ns: u64,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
    /// The frame's bytes, as far as they are known.
    pub bytes: &'f [u8],
}

/// Frame counts of a port, for the statistics at the end of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortTotals {
    /// Number of frames that the port received.
    pub received: u64,
    /// Number of frames that the port sent.
    pub sent: u64,
}

impl PacketLog {
    /// Creates a log; `ports` are the names of the ports, `command` is the command line.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be created.
    pub(crate) fn create(path: &str, ports: &[String], command: &str) -> Result<Self, Failure> {
        let mut file = OutputFile::create(path)?;
        let writer =
            begin(&mut file.buffer, ports, command).map_err(|error| file.refused(&error))?;
        Ok(Self { file, writer, comment: String::new() })
    }

    /// Logs the arrival of a frame at a port.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn arrived(&mut self, port: usize, frame: &LoggedFrame<'_>) -> Result<(), Failure> {
        self.comment.clear();
        self.write(record(rx_interface(port), frame, None))
    }

    /// Logs the departure of a frame at a port. `late_ns` is how late it was; `None` in virtual
    /// time, where no frame is late.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn sent(
        &mut self,
        port: usize,
        frame: &LoggedFrame<'_>,
        late_ns: Option<u64>,
    ) -> Result<(), Failure> {
        self.comment.clear();
        if let Some(late_ns) = late_ns {
            self.comment = format!("{late_ns} ns late");
        }
        self.write(record(tx_interface(port), frame, Some(TcVerdict::Passed)))
    }

    /// Logs the loss of a frame that arrived at `port`. `link` is the name of the link that lost
    /// the frame; `None` if no link lost it.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn lost(
        &mut self,
        port: usize,
        frame: &LoggedFrame<'_>,
        cause: LinkDropCause,
        link: Option<&str>,
    ) -> Result<(), Failure> {
        self.comment = match link {
            Some(link) => format!("{cause} (link {link})"),
            None => cause.to_string(),
        };
        self.write(record(rx_interface(port), frame, Some(TcVerdict::Dropped)))
    }

    /// Ends the log with the statistics of each port.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn finish(mut self, totals: &[PortTotals], ts_ns: u64) -> Result<(), Failure> {
        for (port, totals) in totals.iter().enumerate() {
            let interfaces =
                [(rx_interface(port), totals.received), (tx_interface(port), totals.sent)];
            for (interface, count) in interfaces {
                let received = Some(count);
                let stats =
                    InterfaceStats { interface, ts_ns, received, ..InterfaceStats::default() };
                self.statistics(stats)?;
            }
        }
        self.file.flush()
    }

    fn statistics(&mut self, stats: InterfaceStats) -> Result<(), Failure> {
        let written = self.writer.statistics(&mut self.file.buffer, &stats);
        written.map_err(|error| self.file.refused(&error))
    }

    fn write(&mut self, record: PacketRecord<'_>) -> Result<(), Failure> {
        let record = PacketRecord { comment: &self.comment, ..record };
        match self.writer.packet(&mut self.file.buffer, &record) {
            Ok(()) => self.file.flush_if_full(),
            Err(error) => Err(self.file.refused(&error)),
        }
    }
}

fn record<'f>(
    interface: InterfaceId,
    frame: &LoggedFrame<'f>,
    verdict: Option<TcVerdict>,
) -> PacketRecord<'f> {
    let outgoing = interface.0 % 2 == 1;
    PacketRecord {
        interface,
        ts_ns: frame.ts_ns,
        orig_len: frame.len,
        data: frame.bytes,
        direction: Some(if outgoing { PcapDirection::Outbound } else { PcapDirection::Inbound }),
        packet_id: Some(frame.id),
        verdict,
        ..PacketRecord::default()
    }
}

fn begin(
    buffer: &mut Vec<u8>,
    ports: &[String],
    command: &str,
) -> Result<PcapngWriter, WriteError> {
    let application = concat!("slipring ", env!("CARGO_PKG_VERSION"));
    let section = SectionInfo { application, comment: command, ..SectionInfo::default() };
    let mut writer = PcapngWriter::begin(buffer, &section)?;
    for port in ports {
        for direction in ["in", "out"] {
            let name = format!("{port} {direction}");
            let link_type = LinkType::ETHERNET;
            let info = InterfaceInfo { name: &name, link_type, ..InterfaceInfo::default() };
            writer.interface(buffer, &info)?;
        }
    }
    Ok(writer)
}

fn rx_interface(port: usize) -> InterfaceId {
    InterfaceId(port as u32 * 2)
}

fn tx_interface(port: usize) -> InterfaceId {
    InterfaceId(port as u32 * 2 + 1)
}
