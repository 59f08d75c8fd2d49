//! Feeds the frames of an input to the network: knows when the next frames enter, and takes them.

use slipring_cli::Failure;
use slipring_link::{EntryId, FrameArrival, LinkDropCause, LinkDrops, PacketCounts};

use super::chunk::{CaptureChunk, ChunkTable};
use super::input::CaptureInput;

/// Bytes of the shortest frame: an Ethernet header. Shorter frames are malformed.
const MIN_FRAME_BYTES: u32 = 14;

/// Changes the timestamps of frames, chunk by chunk.
pub(crate) type TimestampAdjuster = Box<dyn FnMut(&mut CaptureChunk) + Send>;

/// An input capture, and the entry at which its frames enter the network.
pub struct InputFeed {
    /// The capture to read.
    pub input: CaptureInput,
    /// The entry at which the frames enter the network.
    pub entry: EntryId,
    /// The function that changes the timestamps of the frames before they enter; `None` if they
    /// stay unchanged.
    pub retime: Option<TimestampAdjuster>,
    /// The input's index among the inputs of the run.
    pub index: usize,
    /// Packets and bytes of all frames that were taken, malformed ones included.
    pub received: PacketCounts,
    /// Frames that were refused because they are malformed.
    pub refused: LinkDrops,
    pending: Option<PendingChunk>,
    /// Number of frames in all chunks read so far.
    frames: u64,
    ended: bool,
}

/// A chunk with frames that have not entered the network.
struct PendingChunk {
    slot: u32,
    next: usize,
    last_ns: u64,
}

impl InputFeed {
    /// Creates a feed; reads nothing yet.
    pub fn new(
        input: CaptureInput,
        entry: EntryId,
        retime: Option<TimestampAdjuster>,
        index: usize,
    ) -> Self {
        Self {
            input,
            entry,
            retime,
            index,
            received: PacketCounts::default(),
            refused: LinkDrops::default(),
            pending: None,
            frames: 0,
            ended: false,
        }
    }

    /// Ensures that a chunk is available, unless the input has ended.
    pub fn refill(&mut self, chunks: &mut ChunkTable) -> Result<(), Failure> {
        if self.pending.is_some() || self.ended {
            return Ok(());
        }
        let Some(mut chunk) = self.input.read()? else {
            self.ended = true;
            return Ok(());
        };
        if let Some(retime) = &mut self.retime {
            retime(&mut chunk);
        }
        let (count, last) = (chunk.frames.len() as u64, chunk.frames.last());
        let last_ns = last.map_or(0, |frame| frame.captured_ns);
        let slot = chunks.add(chunk, self.index, self.frames).ok_or_else(too_much)?;
        self.frames += count;
        self.pending = Some(PendingChunk { slot, next: 0, last_ns });
        Ok(())
    }

    /// Returns the capture time of the next frame in ns since 1970; `None` if no frame is
    /// available.
    pub fn next_ns(&self, chunks: &ChunkTable) -> Option<u64> {
        let pending = self.pending.as_ref()?;
        Some(chunks.chunk(pending.slot).frames[pending.next].captured_ns)
    }

    /// Returns the capture time of the last available frame in ns since 1970; `None` if no frame
    /// is available.
    pub fn last_ns(&self) -> Option<u64> {
        Some(self.pending.as_ref()?.last_ns)
    }

    /// Returns whether a frame captured up to `until_ns` is available, or may be in the next chunk.
    pub fn is_behind(&self, until_ns: u64, chunks: &ChunkTable) -> bool {
        !self.ended && self.next_ns(chunks).is_none_or(|next_ns| next_ns <= until_ns)
    }

    /// Returns whether all frames have entered.
    pub fn is_done(&self) -> bool {
        self.ended && self.pending.is_none()
    }

    /// Empties `taken`, and moves into it the available frames captured up to `until_ns`, at most
    /// `most` of them.
    pub fn take(
        &mut self,
        until_ns: u64,
        most: usize,
        chunks: &ChunkTable,
        taken: &mut EnteringFrames,
    ) {
        taken.arrivals.clear();
        taken.malformed.clear();
        let Some(pending) = &mut self.pending else { return };
        let frames = &chunks.chunk(pending.slot).frames;
        let first = pending.next;
        for (index, frame) in frames.iter().enumerate().skip(first).take(most) {
            if frame.captured_ns > until_ns {
                break;
            }
            pending.next += 1;
            self.received.count(frame.len);
            let handle = ChunkTable::handle(pending.slot, index);
            let arrival_ns = frame.captured_ns - taken.base_ns;
            let arrival = FrameArrival { arrival_ns, handle, len: frame.len };
            if frame.len < MIN_FRAME_BYTES {
                self.refused.count(LinkDropCause::Malformed, frame.len);
                taken.malformed.push(arrival);
            } else {
                taken.arrivals.push(arrival);
            }
        }
        if pending.next == frames.len() {
            self.pending = None;
        }
    }
}

/// Frames that are about to enter the network.
#[derive(Debug, Default)]
pub struct EnteringFrames {
    /// The time at which the engine's clock is 0, in ns since 1970.
    pub base_ns: u64,
    /// Frames for the network.
    pub arrivals: Vec<FrameArrival>,
    /// Malformed frames, to be refused.
    pub malformed: Vec<FrameArrival>,
}

/// Creates the error for too many chunks.
fn too_much() -> Failure {
    let summary = "more frames are inside the links than there is memory for";
    let error = slipring_cli::Diagnostic::new(slipring_cli::codes::SR0403, summary);
    error.with_help("give the links a shorter delay or a shorter queue").into()
}
