//! Decides ahead of time which frames leave, and when. The player runs the link engine on a
//! capture, whose times are known in advance.

use std::collections::VecDeque;

use slipring_cli::codes::SR0003;
use slipring_cli::{Diagnostic, Failure};
use slipring_link::{
    Carrier, ChangeError, Delivery, EntryId, ExitId, FrameArrival, FrameHandle, InFlightFrame,
    LinkDropCause, LinkId, LostFrame, Network, NetworkSpec, PacketCounts, QueueArrival,
    QueueDeparture,
};
use slipring_port::Nanos;

use super::pace::ReplayPacer;
use slipring_emulation::{
    CaptureChunk, CaptureInput, ChunkTable, DeliveredFrame, EmulationAccount, EmulationState,
    EnteringFrames, EntryAccount, ExitAccount, HopTimes, InputFeed, LinkMeasurement, LogTap,
    ObservedFrame, storage_bytes,
};

/// Maximum frames that enter the network in one call of [`ReplayPlayer::decide`].
const MAX_BATCH: usize = 256;
/// The only exit of the network: the port.
const FIRST_EXIT: ExitId = ExitId(0);

/// Decides which frames of a capture leave, and when. Times are relative to the first frame.
pub(super) struct ReplayPlayer {
    network: Network,
    feed: InputFeed,
    entering: EnteringFrames,
    carrier: ReplayCarrier,
}

/// A frame that is due to leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct DueFrame {
    /// Time at which the frame is due.
    pub(super) release_ns: u64,
    /// Length of the frame in bytes without FCS; the capture may have fewer bytes.
    pub(super) len: u32,
    handle: FrameHandle,
    link: LinkId,
}

impl ReplayPlayer {
    /// Creates a player, and reads the first frames of the capture. Frames that leave more than
    /// `late_ns` after they are due will be counted as late.
    ///
    /// # Errors
    /// [`Failure`] if the capture cannot be read, or the network cannot be built.
    pub(super) fn new(
        plan: &NetworkSpec,
        seed: u64,
        (input, mut pace): (CaptureInput, ReplayPacer),
        late_ns: u64,
    ) -> Result<Self, Failure> {
        let network = Network::new(plan, seed).map_err(|error| {
            Diagnostic::new(SR0003, "the link cannot be built").with_cause(error.to_string())
        })?;
        let retime = Box::new(move |chunk: &mut CaptureChunk| pace.retime(chunk));
        let mut feed = InputFeed::new(input, EntryId(0), Some(retime), 0);
        let measured = plan.links.iter().map(|_| LinkMeasurement::new(late_ns)).collect();
        let chunks = ChunkTable::within(storage_bytes());
        let mut carrier = ReplayCarrier { measured, chunks, ..ReplayCarrier::default() };
        feed.refill(&mut carrier.chunks)?;
        carrier.base_ns = feed.next_ns(&carrier.chunks).unwrap_or(0);
        let taken = EnteringFrames { base_ns: carrier.base_ns, ..EnteringFrames::default() };
        Ok(Self { network, feed, entering: taken, carrier })
    }

    /// Reports every frame to `log` from now on; the first frame arrives at `start_ns` on the
    /// clock of the log.
    pub(super) fn log(&mut self, log: LogTap, start_ns: Nanos) {
        self.carrier.log = Some(ReplayLog { tap: log, start_ns });
    }

    /// Schedules a change of the network. Decisions that were already made stay.
    ///
    /// # Errors
    /// [`ChangeError`] if the network does not allow the change.
    pub(super) fn change(&mut self, at_ns: u64, plan: &NetworkSpec) -> Result<(), ChangeError> {
        self.network.change(at_ns, plan)
    }

