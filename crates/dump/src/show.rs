//! Formats a frame: a line and its bytes for people, or a JSON object.

use std::fmt::Write;

use serde_json::{Value, json};
use slipring_cli::SCHEMA_VERSION;
use slipring_wire::summary::{Conversations, Detail, FrameText, Hex, HexDump, Summary, TextDump};

use crate::source::DumpFrame;
use crate::stamp::{TimestampForm, TimestampPrinter};

/// How the bytes of a frame are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrintedBytes {
    /// The bytes are not printed.
    #[default]
    None,
    /// The bytes are printed as hexadecimal numbers.
    Hex,
    /// The bytes are printed as hexadecimal numbers, and as text beside them.
    HexText,
    /// The bytes are printed as text.
    Text,
}

/// What is printed for a frame in addition to its summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrintStyle {
    /// Whether to print the link layer's addresses and type.
    pub link: bool,
    /// How the frame's bytes are printed.
    pub bytes: PrintedBytes,
    /// Whether the printed bytes include the link-layer header.
    pub whole: bool,
    /// How detailed the summary is.
    pub detail: Detail,
    /// Whether lines are numbered.
    pub numbered: bool,
}

/// Formats frames as lines of text.
pub(crate) struct FramePrinter {
    style: PrintStyle,
    stamps: TimestampPrinter,
    printed: u64,
    /// Initial TCP sequence numbers, to which printed numbers are relative.
    conversations: Conversations,
}

impl FramePrinter {
    pub(crate) fn new(style: PrintStyle, form: TimestampForm, nanos: bool) -> Self {
        let stamps = TimestampPrinter::new(form, nanos);
        Self { style, stamps, printed: 0, conversations: Conversations::default() }
    }

    /// Appends the lines of a frame to `out`: the summary and, if the style says so, its captured
    /// bytes.
    pub(crate) fn print(&mut self, out: &mut String, frame: &DumpFrame<'_>) {
        self.printed += 1;
        if self.style.numbered {
            let _ = write!(out, "{:>5}  ", self.printed);
        }
        self.stamps.write(out, frame.ts_ns);
        // Writing to a string cannot fail.
        let description = described(frame, &self.style, Some(&mut self.conversations));
        let _ = writeln!(out, "{}", description.text);
        let from = if self.style.whole { 0 } else { description.link_len };
        let bytes = frame.bytes.get(from..).unwrap_or_default();
        let _ = match self.style.bytes {
            PrintedBytes::None => Ok(()),
            PrintedBytes::Hex => write!(out, "{}", Hex(bytes)),
            PrintedBytes::HexText => write!(out, "{}", HexDump(bytes)),
            PrintedBytes::Text => write!(out, "{}", TextDump(bytes)),
        };
    }
}

/// Returns a one-line summary of the frame, with absolute sequence numbers.
#[must_use]
pub fn summary(frame: &DumpFrame<'_>, style: &PrintStyle) -> String {
    described(frame, style, None).text
}

fn described(
    frame: &DumpFrame<'_>,
    style: &PrintStyle,
    conversations: Option<&mut Conversations>,
) -> FrameText {
    let summary = Summary::new(frame.bytes).with_wire_len(frame.wire_len as usize);
    summary.with_detail(style.detail).write(style.link, conversations)
}

/// Returns the contents of a printed line as a JSON object.
#[must_use]
pub fn object(frame: &DumpFrame<'_>, port: &str, style: &PrintStyle) -> Value {
    let mut object = json!({
        "schema": SCHEMA_VERSION,
        "event": "frame",
        "time_ns": frame.ts_ns,
        "port": port,
        "direction": frame.outgoing.map(|outgoing| if outgoing { "out" } else { "in" }),
        "length_bytes": frame.wire_len,
        "summary": summary(frame, style),
    });
    if style.bytes != PrintedBytes::None {
        let bytes = frame.bytes.iter().map(|byte| format!("{byte:02x}"));
        object["bytes"] = json!(bytes.collect::<String>());
    }
    object
}

#[cfg(test)]
mod tests {
    use slipring_wire::FrameSpec;

    use super::*;

    const TIME: u64 = 1_700_000_000_123_456_789;

    fn lines(style: PrintStyle) -> String {
        let bytes = FrameSpec::default().build(60).unwrap().bytes;
        let frame = DumpFrame { ts_ns: TIME, outgoing: Some(true), wire_len: 60, bytes: &bytes };
        let mut out = String::new();
        FramePrinter::new(style, TimestampForm::Unix, false).print(&mut out, &frame);
        out
    }

    #[test]
    fn a_line_is_a_time_and_what_the_frame_is() {
        assert_eq!(
            lines(PrintStyle::default()),
            "1700000000.123456 IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18\n"
        );
        let text = lines(PrintStyle { numbered: true, link: true, ..PrintStyle::default() });
        assert!(text.starts_with("    1  1700000000.123456 "), "{text}");
        assert!(text.contains(", IPv4 (0x0800), length 60: ") || text.contains("length 60: "));
    }

    #[test]
    fn bytes_begin_behind_the_link_layer_unless_all_are_wanted() {
        let hex =
            |whole| lines(PrintStyle { bytes: PrintedBytes::Hex, whole, ..PrintStyle::default() });
        assert!(hex(false).contains("\n\t0x0000:  4500 002e"), "{}", hex(false));
        assert!(hex(true).contains(" 0800 4500\n\t0x0010: "), "{}", hex(true));
        let text = lines(PrintStyle { bytes: PrintedBytes::Text, ..PrintStyle::default() });
        assert!(text.lines().nth(1).unwrap().starts_with("E..."), "{text}");
    }

    #[test]
    fn an_object_has_the_same_facts() {
        let bytes = FrameSpec::default().build(60).unwrap().bytes;
        let frame = DumpFrame { ts_ns: TIME, outgoing: Some(false), wire_len: 60, bytes: &bytes };
        let facts = object(&frame, "netmap:x", &PrintStyle::default());
        assert_eq!(facts["event"], "frame");
        assert_eq!((&facts["direction"], &facts["time_ns"]), (&json!("in"), &json!(TIME)));
        assert!(facts.get("bytes").is_none());
        let with_bytes = PrintStyle { bytes: PrintedBytes::Hex, ..PrintStyle::default() };
        assert_eq!(object(&frame, "x", &with_bytes)["bytes"].as_str().unwrap().len(), 120);
    }
}
