//! Splits a stream into lines of bounded length.

use std::io::{self, Read};

/// Maximum number of bytes in a line, unless a service sets another maximum.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;
/// Bytes read from the stream at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// Received bytes that have not been returned as lines yet.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    /// Maximum bytes of a line.
    max_line_bytes: usize,
    bytes: Vec<u8>,
    /// Number of bytes at the start of `bytes` that contain no newline, so they need not be
    /// searched again.
    searched: usize,
    /// Whether the next bytes, up to a newline, belong to an overlong line and are discarded.
    skipping: bool,
}

/// The next item of the stream: a line, or a note that a line was too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ControlLine {
    /// A line without its newline.
    Whole(Vec<u8>),
    /// A line was too long, and was discarded.
    TooLong,
}

impl LineBuffer {
    /// Creates a buffer for lines of at most this many bytes.
    pub(crate) fn bounded(max_line_bytes: usize) -> Self {
        Self { max_line_bytes, bytes: Vec::new(), searched: 0, skipping: false }
    }

    /// Reads once from `stream`; returns false at the end of the stream.
    pub(crate) fn fill(&mut self, mut stream: impl Read) -> io::Result<bool> {
        let before = self.bytes.len();
        self.bytes.resize(before + CHUNK_BYTES, 0);
        let read = loop {
            match stream.read(&mut self.bytes[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.bytes.truncate(before + read.as_ref().map_or(0, |read| *read));
        Ok(read? > 0)
    }

    /// Returns the next item; `None` if the next line is not complete yet.
    pub(crate) fn next(&mut self) -> Option<ControlLine> {
        loop {
            let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.bytes.len();
                let too_long = self.bytes.len() > self.max_line_bytes;
                if self.skipping || too_long {
                    self.bytes.clear();
                    self.searched = 0;
                }
                let first = too_long && !self.skipping;
                self.skipping |= too_long;
                return first.then_some(ControlLine::TooLong);
            };
            let rest = self.bytes.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.bytes, rest);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if end > self.max_line_bytes {
                return Some(ControlLine::TooLong);
            }
            line.truncate(end);
            return Some(ControlLine::Whole(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<ControlLine> {
        let (mut lines, mut found, mut stream) =
            (LineBuffer::bounded(MAX_LINE_BYTES), Vec::new(), text);
        while lines.fill(&mut stream).unwrap() {
            found.extend(std::iter::from_fn(|| lines.next()));
        }
        found
    }

    #[test]
    fn lines_come_whole_however_they_arrive() {
        let mut lines = LineBuffer::bounded(MAX_LINE_BYTES);
        lines.fill(&b"one\ntw"[..]).unwrap();
        assert_eq!(lines.next(), Some(ControlLine::Whole(b"one".to_vec())));
        assert_eq!(lines.next(), None);
        lines.fill(&b"o\n\nthree"[..]).unwrap();
        assert_eq!(lines.next(), Some(ControlLine::Whole(b"two".to_vec())));
        assert_eq!(lines.next(), Some(ControlLine::Whole(Vec::new())));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn a_line_of_a_mebibyte_is_one_and_a_longer_one_is_told_once() {
        for (longer, wanted) in
            [(0, None), (1, Some(ControlLine::TooLong)), (500_000, Some(ControlLine::TooLong))]
        {
            let mut text = vec![b'x'; MAX_LINE_BYTES + longer];
            text.extend(b"\nnext\n");
            let found = all(&text);
            assert_eq!(found.len(), 2, "{longer}");
            assert_eq!(found[0] == ControlLine::TooLong, wanted.is_some(), "{longer}");
            assert_eq!(found[1], ControlLine::Whole(b"next".to_vec()), "{longer}");
        }
    }
}
