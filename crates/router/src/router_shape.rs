//! The figures of a router before its start: which objects there are, with counters at 0.

use std::collections::BTreeMap;

use crate::resident::ResidentEngine;
use crate::router_figures::{
    FibFigures, InterfaceFigures, OWN_MODE, RouterFigures, RuleFigures, WorkerSummary,
};
use crate::traffic::ForwardedTraffic;

/// The parts of a router that have figures, apart from the interfaces of the kernel.
pub(crate) struct RouterShape {
    /// Names of the subinterfaces that the kernel does not have.
    pub(crate) own: Vec<String>,
    /// Number of threads of the engine in user space; `None` if packets are not forwarded there.
    pub(crate) workers: Option<usize>,
    pub(crate) has_rules: bool,
}

impl RouterShape {
    /// The figures of a router that has not started yet.
    pub(crate) fn figures(self, engine: &ResidentEngine) -> RouterFigures {
        let of_kernel = engine.interfaces().iter().map(|of| (of.iface.name.clone(), of.mode));
        let own = self.own.into_iter().map(|name| (name, OWN_MODE));
        let interfaces = of_kernel.chain(own).map(|(name, mode)| InterfaceFigures {
            name,
            mode,
            state: "kernel",
            forwarded: ForwardedTraffic::default(),
            passed: BTreeMap::new(),
            dropped: BTreeMap::new(),
            punted: BTreeMap::new(),
            marked: 0,
        });
        let worker = |id| WorkerSummary {
            id,
            queues: Vec::new(),
            frames: 0,
            handed: 0,
            busy_ns: 0,
            held: 0,
            generated: 0,
            limited: BTreeMap::new(),
            failed: 0,
            rules: self.has_rules.then(RuleFigures::default),
        };
        RouterFigures {
            state: "loading",
            fib: FibFigures::default(),
            interfaces: interfaces.collect(),
            workers: (0..self.workers.unwrap_or_default()).map(worker).collect(),
        }
    }
}
