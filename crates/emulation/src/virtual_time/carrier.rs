//! Gives the engine access to frames in virtual time: frames are in chunks of the inputs, and
//! departing frames are written to captures.

use slipring_cli::Failure;
use slipring_link::{
    Carrier, Delivery, FrameArrival, FrameHandle, InFlightFrame, LinkDropCause, LinkDrops, LinkId,
    LostFrame, PacketCounts, QueueArrival, QueueDeparture,
};

use super::chunk::{CaptureChunk, ChunkFrame, ChunkTable};
use super::output::CaptureOutput;
use crate::report::hop_times::HopTimes;
use crate::report::mahimahi::MahimahiLog;
use crate::report::measurement::{DeliveredFrame, LinkMeasurement};
use crate::report::packets::{LoggedFrame, PacketLog};

/// The engine's [`Carrier`] in virtual time. Its methods cannot return errors, so it stores the
/// first error until the loop checks for it.
pub(super) struct OfflineCarrier {
    pub(super) chunks: ChunkTable,
    /// For each input, the output for its surviving frames.
    pub(super) outputs: Vec<CaptureOutput>,
    /// Counts of frames that left, per exit.
    pub(super) sent: Vec<PacketCounts>,
    /// Frames that no link accepts.
    pub(super) unrouted: LinkDrops,
    /// Measurements per link.
    pub(super) measured: Vec<LinkMeasurement>,
    pub(super) hop_times: HopTimes,
    pub(super) logs: OfflineLogs,
    /// The time at which the engine's clock is 0, in ns since 1970.
    pub(super) base_ns: u64,
    /// When the last frame left or was lost, on the engine's clock.
    pub(super) end_ns: u64,
    /// Chunks without live frames, to be reused, each with the index of its input.
    pub(super) emptied: Vec<(usize, CaptureChunk)>,
    pub(super) failure: Option<Failure>,
}

/// The logs that contain every frame. See [`PacketLog`] and [`MahimahiLog`].
#[derive(Debug, Default)]
pub(super) struct OfflineLogs {
    pub(super) packets: Option<PacketLog>,
    /// One log for each input.
    pub(super) mahimahi: Vec<MahimahiLog>,
    /// The port of each input.
    pub(super) entry_ports: Vec<usize>,
    /// The port of each exit.
    pub(super) exit_ports: Vec<usize>,
    /// Names of the links.
    pub(super) links: Vec<String>,
}

impl OfflineLogs {
    /// Returns whether any log is written.
    pub(super) fn any(&self) -> bool {
        self.packets.is_some() || !self.mahimahi.is_empty()
    }

    fn id(&self, stored: &ChunkFrame<'_>) -> u64 {
        stored.sequence * self.entry_ports.len() as u64 + stored.input as u64
    }

    fn arrived(&mut self, stored: &ChunkFrame<'_>, base_ns: u64) -> Result<(), Failure> {
        let (id, port) = (self.id(stored), self.entry_ports[stored.input]);
        let (ts_ns, len) = (stored.frame.captured_ns, stored.frame.len);
        if let Some(log) = &mut self.packets {
            log.arrived(port, &LoggedFrame { id, ts_ns, len, bytes: stored.bytes })?;
        }
        let log = self.mahimahi.get_mut(stored.input);
        log.map_or(Ok(()), |log| log.arrived(ts_ns - base_ns, len))
    }

    fn sent(
        &mut self,
        stored: &ChunkFrame<'_>,
        delivery: &Delivery,
        base_ns: u64,
    ) -> Result<(), Failure> {
        let (id, port) = (self.id(stored), self.exit_ports[usize::from(delivery.exit.0)]);
        let (ts_ns, len) = (base_ns.saturating_add(delivery.release_ns), delivery.len);
        if let Some(log) = &mut self.packets {
            log.sent(port, &LoggedFrame { id, ts_ns, len, bytes: stored.bytes }, None)?;
        }
        let delay_ns = ts_ns - stored.frame.captured_ns;
        let log = self.mahimahi.get_mut(stored.input);
        log.map_or(Ok(()), |log| log.sent(delivery.release_ns, len, delay_ns))
    }

