//! Publishes the figures of a router for `slipring top`, while a process reads them.
//!
//! Each interface has three groups of counters: packets that were lost, by cause; packets that were
//! left to the kernel, by reason; and those of them that the engine in user space left to it, by
//! class. Causes, reasons and classes that have no counter of their own share the counter `other`
//! of their group, so that the sums are right.

use std::collections::{BTreeMap, BTreeSet};

use slipring_cli::{Failure, Session};
use slipring_datapath::meter::PortMeter;
use slipring_datapath::publish::{self, ObjectMetrics, OpenPublication};
use slipring_port::{DropCause, Nanos, now};
use slipring_route::{PuntClass, PuntReason, RouteDropCause};
use slipring_route_bpf::PassReason;
use slipring_top::router::{
    INTERFACE_KIND, INTERFACE_STATES, ROUTER_KIND, ROUTER_STATES, RULES_KIND, WORKER_KIND,
};
use slipring_top::schema::{MetricCounter, MetricObject, MetricSchema, NO_VALUE};

use crate::router_figures::{
    DRIVER_DROP, FibFigures, InterfaceFigures, OWN_PASSES, QUEUE_FULL, RouterFigures, RuleFigures,
    UNSENT_OF_KERNEL, WorkerSummary,
};
use crate::routing::RoutingHandle;

/// The name of the counter for all other causes, reasons or classes of a group.
const OTHER: &str = "other";

/// Creates the file of the figures. Must be called while the process may still create files in the
/// run directory. `first` are the figures before the first packet.
///
/// # Errors
/// If the output is closed. A failure to publish is only printed there, for users who ask for
/// details.
pub(crate) fn open(
    name: Option<String>,
    routing: &RoutingHandle,
    first: RouterFigures,
    session: &mut Session<'_>,
) -> Result<Option<OpenPublication>, Failure> {
    let publisher =
        RouterPublisher { name, names: CounterNames::new(), routing: routing.clone(), last: first };
    publish::open(PortMeter::new(&[]), Some(Box::new(publisher)), session)
}

/// Samples the figures of a router.
struct RouterPublisher {
    name: Option<String>,
    names: CounterNames,
    routing: RoutingHandle,
    /// The figures of the last sample. They are published again if no newer ones can be had.
    last: RouterFigures,
}

/// The names of an interface's counters.
struct CounterNames {
    lost: Vec<&'static str>,
    passed: Vec<&'static str>,
    punted: Vec<&'static str>,
}

impl CounterNames {
    fn new() -> Self {
        let (drops, passes): (Vec<PassReason>, Vec<PassReason>) =
            PassReason::ALL.iter().partition(|reason| reason.is_drop());
        let lost = drops.into_iter().map(|reason| reason.name());
        let lost = lost
            .chain(RouteDropCause::ALL.iter().map(|cause| cause.name()))
            .chain(DropCause::ALL.iter().map(|cause| cause.name()))
            .chain([DRIVER_DROP, QUEUE_FULL, UNSENT_OF_KERNEL]);
        let passed = passes.into_iter().map(|reason| reason.name());
        let passed =
            passed.chain(PuntReason::ALL.iter().map(|reason| reason.name())).chain(OWN_PASSES);
        let punted = PuntClass::ALL.iter().map(|class| class.name());
        Self { lost: unique(lost), passed: unique(passed), punted: punted.collect() }
    }

    fn of_interface(&self) -> Vec<MetricCounter> {
        let packets = |name: String| MetricCounter::growing(name, "packets");
        let forwarded = [
            packets("forwarded.packets".into()),
            MetricCounter::growing("forwarded.bytes", "bytes"),
        ];
        let group = |prefix: &'static str, names: &[&'static str]| {
            let names = names.iter().copied().chain([OTHER]);
            names.map(|name| packets(format!("{prefix}.{name}"))).collect::<Vec<_>>()
        };
        [MetricCounter::gauge("state", "")]
            .into_iter()
            .chain(forwarded)
            .chain(group("lost", &self.lost))
            .chain(group("passed", &self.passed))
            .chain(group("punted", &self.punted))
            .collect()
    }

    fn interface_words(&self, of: &InterfaceFigures, words: &mut Vec<u64>) {
        words.extend([
            state(&INTERFACE_STATES, of.state),
            of.forwarded.packets,
            of.forwarded.bytes,
        ]);
        group_words(&self.lost, &of.dropped, words);
        group_words(&self.passed, &of.passed, words);
        group_words(&self.punted, &of.punted, words);
    }
}

impl ObjectMetrics for RouterPublisher {
    fn run(&self) -> (Option<String>, Option<u64>) {
        (self.name.clone(), None)
    }

    fn count(&self) -> usize {
        1 + self.last.interfaces.len() + self.last.workers.len()
    }

