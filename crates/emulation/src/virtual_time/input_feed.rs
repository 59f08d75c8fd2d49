//! The inputs of a run side by side: which frames come next.

use slipring_cli::Failure;
use slipring_link::{EntryId, FrameArrival, LinkDropCause, LinkDrops, PacketCounts};

use super::chunk::{CaptureChunk, ChunkTable};
use super::input::CaptureInput;

/// Bytes of the shortest frame: an Ethernet header. What is shorter is malformed.
const MIN_FRAME_BYTES: u32 = 14;

/// Changes the times of frames, chunk after chunk.
pub(crate) type Retime = Box<dyn FnMut(&mut CaptureChunk) + Send>;

/// One input and where its frames enter.
pub struct InputFeed {
    /// What is read.
    pub input: CaptureInput,
    /// Where its frames enter the network.
    pub entry: EntryId,
    /// What changes their times first.
    pub retime: Option<Retime>,
    /// Its number among the inputs.
    pub index: usize,
    /// Frames that were read.
    pub received: PacketCounts,
    /// Frames that are none.
    pub refused: LinkDrops,
    pending: Option<PendingChunk>,
    /// Frames in the chunks before.
    frames: u64,
    ended: bool,
}

/// A chunk whose frames have not all entered.
struct PendingChunk {
    slot: u32,
    next: usize,
    last_ns: u64,
}

impl InputFeed {
    /// A feed of which nothing was read.
    pub fn new(input: CaptureInput, entry: EntryId, retime: Option<Retime>, index: usize) -> Self {
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

    /// Sees to it that a chunk is at hand, unless the input has ended.
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

    /// When the next frame was captured.
    pub fn next_ns(&self, chunks: &ChunkTable) -> Option<u64> {
        let pending = self.pending.as_ref()?;
        Some(chunks.chunk(pending.slot).frames[pending.next].captured_ns)
    }

    /// When the last frame at hand was captured.
    pub fn last_ns(&self) -> Option<u64> {
        Some(self.pending.as_ref()?.last_ns)
    }

    /// Whether a frame captured up to `until_ns` is at hand, or may be in the next chunk.
    pub fn is_behind(&self, until_ns: u64, chunks: &ChunkTable) -> bool {
        !self.ended && self.next_ns(chunks).is_none_or(|next_ns| next_ns <= until_ns)
    }

    /// Whether all frames have entered.
    pub fn is_done(&self) -> bool {
        self.ended && self.pending.is_none()
    }

    /// Takes the frames captured up to `until_ns`, at most so many, into `taken`.
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
        for (place, frame) in frames.iter().enumerate().skip(first).take(most) {
            if frame.captured_ns > until_ns {
                break;
            }
            pending.next += 1;
            self.received.count(frame.len);
            let handle = ChunkTable::handle(pending.slot, place);
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

/// Frames that enter.
#[derive(Debug, Default)]
pub struct EnteringFrames {
    /// Where the clock begins, in ns since 1970.
    pub base_ns: u64,
    /// Frames for the network.
    pub arrivals: Vec<FrameArrival>,
    /// What is no frame, to be refused.
    pub malformed: Vec<FrameArrival>,
}

/// There are no more numbers for chunks.
fn too_much() -> Failure {
    let summary = "more frames are inside the links than there is memory for";
    let error = slipring_cli::Diagnostic::new(slipring_cli::codes::SR0403, summary);
    error.with_help("give the links a shorter delay or a shorter queue").into()
}
