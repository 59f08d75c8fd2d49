//! Keeps the times of frames that were submitted to a port, until the port has sent them and they
//! are measured.

use std::collections::VecDeque;

use slipring_link::{LinkId, PacketCounts};
use slipring_port::Nanos;

use super::DueBurst;
use crate::report::measurement::{LinkMeasurement, SentFrame};
use crate::store::{EmulationStore, StoreHeader};

/// The submitted frames, in the order of submission.
///
/// # Invariants
/// 1. The first `total.packets` entries of `heads` are the headers of the submitted frames, and
///    `groups` has the same frames in the same order. The remaining entries of `heads` are unused.
/// 2. `releases` has the release times of the frames in groups without a common delay.
#[derive(Debug, Default)]
pub(super) struct SubmittedFrames {
    heads: Vec<StoreHeader>,
    groups: Vec<LinkGroup>,
    releases: Vec<Nanos>,
    /// Scratch space: arrival times of a group's frames in ns, relative to its first frame.
    later: Vec<u32>,
    /// Scratch space: the measurements of a group's frames.
    departed: Vec<SentFrame>,
    total: PacketCounts,
}

/// Consecutive frames of one link.
#[derive(Debug)]
struct LinkGroup {
    link: LinkId,
    /// Delay between arrival and release in ns; `None` if each frame has its own release time.
    delay_ns: Option<Nanos>,
    /// Arrival times of the first and the last frame in ns, if the frames have a common delay.
    arrived: (Nanos, Nanos),
    tally: PacketCounts,
}

impl SubmittedFrames {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns space for the headers of the frames submitted next, at least `count` entries.
    #[inline]
    pub(super) fn reserve_heads(&mut self, count: usize) -> &mut [StoreHeader] {
        let used = self.total.packets as usize;
        if self.heads.len() < used + count {
            self.heads.resize(used + count, StoreHeader::default());
        }
        &mut self.heads[used..]
    }

    /// Adds frames whose headers are already in `heads`, and takes over their release times if
    /// they have any.
    #[inline]
    pub(super) fn add(&mut self, due: &DueBurst, releases: &mut VecDeque<Nanos>) {
        let &DueBurst { link, delay_ns, burst, .. } = due;
        self.total += burst.counts();
        if delay_ns.is_none() {
            let count = burst.packets as usize;
            let (first, second) = releases.as_slices();
            let most = count.min(first.len());
            self.releases.extend_from_slice(&first[..most]);
            self.releases.extend_from_slice(&second[..count - most]);
            releases.drain(..count);
        }
        match self.groups.last_mut() {
            Some(last) if last.link == link && last.delay_ns.is_none() && delay_ns.is_none() => {
                last.tally += burst.counts();
            }
            _ => {
                let arrived = (burst.first_ns, burst.last_ns);
                self.groups.push(LinkGroup { link, delay_ns, arrived, tally: burst.counts() });
            }
        }
    }

    /// Measures and removes the frames that the port has sent. Returns their counts.
    pub(super) fn measure_sent(
        &mut self,
        clock: impl Fn() -> Nanos,
        store: &EmulationStore,
        measured: &mut [LinkMeasurement],
    ) -> PacketCounts {
        if self.groups.is_empty() {
            return PacketCounts::default();
        }
        let (sent_ns, latest_ns) = (clock(), store.latest_ns());
        let (mut heads, mut releases) = (&self.heads[..], &self.releases[..]);
        for group in &self.groups {
            let link = &mut measured[group.link.0 as usize];
            let (these, later) = heads.split_at(group.tally.packets as usize);
            heads = later;
            let bytes = group.tally.bytes;
            match group.delay_ns {
                Some(delay_ns) if group.is_steady(delay_ns, sent_ns) => {
                    self.later.clear();
                    self.later.extend(these.iter().map(|head| head.ns_after(these[0])));
                    link.sent_burst(sent_ns, delay_ns, bytes, group.arrived.0, &self.later);
                }
                Some(delay_ns) => {
                    let left = |head: &StoreHeader| {
                        head.departed(latest_ns, |ns| ns.saturating_add(delay_ns))
                    };
                    self.departed.clear();
                    self.departed.extend(these.iter().map(left));
                    link.sent_all(sent_ns, bytes, &self.departed);
                }
                None => {
                    let (own, later) = releases.split_at(these.len());
                    releases = later;
                    let left = |(head, &at_ns): (&StoreHeader, &Nanos)| {
                        head.departed(latest_ns, |_| at_ns)
                    };
                    self.departed.clear();
                    self.departed.extend(these.iter().zip(own).map(left));
                    link.sent_all(sent_ns, bytes, &self.departed);
                }
            }
        }
        self.groups.clear();
        self.releases.clear();
        std::mem::take(&mut self.total)
    }
}

impl LinkGroup {
    /// Returns whether the group meets the conditions of [`LinkMeasurement::sent_burst`].
    fn is_steady(&self, delay_ns: Nanos, sent_ns: Nanos) -> bool {
        let (first_ns, last_ns) = self.arrived;
        let took = last_ns.checked_sub(first_ns);
        took.is_some_and(|ns| ns <= u32::MAX.into()) && last_ns.saturating_add(delay_ns) <= sent_ns
    }
}

impl StoreHeader {
    fn departed(self, latest_ns: Nanos, release: impl Fn(Nanos) -> Nanos) -> SentFrame {
        let arrival_ns = self.arrival_ns(latest_ns);
        SentFrame { arrival_ns, release_ns: release(arrival_ns), is_copy: self.is_copy() }
    }
}
