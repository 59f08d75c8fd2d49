//! Which link a frame takes from an entry or a node.

use alloc::vec::Vec;

use slipring_filter::Program;

use super::island::Island;
use crate::carrier::{Arrival, Carrier, Cause, EntryId, Lost};
use crate::counters::{Counters, Tally};
use crate::spec::{NetworkSpec, Source};
use crate::train::Train;

/// The places where frames choose a link.
pub(super) struct Routes {
    entries: Vec<Route>,
    nodes: Vec<Route>,
}

/// No link, or no island.
const NONE: u32 = u32::MAX;

/// One such place. It takes a cache line where there is no choice, since there may be thousands.
#[repr(align(64))]
pub(super) struct Route {
    /// Where frames go that no class wants; [`NONE`]: nowhere.
    default: u32,
    /// [`NONE`] where no link begins.
    island: u32,
    classes: Vec<(Program, u32)>,
    passed: Tally,
    refused: Tally,
}

impl Routes {
    pub(super) fn new(plan: &NetworkSpec, islands: &[Island]) -> Self {
        let mut routes = Self {
            entries: (0..plan.entries.len()).map(|_| Route::empty()).collect(),
            nodes: (0..plan.nodes.len()).map(|_| Route::empty()).collect(),
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
            route.default = NONE;
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
    pub(super) fn entry(&self, entry: EntryId) -> &Route {
        &self.entries[usize::from(entry.0)]
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, entry: EntryId) -> &mut Route {
        &mut self.entries[usize::from(entry.0)]
    }

    pub(super) fn node(&self, node: usize) -> &Route {
        &self.nodes[node]
    }

    pub(super) fn node_mut(&mut self, node: usize) -> &mut Route {
        &mut self.nodes[node]
    }

    fn at(&mut self, source: Source) -> &mut Route {
        match source {
            Source::Entry(index) => &mut self.entries[index],
            Source::Node(index) => &mut self.nodes[index],
        }
    }
}

#[inline]
fn some(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

impl Route {
    fn empty() -> Self {
        let (passed, refused) = (Tally::default(), Tally::default());
        Self { default: NONE, island: NONE, classes: Vec::new(), passed, refused }
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
    pub(super) fn counters(&self) -> Counters {
        let mut counters = Counters {
            input: self.passed + self.refused,
            output: self.passed,
            ..Counters::default()
        };
        counters.drops.add(Cause::Route, self.refused);
        counters
    }

    /// Chooses a link for a frame; without one it is lost.
    #[inline]
    pub(super) fn choose(&mut self, frame: Arrival, carrier: &mut impl Carrier) -> Option<usize> {
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

    fn classify(&self, frame: Arrival, carrier: &mut impl Carrier) -> Option<u32> {
        let bytes = carrier.frame(frame.handle);
        let wanted = self.classes.iter().find(|(program, _)| program.run(bytes, frame.len) != 0);
        wanted.map(|(_, link)| *link).or(some(self.default))
    }

    /// Counts frames that all take the only link.
    #[inline]
    pub(super) fn count_all(&mut self, frames: &[Arrival]) {
        let bytes = frames.iter().map(|frame| u64::from(frame.len)).sum();
        self.passed += Tally { packets: frames.len() as u64, bytes };
    }

    /// Counts frames that all take the only link.
    #[inline]
    pub(super) fn count_train(&mut self, train: &Train) {
        self.passed += train.tally();
    }

    /// Loses a frame that no link wants.
    pub(super) fn refuse(&mut self, frame: Arrival, carrier: &mut impl Carrier) {
        let Arrival { arrival_ns: at_ns, handle, len } = frame;
        self.refused.count(len);
        carrier.lose(Lost { at_ns, handle, len, cause: Cause::Route, link: None });
    }
}
