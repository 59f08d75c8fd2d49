//! Decides ahead of time which frames leave, and when: the engine of links, fed by a capture whose
//! times are known beforehand.

use std::collections::VecDeque;

use slipring_cli::codes::SR0003;
use slipring_cli::{Diagnostic, Failure};
use slipring_link::{
    Arrival, Carrier, Cause, ChangeError, Delivery, EntryId, ExitId, Flight, Handle, Joined,
    LinkId, Lost, Network, NetworkSpec, Queued, Tally,
};
use slipring_port::Nanos;

use super::pace::Pace;
use slipring_emulation::{
    Account, Chunk, Chunks, EntryAccount, ExitAccount, Feed, Hops, Input, LogTap, Measured, Seen,
    State, Taken, Told, storage_bytes,
};

/// Frames that enter at a time: what is decided between two looks at the clock.
const BATCH: usize = 256;
/// The only one: the port.
const FIRST_EXIT: ExitId = ExitId(0);

/// See the module. Times count from the first frame.
pub(super) struct Player {
    network: Network,
    feed: Feed,
    taken: Taken,
    cargo: Cargo,
}

/// A frame that is to leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// When.
    pub(super) release_ns: u64,
    /// How long it is, in bytes without FCS; its bytes may be fewer.
    pub(super) len: u32,
    handle: Handle,
    link: LinkId,
}

impl Player {
    /// Finds the first frame of a capture. Frames later than `late_ns` will be counted as late.
    ///
    /// # Errors
    /// If the capture cannot be read, or the network cannot be built.
    pub(super) fn new(
        plan: &NetworkSpec,
        seed: u64,
        (input, mut pace): (Input, Pace),
        late_ns: u64,
    ) -> Result<Self, Failure> {
        let network = Network::new(plan, seed).map_err(|error| {
            Diagnostic::new(SR0003, "the link cannot be built").with_cause(error.to_string())
        })?;
        let retime = Box::new(move |chunk: &mut Chunk| pace.retime(chunk));
        let mut feed = Feed::new(input, EntryId(0), Some(retime), 0);
        let measured = plan.links.iter().map(|_| Measured::new(late_ns)).collect();
        let chunks = Chunks::within(storage_bytes());
        let mut cargo = Cargo { measured, chunks, ..Cargo::default() };
        feed.refill(&mut cargo.chunks)?;
        cargo.base_ns = feed.next_ns(&cargo.chunks).unwrap_or(0);
        let taken = Taken { base_ns: cargo.base_ns, ..Taken::default() };
        Ok(Self { network, feed, taken, cargo })
    }

    /// Tells `log` of every frame from now on; the first one comes at `start_ns` on its clock.
    pub(super) fn log(&mut self, log: LogTap, start_ns: Nanos) {
        self.cargo.log = Some(Log { tap: log, start_ns });
    }

    /// Makes a change of the plan at its time. What was decided already stays so.
    ///
    /// # Errors
    /// If the network cannot be changed so.
    pub(super) fn change(&mut self, at_ns: u64, plan: &NetworkSpec) -> Result<(), ChangeError> {
        self.network.change(at_ns, plan)
    }

    /// Decides what leaves up to `until_ns`, or some of it; false when there was nothing to decide.
    ///
    /// # Errors
    /// If the capture is damaged.
    pub(super) fn decide(&mut self, until_ns: u64) -> Result<bool, Failure> {
        self.feed.refill(&mut self.cargo.chunks)?;
        let captured_ns = self.cargo.base_ns.saturating_add(until_ns);
        self.feed.take(captured_ns, BATCH, &self.cargo.chunks, &mut self.taken);
        let Taken { arrivals, malformed, .. } = &self.taken;
        arrivals.iter().for_each(|arrival| self.cargo.told_of(arrival));
        malformed.iter().for_each(|arrival| self.cargo.refuse(arrival));
        self.network.push(EntryId(0), arrivals, &mut self.cargo);
        let all = arrivals.len() + malformed.len() < BATCH
            && !self.feed.is_behind(captured_ns, &self.cargo.chunks);
        // Further frames may arrive at the moment of the last one.
        let known_ns =
            if all { Some(until_ns) } else { arrivals.last().map(|last| last.arrival_ns) };
        let before = self.cargo.due.len();
        if let Some(known_ns) = known_ns {
            self.network.run(known_ns.saturating_sub(1), &mut self.cargo);
        }
        let moved = !arrivals.is_empty() || !malformed.is_empty();
        for chunk in self.cargo.emptied.drain(..) {
            self.feed.input.recycle(chunk);
        }
        Ok(moved || self.cargo.due.len() > before)
    }

    /// Whether nothing will ever leave any more.
    pub(super) fn ended(&self) -> bool {
        self.cargo.due.is_empty() && self.feed.is_done() && self.network.next_ns().is_none()
    }

    /// When something is to be decided next, if there is anything.
    pub(super) fn next_decision_ns(&self) -> Option<u64> {
        let arrival = self.feed.next_ns(&self.cargo.chunks);
        let arrival = arrival.map(|at_ns| at_ns.saturating_sub(self.cargo.base_ns));
        arrival.into_iter().chain(self.network.next_ns()).min()
    }

    /// The next frame to leave.
    pub(super) fn next(&self) -> Option<Due> {
        self.cargo.due.front().copied()
    }

