//! The counters of the routers that this router has taken over from, so that this router's counters
//! continue theirs.
//!
//! ```text
//!   predecessor: RouterFigures --JSON, in its state--> InheritedFigures --added--> RouterFigures
//! ```
//!
//! After it has handed over, the predecessor only counts frames that did not leave its tx rings.
//! Only its own last report contains them. The drops that drivers count belong to the interfaces,
//! and each router reads them itself. So a driver's drop at the moment of a takeover may be counted
//! by both routers or by neither.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use slipring_port::DropCause;
use slipring_route::{PuntClass, PuntReason, RouteDropCause};
use slipring_route_bpf::PassReason;

use crate::router_figures::{
    DRIVER_DROP, FibFigures, OWN_PASSES, QUEUE_FULL, RouterFigures, RuleFigures, UNREAD,
    UNSENT_OF_KERNEL,
};
use crate::traffic::ForwardedTraffic;

/// The counters of all previous routers together. Without a predecessor, all are 0.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct InheritedFigures {
    fib: FibFigures,
    interfaces: Vec<InterfaceCounts>,
    workers: Vec<WorkerCounts>,
}

#[derive(Clone, Debug, Deserialize)]
struct InterfaceCounts {
    name: String,
    forwarded: ForwardedTraffic,
    passed: NamedCounts,
    dropped: NamedCounts,
    punted: NamedCounts,
    marked: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct WorkerCounts {
    frames: u64,
    handed: u64,
    busy_ns: u64,
    generated: u64,
    limited: NamedCounts,
    failed: u64,
    rules: Option<RuleFigures>,
}

/// Counts by reason, cause or class.
type NamedCounts = BTreeMap<String, u64>;

impl InheritedFigures {
    /// Reads the counters that a predecessor has sent; `None` if the document does not contain
    /// them.
    pub(crate) fn read(figures: &Value) -> Option<Self> {
        Self::deserialize(figures).ok()
    }

