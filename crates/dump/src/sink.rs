//! Where wanted frames go: lines, objects, a capture, or nowhere but into the count.

use std::ops::ControlFlow;

use serde_json::Value;
use slipring_cli::{Failure, Format, Session};

use crate::plan::Output;
use crate::save::{Saver, Totals};
use crate::show::{Printer, Style, object};
use crate::source::Frame;

/// Bytes of lines written at a time.
const CHUNK: usize = 32 << 10;

pub(crate) struct Sink {
    port: String,
    style: Style,
    lines: Lines,
    saver: Option<Saver>,
    /// Lines that wait to be written.
    text: String,
    /// Whether each line is written at once.
    at_once: bool,
}

enum Lines {
    None,
    /// For people.
    Text(Printer),
    /// An object each.
    Objects,
    /// Kept for the one document at the end.
    Kept(Vec<Value>),
}

impl Sink {
    pub(crate) fn open(
        output: &Output,
        port: &str,
        now_ns: Option<u64>,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let saver = output.saving.clone().map(|saving| Saver::create(saving, port, now_ns));
        let lines = match session.reporter.format() {
            _ if !output.shows => Lines::None,
            Format::Text => Lines::Text(Printer::new(output.style, output.form, output.nanos)),
            Format::Json => Lines::Kept(Vec::new()),
            Format::JsonLines => Lines::Objects,
        };
        Ok(Self {
            port: port.to_owned(),
            style: output.style,
            lines,
            saver: saver.transpose()?,
            text: String::new(),
            at_once: output.at_once,
        })
    }

    /// Takes a frame, of which `kept` bytes are wanted; says whether to go on.
    pub(crate) fn take(
        &mut self,
        frame: &Frame<'_>,
        kept: usize,
        session: &mut Session<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        if let Some(saver) = &mut self.saver
            && saver.packet(frame, kept)?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let frame = Frame { bytes: frame.bytes.get(..kept).unwrap_or(frame.bytes), ..*frame };
        match &mut self.lines {
            Lines::None => {}
            Lines::Text(printer) => printer.print(&mut self.text, &frame),
            Lines::Objects => {
                self.text += &object(&frame, &self.port, &self.style).to_string();
                self.text.push('\n');
            }
            Lines::Kept(frames) => frames.push(object(&frame, &self.port, &self.style)),
        }
        if self.at_once || self.text.len() >= CHUNK {
            self.write_lines(session)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Hands over what waits.
    pub(crate) fn flush(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        self.write_lines(session)?;
        self.saver.as_mut().map_or(Ok(()), Saver::flush)
    }

    pub(crate) fn finish(
        &mut self,
        totals: &Totals,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        self.write_lines(session)?;
        self.saver.as_mut().map_or(Ok(()), |saver| saver.finish(totals))
    }

    /// The frames of the one document.
    pub(crate) fn take_frames(&mut self) -> Option<Vec<Value>> {
        match &mut self.lines {
            Lines::Kept(frames) => Some(std::mem::take(frames)),
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
