//! Reads captures: a thread decodes ahead, chunk by chunk, for files of any length.
//!
//! Times never decrease within a pass. If a frame has an earlier timestamp than its predecessor, it
//! counts as captured together with the predecessor, and as unordered. Chunks end when they are
//! full, whatever the sizes of the reads, so a pipe and a file yield the same chunks.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS, confine};
use slipring_pcap::{CapturedPacket, DecodeStep, Decoder, LinkType, MAX_PACKET_LEN, PcapError};

use super::chunk::{CHUNK_BYTES, CaptureChunk, CaptureFrame, MAX_FRAMES};

/// Number of chunks that are decoded in advance.
const READ_AHEAD_CHUNKS: usize = 4;
/// Interval at which [`CaptureInput::read`] checks for a stop while no chunk is available.
const PIPE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A capture that is being read.
#[derive(Debug)]
pub struct CaptureInput {
    path: String,
    chunks: Receiver<Result<CaptureChunk, CaptureFault>>,
    spare: Sender<CaptureChunk>,
    /// The first frames, after [`Self::begin`] has read them and until they are returned; otherwise
    /// `None`.
    first: Option<CaptureChunk>,
    unordered: u64,
    /// Set by the owner of the run to stop reading, even while a pipe has no data.
    stop: Arc<AtomicBool>,
}

/// Why reading a capture failed.
#[derive(Debug)]
enum CaptureFault {
    Format(PcapError),
    /// The packet at `offset` has link type `found` instead of Ethernet.
    LinkType {
        offset: u64,
        found: u16,
    },
    /// The packet at `offset` has the impossible length `found`.
    Length {
        offset: u64,
        found: u32,
    },
    Open(io::Error),
    Io(io::Error),
    /// The capture is a pipe or a device, which cannot be read a second time.
    ReadOnce,
}

impl CaptureInput {
    /// Opens a capture to be read `passes` times; if `passes` is `None`, again and again without
    /// end. After `stop` is set, [`Self::read`] no longer waits for frames.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be opened, or the reading thread cannot be started. A pipe is
    /// not opened here, because it may have no writer yet: the reading thread opens it, so that the
    /// wait can be stopped.
    pub fn open(path: &str, passes: Option<u64>, stop: Arc<AtomicBool>) -> Result<Self, Failure> {
        let file = match is_pipe(path) {
            true => None,
            false => Some(open(path).map_err(|error| not_opened(path, &error))?),
        };
        let (filled, chunks) = sync_channel(READ_AHEAD_CHUNKS);
        let (spare, emptied) = channel();
        let path = path.to_owned();
        let reading = path.clone();
        thread::Builder::new().name("read capture".to_owned()).spawn(move || {
            // The thread parses untrusted data, so it gives up the privileges that it does not
            // need: all except CAP_DAC_OVERRIDE, for opening files. If this fails, the error is
            // ignored, because the thread also works with the privileges.
            let _ = confine(CapabilitySet::DAC_OVERRIDE, &[FORBIDDEN_CALLS, SETUP_ONLY_CALLS]);
            let file = file.map_or_else(|| open(&reading), Ok).map_err(CaptureFault::Open);
            let read = |file| CaptureReader::new(&reading, file).run(passes, &filled, &emptied);
            if let Err(fault) = file.and_then(read) {
                // Sending fails if the receiver was dropped.
                let _ = filled.send(Err(fault));
            }
        })?;
        Ok(Self { path, chunks, spare, first: None, unordered: 0, stop })
    }

    /// Waits for the first frames, so that an invalid capture is refused before any output is
    /// written.
    ///
    /// # Errors
    /// [`Failure`] if the capture is damaged or cannot be read.
    pub fn begin(&mut self) -> Result<(), Failure> {
        self.first = self.read()?;
        Ok(())
    }

