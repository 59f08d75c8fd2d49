//! The destination of selected frames: text lines or JSON objects, a capture file, or both. If there
//! is neither, frames are only counted (`run.rs`).

use std::ops::ControlFlow;

use serde_json::Value;
use slipring_cli::{Failure, ReportFormat, Session};

use crate::plan::DumpOutput;
use crate::save::{CaptureSaver, CaptureTotals};
use crate::show::{FramePrinter, PrintStyle, object};
use crate::source::DumpFrame;

/// Number of buffered bytes after which lines are written.
const WRITE_CHUNK_BYTES: usize = 32 << 10;

pub(crate) struct DumpSink {
    port: String,
    style: PrintStyle,
    lines: LineOutput,
    saver: Option<CaptureSaver>,
    /// Lines that were not written yet.
    text: String,
    /// Whether each line is written immediately.
    flush_each: bool,
}

enum LineOutput {
    None,
    /// Prints text lines.
    Text(FramePrinter),
    /// Prints one JSON object per frame.
    Objects,
    /// Collects the frames for the single JSON document at the end.
    Collected(Vec<Value>),
}

impl DumpSink {
    pub(crate) fn open(
        output: &DumpOutput,
        port: &str,
        now_ns: Option<u64>,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let saver = output.saving.clone().map(|saving| CaptureSaver::create(saving, port, now_ns));
        let lines = match session.reporter.format() {
            _ if !output.shows => LineOutput::None,
            ReportFormat::Text => LineOutput::Text(FramePrinter::new(
                output.style,
                output.timestamp_form,
                output.nanos,
            )),
            ReportFormat::Json => LineOutput::Collected(Vec::new()),
            ReportFormat::JsonLines => LineOutput::Objects,
        };
        Ok(Self {
            port: port.to_owned(),
            style: output.style,
            lines,
            saver: saver.transpose()?,
            text: String::new(),
            flush_each: output.flush_each,
        })
    }

    /// Processes a frame, of which `kept` bytes are captured; returns whether the capture
    /// continues.
    pub(crate) fn take(
        &mut self,
        frame: &DumpFrame<'_>,
        kept: usize,
        session: &mut Session<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        if let Some(saver) = &mut self.saver
            && saver.packet(frame, kept)?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let frame = DumpFrame { bytes: frame.bytes.get(..kept).unwrap_or(frame.bytes), ..*frame };
        match &mut self.lines {
            LineOutput::None => {}
            LineOutput::Text(printer) => printer.print(&mut self.text, &frame),
            LineOutput::Objects => {
                self.text += &object(&frame, &self.port, &self.style).to_string();
                self.text.push('\n');
            }
            LineOutput::Collected(frames) => frames.push(object(&frame, &self.port, &self.style)),
        }
        if self.flush_each || self.text.len() >= WRITE_CHUNK_BYTES {
            self.write_lines(session)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Writes buffered output.
    pub(crate) fn flush(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        self.write_lines(session)?;
        self.saver.as_mut().map_or(Ok(()), CaptureSaver::flush)
    }

    pub(crate) fn finish(
        &mut self,
        totals: &CaptureTotals,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        self.write_lines(session)?;
        self.saver.as_mut().map_or(Ok(()), |saver| saver.finish(totals))
    }

    /// Returns the frames for the single JSON document; `None` if the output has another form.
    pub(crate) fn take_frames(&mut self) -> Option<Vec<Value>> {
        match &mut self.lines {
            LineOutput::Collected(frames) => Some(std::mem::take(frames)),
            _ => None,
        }
    }

    fn write_lines(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        if self.text.is_empty() {
            return Ok(());
        }
        let written = session.reporter.raw(self.text.as_bytes());
        self.text.clear();
        written
    }
}