    /// Lets the frames that arrive up to `until_ns` enter the network, at most [`MAX_BATCH`] per
    /// call, and decides what happens to frames up to that time. Returns whether a frame entered,
    /// or became due to leave.
    ///
    /// # Errors
    /// [`Failure`] if the capture is damaged.
    pub(super) fn decide(&mut self, until_ns: u64) -> Result<bool, Failure> {
        self.feed.refill(&mut self.carrier.chunks)?;
        let captured_ns = self.carrier.base_ns.saturating_add(until_ns);
        self.feed.take(captured_ns, MAX_BATCH, &self.carrier.chunks, &mut self.entering);
        let EnteringFrames { arrivals, malformed, .. } = &self.entering;
        arrivals.iter().for_each(|arrival| self.carrier.log_arrival(arrival));
        malformed.iter().for_each(|arrival| self.carrier.refuse(arrival));
        self.network.push(EntryId(0), arrivals, &mut self.carrier);
        let all = arrivals.len() + malformed.len() < MAX_BATCH
            && !self.feed.is_behind(captured_ns, &self.carrier.chunks);
        // A frame that is not read yet may arrive at the same time as the last frame that was read.
        // So only decisions before that time are made.
        let known_ns =
            if all { Some(until_ns) } else { arrivals.last().map(|last| last.arrival_ns) };
        let before = self.carrier.due.len();
        if let Some(known_ns) = known_ns {
            self.network.run(known_ns.saturating_sub(1), &mut self.carrier);
        }
        let moved = !arrivals.is_empty() || !malformed.is_empty();
        for chunk in self.carrier.emptied.drain(..) {
            self.feed.input.recycle(chunk);
        }
        Ok(moved || self.carrier.due.len() > before)
    }

    /// Returns whether no more frames will ever leave.
    pub(super) fn ended(&self) -> bool {
        self.carrier.due.is_empty() && self.feed.is_done() && self.network.next_ns().is_none()
    }

    /// Returns the time in ns of the next decision, if there is any.
    pub(super) fn next_decision_ns(&self) -> Option<u64> {
        let arrival = self.feed.next_ns(&self.carrier.chunks);
        let arrival = arrival.map(|at_ns| at_ns.saturating_sub(self.carrier.base_ns));
        arrival.into_iter().chain(self.network.next_ns()).min()
    }

    /// Returns the next frame to leave.
    pub(super) fn next(&self) -> Option<DueFrame> {
        self.carrier.due.front().copied()
    }

    /// Returns the captured bytes of the frame; a truncated capture has fewer bytes than the frame.
    pub(super) fn bytes(&self, due: &DueFrame) -> &[u8] {
        self.carrier.chunks.get(due.handle).bytes
    }

    /// Removes and returns the next frame, which the caller has put into the ring. Pass it to
    /// [`Self::sent`] after it has left.
    pub(super) fn take(&mut self) -> Option<DueFrame> {
        self.carrier.due.pop_front()
    }

    /// Counts, logs and frees a frame that has left.
    pub(super) fn sent(&mut self, due: &DueFrame, sent_ns: u64) {
        let entered = self.carrier.hop_times.take(due.handle);
        let stored = self.carrier.chunks.get(due.handle);
        let first_ns = stored.frame.captured_ns - self.carrier.base_ns;
        let seen = DeliveredFrame {
            arrival_ns: entered.map_or(first_ns, |entered| entered.at_ns),
            release_ns: due.release_ns,
            sent_ns,
            len: due.len,
            sequence: (!stored.is_copy).then_some(stored.sequence),
        };
        if let Some(log) = &mut self.carrier.log {
            let frame = log.observed((due.handle, sent_ns, due.len), stored.bytes);
            let (release_ns, arrival_ns) = (log.at(due.release_ns), log.at(seen.arrival_ns));
            log.tap.log_departure(&frame, FIRST_EXIT, release_ns, arrival_ns);
        }
        self.carrier.measured[due.link.0 as usize].sent(&seen);
        self.carrier.free(due.handle);
    }

    /// Logs and frees a frame that could not be sent. The caller counts it.
    pub(super) fn dropped(&mut self, due: &DueFrame) {
        self.carrier.hop_times.take(due.handle);
        self.carrier.lost((due.handle, due.release_ns, due.len), LinkDropCause::TxFull, None);
        self.carrier.free(due.handle);
    }

    /// Cancels the changes that have not taken effect.
    pub(super) fn cancel_changes(&mut self) {
        self.network.cancel_changes();
    }

    /// Returns the state so far; the caller provides the counts of sent frames.
    pub(super) fn state(&self, at_ns: u64, sent: PacketCounts) -> EmulationState {
        let links = 0..self.carrier.measured.len();
        let feed = &self.feed;
        let mut waiting = PacketCounts::default();
        self.carrier.due.iter().for_each(|due| waiting.count(due.len));
        let account = EmulationAccount {
            at_ns,
            links: links.map(|link| self.network.counters(LinkId(link as u32))).collect(),
            entries: vec![EntryAccount {
                received: feed.received,
                refused: feed.refused,
                unordered: Some(self.unordered()),
            }],
            exits: vec![ExitAccount { sent, waiting, ..ExitAccount::default() }],
            unrouted: self.carrier.unrouted,
            ..EmulationAccount::default()
        };
        EmulationState { account, measured: self.carrier.measured.clone() }
    }

