//! What a port was given and has not sent yet: measured once it has.

use std::collections::VecDeque;

use slipring_link::{LinkId, Tally};
use slipring_port::Nanos;

use super::Due;
use crate::report::measured::{Left, Measured};
use crate::store::{Head, Store};

/// Frames in the order in which they were given.
///
/// # Invariants
/// 1. The first `heads` are those of all frames, and `groups` has them all, one group behind the
///    other. What follows is room.
/// 2. `releases` are those of the frames in groups without a delay.
#[derive(Debug, Default)]
pub(super) struct Given {
    heads: Vec<Head>,
    groups: Vec<Group>,
    releases: Vec<Nanos>,
    /// Room for how much later than the first one frames of a group arrived.
    later: Vec<u32>,
    /// Room for what is to be told of frames of a group.
    left: Vec<Left>,
    total: Tally,
}

/// Frames by one link.
#[derive(Debug)]
struct Group {
    link: LinkId,
    /// How long after its arrival each was to leave; `None` where each has a time of its own.
    delay_ns: Option<Nanos>,
    /// When the first and the last one arrived, if they have a delay.
    arrived: (Nanos, Nanos),
    tally: Tally,
}

impl Given {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Where to put the heads of the next frames, at least so many.
    #[inline]
    pub(super) fn room(&mut self, count: usize) -> &mut [Head] {
        let used = self.total.packets as usize;
        if self.heads.len() < used + count {
            self.heads.resize(used + count, Head::default());
        }
        &mut self.heads[used..]
    }

    /// Says what frames are whose heads are here already; takes over their releases if they have
    /// any.
    #[inline]
    pub(super) fn add(&mut self, due: &Due, releases: &mut VecDeque<Nanos>) {
        let &Due { link, delay_ns, train, .. } = due;
        self.total += train.tally();
        if delay_ns.is_none() {
            let count = train.packets as usize;
            let (first, second) = releases.as_slices();
            let most = count.min(first.len());
            self.releases.extend_from_slice(&first[..most]);
            self.releases.extend_from_slice(&second[..count - most]);
            releases.drain(..count);
        }
        match self.groups.last_mut() {
            Some(last) if last.link == link && last.delay_ns.is_none() && delay_ns.is_none() => {
                last.tally += train.tally();
            }
            _ => {
                let arrived = (train.first_ns, train.last_ns);
                self.groups.push(Group { link, delay_ns, arrived, tally: train.tally() });
            }
        }
    }

    /// Measures what the port has sent by now, and forgets it; returns how much that was.
    pub(super) fn settle(
        &mut self,
        clock: impl Fn() -> Nanos,
        store: &Store,
        measured: &mut [Measured],
    ) -> Tally {
        if self.groups.is_empty() {
            return Tally::default();
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
                    link.sent_train(sent_ns, delay_ns, bytes, group.arrived.0, &self.later);
                }
                Some(delay_ns) => {
                    let left = |head: &Head| head.left(latest_ns, |ns| ns.saturating_add(delay_ns));
                    self.left.clear();
                    self.left.extend(these.iter().map(left));
                    link.sent_all(sent_ns, bytes, &self.left);
                }
                None => {
                    let (own, later) = releases.split_at(these.len());
                    releases = later;
                    let left = |(head, &at_ns): (&Head, &Nanos)| head.left(latest_ns, |_| at_ns);
                    self.left.clear();
                    self.left.extend(these.iter().zip(own).map(left));
                    link.sent_all(sent_ns, bytes, &self.left);
                }
            }
        }
        self.groups.clear();
        self.releases.clear();
        std::mem::take(&mut self.total)
    }
}

impl Group {
    /// Whether its frames are what [`Measured::sent_train`] takes.
    fn is_steady(&self, delay_ns: Nanos, sent_ns: Nanos) -> bool {
        let (first_ns, last_ns) = self.arrived;
        let took = last_ns.checked_sub(first_ns);
        took.is_some_and(|ns| ns <= u32::MAX.into()) && last_ns.saturating_add(delay_ns) <= sent_ns
    }
}

impl Head {
    fn left(self, latest_ns: Nanos, release: impl Fn(Nanos) -> Nanos) -> Left {
        let arrival_ns = self.arrival_ns(latest_ns);
        Left { arrival_ns, release_ns: release(arrival_ns), is_copy: self.is_copy() }
    }
}
