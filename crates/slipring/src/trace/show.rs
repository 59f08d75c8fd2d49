//! Where frames go: lines for people, JSON, or a capture.

use std::fs::File;
use std::io::{self, Write};

use serde_json::{Value, json};
use slipring_abi::name::PortName;
use slipring_cli::codes::SR0201;
use slipring_cli::{Diagnostic, Failure, Format, SCHEMA, Session};
use slipring_pcap::{
    Direction, InterfaceId, InterfaceInfo, LinkType, PacketRecord, PcapngWriter, SectionInfo,
};
use slipring_wire::summary::{HexDump, Summary};

use super::source::Frame;

/// Bytes of a capture written at a time.
const CHUNK: usize = 64 << 10;

/// What a line has beside the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// The bytes.
    pub(super) hex: bool,
    /// Hardware addresses.
    pub(super) link: bool,
}

pub(super) enum Sink {
    /// A line each, or an object each.
    Lines { port: String, style: Style },
    /// Kept for the one document at the end.
    Kept { port: String, style: Style, frames: Vec<Value> },
    /// A capture.
    File(Box<Saver>),
}

impl Sink {
    pub(super) fn open(
        path: Option<&str>,
        port: &PortName,
        style: Style,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let port = port.to_string();
        Ok(match (path, session.reporter.format()) {
            (Some(path), _) => Self::File(Box::new(Saver::create(path, &port)?)),
            (None, Format::Json) => Self::Kept { port, style, frames: Vec::new() },
            (None, _) => Self::Lines { port, style },
        })
    }

    /// Takes a frame.
    pub(super) fn take(
        &mut self,
        frame: &Frame<'_>,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Lines { style, .. } if session.reporter.format() == Format::Text => {
                session.reporter.raw(line(frame, *style).as_bytes())
            }
            Self::Lines { port, style } => {
                session.reporter.raw(format!("{}\n", object(frame, port, *style)).as_bytes())
            }
            Self::Kept { port, style, frames } => {
                frames.push(object(frame, port, *style));
                Ok(())
            }
            Self::File(saver) => saver.packet(frame),
        }
    }

    /// Hands over what is buffered.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::File(saver) => saver.flush(),
            Self::Lines { .. } | Self::Kept { .. } => Ok(()),
        }
    }

    /// The frames of the one document.
    pub(super) fn take_frames(&mut self) -> Option<Vec<Value>> {
        match self {
            Self::Kept { frames, .. } => Some(std::mem::take(frames)),
            Self::Lines { .. } | Self::File(_) => None,
        }
    }
}

/// `14:23:45.123456789 Out    98 IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 7, seq 1`
fn line(frame: &Frame<'_>, style: Style) -> String {
    let direction = match frame.outgoing {
        Some(true) => "Out",
        Some(false) => "In ",
        None => "-  ",
    };
    let (time, length) = (time_of_day(frame.ts_ns), frame.wire_len);
    let mut text = format!("{time} {direction} {length:>5} {}\n", summary(frame, style));
    if style.hex {
        text += &HexDump(frame.bytes).to_string();
    }
    text
}

fn summary(frame: &Frame<'_>, style: Style) -> String {
    let summary = Summary::new(frame.bytes).with_wire_len(frame.wire_len as usize);
    if style.link { format!("{summary:#}") } else { summary.to_string() }
}

/// In UTC.
fn time_of_day(ts_ns: u64) -> String {
    let (seconds, ns) = (ts_ns / 1_000_000_000 % 86_400, ts_ns % 1_000_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{ns:09}", seconds % 60)
}

fn object(frame: &Frame<'_>, port: &str, style: Style) -> Value {
    let mut object = json!({
        "schema": SCHEMA,
        "event": "frame",
        "time_ns": frame.ts_ns,
        "port": port,
        "direction": frame.outgoing.map(|outgoing| if outgoing { "out" } else { "in" }),
        "length_bytes": frame.wire_len,
        "summary": summary(frame, style),
    });
    if style.hex {
        object["bytes"] =
            json!(frame.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    object
}

/// Writes pcapng.
pub(super) struct Saver {
    path: String,
    out: Box<dyn Write>,
    buffer: Vec<u8>,
    writer: PcapngWriter,
    interface: InterfaceId,
}

impl Saver {
    fn create(path: &str, port: &str) -> Result<Self, Failure> {
        let out: Box<dyn Write> = match path {
            "-" => Box::new(io::stdout()),
            _ => Box::new(File::create(path).map_err(|error| failed(path, &error))?),
        };
        let mut buffer = Vec::with_capacity(2 * CHUNK);
        let application = concat!("slipring ", env!("CARGO_PKG_VERSION"));
        let section = SectionInfo { os: "Linux", application, ..SectionInfo::default() };
        let described =
            InterfaceInfo { name: port, link_type: LinkType::ETHERNET, ..InterfaceInfo::default() };
        let begun = PcapngWriter::begin(&mut buffer, &section).and_then(|mut writer| {
            let interface = writer.interface(&mut buffer, &described)?;
            Ok((writer, interface))
        });
        let (writer, interface) = begun.map_err(|error| failed(path, &io::Error::other(error)))?;
        Ok(Self { path: path.to_owned(), out, buffer, writer, interface })
    }

    fn packet(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let record = PacketRecord {
            interface: self.interface,
            ts_ns: frame.ts_ns,
            orig_len: frame.wire_len,
            data: frame.bytes,
            direction: frame.outgoing.map(|outgoing| match outgoing {
                true => Direction::Outbound,
                false => Direction::Inbound,
            }),
            ..PacketRecord::default()
        };
        let written = self.writer.packet(&mut self.buffer, &record);
        written.map_err(|error| failed(&self.path, &io::Error::other(error)))?;
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = self.out.write_all(&self.buffer).and_then(|()| self.out.flush());
        self.buffer.clear();
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderLeft),
            written => written.map_err(|error| failed(&self.path, &error)),
        }
    }
}

fn failed(path: &str, error: &io::Error) -> Failure {
    Diagnostic::new(SR0201, format!("cannot write {path}"))
        .with_cause(error.to_string())
        .with_help(format!("see whether its directory is there and open to you: ls -ld {path}"))
        .into()
}

#[cfg(test)]
mod tests {
    use slipring_wire::FrameSpec;

    use super::*;

    const TIME: u64 = 1_700_000_000_000_000_042;
    const PLAIN: Style = Style { hex: false, link: false };

    fn frame(bytes: &[u8], outgoing: Option<bool>) -> Frame<'_> {
        Frame { ts_ns: TIME, outgoing, wire_len: 60, bytes }
    }

    #[test]
    fn a_line_tells_time_direction_length_and_what_it_is() {
        let bytes = FrameSpec::default().build(60).unwrap().bytes;
        let text = line(&frame(&bytes, Some(true)), PLAIN);
        let what = "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18";
        assert_eq!(text, format!("22:13:20.000000042 Out    60 {what}\n"));
        let text = line(&frame(&bytes, None), Style { hex: true, link: true });
        assert!(text.starts_with("22:13:20.000000042 -      60 "), "{text}");
        assert!(text.contains(" > ") && text.contains("\n\t0x0000: "), "{text}");
    }

    #[test]
    fn an_object_has_the_same_facts() {
        let bytes = FrameSpec::default().build(60).unwrap().bytes;
        let object = object(&frame(&bytes, Some(false)), "netmap:x", PLAIN);
        assert_eq!(object["event"], "frame");
        assert_eq!(object["direction"], "in");
        assert_eq!(object["time_ns"], TIME);
        assert!(object.get("bytes").is_none());
    }
}