    /// Adds these counters to the router's own.
    pub(crate) fn add_to(&self, figures: &mut RouterFigures) {
        // By name, because the new router may have other subinterfaces.
        for of in &mut figures.interfaces {
            let Some(before) = self.interfaces.iter().find(|it| it.name == of.name) else {
                continue;
            };
            of.forwarded.packets += before.forwarded.packets;
            of.forwarded.bytes += before.forwarded.bytes;
            add(&mut of.passed, &before.passed);
            add(&mut of.dropped, &before.dropped);
            add(&mut of.punted, &before.punted);
            of.marked += before.marked;
        }
        for (of, before) in figures.workers.iter_mut().zip(&self.workers) {
            of.frames += before.frames;
            of.handed += before.handed;
            of.busy_ns += before.busy_ns;
            of.generated += before.generated;
            add(&mut of.limited, &before.limited);
            of.failed += before.failed;
            if let (Some(rules), Some(before)) = (&mut of.rules, before.rules) {
                rules.dropped += before.dropped;
                rules.delayed += before.delayed;
                rules.made += before.made;
                rules.unsent += before.unsent;
            }
        }
        let (fib, before) = (&mut figures.fib, self.fib);
        fib.generation += before.generation;
        fib.resyncs += before.resyncs;
        fib.overruns += before.overruns;
        fib.refused += before.refused;
        fib.failed += before.failed;
        fib.dropped_requests += before.dropped_requests;
    }
}

fn add(sums: &mut BTreeMap<&'static str, u64>, counts: &NamedCounts) {
    for (name, count) in counts {
        // Both routers have the same version, so the name is known.
        if let Some(name) = known_name(name) {
            *sums.entry(name).or_default() += count;
        }
    }
}

/// The name of a reason, cause or class.
fn known_name(name: &str) -> Option<&'static str> {
    let known = PassReason::ALL.iter().map(|of| of.name());
    let known = known.chain(RouteDropCause::ALL.iter().map(|of| of.name()));
    let known = known.chain(DropCause::ALL.iter().map(|of| of.name()));
    let known = known.chain(PuntReason::ALL.iter().map(|of| of.name()));
    let known = known.chain(PuntClass::ALL.iter().map(|of| of.name()));
    let known = known.chain([DRIVER_DROP, QUEUE_FULL, UNREAD, UNSENT_OF_KERNEL]).chain(OWN_PASSES);
    known.into_iter().find(|of| *of == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router_figures::{InterfaceFigures, WorkerSummary};

    fn figures() -> RouterFigures {
        let counts = |name| BTreeMap::from([(name, 2)]);
        let interface = InterfaceFigures {
            name: "e0".to_owned(),
            mode: "xsk",
            state: "forwarding",
            forwarded: ForwardedTraffic { packets: 7, bytes: 700 },
            passed: counts("unresolved"),
            dropped: BTreeMap::from([("tx_unsent", 2), (UNREAD, 2)]),
            punted: counts("arp"),
            marked: 3,
        };
        let worker = WorkerSummary {
            id: 0,
            queues: vec![0],
            frames: 9,
            handed: 1,
            busy_ns: 5,
            held: 4,
            generated: 1,
            limited: counts("bgp"),
            failed: 1,
            rules: Some(RuleFigures { dropped: 1, delayed: 1, waiting: 1, made: 1, unsent: 1 }),
        };
        let fib =
            FibFigures { v4: 10, neighbours: 3, generation: 5, resyncs: 1, ..Default::default() };
        RouterFigures {
            state: "forwarding",
            fib,
            interfaces: vec![interface],
            workers: vec![worker],
        }
    }

    /// Sizes of tables, and packets that wait, are those of the present router.
    #[test]
    fn all_counters_go_on_and_nothing_else_is_added() {
        let document = serde_json::to_value(figures()).unwrap();
        let mut sums = figures();
        InheritedFigures::read(&document).unwrap().add_to(&mut sums);
        let sums = serde_json::to_value(&sums).unwrap();
        let interface = &sums["interfaces"][0];
        assert_eq!(interface["forwarded"], serde_json::json!({ "packets": 14, "bytes": 1400 }));
        assert_eq!(interface["passed"], serde_json::json!({ "unresolved": 4 }));
        assert_eq!(interface["dropped"], serde_json::json!({ "tx_unsent": 4, "unread": 4 }));
        assert_eq!(interface["punted"], serde_json::json!({ "arp": 4 }));
        assert_eq!(interface["marked"], 6);
        let worker = &sums["workers"][0];
        for (key, sum) in
            [("frames", 18), ("handed", 2), ("busy_ns", 10), ("held", 4), ("failed", 2)]
        {
            assert_eq!(worker[key], sum, "{key}");
        }
        assert_eq!(
            (&worker["limited"]["bgp"], &worker["rules"]["waiting"]),
            (&4.into(), &1.into())
        );
        assert_eq!(worker["rules"]["dropped"], 2);
        let fib = &sums["fib"];
        for (key, sum) in [("v4", 10), ("neighbours", 3), ("generation", 10), ("resyncs", 2)] {
            assert_eq!(fib[key], sum, "{key}");
        }
    }

    #[test]
    fn counters_of_an_interface_that_only_one_of_the_routers_has_are_not_mixed_with_others() {
        let document = serde_json::to_value(figures()).unwrap();
        let mut own = figures();
        own.interfaces[0].name = "e1.100".to_owned();
        let mut sums = own.clone();
        InheritedFigures::read(&document).unwrap().add_to(&mut sums);
        assert_eq!(sums.interfaces, own.interfaces);
    }

    #[test]
    fn every_counter_of_a_router_without_predecessor_is_its_own() {
        let mut own = figures();
        InheritedFigures::default().add_to(&mut own);
        assert_eq!(serde_json::to_value(own).unwrap(), serde_json::to_value(figures()).unwrap());
        assert!(InheritedFigures::read(&Value::Null).is_none());
    }
}