    /// Returns the number of frames whose timestamp in the capture is earlier than that of the
    /// frame before.
    pub(super) fn unordered(&self) -> u64 {
        self.feed.input.unordered()
    }
}

/// The frames in the network, and the frames that have left it and wait to be sent, by time.
#[derive(Default)]
struct ReplayCarrier {
    chunks: ChunkTable,
    due: VecDeque<DueFrame>,
    measured: Vec<LinkMeasurement>,
    hop_times: HopTimes,
    unrouted: PacketCounts,
    base_ns: u64,
    emptied: Vec<CaptureChunk>,
    log: Option<ReplayLog>,
}

/// The log of frames.
struct ReplayLog {
    tap: LogTap,
    /// Time 0 of the player, on the clock of the log.
    start_ns: Nanos,
}

impl ReplayLog {
    fn at(&self, ns: u64) -> Nanos {
        self.start_ns.saturating_add(ns)
    }

    fn observed<'f>(
        &self,
        (handle, ns, len): (FrameHandle, u64, u32),
        bytes: &'f [u8],
    ) -> ObservedFrame<'f> {
        ObservedFrame { handle, at_ns: self.at(ns), len, bytes }
    }
}

impl ReplayCarrier {
    /// Logs the arrival of a frame.
    fn log_arrival(&mut self, arrival: &FrameArrival) {
        let Some(log) = &mut self.log else { return };
        let &FrameArrival { handle, len, arrival_ns } = arrival;
        let frame = log.observed((handle, arrival_ns, len), self.chunks.get(handle).bytes);
        log.tap.log_arrival(EntryId(0), &frame);
    }

    /// Logs a malformed frame as arrived and dropped.
    fn refuse(&mut self, arrival: &FrameArrival) {
        self.log_arrival(arrival);
        let &FrameArrival { handle, len, arrival_ns } = arrival;
        self.lost((handle, arrival_ns, len), LinkDropCause::Malformed, None);
        self.free(handle);
    }

    fn lost(&mut self, frame: (FrameHandle, u64, u32), cause: LinkDropCause, link: Option<LinkId>) {
        let Some(log) = &mut self.log else { return };
        let frame = log.observed(frame, self.chunks.get(frame.0).bytes);
        log.tap.log_loss(&frame, cause, link);
    }

    fn free(&mut self, handle: FrameHandle) {
        self.emptied.extend(self.chunks.free(handle).map(|(_, chunk)| chunk));
    }
}

impl Carrier for ReplayCarrier {
    fn frame(&mut self, handle: FrameHandle) -> &mut [u8] {
        self.chunks.bytes_mut(handle)
    }

    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
        let copy = self.chunks.copy(handle)?;
        self.hop_times.copied(handle, copy);
        if let Some(log) = &mut self.log {
            log.tap.note_copy(handle, copy);
        }
        Some(copy)
    }

    fn on_hop(&mut self, link: LinkId, frame: &InFlightFrame) {
        let first = self.chunks.get(frame.handle).hop_entry(self.base_ns);
        let entered = self.hop_times.enter_next(frame.handle, frame.release_ns).unwrap_or(first);
        self.measured[link.0 as usize].passed(entered, frame.release_ns, frame.len);
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { release_ns, handle, len, link, .. } = delivery;
        self.due.push_back(DueFrame { release_ns, len, handle, link });
    }

    fn lose(&mut self, lost: LostFrame) {
        if lost.link.is_none() {
            self.unrouted.count(lost.len);
        }
        self.hop_times.take(lost.handle);
        self.lost((lost.handle, lost.at_ns, lost.len), lost.cause, lost.link);
        self.free(lost.handle);
    }

    fn on_enqueue(&mut self, joined: QueueArrival) {
        self.measured[joined.link.0 as usize].joined(&joined);
    }

    fn on_dequeue(&mut self, queued: QueueDeparture) {
        self.measured[queued.link.0 as usize].queued(&queued);
    }
}