    /// Returns the next chunk with frames; `None` at the end, or if `stop` is set and no chunk is
    /// available.
    ///
    /// # Errors
    /// [`Failure`] if the capture is damaged or cannot be read.
    pub fn read(&mut self) -> Result<Option<CaptureChunk>, Failure> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let chunk = loop {
            match self.chunks.recv_timeout(PIPE_POLL_INTERVAL) {
                Ok(chunk) => break chunk.map_err(|fault| fault.into_failure(&self.path))?,
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Relaxed) => {}
                Err(_) => return Ok(None),
            }
        };
        self.unordered += chunk.unordered;
        Ok(Some(chunk))
    }

    /// Returns a chunk for reuse.
    pub fn recycle(&self, chunk: CaptureChunk) {
        // An error is ignored: at the end of the capture, the reading thread has ended and needs no
        // more chunks.
        let _ = self.spare.send(chunk);
    }

    /// Returns the number of frames so far with an earlier timestamp than their predecessor.
    pub fn unordered(&self) -> u64 {
        self.unordered
    }
}

/// The state of the reading thread.
struct CaptureReader<'p> {
    path: &'p str,
    file: File,
    decoder: Decoder,
    /// Bytes that were read but belong to the next chunk.
    rest: Vec<u8>,
    /// Bytes that the decoder needs to continue.
    need: usize,
    latest_ns: u64,
    pass: u64,
    frames: u64,
}

impl<'p> CaptureReader<'p> {
    fn new(path: &'p str, file: File) -> Self {
        let decoder = Decoder::new();
        Self { path, file, decoder, rest: Vec::new(), need: 0, latest_ns: 0, pass: 0, frames: 0 }
    }

    fn run(
        &mut self,
        passes: Option<u64>,
        filled: &SyncSender<Result<CaptureChunk, CaptureFault>>,
        emptied: &Receiver<CaptureChunk>,
    ) -> Result<(), CaptureFault> {
        while passes.is_none_or(|passes| self.pass < passes) {
            if self.pass > 0 {
                self.rewind()?;
            }
            loop {
                let mut chunk = emptied.try_recv().unwrap_or_default();
                let more = self.fill(&mut chunk)?;
                if !chunk.frames.is_empty() && filled.send(Ok(chunk)).is_err() {
                    return Ok(());
                }
                if !more {
                    break;
                }
            }
            if self.frames == 0 {
                return Ok(());
            }
            self.pass += 1;
        }
        Ok(())
    }

    /// Returns to the start of the file.
    fn rewind(&mut self) -> Result<(), CaptureFault> {
        if !self.file.metadata()?.is_file() {
            return Err(CaptureFault::ReadOnce);
        }
        self.file = open(self.path)?;
        self.decoder = Decoder::new();
        self.rest.clear();
        (self.need, self.latest_ns) = (0, 0);
        Ok(())
    }

