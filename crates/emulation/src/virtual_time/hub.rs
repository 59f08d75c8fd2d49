//! What the engine runs on in virtual time: chunks of the input, and captures for what leaves.

use slipring_cli::Failure;
use slipring_link::{
    Arrival, Carrier, Cause, Delivery, Drops, Flight, Handle, Joined, LinkId, Lost, Queued, Tally,
};

use super::chunk::{Chunk, Chunks, Stored};
use super::output::Output;
use crate::report::hops::Hops;
use crate::report::mahimahi::MahimahiLog;
use crate::report::measured::{Measured, Seen};
use crate::report::packets::{Logged, PacketLog};

/// See the module. Errors are kept until the loop asks for them: the engine knows of none.
pub(super) struct Hub {
    pub(super) chunks: Chunks,
    /// A capture for each input, of what is left of it.
    pub(super) outputs: Vec<Output>,
    /// What left, per exit.
    pub(super) sent: Vec<Tally>,
    /// What no link wanted.
    pub(super) unrouted: Drops,
    /// What was seen, per link.
    pub(super) measured: Vec<Measured>,
    pub(super) hops: Hops,
    pub(super) logs: Logs,
    /// The clock of the engine counts from here, in ns since 1970.
    pub(super) base_ns: u64,
    /// When the last frame left or was lost, on the clock of the engine.
    pub(super) end_ns: u64,
    /// Chunks that are empty again, behind the number of the input that they came from.
    pub(super) emptied: Vec<(usize, Chunk)>,
    pub(super) failure: Option<Failure>,
}

/// Who is told of every frame. See [`PacketLog`] and [`MahimahiLog`].
#[derive(Debug, Default)]
pub(super) struct Logs {
    pub(super) packets: Option<PacketLog>,
    /// One for each input.
    pub(super) mahimahi: Vec<MahimahiLog>,
    /// The port of each input.
    pub(super) entry_ports: Vec<usize>,
    /// The port of each exit.
    pub(super) exit_ports: Vec<usize>,
    /// Names of the links.
    pub(super) links: Vec<String>,
}

impl Logs {
    /// Whether anyone is told.
    pub(super) fn any(&self) -> bool {
        self.packets.is_some() || !self.mahimahi.is_empty()
    }

    fn id(&self, stored: &Stored<'_>) -> u64 {
        stored.sequence * self.entry_ports.len() as u64 + stored.input as u64
    }

    fn arrived(&mut self, stored: &Stored<'_>, base_ns: u64) -> Result<(), Failure> {
        let (id, port) = (self.id(stored), self.entry_ports[stored.input]);
        let (ts_ns, len) = (stored.frame.captured_ns, stored.frame.len);
        if let Some(log) = &mut self.packets {
            log.arrived(port, &Logged { id, ts_ns, len, bytes: stored.bytes })?;
        }
        let log = self.mahimahi.get_mut(stored.input);
        log.map_or(Ok(()), |log| log.arrived(ts_ns - base_ns, len))
    }

    fn sent(
        &mut self,
        stored: &Stored<'_>,
        delivery: &Delivery,
        base_ns: u64,
    ) -> Result<(), Failure> {
        let (id, port) = (self.id(stored), self.exit_ports[usize::from(delivery.exit.0)]);
        let (ts_ns, len) = (base_ns.saturating_add(delivery.release_ns), delivery.len);
        if let Some(log) = &mut self.packets {
            log.sent(port, &Logged { id, ts_ns, len, bytes: stored.bytes }, None)?;
        }
        let delay_ns = ts_ns - stored.frame.captured_ns;
        let log = self.mahimahi.get_mut(stored.input);
        log.map_or(Ok(()), |log| log.sent(delivery.release_ns, len, delay_ns))
    }

