//! Selects frames by filter and direction.

use std::fs;

use slipring_cli::codes::{SR0002, SR0201};
use slipring_cli::{Diagnostic, Failure};
use slipring_filter::{CbpfProgram, Filter};

use crate::source::DumpFrame;

/// The direction of selected frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectionFilter {
    /// Received and sent frames.
    #[default]
    Both,
    /// Received frames only.
    In,
    /// Sent frames only.
    Out,
}

/// Selects frames by a filter and a direction.
#[derive(Debug)]
pub struct FrameSelector {
    program: CbpfProgram,
    direction: DirectionFilter,
}

impl FrameSelector {
    /// Creates a selector of frames that the filter accepts and that have the given direction. A
    /// frame whose direction is unknown is accepted with any `direction`.
    #[must_use]
    pub fn new(program: CbpfProgram, direction: DirectionFilter) -> Self {
        Self { program, direction }
    }

    /// Returns how many bytes of the frame to capture; 0 if the frame is not selected.
    #[must_use]
    pub fn keep(&self, frame: &DumpFrame<'_>) -> usize {
        let goes = match self.direction {
            DirectionFilter::Both => true,
            DirectionFilter::In => frame.outgoing != Some(true),
            DirectionFilter::Out => frame.outgoing != Some(false),
        };
        if !goes {
            return 0;
        }
        let kept = self.program.run(frame.bytes, frame.wire_len) as usize;
        kept.min(frame.bytes.len())
    }
}

/// Compiles a filter that captures at most `snaplen` bytes of a frame.
///
/// # Errors
/// [`Failure`] that shows the error in the text, with its position.
pub fn compile(text: &str, snaplen: u32) -> Result<CbpfProgram, Failure> {
    let compiled = Filter::parse(text).and_then(|filter| filter.compile(snaplen));
    compiled.map_err(|error| {
        Diagnostic::new(SR0002, format!("`{text}` is not a filter"))
            .with_cause(error.to_string())
            .with_help("the language is that of pcap-filter(7): host 10.0.0.1 and tcp port 80")
            .into()
    })
}

/// Reads a filter from a file; text after a `#` on a line is a comment.
///
/// # Errors
/// [`Failure`] if the file cannot be read.
pub fn from_file(path: &str) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Diagnostic::new(SR0201, format!("cannot read the filter in {path}"))
            .with_cause(error.to_string())
            .with_help(format!("see whether it is there and open to you: ls -l {path}"))
    })?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(outgoing: Option<bool>) -> DumpFrame<'static> {
        DumpFrame { ts_ns: 0, outgoing, wire_len: 60, bytes: &[0; 60] }
    }

    #[test]
    fn a_direction_refuses_the_other_one_only() {
        let select = |directions| FrameSelector::new(compile("", 68).unwrap(), directions);
        for (directions, kept) in [
            (DirectionFilter::Both, [60, 60, 60]),
            (DirectionFilter::In, [60, 60, 0]),
            (DirectionFilter::Out, [60, 0, 60]),
        ] {
            let select = select(directions);
            assert_eq!(
                [None, Some(false), Some(true)].map(|direction| select.keep(&frame(direction))),
                kept
            );
        }
    }

    #[test]
    fn the_snap_length_cuts_and_the_filter_refuses() {
        assert_eq!(
            FrameSelector::new(compile("", 20).unwrap(), DirectionFilter::Both).keep(&frame(None)),
            20
        );
        assert_eq!(
            FrameSelector::new(compile("arp", 20).unwrap(), DirectionFilter::Both)
                .keep(&frame(None)),
            0
        );
    }

    #[test]
    fn a_filter_file_may_have_comments_and_several_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("filter");
        fs::write(&path, "# ours\nhost 10.0.0.1 # the first\n\nand tcp\n").unwrap();
        assert_eq!(from_file(path.to_str().unwrap()).unwrap(), "host 10.0.0.1 and tcp");
    }
}
