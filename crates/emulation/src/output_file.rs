//! Files that a run writes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_pcap::WriteError;

/// The buffer is written to the file as soon as it has this many bytes.
const WRITE_CHUNK_BYTES: usize = 1 << 18;

/// A file that is written in large blocks, with errors that name it.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: String,
    file: File,
    /// Bytes that are not written yet; users of the file append to this buffer.
    pub buffer: Vec<u8>,
}

impl OutputFile {
    /// Creates or truncates a file; `-` is standard output.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be created.
    pub(crate) fn create(path: &str) -> Result<Self, Failure> {
        let target = if path == "-" { "/dev/stdout" } else { path };
        let file = File::create(target)
            .map_err(|error| Diagnostic::unwritable(Path::new(path), &error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            buffer: Vec::with_capacity(WRITE_CHUNK_BYTES + (1 << 16)),
        })
    }

    /// Writes the buffer if it has at least [`WRITE_CHUNK_BYTES`].
    ///
    /// # Errors
    /// [`Failure`] if the buffer cannot be written.
    #[inline]
    pub(crate) fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.buffer.len() < WRITE_CHUNK_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes the whole buffer.
    ///
    /// # Errors
    /// [`Failure`] if the buffer cannot be written.
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

    /// Creates the error for data that the file format cannot represent.
    pub(crate) fn refused(&self, error: &WriteError) -> Failure {
        let summary = format!("cannot write `{}`", self.path);
        let error = Diagnostic::new(codes::SR0204, summary).with_cause(error.to_string());
        error.with_help("write pcapng: give the file a name that ends in .pcapng").into()
    }
}
