//! Which link a frame takes from an entry or a node.

use alloc::vec::Vec;

use slipring_filter::CbpfProgram;

use super::island::Island;
use crate::burst::Burst;
use crate::carrier::{Carrier, EntryId, FrameArrival, LinkDropCause, LostFrame};
use crate::counters::{LinkCounters, PacketCounts};
use crate::spec::{LinkSource, NetworkSpec};

/// The places where frames choose a link.
pub(super) struct LinkRoutes {
    entries: Vec<LinkRoute>,
    nodes: Vec<LinkRoute>,
}

/// No link, or no island.
const NO_LINK: u32 = u32::MAX;

/// One such place. It takes a cache line where there is no choice, since there may be thousands.
#[repr(align(64))]
pub(super) struct LinkRoute {
    /// Where frames go that no class wants; [`NONE`]: nowhere.
    default: u32,
    /// [`NONE`] where no link begins.
    island: u32,
    classes: Vec<(CbpfProgram, u32)>,
    passed: PacketCounts,
    refused: PacketCounts,
}

impl LinkRoutes {
    pub(super) fn new(plan: &NetworkSpec, islands: &[Island]) -> Self {
        let mut routes = Self {
            entries: (0..plan.entries.len()).map(|_| LinkRoute::empty()).collect(),
            nodes: (0..plan.nodes.len()).map(|_| LinkRoute::empty()).collect(),
        };
        for (number, island) in islands.iter().enumerate() {
            for &link in island.links() {
                routes.at(plan.links[link as usize].from).island = number as u32;
            }
        }
        routes.choose(plan);
        routes
    }

    /// Takes over the classes of another plan with the same links.
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
        Self { default: NO_LINK, island: NO_LINK, classes: Vec::new(), passed, refused }
    }

    #[inline]
    pub(super) fn island(&self) -> Option<u32> {
        some(self.island)
    }

    /// The link that all frames take, if they have no choice.
    #[inline]
    pub(super) fn only_link(&self) -> Option<usize> {
        some(self.default).filter(|_| self.classes.is_empty()).map(|link| link as usize)
    }

    /// What became of the frames: an output is that of all links together.
    pub(super) fn counters(&self) -> LinkCounters {
        let mut counters = LinkCounters {
            input: self.passed + self.refused,
            output: self.passed,
            ..LinkCounters::default()
        };
        counters.drops.add(LinkDropCause::Route, self.refused);
        counters
    }

    /// Chooses a link for a frame; without one it is lost.
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

    /// Counts frames that all take the only link.
    #[inline]
    pub(super) fn count_train(&mut self, train: &Burst) {
        self.passed += train.counts();
    }

    /// Loses a frame that no link wants.
    pub(super) fn refuse(&mut self, frame: FrameArrival, carrier: &mut impl Carrier) {
        let FrameArrival { arrival_ns: at_ns, handle, len } = frame;
        self.refused.count(len);
        carrier.lose(LostFrame { at_ns, handle, len, cause: LinkDropCause::Route, link: None });
    }
}
