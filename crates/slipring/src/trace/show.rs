//! Output of frames: text lines, JSON, or a capture.

use serde_json::Value;
use slipring_abi::name::PortName;
use slipring_cli::{Failure, ReportFormat, Session};
use slipring_dump::save::{CaptureSaver, CaptureTotals, SaveOptions};
use slipring_dump::show::{PrintStyle, PrintedBytes, object, summary};
use slipring_dump::source::DumpFrame;
use slipring_port::capture::wall_clock;
use slipring_wire::summary::HexDump;

pub(super) enum TraceSink {
    /// Prints a line or a JSON object per frame.
    Lines { port: String, style: PrintStyle },
    /// Collects frames for the single document at the end.
    Collected { port: String, style: PrintStyle, frames: Vec<Value> },
    /// Writes a capture.
    File(Box<CaptureSaver>),
}

impl TraceSink {
    pub(super) fn open(
        path: Option<&str>,
        port: &PortName,
        style: PrintStyle,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let port = port.to_string();
        Ok(match (path, session.reporter.format()) {
            (Some(path), _) => {
                let saving =
                    SaveOptions { path: path.to_owned(), pcapng: true, ..SaveOptions::default() };
                Self::File(Box::new(CaptureSaver::create(saving, &port, Some(wall_clock()))?))
            }
            (None, ReportFormat::Json) => Self::Collected { port, style, frames: Vec::new() },
            (None, _) => Self::Lines { port, style },
        })
    }

    /// Outputs a frame, or keeps it for the document at the end.
    pub(super) fn take(
        &mut self,
        frame: &DumpFrame<'_>,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Lines { style, .. } if session.reporter.format() == ReportFormat::Text => {
                session.reporter.raw(line(frame, style).as_bytes())
            }
            Self::Lines { port, style } => {
                session.reporter.raw(format!("{}\n", object(frame, port, style)).as_bytes())
            }
            Self::Collected { port, style, frames } => {
                frames.push(object(frame, port, style));
                Ok(())
            }
            // A file that is never rotated accepts every frame.
            Self::File(saver) => saver.packet(frame, frame.bytes.len()).map(|_| ()),
        }
    }

    /// Flushes the output.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::File(saver) => saver.flush(),
            Self::Lines { .. } | Self::Collected { .. } => Ok(()),
        }
    }

    /// Ends a capture, with its totals.
    pub(super) fn finish(&mut self, received: u64, dropped: u64) -> Result<(), Failure> {
        match self {
            Self::File(saver) => {
                saver.finish(&CaptureTotals { ts_ns: wall_clock(), received, dropped })
            }
            Self::Lines { .. } | Self::Collected { .. } => Ok(()),
        }
    }

    /// Removes and returns the collected frames, for the document at the end.
    pub(super) fn take_frames(&mut self) -> Option<Vec<Value>> {
        match self {
            Self::Collected { frames, .. } => Some(std::mem::take(frames)),
            Self::Lines { .. } | Self::File(_) => None,
        }
    }
}

/// Formats `14:23:45.123456789 Out    98 IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 7, seq 1`.
fn line(frame: &DumpFrame<'_>, style: &PrintStyle) -> String {
    let direction = match frame.outgoing {
        Some(true) => "Out",
        Some(false) => "In ",
        None => "-  ",
    };
    let (time, length) = (time_of_day(frame.ts_ns), frame.wire_len);
    let mut text = format!("{time} {direction} {length:>5} {}\n", summary(frame, style));
    if style.bytes != PrintedBytes::None {
        text += &HexDump(frame.bytes).to_string();
    }
    text
}

/// Formats the time of day in UTC.
fn time_of_day(ts_ns: u64) -> String {
    let (seconds, ns) = (ts_ns / 1_000_000_000 % 86_400, ts_ns % 1_000_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{ns:09}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use slipring_wire::FrameSpec;

    use super::*;

    const TIME: u64 = 1_700_000_000_000_000_042;

    fn frame(bytes: &[u8], outgoing: Option<bool>) -> DumpFrame<'_> {
        DumpFrame { ts_ns: TIME, outgoing, wire_len: 60, bytes }
    }

    #[test]
    fn a_line_tells_time_direction_length_and_what_it_is() {
        let bytes = FrameSpec::default().build(60).unwrap().bytes;
        let text = line(&frame(&bytes, Some(true)), &PrintStyle::default());
        let what = "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18";
        assert_eq!(text, format!("22:13:20.000000042 Out    60 {what}\n"));
        let style =
            PrintStyle { bytes: PrintedBytes::HexText, link: true, ..PrintStyle::default() };
        let text = line(&frame(&bytes, None), &style);
        assert!(text.starts_with("22:13:20.000000042 -      60 "), "{text}");
        assert!(text.contains(" > ") && text.contains("\n\t0x0000: "), "{text}");
    }
}