    fn describe(&self, names: &mut MetricSchema) {
        let object = |kind: &str, name: &str| MetricObject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..MetricObject::default()
        };
        names.describe(ROUTER_KIND, router_counters());
        names.describe(INTERFACE_KIND, self.names.of_interface());
        names.describe(WORKER_KIND, worker_counters());
        names.describe(RULES_KIND, rules_counters());
        names.add(object(ROUTER_KIND, self.name.as_deref().unwrap_or("router")));
        for of in &self.last.interfaces {
            let mode = Some(of.mode.to_owned());
            names.add(MetricObject { mode, ..object(INTERFACE_KIND, &of.name) });
        }
        for worker in &self.last.workers {
            names.add(object(WORKER_KIND, &worker.id.to_string()));
        }
        if self.last.rule_sums().is_some() {
            names.add(object(RULES_KIND, "rules"));
        }
    }

    fn sample(&mut self, words: &mut Vec<u64>) -> Nanos {
        let time = now();
        // If a worker does not answer, its part of the interfaces' counters is missing, too. The
        // run is ending then, so the last figures are kept.
        let figures = RouterFigures::ask(&self.routing);
        let figures = figures.filter(|it| it.workers.len() == self.last.workers.len());
        if let Some(figures) = figures {
            self.last = figures;
        }
        let figures = &self.last;
        router_words(figures, words);
        figures.interfaces.iter().for_each(|of| self.names.interface_words(of, words));
        figures.workers.iter().for_each(|worker| worker_words(worker, words));
        if let Some(RuleFigures { dropped, delayed, waiting, made, unsent }) = figures.rule_sums() {
            words.extend([dropped, delayed, waiting, made, unsent]);
        }
        time
    }
}

fn router_counters() -> Vec<MetricCounter> {
    let gauges = ["state", "routes.ipv4", "routes.ipv6", "neighbours"];
    let gauges = gauges.map(|name| MetricCounter::gauge(name, ""));
    let counters = ["generation", "resyncs", "overruns", "refused"];
    let counters = counters.map(|name| MetricCounter::growing(name, ""));
    gauges.into_iter().chain(counters).collect()
}

fn router_words(figures: &RouterFigures, words: &mut Vec<u64>) {
    let FibFigures { v4, v6, neighbours, generation, resyncs, overruns, refused, .. } = figures.fib;
    words.extend([state(&ROUTER_STATES, figures.state), v4, v6, neighbours]);
    words.extend([generation, resyncs, overruns, refused]);
}

fn worker_counters() -> Vec<MetricCounter> {
    let limited = PuntClass::ALL.iter().map(|class| format!("limited.{}", class.name()));
    let limited = limited.map(|name| MetricCounter::growing(name, "packets"));
    [
        MetricCounter::growing("rx.packets", "packets"),
        MetricCounter::growing("busy", "ns"),
        MetricCounter::gauge("held", "packets"),
        MetricCounter::growing("failed.packets", "packets"),
    ]
    .into_iter()
    .chain(limited)
    .collect()
}

fn worker_words(worker: &WorkerSummary, words: &mut Vec<u64>) {
    words.extend([worker.frames, worker.busy_ns, worker.held, worker.failed]);
    let limited = |class: &PuntClass| worker.limited.get(class.name()).copied().unwrap_or(0);
    words.extend(PuntClass::ALL.iter().map(limited));
}

fn rules_counters() -> Vec<MetricCounter> {
    let growing = |name| MetricCounter::growing(name, "packets");
    vec![
        growing("dropped.packets"),
        growing("delayed.packets"),
        MetricCounter::gauge("waiting", "packets"),
        growing("made.packets"),
        growing("unsent.packets"),
    ]
}

/// Returns the position of a state in the list of states.
fn state(states: &[&str], name: &str) -> u64 {
    states.iter().position(|state| *state == name).map_or(NO_VALUE, |at| at as u64)
}

/// Appends the counts with these names, and the sum of all other counts.
fn group_words(names: &[&'static str], counts: &BTreeMap<&'static str, u64>, words: &mut Vec<u64>) {
    words.extend(names.iter().map(|name| counts.get(name).copied().unwrap_or(0)));
    words.push(
        counts.iter().filter(|(name, _)| !names.contains(name)).map(|(_, count)| count).sum(),
    );
}

/// Sorts the names and removes duplicates, because two parts of the router may use the same name
/// for a cause.
fn unique(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::ForwardedTraffic;

    fn worker(id: usize, frames: u64) -> WorkerSummary {
        WorkerSummary {
            id,
            queues: Vec::new(),
            frames,
            handed: 0,
            busy_ns: 1,
            held: 2,
            generated: 0,
            limited: BTreeMap::from([("arp", 5)]),
            failed: 0,
            rules: None,
        }
    }

    #[test]
    fn an_interface_has_a_word_for_each_of_its_counters() {
        let names = CounterNames::new();
        let of = InterfaceFigures {
            name: "e0".to_owned(),
            mode: "xsk",
            state: "kernel",
            forwarded: ForwardedTraffic { packets: 7, bytes: 700 },
            passed: BTreeMap::from([("unresolved", 3)]),
            dropped: BTreeMap::from([(DRIVER_DROP, 4), ("a cause of later", 9)]),
            punted: BTreeMap::from([("arp", 1)]),
            marked: 0,
        };
        let (counters, mut words) = (names.of_interface(), Vec::new());
        names.interface_words(&of, &mut words);
        assert_eq!(counters.len(), words.len());
        let value = |name: &str| words[counters.iter().position(|it| it.name == name).unwrap()];
        assert_eq!((value("state"), value("forwarded.bytes")), (1, 700));
        assert_eq!((value("lost.driver"), value("lost.other")), (4, 9), "nothing is uncounted");
        assert_eq!((value("passed.unresolved"), value("passed.other")), (3, 0));
        assert_eq!(value("punted.arp"), 1);
    }

    #[test]
    fn a_thread_has_a_word_for_each_of_its_counters() {
        let mut words = Vec::new();
        worker_words(&worker(1, 20), &mut words);
        assert_eq!(words.len(), worker_counters().len());
    }
}
