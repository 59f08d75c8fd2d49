//! Links that can reach a common place, and the order of their events.

use alloc::vec;
use alloc::vec::Vec;

use super::route::Routes;
use crate::agenda::Agenda;
use crate::carrier::{Arrival, Carrier, EntryId};
use crate::link::Link;
use crate::spec::{NetworkSpec, Source, Target};

pub(super) struct Island {
    links: Vec<u32>,
    /// Over links, by their index in the network; empty when there is only one.
    agenda: Agenda,
    /// Place of each link in `links`, by its index in the network, less `first`.
    places: Vec<u32>,
    first: u32,
}

impl Island {
    fn new(links: Vec<u32>) -> Self {
        let first = links.iter().copied().min().unwrap_or(0);
        let last = links.iter().copied().max().unwrap_or(0);
        let mut places = vec![u32::MAX; (last - first) as usize + 1];
        for (place, &link) in links.iter().enumerate() {
            places[(link - first) as usize] = place as u32;
        }
        let members = if links.len() > 1 { links.len() } else { 0 };
        Self { agenda: Agenda::new(members), links, places, first }
    }

    pub(super) fn links(&self) -> &[u32] {
        &self.links
    }

    /// Whether it is one link from entry to exit.
    #[inline]
    pub(super) fn is_single(&self) -> bool {
        self.links.len() == 1
    }

    /// When something happens next.
    #[inline]
    pub(super) fn next_ns(&self, links: &[Link]) -> Option<u64> {
        match self.links[..] {
            [link] => links[link as usize].next_ns(),
            _ => self.agenda.next_ns(),
        }
    }

    /// Takes a frame in at an entry, all before it being done.
    pub(super) fn push(
        &mut self,
        entry: EntryId,
        frame: Arrival,
        links: &mut [Link],
        routes: &mut Routes,
        carrier: &mut impl Carrier,
    ) {
        if let Some(link) = routes.entry_mut(entry).choose(frame, carrier) {
            self.bring(link, frame, links, carrier);
        }
    }

    /// Performs what is due up to `now_ns`, in order of time.
    #[inline]
    pub(super) fn run(
        &mut self,
        now_ns: u64,
        links: &mut [Link],
        routes: &mut Routes,
        carrier: &mut impl Carrier,
    ) {
        if let [link] = self.links[..] {
            let link = &mut links[link as usize];
            link.settle(now_ns, carrier);
            if matches!(link.to, Target::Exit(_)) {
                return link.deliver_due(now_ns, carrier);
            }
        }
        while let Some((at_ns, place)) = self.next_due(now_ns, links) {
            self.step(place, at_ns, links, routes, carrier);
        }
    }

    /// The next link that has something to do by `now_ns`.
    #[inline]
    fn next_due(&mut self, now_ns: u64, links: &[Link]) -> Option<(u64, u32)> {
        match self.links[..] {
            [link] => {
                let next_ns = links[link as usize].next_ns().filter(|&at_ns| at_ns <= now_ns)?;
                Some((next_ns, 0))
            }
            _ => self.agenda.pop_due(now_ns),
        }
    }

    /// Performs what one link does at one moment.
    fn step(
        &mut self,
        place: u32,
        at_ns: u64,
        links: &mut [Link],
        routes: &mut Routes,
        carrier: &mut impl Carrier,
    ) {
        let index = self.links[place as usize] as usize;
        let link = &mut links[index];
        link.settle(at_ns, carrier);
        match link.to {
            Target::Exit(_) => link.deliver_due(at_ns, carrier),
            Target::Node(node) => {
                while let Some(flight) = links[index].pop_due(at_ns) {
                    let (handle, len) = (flight.handle, flight.len);
                    let frame = Arrival { arrival_ns: flight.release_ns, handle, len };
                    if let Some(next) = routes.node_mut(node).choose(frame, carrier) {
                        self.bring(next, frame, links, carrier);
                    }
                }
            }
        }
        self.arm(index, links);
    }

    /// Brings a frame to a link.
    fn bring(
        &mut self,
        link: usize,
        frame: Arrival,
        links: &mut [Link],
        carrier: &mut impl Carrier,
    ) {
        links[link].settle(frame.arrival_ns, carrier);
        links[link].arrive(frame, carrier);
        self.arm(link, links);
    }

    /// Learns anew when every link has something to do.
    pub(super) fn arm_all(&mut self, links: &[Link]) {
        for place in 0..self.links.len() {
            self.arm(self.links[place] as usize, links);
        }
    }

    #[inline]
    fn arm(&mut self, link: usize, links: &[Link]) {
        if !self.is_single() {
            let place = self.places[link - self.first as usize];
            self.agenda.set(place, links[link].next_ns());
        }
    }
}

/// The islands of a plan, and with them every link.
pub(super) fn find(plan: &NetworkSpec) -> Vec<Island> {
    // Entries, then nodes, then exits, each at first a set of its own.
    let (entries, nodes) = (plan.entries.len(), plan.nodes.len());
    let mut parents: Vec<usize> = (0..entries + nodes + plan.exits.len()).collect();
    let source_of = |source| match source {
        Source::Entry(index) => index,
        Source::Node(index) => entries + index,
    };
    for link in &plan.links {
        let target = match link.to {
            Target::Node(index) => entries + index,
            Target::Exit(index) => entries + nodes + index,
        };
        let (a, b) = (root(&mut parents, source_of(link.from)), root(&mut parents, target));
        parents[a] = b;
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); parents.len()];
    for (index, link) in plan.links.iter().enumerate() {
        members[root(&mut parents, source_of(link.from))].push(index as u32);
    }
    members.into_iter().filter(|links| !links.is_empty()).map(Island::new).collect()
}

/// The one that stands for the set of `at`; halves the way there on the way.
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}
