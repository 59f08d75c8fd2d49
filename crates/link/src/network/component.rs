//! Components: links that share an entry or a node, directly or through other links, and the order
//! of their events.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::route::LinkRoutes;
use crate::carrier::{Carrier, EntryId, FrameArrival};
use crate::event_queue::EventQueue;
use crate::link::Link;
use crate::spec::{LinkSource, LinkTarget, NetworkSpec};

pub(super) enum LinkComponent {
    /// The index of a link that shares no entry or node with another link.
    Single(u32),
    Multi(Box<MultiLinkComponent>),
}

/// A component of several links.
pub(super) struct MultiLinkComponent {
    links: Vec<u32>,
    /// The time of the next event of each link, by position in `links`.
    agenda: EventQueue,
    /// Position of each link in `links`, by its index in the network minus `first`.
    positions: Vec<u32>,
    first: u32,
}

impl LinkComponent {
    fn new(links: &[u32]) -> Self {
        match *links {
            [link] => Self::Single(link),
            _ => Self::Multi(Box::new(MultiLinkComponent::new(links))),
        }
    }

    pub(super) fn links(&self) -> &[u32] {
        match self {
            Self::Single(link) => core::slice::from_ref(link),
            Self::Multi(joint) => &joint.links,
        }
    }

    /// Whether the component is one link.
    #[inline]
    pub(super) fn is_single(&self) -> bool {
        matches!(self, Self::Single(_))
    }

    /// Time of the next event.
    #[inline]
    pub(super) fn next_ns(&self, links: &[Link]) -> Option<u64> {
        match self {
            Self::Single(link) => links[*link as usize].next_ns(),
            Self::Multi(joint) => joint.agenda.next_ns(),
        }
    }

    /// Takes a frame at an entry. The caller has performed all earlier events of the component.
    pub(super) fn push(
        &mut self,
        entry: EntryId,
        frame: FrameArrival,
        links: &mut [Link],
        routes: &mut LinkRoutes,
        carrier: &mut impl Carrier,
    ) {
        let Some(link) = routes.entry_mut(entry).choose(frame, carrier) else { return };
        links[link].settle(frame.arrival_ns, carrier);
        links[link].arrive(frame, carrier);
        if let Self::Multi(joint) = self {
            joint.arm(link, links);
        }
    }

    /// Performs the events that are due up to `now_ns`, in order of time; a single link delivers
    /// only after all its other events.
    #[inline]
    pub(super) fn run(
        &mut self,
        now_ns: u64,
        links: &mut [Link],
        routes: &mut LinkRoutes,
        carrier: &mut impl Carrier,
    ) {
        match self {
            Self::Single(link) => {
                let link = &mut links[*link as usize];
                link.settle(now_ns, carrier);
                match link.to {
                    LinkTarget::Exit(_) => link.deliver_due(now_ns, carrier),
                    LinkTarget::Node(node) => drop_at_node(node, link, now_ns, routes, carrier),
                }
            }
            Self::Multi(joint) => {
                while let Some((at_ns, position)) = joint.agenda.pop_due(now_ns) {
                    joint.step(position, at_ns, links, routes, carrier);
                }
            }
        }
    }

    /// Recomputes the next event of every link.
    pub(super) fn arm_all(&mut self, links: &[Link]) {
        if let Self::Multi(joint) = self {
            for position in 0..joint.links.len() {
                joint.arm(joint.links[position] as usize, links);
            }
        }
    }
}

/// Drops the frames that reach a node without outgoing links.
fn drop_at_node(
    node: usize,
    link: &mut Link,
    now_ns: u64,
    routes: &mut LinkRoutes,
    carrier: &mut impl Carrier,
) {
    while let Some(frame) = link.hop_due(now_ns, carrier) {
        routes.node_mut(node).refuse(frame.into(), carrier);
    }
}

impl MultiLinkComponent {
    fn new(links: &[u32]) -> Self {
        let first = links.iter().copied().min().unwrap_or(0);
        let last = links.iter().copied().max().unwrap_or(0);
        let mut positions = vec![u32::MAX; (last - first) as usize + 1];
        for (position, &link) in links.iter().enumerate() {
            positions[(link - first) as usize] = position as u32;
        }
        Self { agenda: EventQueue::new(links.len()), links: links.to_vec(), positions, first }
    }

    /// Performs the events of one link that are due at `at_ns`.
    fn step(
        &mut self,
        position: u32,
        at_ns: u64,
        links: &mut [Link],
        routes: &mut LinkRoutes,
        carrier: &mut impl Carrier,
    ) {
        let index = self.links[position as usize] as usize;
        let link = &mut links[index];
        link.settle(at_ns, carrier);
        match link.to {
            LinkTarget::Exit(_) => link.deliver_due(at_ns, carrier),
            LinkTarget::Node(node) => {
                while let Some(frame) = links[index].hop_due(at_ns, carrier) {
                    if let Some(next) = routes.node_mut(node).choose(frame.into(), carrier) {
                        links[next].settle(frame.arrival_ns, carrier);
                        links[next].arrive_as(frame, carrier);
                        self.arm(next, links);
                    }
                }
            }
        }
        self.arm(index, links);
    }

    #[inline]
    fn arm(&mut self, link: usize, links: &[Link]) {
        let position = self.positions[link - self.first as usize];
        self.agenda.set(position, links[link].next_ns());
    }
}

/// Returns the components of a plan; every link belongs to exactly one component.
pub(super) fn find(plan: &NetworkSpec) -> Vec<LinkComponent> {
    // The elements of a union-find structure: links, then entries, then nodes. At first, each is in
    // a separate set.
    let (links, entries) = (plan.links.len(), plan.entries.len());
    let mut parents: Vec<usize> = (0..links + entries + plan.nodes.len()).collect();
    let mut connect = |link: usize, position: usize| {
        let (a, b) = (root(&mut parents, link), root(&mut parents, links + position));
        parents[a] = b;
    };
    for (index, link) in plan.links.iter().enumerate() {
        match link.from {
            LinkSource::Entry(entry) => connect(index, entry),
            LinkSource::Node(node) => connect(index, entries + node),
        }
        // Exits do not join sets: deliveries of different links do not affect each other.
        if let LinkTarget::Node(node) = link.to {
            connect(index, entries + node);
        }
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); parents.len()];
    for link in 0..links {
        members[root(&mut parents, link)].push(link as u32);
    }
    members
        .iter()
        .filter(|links| !links.is_empty())
        .map(|links| LinkComponent::new(links))
        .collect()
}

/// Finds the representative of the set that contains `at` (union-find with path halving).
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}
