//! Which link a frame takes from an entry or a node.

use alloc::vec::Vec;

use slipring_filter::CbpfProgram;

use super::component::LinkComponent;
use crate::burst::Burst;
use crate::carrier::{Carrier, EntryId, FrameArrival, LinkDropCause, LostFrame};
use crate::counters::{LinkCounters, PacketCounts};
use crate::spec::{LinkSource, NetworkSpec};

/// The entries and nodes, where frames choose a link.
pub(super) struct LinkRoutes {
    entries: Vec<LinkRoute>,
    nodes: Vec<LinkRoute>,
}

/// Means "no link" and "no component".
const NO_LINK: u32 = u32::MAX;

/// The choice of links at an entry or a node. If there is no choice, a frame touches only one
/// cache line of this struct. This matters because there may be thousands of entries.
#[repr(align(64))]
pub(super) struct LinkRoute {
    /// Link of frames that match no class; [`NO_LINK`] if they are lost.
    default: u32,
    /// Index of the component of the links that begin at this entry or node; [`NO_LINK`] if no
    /// link begins there.
    component: u32,
    classes: Vec<(CbpfProgram, u32)>,
    passed: PacketCounts,
    refused: PacketCounts,
}

impl LinkRoutes {
    pub(super) fn new(plan: &NetworkSpec, components: &[LinkComponent]) -> Self {
        let mut routes = Self {
            entries: (0..plan.entries.len()).map(|_| LinkRoute::empty()).collect(),
            nodes: (0..plan.nodes.len()).map(|_| LinkRoute::empty()).collect(),
        };
        for (number, component) in components.iter().enumerate() {
            for &link in component.links() {
                routes.at(plan.links[link as usize].from).component = number as u32;
            }
        }
        routes.choose(plan);
        routes
    }

    /// Sets the classes and default links to those of `plan`, which has the same links.
    pub(super) fn choose(&mut self, plan: &NetworkSpec) {
        self.entries.iter_mut().chain(&mut self.nodes).for_each(|route| {
            route.classes.clear();
            route.default = NO_LINK;
        });
        let mut classless = alloc::vec![true; plan.links.len()];
        for class in &plan.classes {
            classless[class.link] = false;
            let route = self.at(plan.links[class.link].from);
            route.classes.push((class.program.clone(), class.link as u32));
        }
        for (index, link) in plan.links.iter().enumerate().filter(|(index, _)| classless[*index]) {
            self.at(link.from).default = index as u32;
        }
    }

    #[inline]
    pub(super) fn entry(&self, entry: EntryId) -> &LinkRoute {
        &self.entries[usize::from(entry.0)]
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, entry: EntryId) -> &mut LinkRoute {
        &mut self.entries[usize::from(entry.0)]
    }

    pub(super) fn node(&self, node: usize) -> &LinkRoute {
        &self.nodes[node]
    }

    pub(super) fn node_mut(&mut self, node: usize) -> &mut LinkRoute {
        &mut self.nodes[node]
    }

    fn at(&mut self, source: LinkSource) -> &mut LinkRoute {
        match source {
            LinkSource::Entry(index) => &mut self.entries[index],
            LinkSource::Node(index) => &mut self.nodes[index],
        }
    }
}

#[inline]
fn some(number: u32) -> Option<u32> {
    (number != NO_LINK).then_some(number)
}

impl LinkRoute {
    fn empty() -> Self {
        let (passed, refused) = (PacketCounts::default(), PacketCounts::default());
        Self { default: NO_LINK, component: NO_LINK, classes: Vec::new(), passed, refused }
    }

    #[inline]
    pub(super) fn component(&self) -> Option<u32> {
        some(self.component)
    }

    /// Returns the link that all frames take; `None` if classes choose the link or there is no
    /// link.
    #[inline]
    pub(super) fn only_link(&self) -> Option<usize> {
        some(self.default).filter(|_| self.classes.is_empty()).map(|link| link as usize)
    }

    /// Returns the counters; the output is the sum over all links that begin at this entry or
    /// node.
    pub(super) fn counters(&self) -> LinkCounters {
        let mut counters = LinkCounters {
            input: self.passed + self.refused,
            output: self.passed,
            ..LinkCounters::default()
        };
        counters.drops.add(LinkDropCause::Route, self.refused);
        counters
    }

    /// Returns the link that a frame takes. If no link accepts the frame, drops it and returns
    /// `None`.
    #[inline]
    pub(super) fn choose(
        &mut self,
        frame: FrameArrival,
        carrier: &mut impl Carrier,
    ) -> Option<usize> {
        let chosen = if self.classes.is_empty() {
            some(self.default)
        } else {
            self.classify(frame, carrier)
        };
        if chosen.is_none() {
            self.refuse(frame, carrier);
        } else {
            self.passed.count(frame.len);
        }
        chosen.map(|link| link as usize)
    }

    fn classify(&self, frame: FrameArrival, carrier: &mut impl Carrier) -> Option<u32> {
        let bytes = carrier.frame(frame.handle);
        let wanted = self.classes.iter().find(|(program, _)| program.run(bytes, frame.len) != 0);
        wanted.map(|(_, link)| *link).or(some(self.default))
    }

    /// Counts frames that all take the only link.
    #[inline]
    pub(super) fn count_all(&mut self, frames: &[FrameArrival]) {
        let bytes = frames.iter().map(|frame| u64::from(frame.len)).sum();
        self.passed += PacketCounts { packets: frames.len() as u64, bytes };
    }

    /// Counts a burst that takes the only link.
    #[inline]
    pub(super) fn count_burst(&mut self, burst: &Burst) {
        self.passed += burst.counts();
    }

    /// Drops a frame that no link accepts.
    pub(super) fn refuse(&mut self, frame: FrameArrival, carrier: &mut impl Carrier) {
        let FrameArrival { arrival_ns: at_ns, handle, len } = frame;
        self.refused.count(len);
        carrier.lose(LostFrame { at_ns, handle, len, cause: LinkDropCause::Route, link: None });
    }
}