    /// Its bytes, as far as they are known.
    pub(super) fn bytes(&self, due: &Due) -> &[u8] {
        self.cargo.chunks.get(due.handle).bytes
    }

    /// The next frame was put on its way. Returns it, to be told of when it has left.
    pub(super) fn take(&mut self) -> Option<Due> {
        self.cargo.due.pop_front()
    }

    /// A frame left.
    pub(super) fn sent(&mut self, due: &Due, sent_ns: u64) {
        let entered = self.cargo.hops.leave(due.handle);
        let stored = self.cargo.chunks.get(due.handle);
        let first_ns = stored.frame.captured_ns - self.cargo.base_ns;
        let seen = Seen {
            arrival_ns: entered.map_or(first_ns, |entered| entered.at_ns),
            release_ns: due.release_ns,
            sent_ns,
            len: due.len,
            sequence: (!stored.is_copy).then_some(stored.sequence),
        };
        if let Some(log) = &mut self.cargo.log {
            let frame = log.told((due.handle, sent_ns, due.len), stored.bytes);
            let (release_ns, arrival_ns) = (log.at(due.release_ns), log.at(seen.arrival_ns));
            log.tap.went_out(&frame, FIRST_EXIT, release_ns, arrival_ns);
        }
        self.cargo.measured[due.link.0 as usize].sent(&seen);
        self.cargo.free(due.handle);
    }

    /// A frame could not be sent.
    pub(super) fn dropped(&mut self, due: &Due) {
        self.cargo.hops.leave(due.handle);
        self.cargo.lost((due.handle, due.release_ns, due.len), Cause::TxFull, None);
        self.cargo.free(due.handle);
    }

    /// Takes back the changes that have not taken effect.
    pub(super) fn cancel_changes(&mut self) {
        self.network.cancel_changes();
    }

    /// What happened so far; what was sent, the caller knows.
    pub(super) fn state(&self, at_ns: u64, sent: Tally) -> State {
        let links = 0..self.cargo.measured.len();
        let feed = &self.feed;
        let mut waiting = Tally::default();
        self.cargo.due.iter().for_each(|due| waiting.count(due.len));
        let account = Account {
            at_ns,
            links: links.map(|link| self.network.counters(LinkId(link as u32))).collect(),
            entries: vec![EntryAccount {
                received: feed.received,
                refused: feed.refused,
                unordered: Some(self.unordered()),
            }],
            exits: vec![ExitAccount { sent, waiting, ..ExitAccount::default() }],
            unrouted: self.cargo.unrouted,
            ..Account::default()
        };
        State { account, measured: self.cargo.measured.clone() }
    }

    /// Frames so far that were stamped before their predecessors.
    pub(super) fn unordered(&self) -> u64 {
        self.feed.input.unordered()
    }
}

/// Frames on their way, and those that are to leave, in the order of time.
#[derive(Default)]
struct Cargo {
    chunks: Chunks,
    due: VecDeque<Due>,
    measured: Vec<Measured>,
    hops: Hops,
    unrouted: Tally,
    base_ns: u64,
    emptied: Vec<Chunk>,
    log: Option<Log>,
}

/// Where frames are written down.
struct Log {
    tap: LogTap,
    /// When times are 0, on the clock of the log.
    start_ns: Nanos,
}

impl Log {
    fn at(&self, ns: u64) -> Nanos {
        self.start_ns.saturating_add(ns)
    }

    fn told<'f>(&self, (handle, ns, len): (Handle, u64, u32), bytes: &'f [u8]) -> Told<'f> {
        Told { handle, at_ns: self.at(ns), len, bytes }
    }
}

impl Cargo {
    /// A frame came in.
    fn told_of(&mut self, arrival: &Arrival) {
        let Some(log) = &mut self.log else { return };
        let &Arrival { handle, len, arrival_ns } = arrival;
        let frame = log.told((handle, arrival_ns, len), self.chunks.get(handle).bytes);
        log.tap.came(EntryId(0), &frame);
    }

    /// A frame came in that is none.
    fn refuse(&mut self, arrival: &Arrival) {
        self.told_of(arrival);
        let &Arrival { handle, len, arrival_ns } = arrival;
        self.lost((handle, arrival_ns, len), Cause::Malformed, None);
        self.free(handle);
    }

    fn lost(&mut self, frame: (Handle, u64, u32), cause: Cause, link: Option<LinkId>) {
        let Some(log) = &mut self.log else { return };
        let frame = log.told(frame, self.chunks.get(frame.0).bytes);
        log.tap.went_lost(&frame, cause, link);
    }

    fn free(&mut self, handle: Handle) {
        self.emptied.extend(self.chunks.free(handle).map(|(_, chunk)| chunk));
    }
}

impl Carrier for Cargo {
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

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { release_ns, handle, len, link, .. } = delivery;
        self.due.push_back(Due { release_ns, len, handle, link });
    }

    fn lose(&mut self, lost: Lost) {
        if lost.link.is_none() {
            self.unrouted.count(lost.len);
        }
        self.hops.leave(lost.handle);
        self.lost((lost.handle, lost.at_ns, lost.len), lost.cause, lost.link);
        self.free(lost.handle);
    }

    fn joined(&mut self, joined: Joined) {
        self.measured[joined.link.0 as usize].joined(&joined);
    }

    fn queued(&mut self, queued: Queued) {
        self.measured[queued.link.0 as usize].queued(&queued);
    }
}