    fn lost(
        &mut self,
        stored: &ChunkFrame<'_>,
        lost: &LostFrame,
        base_ns: u64,
    ) -> Result<(), Failure> {
        let (id, port) = (self.id(stored), self.entry_ports[stored.input]);
        let (ts_ns, len) = (base_ns.saturating_add(lost.at_ns), lost.len);
        if let Some(log) = &mut self.packets {
            let link = lost.link.and_then(|link| self.links.get(link.0 as usize));
            let frame = LoggedFrame { id, ts_ns, len, bytes: stored.bytes };
            log.lost(port, &frame, lost.cause, link.map(String::as_str))?;
        }
        let log = self.mahimahi.get_mut(stored.input);
        log.map_or(Ok(()), |log| log.lost(lost.at_ns, len))
    }
}

impl OfflineCarrier {
    /// Logs the arrival of a frame.
    pub(super) fn arrived(&mut self, handle: FrameHandle) {
        let result = self.logs.arrived(&self.chunks.get(handle), self.base_ns);
        self.keep_error(result);
    }

    /// Refuses and logs a malformed frame.
    pub(super) fn refuse(&mut self, arrival: &FrameArrival) {
        let &FrameArrival { arrival_ns, handle, len } = arrival;
        if self.logs.any() {
            let cause = LinkDropCause::Malformed;
            let lost = LostFrame { at_ns: arrival_ns, handle, len, cause, link: None };
            let stored = self.chunks.get(handle);
            let result = self.logs.arrived(&stored, self.base_ns);
            let result = result.and_then(|()| self.logs.lost(&stored, &lost, self.base_ns));
            self.keep_error(result);
        }
        self.free(handle);
    }

    /// Frees a frame. If it was the last frame of its chunk, frees the chunk too.
    #[inline]
    pub(super) fn free(&mut self, handle: FrameHandle) {
        self.emptied.extend(self.chunks.free(handle));
    }

    /// Stores the first error.
    #[inline]
    fn keep_error(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
    }
}

impl Carrier for OfflineCarrier {
    fn frame(&mut self, handle: FrameHandle) -> &mut [u8] {
        self.chunks.bytes_mut(handle)
    }

    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
        let copy = self.chunks.copy(handle)?;
        self.hop_times.copied(handle, copy);
        Some(copy)
    }

    fn on_hop(&mut self, link: LinkId, frame: &InFlightFrame) {
        let first = self.chunks.get(frame.handle).hop_entry(self.base_ns);
        let entered = self.hop_times.enter_next(frame.handle, frame.release_ns).unwrap_or(first);
        self.measured[link.0 as usize].passed(entered, frame.release_ns, frame.len);
    }

    #[inline]
    fn deliver(&mut self, delivery: Delivery) {
        let stored = self.chunks.get(delivery.handle);
        let exit = usize::from(delivery.exit.0);
        let seen = DeliveredFrame {
            arrival_ns: stored.frame.captured_ns - self.base_ns,
            release_ns: delivery.release_ns,
            sent_ns: delivery.release_ns,
            len: delivery.len,
            sequence: (!stored.is_copy).then_some(stored.sequence),
        };
        let measured = &mut self.measured[delivery.link.0 as usize];
        match self.hop_times.take(delivery.handle) {
            None => measured.released(&seen),
            Some(entered) => measured.passed(entered, delivery.release_ns, delivery.len),
        }
        self.sent[exit].count(delivery.len);
        self.end_ns = self.end_ns.max(delivery.release_ns);
        let ts_ns = self.base_ns.saturating_add(delivery.release_ns);
        let output = &mut self.outputs[stored.input];
        let mut result = output.frame(exit, ts_ns, delivery.len, stored.bytes);
        if self.logs.any() {
            result = result.and_then(|()| self.logs.sent(&stored, &delivery, self.base_ns));
        }
        self.keep_error(result);
        self.free(delivery.handle);
    }

    fn lose(&mut self, lost: LostFrame) {
        if lost.link.is_none() {
            self.unrouted.count(lost.cause, lost.len);
        }
        self.end_ns = self.end_ns.max(lost.at_ns);
        self.hop_times.take(lost.handle);
        if self.logs.any() {
            let result = self.logs.lost(&self.chunks.get(lost.handle), &lost, self.base_ns);
            self.keep_error(result);
        }
        self.free(lost.handle);
    }

    #[inline]
    fn on_enqueue(&mut self, joined: QueueArrival) {
        self.measured[joined.link.0 as usize].joined(&joined);
    }

    #[inline]
    fn on_dequeue(&mut self, queued: QueueDeparture) {
        self.measured[queued.link.0 as usize].queued(&queued);
    }
}
