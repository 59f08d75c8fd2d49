//! What an emulation has done so far, taken at one moment between two batches.

use std::collections::BTreeMap;

use slipring_link::{LinkCounters, LinkDrops, LinkId, PacketCounts};
use slipring_port::Nanos;

/// The whole account, or that of one thread. At any moment what was received is what was sent,
/// lost by cause, or is still inside: see [`Self::balance`]. What the ports have received is that and what is untaken.
#[derive(Debug, Clone, Default)]
pub struct EmulationAccount {
    /// When it was taken, on the clock of [`slipring_port::now`].
    pub at_ns: Nanos,
    /// The links' own accounts, in the order of the plan.
    pub links: Vec<LinkCounters>,
    /// Frames taken in, per entry.
    pub entries: Vec<EntryAccount>,
    /// Frames sent, per exit.
    pub exits: Vec<ExitAccount>,
    /// Frames that no link wanted.
    pub unrouted: PacketCounts,
    /// Frames in the ports' rings, or between two threads, that were not taken in yet.
    pub ring_backlog: PacketCounts,
    /// Frames given to another thread, by one thread of a pipeline.
    pub handed_over: PacketCounts,
    /// Frames taken over from another thread.
    pub taken_over: PacketCounts,
    /// Memory held for frames, in bytes.
    pub storage_bytes: u64,
}

/// What came in at one place.
#[derive(Debug, Clone, Default)]
pub struct EntryAccount {
    /// Frames received, those refused included.
    pub received: PacketCounts,
    /// Frames that no link got to see: no storage, or no frames at all.
    pub refused: LinkDrops,
    /// Frames of a capture that were stamped before their predecessors; ports have no stamps.
    pub unordered: Option<u64>,
}

/// What left at one place.
#[derive(Debug, Clone, Default)]
pub struct ExitAccount {
    /// Frames given to the port.
    pub sent: PacketCounts,
    /// Frames that left the links and could not be sent in time, by link.
    pub dropped: BTreeMap<LinkId, LinkDrops>,
    /// Frames that are due and wait for the port.
    pub waiting: PacketCounts,
}

impl EmulationAccount {
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
    pub fn received(&self) -> PacketCounts {
        sum(self.entries.iter().map(|entry| entry.received))
    }

    /// Copies made by links.
    pub fn copies(&self) -> PacketCounts {
        sum(self.links.iter().map(|link| link.copies))
    }

    /// Frames stamped before their predecessors, where captures were read.
    pub fn unordered(&self) -> Option<u64> {
        self.entries.iter().filter_map(|entry| entry.unordered).reduce(|sum, one| sum + one)
    }

    /// Frames sent.
    pub fn sent(&self) -> PacketCounts {
        sum(self.exits.iter().map(|exit| exit.sent))
    }

    /// Frames lost, for whatever cause.
    pub fn lost(&self) -> PacketCounts {
        let links = self.links.iter().map(|link| link.drops.total());
        let entries = self.entries.iter().map(|entry| entry.refused.total());
        sum(links.chain(entries).chain([self.unrouted]))
    }

    /// Frames inside.
    pub fn in_flight(&self) -> PacketCounts {
        let links = self.links.iter().map(|link| link.in_flight);
        let waiting = self.exits.iter().map(|exit| exit.waiting);
        sum(links.chain(waiting).chain([self.ring_backlog]))
    }

    /// Whether nothing was lost uncounted.
    pub fn is_balanced(&self) -> bool {
        let came = self.received() + self.ring_backlog + self.copies() + self.taken_over;
        came == self.sent() + self.lost() + self.in_flight() + self.handed_over
    }
}

fn sum(tallies: impl Iterator<Item = PacketCounts>) -> PacketCounts {
    tallies.fold(PacketCounts::default(), |sum, tally| sum + tally)
}