    /// Fills the chunk; returns false at the end of the file.
    fn fill(&mut self, chunk: &mut CaptureChunk) -> Result<bool, CaptureFault> {
        chunk.frames.clear();
        (chunk.pass, chunk.unordered) = (self.pass, 0);
        let len = CHUNK_BYTES.max(self.need).max(self.rest.len());
        if chunk.bytes.len() != len {
            chunk.bytes.resize(len, 0);
        }
        chunk.bytes[..self.rest.len()].copy_from_slice(&self.rest);
        let read = read_full(&mut self.file, &mut chunk.bytes[self.rest.len()..])?;
        let filled = self.rest.len() + read;
        let used = self.decode(chunk, filled)?;
        self.rest.clear();
        self.rest.extend_from_slice(&chunk.bytes[used..filled]);
        if filled == len {
            return Ok(true);
        }
        if chunk.frames.len() < MAX_FRAMES {
            self.decoder.finish(&self.rest)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Finds the frames among the first `filled` bytes of the chunk. Returns the number of bytes
    /// that were decoded.
    fn decode(&mut self, chunk: &mut CaptureChunk, filled: usize) -> Result<usize, CaptureFault> {
        let mut used = 0;
        while chunk.frames.len() < MAX_FRAMES {
            let rest = &chunk.bytes[used..filled];
            let decoded = self.decoder.decode(rest)?;
            let packet = match decoded.step {
                DecodeStep::Packet(packet) => packet,
                DecodeStep::NeedMore(need) => {
                    self.need = need;
                    return Ok(used + decoded.consumed);
                }
            };
            let start = used + (packet.data.as_ptr().addr() - rest.as_ptr().addr());
            let early = packet.ts_ns < self.latest_ns;
            self.latest_ns = self.latest_ns.max(packet.ts_ns);
            let frame = frame(&self.decoder, &packet, start, self.latest_ns)?;
            used += decoded.consumed;
            chunk.unordered += u64::from(early);
            chunk.frames.push(frame);
            self.frames += 1;
        }
        self.need = 0;
        Ok(used)
    }
}

/// Converts a captured packet, whose data begins at `start` in the chunk, to a frame without FCS.
#[inline]
fn frame(
    decoder: &Decoder,
    packet: &CapturedPacket<'_>,
    start: usize,
    captured_ns: u64,
) -> Result<CaptureFrame, CaptureFault> {
    let offset = packet.offset;
    if packet.link_type != LinkType::ETHERNET {
        return Err(CaptureFault::LinkType { offset, found: packet.link_type.0 });
    }
    if packet.orig_len > MAX_PACKET_LEN {
        return Err(CaptureFault::Length { offset, found: packet.orig_len });
    }
    let (len, kept) = decoder.lengths_without_fcs(packet);
    Ok(CaptureFrame { captured_ns, start: start as u32, kept: kept as u32, len })
}

/// Reads until `room` is full or the file ends. Returns the number of bytes read.
fn read_full(file: &mut File, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns whether opening the file may block until there is a writer.
fn is_pipe(path: &str) -> bool {
    path != "-" && std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// Opens a file; `-` is standard input.
fn open(path: &str) -> io::Result<File> {
    let file = File::open(if path == "-" { "/dev/stdin" } else { path })?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

fn not_opened(path: &str, error: &io::Error) -> Failure {
    Diagnostic::unreadable(Path::new(path), error).into()
}

impl From<PcapError> for CaptureFault {
    fn from(error: PcapError) -> Self {
        Self::Format(error)
    }
}

impl From<io::Error> for CaptureFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl CaptureFault {
    /// Converts the fault to an error message about the file `path`.
    fn into_failure(self, path: &str) -> Failure {
        let damaged = format!("`{path}` is damaged");
        let unfit = format!("`{path}` is no capture of Ethernet frames");
        let (code, summary, cause, help) = match self {
            Self::Format(error @ (PcapError::NotACapture { .. } | PcapError::Version { .. })) => {
                (codes::SR0202, unfit, error.to_string(), format!("see what it is: file {path}"))
            }
            Self::Format(error) => {
                let help = format!("keep what is whole: editcap {path} mended.pcap");
                (codes::SR0203, damaged, error.to_string(), help)
            }
            Self::LinkType { offset, found } => {
                let cause =
                    format!("byte {offset}: a packet of link type {found}, not Ethernet (1)");
                (codes::SR0202, unfit, cause, format!("convert it: editcap -T ether {path} FILE"))
            }
            Self::Length { offset, found } => {
                let cause = format!(
                    "byte {offset}: a frame of {found} bytes, at most {MAX_PACKET_LEN} expected"
                );
                (codes::SR0203, damaged, cause, "capture again".to_owned())
            }
            Self::Open(error) => return not_opened(path, &error),
            Self::Io(error) => {
                let summary = format!("cannot read `{path}`");
                (codes::SR0201, summary, error.to_string(), format!("ls -l {path}"))
            }
            Self::ReadOnce => {
                let summary = format!("`{path}` can be read only once");
                let help = "give a file, or one pass: --loops 1".to_owned();
                (codes::SR0201, summary, "it is a pipe or a device".to_owned(), help)
            }
        };
        Diagnostic::new(code, summary).with_cause(cause).with_help(help).into()
    }
}
