//! What an emulation has done so far, taken at one moment between two batches.

use std::collections::BTreeMap;

use slipring_link::{Counters, Drops, LinkId, Tally};
use slipring_port::Nanos;

/// The whole account, or that of one thread. At any moment what was received is what was sent,
/// lost by cause, or is still inside: see [`Self::balance`]. What the ports have received is that and what is untaken.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// When it was taken, on the clock of [`slipring_port::now`].
    pub at_ns: Nanos,
    /// The links' own accounts, in the order of the plan.
    pub links: Vec<Counters>,
    /// Frames taken in, per entry.
    pub entries: Vec<EntryAccount>,
    /// Frames sent, per exit.
    pub exits: Vec<ExitAccount>,
    /// Frames that no link wanted.
    pub unrouted: Tally,
    /// Frames in the ports' rings, or between two threads, that were not taken in yet.
    pub untaken: Tally,
    /// Frames given to another thread, by one thread of a pipeline.
    pub given: Tally,
    /// Frames taken over from another thread.
    pub taken: Tally,
    /// Memory held for frames, in bytes.
    pub storage_bytes: u64,
}

/// What came in at one place.
#[derive(Debug, Clone, Default)]
pub struct EntryAccount {
    /// Frames received, those refused included.
    pub received: Tally,
    /// Frames that no link got to see: no storage, or no frames at all.
    pub refused: Drops,
    /// Frames of a capture that were stamped before their predecessors; ports have no stamps.
    pub unordered: Option<u64>,
}

/// What left at one place.
#[derive(Debug, Clone, Default)]
pub struct ExitAccount {
    /// Frames given to the port.
    pub sent: Tally,
    /// Frames that left the links and could not be sent in time, by link.
    pub dropped: BTreeMap<LinkId, Drops>,
    /// Frames that are due and wait for the port.
    pub waiting: Tally,
}

impl Account {
    /// Has the links answer for what their exits dropped: to the engine it had left, to everyone
    /// else it is lost.
    pub(super) fn charge_links(&mut self) {
        for (link, dropped) in self.exits.iter().flat_map(|exit| &exit.dropped) {
            let counters = &mut self.links[link.0 as usize];
            counters.output = counters.output - dropped.total();
            dropped.iter().for_each(|(cause, tally)| counters.drops.add(cause, tally));
        }
    }

    /// Frames received.
    pub fn received(&self) -> Tally {
        sum(self.entries.iter().map(|entry| entry.received))
    }

    /// Copies made by links.
    pub fn copies(&self) -> Tally {
        sum(self.links.iter().map(|link| link.copies))
    }

    /// Frames stamped before their predecessors, where captures were read.
    pub fn unordered(&self) -> Option<u64> {
        self.entries.iter().filter_map(|entry| entry.unordered).reduce(|sum, one| sum + one)
    }

    /// Frames sent.
    pub fn sent(&self) -> Tally {
        sum(self.exits.iter().map(|exit| exit.sent))
    }

    /// Frames lost, for whatever cause.
    pub fn lost(&self) -> Tally {
        let links = self.links.iter().map(|link| link.drops.total());
        let entries = self.entries.iter().map(|entry| entry.refused.total());
        sum(links.chain(entries).chain([self.unrouted]))
    }

    /// Frames inside.
    pub fn in_flight(&self) -> Tally {
        let links = self.links.iter().map(|link| link.in_flight);
        let waiting = self.exits.iter().map(|exit| exit.waiting);
        sum(links.chain(waiting).chain([self.untaken]))
    }

    /// Whether nothing was lost uncounted.
    pub fn balance(&self) -> bool {
        let came = self.received() + self.untaken + self.copies() + self.taken;
        came == self.sent() + self.lost() + self.in_flight() + self.given
    }
}

fn sum(tallies: impl Iterator<Item = Tally>) -> Tally {
    tallies.fold(Tally::default(), |sum, tally| sum + tally)
}
