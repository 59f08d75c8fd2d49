//! The frame counts of an emulation. Each thread takes all its counts at one moment between two
//! batches.

use std::collections::BTreeMap;

use slipring_link::{LinkCounters, LinkDrops, LinkId, PacketCounts};
use slipring_port::Nanos;

use crate::report::measurement::LinkMeasurement;

/// The account of an emulation or of one of its threads. Each received frame is either sent,
/// counted as lost by its cause, handed to the other thread, or still in flight: see
/// [`Self::is_balanced`]. The ports' own counts of received frames also include `ring_backlog`,
/// because a port counts a frame when it is in the port's ring.
#[derive(Debug, Clone, Default)]
pub struct EmulationAccount {
    /// When the account was taken, on the clock of [`slipring_port::now`]; in virtual time, the end
    /// of the run.
    pub at_ns: Nanos,
    /// The counters of each link, in the order of the plan.
    pub links: Vec<LinkCounters>,
    /// Frames received, per entry.
    pub entries: Vec<EntryAccount>,
    /// Frames sent, per exit.
    pub exits: Vec<ExitAccount>,
    /// Frames lost because no link accepts them.
    pub unrouted: PacketCounts,
    /// Frames that are in the rx rings of the ports and have not been received yet. In the sum for
    /// two threads, this also includes the frames on the way from one thread to the other.
    pub ring_backlog: PacketCounts,
    /// Frames handed to the other thread, if there are two; see `realtime/pipeline.rs`.
    pub handed_over: PacketCounts,
    /// Frames taken over from the other thread, if there are two.
    pub taken_over: PacketCounts,
    /// Memory allocated for frames, in bytes.
    pub storage_bytes: u64,
}

/// A snapshot of a running emulation.
#[derive(Debug, Clone, Default)]
pub struct EmulationState {
    /// The frame counts.
    pub account: EmulationAccount,
    /// Measurements of the frames that left by each link, in the order of the plan.
    pub measured: Vec<LinkMeasurement>,
}

/// The input of one port.
#[derive(Debug, Clone, Default)]
pub struct EntryAccount {
    /// Frames received, including refused ones.
    pub received: PacketCounts,
    /// Frames that were refused before they reached a link, because they are invalid or there was
    /// no memory for them.
    pub refused: LinkDrops,
    /// Number of captured frames with an earlier timestamp than the frame before them. `None` if
    /// frames come from ports, where they have no timestamps.
    pub unordered: Option<u64>,
}

/// The output of one port.
#[derive(Debug, Clone, Default)]
pub struct ExitAccount {
    /// Frames handed to the port.
    pub sent: PacketCounts,
    /// Frames that left the links but could not be sent in time, by link.
    pub dropped: BTreeMap<LinkId, LinkDrops>,
    /// Frames that are due and wait for space in the tx ring.
    pub waiting: PacketCounts,
}

impl EmulationAccount {
    /// Counts the frames dropped at exits as losses of their links. The engine counts such a frame
    /// as sent by the link, but the user sees it as lost.
    pub(super) fn charge_links(&mut self) {
        for (link, dropped) in self.exits.iter().flat_map(|exit| &exit.dropped) {
            let counters = &mut self.links[link.0 as usize];
            counters.output = counters.output - dropped.total();
            dropped.iter().for_each(|(cause, tally)| counters.drops.add(cause, tally));
        }
    }

    /// Returns the frames received.
    pub fn received(&self) -> PacketCounts {
        sum(self.entries.iter().map(|entry| entry.received))
    }

    /// Returns the copies made by links.
    pub fn copies(&self) -> PacketCounts {
        sum(self.links.iter().map(|link| link.copies))
    }

    /// Returns the number of frames with an earlier timestamp than the frame before them; `None`
    /// if no captures were read.
    pub fn unordered(&self) -> Option<u64> {
        self.entries.iter().filter_map(|entry| entry.unordered).reduce(|sum, one| sum + one)
    }

    /// Returns the frames sent.
    pub fn sent(&self) -> PacketCounts {
        sum(self.exits.iter().map(|exit| exit.sent))
    }

    /// Returns the frames lost for any cause.
    pub fn lost(&self) -> PacketCounts {
        let links = self.links.iter().map(|link| link.drops.total());
        let entries = self.entries.iter().map(|entry| entry.refused.total());
        sum(links.chain(entries).chain([self.unrouted]))
    }

    /// Returns the frames in the links, in the outputs and in the ports' rings.
    pub fn in_flight(&self) -> PacketCounts {
        let links = self.links.iter().map(|link| link.in_flight);
        let waiting = self.exits.iter().map(|exit| exit.waiting);
        sum(links.chain(waiting).chain([self.ring_backlog]))
    }

    /// Returns whether all frames are accounted for: the frames received, copied and taken over
    /// are as many as the frames sent, lost, in flight and handed over.
    pub fn is_balanced(&self) -> bool {
        let came = self.received() + self.ring_backlog + self.copies() + self.taken_over;
        came == self.sent() + self.lost() + self.in_flight() + self.handed_over
    }
}

fn sum(tallies: impl Iterator<Item = PacketCounts>) -> PacketCounts {
    tallies.fold(PacketCounts::default(), |sum, tally| sum + tally)
}