    fn lost(&mut self, stored: &Stored<'_>, lost: &Lost, base_ns: u64) -> Result<(), Failure> {
        let (id, port) = (self.id(stored), self.entry_ports[stored.input]);
        let (ts_ns, len) = (base_ns.saturating_add(lost.at_ns), lost.len);
        if let Some(log) = &mut self.packets {
            let link = lost.link.and_then(|link| self.links.get(link.0 as usize));
            let frame = Logged { id, ts_ns, len, bytes: stored.bytes };
            log.lost(port, &frame, lost.cause, link.map(String::as_str))?;
        }
        let log = self.mahimahi.get_mut(stored.input);
        log.map_or(Ok(()), |log| log.lost(lost.at_ns, len))
    }
}

impl Hub {
    /// Tells the logs of a frame that came in.
    pub(super) fn arrived(&mut self, handle: Handle) {
        let told = self.logs.arrived(&self.chunks.get(handle), self.base_ns);
        self.keep(told);
    }

    /// A frame came in that is none.
    pub(super) fn refuse(&mut self, arrival: &Arrival) {
        let &Arrival { arrival_ns, handle, len } = arrival;
        if self.logs.any() {
            let cause = Cause::Malformed;
            let lost = Lost { at_ns: arrival_ns, handle, len, cause, link: None };
            let stored = self.chunks.get(handle);
            let told = self.logs.arrived(&stored, self.base_ns);
            let told = told.and_then(|()| self.logs.lost(&stored, &lost, self.base_ns));
            self.keep(told);
        }
        self.free(handle);
    }

    /// Forgets a frame.
    #[inline]
    pub(super) fn free(&mut self, handle: Handle) {
        self.emptied.extend(self.chunks.free(handle));
    }

    /// Keeps the first error.
    #[inline]
    fn keep(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
    }
}

impl Carrier for Hub {
    fn frame(&mut self, handle: Handle) -> &mut [u8] {
        self.chunks.bytes_mut(handle)
    }

    fn copy(&mut self, handle: Handle) -> Option<Handle> {
        let copy = self.chunks.copy(handle)?;
        self.hops.copied(handle, copy);
        Some(copy)
    }

    fn hop(&mut self, link: LinkId, frame: &Flight) {
        let first = self.chunks.get(frame.handle).entered(self.base_ns);
        let entered = self.hops.pass(frame.handle, frame.release_ns).unwrap_or(first);
        self.measured[link.0 as usize].passed(entered, frame.release_ns, frame.len);
    }

    #[inline]
    fn deliver(&mut self, delivery: Delivery) {
        let stored = self.chunks.get(delivery.handle);
        let exit = usize::from(delivery.exit.0);
        let seen = Seen {
            arrival_ns: stored.frame.captured_ns - self.base_ns,
            release_ns: delivery.release_ns,
            sent_ns: delivery.release_ns,
            len: delivery.len,
            sequence: (!stored.is_copy).then_some(stored.sequence),
        };
        let measured = &mut self.measured[delivery.link.0 as usize];
        match self.hops.leave(delivery.handle) {
            None => measured.released(&seen),
            Some(entered) => measured.passed(entered, delivery.release_ns, delivery.len),
        }
        self.sent[exit].count(delivery.len);
        self.end_ns = self.end_ns.max(delivery.release_ns);
        let ts_ns = self.base_ns.saturating_add(delivery.release_ns);
        let output = &mut self.outputs[stored.input];
        let mut told = output.frame(exit, ts_ns, delivery.len, stored.bytes);
        if self.logs.any() {
            told = told.and_then(|()| self.logs.sent(&stored, &delivery, self.base_ns));
        }
        self.keep(told);
        self.free(delivery.handle);
    }

    fn lose(&mut self, lost: Lost) {
        if lost.link.is_none() {
            self.unrouted.count(lost.cause, lost.len);
        }
        self.end_ns = self.end_ns.max(lost.at_ns);
        self.hops.leave(lost.handle);
        if self.logs.any() {
            let told = self.logs.lost(&self.chunks.get(lost.handle), &lost, self.base_ns);
            self.keep(told);
        }
        self.free(lost.handle);
    }

    #[inline]
    fn joined(&mut self, joined: Joined) {
        self.measured[joined.link.0 as usize].joined(&joined);
    }

    #[inline]
    fn queued(&mut self, queued: Queued) {
        self.measured[queued.link.0 as usize].queued(&queued);
    }
}
